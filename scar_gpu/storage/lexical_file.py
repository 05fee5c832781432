"""`lexical.parquet`: a lexical index on disk.

One row per word: `word`, `rows` (of the index that hold it, ascending) and `scores` (what it adds
to each of them).
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scar_gpu.storage.errors import IndexFormatError, refuse
from scar_gpu.storage.files import ChecksummedFile
from scar_gpu.text.extras import import_extra
from scar_gpu.text.parquet import ParquetReader

if TYPE_CHECKING:
    from scar_gpu.text.lexical import LexicalIndex

# Words written at a time.
_GROUP_WORDS = 1 << 14


def write_lexical(file: ChecksummedFile, lexical: LexicalIndex) -> None:
    """Write a lexical index, some words at a time."""
    pa = import_extra("pyarrow", "io")
    parquet = import_extra("pyarrow.parquet", "io")
    lists = {"rows": pa.large_list(pa.int32()), "scores": pa.large_list(pa.float32())}
    schema = pa.schema({"word": pa.string(), **lists})
    with parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        for first in range(0, len(lexical.words), _GROUP_WORDS):
            starts = lexical.starts[first : first + _GROUP_WORDS + 1]
            entries = slice(starts[0], starts[-1])
            columns = {
                name: pa.LargeListArray.from_arrays(
                    starts - starts[0], pa.array(getattr(lexical, name)[entries], kind.value_type)
                )
                for name, kind in lists.items()
            }
            words = pa.array(lexical.words[first : first + _GROUP_WORDS], pa.string())
            writer.write_table(pa.table({"word": words, **columns}, schema=schema))


def read_lexical(path: Path, memory: mmap.mmap, n_rows: int) -> LexicalIndex:
    """Read a lexical index.

    Args:
        path: of the file, for messages.
        memory: its bytes.
        n_rows: of the index it belongs to.

    Raises:
        IndexFormatError: another Parquet file than the one described above.
        ImportError: pyarrow is missing; `scar_gpu[io]` brings it.
    """
    from scar_gpu.text.lexical import LexicalIndex

    pa = import_extra("pyarrow", "io")
    try:
        table = ParquetReader(memory).read()
        words = table["word"].to_pylist()
        starts, rows = _flat(table["rows"])
        others, scores = _flat(table["scores"])
        if rows.dtype != np.int32 or scores.dtype != np.float32:
            raise ValueError(f"rows of {rows.dtype} and scores of {scores.dtype}")
        if not np.array_equal(starts, others) or starts[-1] != len(rows):
            raise ValueError("words with more rows than scores, or fewer")
        if len(rows) and (rows.min() < 0 or rows.max() >= n_rows):
            raise ValueError(f"rows outside [0, {n_rows})")
        if any(not isinstance(word, str) for word in words):
            raise ValueError("words that are no text")
    except (pa.ArrowException, KeyError, ValueError, AttributeError) as error:
        if isinstance(error, IndexFormatError):
            raise
        refuse(path, "be the lexical lists of its index", str(error).split("\n")[0])
    return LexicalIndex(words, starts, rows, scores, n_rows)


def _flat(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of the lists, and their values behind each other."""
    lists = column.combine_chunks()
    values = lists.flatten().to_numpy()
    sizes = np.diff(lists.offsets.to_numpy())
    return np.append(0, sizes.cumsum()).astype(np.int64), values
