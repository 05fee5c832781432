"""A build's own vectors: the matrix, where its documents lie, and the chunks' texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scar_gpu.cli.matrices import parquet_columns, read_npy, read_safetensors, rows_of
from scar_gpu.cli.messages import note
from scar_gpu.text import ChunkTable
from scar_gpu.text.documents import read_rows

_NAME = "embeddings"
_BATCH = 65_536
# Between two chunks of a document, whose own text is not known.
_BETWEEN = "\n"

Matrix = np.ndarray | torch.Tensor


def read_own(
    embeddings: Path,
    vector_column: str | None,
    doc_offsets: str | None,
    doc_ids: str | None,
    source: Path | None,
    id_column: str | None,
    text_column: str,
) -> tuple[Matrix, ChunkTable | None, np.ndarray | None]:
    """Read vectors and what belongs to them.

    Args:
        embeddings: `.npy`, `.safetensors` or `.parquet`.
        vector_column: the tensor or column.
        doc_offsets: a `.npy` file, or a tensor of the same file.
        doc_ids: a `.npy` or `.txt` file, or a column or tensor of the same file.
        source: a `.jsonl` or `.parquet` file with a line or row per vector: its document and
            its text.
        id_column: of `source`, names the document.
        text_column: of `source`.

    Returns:
        The matrix, the chunks (None where neither documents nor texts have names), and the
        documents' offsets (None for one document).

    Raises:
        ValueError: files that are not what their suffixes say or do not fit each other.
    """
    if sum(value is not None for value in (doc_offsets, doc_ids, source)) > 1:
        raise ValueError("one of SOURCE, --doc-offsets and --doc-ids must be given, got more")
    if not embeddings.exists():
        raise FileNotFoundError(f"embeddings must be an existing file, got {embeddings}")
    matrix = _matrix(embeddings, vector_column)
    if isinstance(matrix, np.ndarray) and matrix.dtype == np.float64:
        # What lists of Python's numbers are stored as.
        note("float64 vectors are stored as float32")
        matrix = matrix.astype(np.float32)
    if source is not None:
        ids, texts = _chunks(source, id_column, text_column)
        _check_count(f"chunks in {source}", len(ids), matrix)
        chunks = _table(ids, texts)
        return matrix, chunks, chunks.doc_offsets
    if doc_ids is not None:
        names = [str(value) for value in _column(embeddings, doc_ids, "doc-ids")]
        _check_count("doc-ids", len(names), matrix)
        chunks = _table(names, None)
        return matrix, chunks, chunks.doc_offsets
    if doc_offsets is not None:
        return matrix, None, np.asarray(_column(embeddings, doc_offsets, "doc-offsets"))
    return matrix, None, None


def _matrix(path: Path, column: str | None) -> Matrix:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return read_npy(path)
    if suffix == ".safetensors":
        tensor: torch.Tensor = read_safetensors(path, "vector-column", column, _NAME)
        return tensor
    if suffix == ".parquet":
        name = column or _NAME
        blocks = [
            rows_of(array, f"{name} of {path}")
            for (array,) in parquet_columns(path, {"vector-column": name}, _BATCH)
        ]
        if len({block.shape[1] for block in blocks}) > 1:
            raise ValueError(f"{name} of {path} must hold lists of one length, got several")
        return np.concatenate(blocks) if blocks else np.empty((0, 0), dtype=np.float32)
    raise ValueError(f"embeddings must be a .npy, .safetensors or .parquet file, got {path}")


def _column(embeddings: Path, where: str, option: str) -> Sequence[Any]:
    """A file of values, or a column or tensor of the embeddings' own file."""
    path = Path(where)
    if path.is_file():
        if path.suffix.lower() == ".npy":
            values = read_npy(path)
            if values.ndim != 1:
                raise ValueError(f"{option} must have one dimension, got {list(values.shape)}")
            return values.tolist()
        if path.suffix.lower() == ".txt":
            try:
                return path.read_text(encoding="utf-8").splitlines()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} must be UTF-8 text, got: {error}") from error
        raise ValueError(f"{option} must be a .npy or .txt file or a column, got {path}")
    suffix = embeddings.suffix.lower()
    if suffix == ".parquet":
        arrays = [array for (array,) in parquet_columns(embeddings, {option: where}, _BATCH)]
        return [value for array in arrays for value in array.to_pylist()]
    if suffix == ".safetensors":
        values = read_safetensors(embeddings, option, where, where)
        return list(values.tolist())
    raise ValueError(f"{option} must be an existing file, got {where}")


def _chunks(source: Path, id_column: str | None, text_column: str) -> tuple[list[str], list[str]]:
    rows = list(read_rows(source, id_column, text_column))
    return [source.name if name is None else name for _, name, _ in rows], [t for *_, t in rows]


def _check_count(name: str, count: int, matrix: Matrix) -> None:
    if count != matrix.shape[0]:
        raise ValueError(
            f"{name} must be as many as the embeddings ({matrix.shape[0]}), got {count}"
        )


def _table(ids: list[str], texts: list[str] | None) -> ChunkTable:
    """One chunk per row; a document's text is that of its chunks, line by line."""
    numbers: dict[str, int] = {}
    document = np.empty(len(ids), dtype=np.int64)
    start = np.zeros(len(ids), dtype=np.int64)
    end = np.zeros(len(ids), dtype=np.int64)
    parts: list[list[str]] = []
    lengths: list[int] = []
    for row, name in enumerate(ids):
        number = numbers.setdefault(name, len(numbers))
        if row and number < document[row - 1]:
            raise ValueError(
                f"doc-ids must not return to an earlier document, got {name!r} in row {row}"
            )
        document[row] = number
        if number == len(parts):
            parts.append([])
            lengths.append(0)
        if texts is not None:
            if parts[number]:
                lengths[number] += len(_BETWEEN)
            parts[number].append(texts[row])
            start[row] = lengths[number]
            lengths[number] += len(texts[row])
            end[row] = lengths[number]
    return ChunkTable(
        ids=tuple(numbers),
        texts=tuple(_BETWEEN.join(part) for part in parts),
        document=document,
        start=start,
        end=end,
        path=np.zeros(len(ids), dtype=np.int32),
        paths=((),),
    )
