"""Parquet files, read on the calling thread alone.

pyarrow reads with threads of its own unless told otherwise at every call; beside PyTorch, a process
that ends soon after may abort over them. A file on disk is mapped, since pyarrow takes a thread to
read one as well; like any mapped file it must not be truncated meanwhile.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scar_gpu.text.extras import import_extra


class ParquetReader:
    """A Parquet file, open for reading; a context manager.

    Args:
        source: the file's path, or its bytes in anything that has a buffer.

    Attributes:
        schema: the pyarrow schema.
        metadata: pyarrow's, of the row groups among others.

    Raises:
        OSError: no file that can be read.
        pyarrow.ArrowInvalid: no Parquet file.
        ImportError: pyarrow is missing; `scar_gpu[io]` brings it.
    """

    def __init__(self, source: Path | mmap.mmap | bytes) -> None:
        pa = import_extra("pyarrow", "io")
        parquet = import_extra("pyarrow.parquet", "io")
        memory = _mapped(source) if isinstance(source, Path) else source
        self._file = parquet.ParquetFile(pa.BufferReader(pa.py_buffer(memory)))
        self.schema = self._file.schema_arrow
        self.metadata = self._file.metadata

    def __enter__(self) -> ParquetReader:
        """The reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Some columns, or all, as a pyarrow table."""
        return self._file.read(columns, use_threads=False)

    def read_group(self, group: int, columns: Sequence[str]) -> Any:
        """Some columns of one row group, as a pyarrow table."""
        return self._file.read_row_group(group, columns, use_threads=False)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Some columns as pyarrow record batches of at most `size` rows."""
        yield from self._file.iter_batches(size, columns=columns, use_threads=False)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        # Nothing cannot be mapped; pyarrow then says what it thinks of an empty file.
        is_empty = not file.seek(0, 2)
        return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
