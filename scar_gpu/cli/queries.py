"""Queries and given hits, read in batches: as many as the file holds, never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scar_gpu.cli.matrices import check_column, npy_blocks, open_parquet, parquet_columns, rows_of
from scar_gpu.cli.query_lines import (
    checked_document,
    checked_id,
    checked_text,
    checked_vector,
    json_object,
    numbered_lines,
)

_ID = "id"
_TEXTS = ("query", "question", "text")
_FILES = (".txt", ".jsonl", ".parquet", ".npy")


@dataclass(frozen=True, slots=True)
class Queries:
    """One batch of queries.

    Attributes:
        ids: what the output calls them: the file's own ids, else their numbers from 0.
        texts: their texts, or None where vectors were given.
        vectors: [B, D], or None where texts were given.
        within: the document each is restricted to, or None.
    """

    ids: list[Any]
    texts: list[str] | None
    vectors: np.ndarray | None = None
    within: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column or key of a query file is what.

    Attributes:
        id: default: "id" where it exists, else queries are numbered.
        text: default: the first of "query", "question" and "text" that exists.
        vector: holds query vectors; default: none, texts are embedded.
        within: names the document that a query is restricted to; default: none.
    """

    id: str | None = None
    text: str | None = None
    vector: str | None = None
    within: str | None = None

    def chosen(self, known: list[str], where: str) -> dict[str, str]:
        """Which column of a file serves as what.

        Raises:
            ValueError: a column that the file lacks, with those it has.
        """
        chosen = {}
        if self.id is not None or _ID in known:
            chosen["id-column"] = self.id or _ID
        if self.vector is not None:
            chosen["vector-column"] = self.vector
        else:
            named = next((name for name in _TEXTS if name in known), _TEXTS[0])
            chosen["text-column"] = self.text or named
        if self.within is not None:
            chosen["within-document"] = self.within
        for option, column in chosen.items():
            check_column(option, column, known, where)
        return chosen


def query_file(queries: str, force_text: bool) -> Path | None:
    """The file that `queries` names, or None where it is a text.

    Raises:
        FileNotFoundError: it reads like the name of a query file and there is none.
        ValueError: a file of another kind.
    """
    if force_text:
        return None
    path = Path(queries)
    try:
        exists = path.exists()
    except OSError:  # too long for a file's name
        return None
    known = ", ".join(_FILES)
    if not exists:
        if path.suffix.lower() in _FILES and not any(c.isspace() for c in queries):
            raise FileNotFoundError(
                f"queries must be a text or an existing file, got {queries}, which is missing; "
                "--text takes it as a text"
            )
        return None
    if path.is_dir() and path.name == queries:
        return None
    if path.suffix.lower() not in _FILES or not path.is_file():
        raise ValueError(
            f"queries must be a text or a file of {known}, got {queries}; --text takes it as a text"
        )
    return path


def read_queries(path: Path, columns: Columns, size: int) -> Iterator[Queries]:
    """Read a file of queries.

    Args:
        path: `.txt` with one query per line, `.jsonl`, `.parquet`, or `.npy` of vectors.
        columns: of `.jsonl` and `.parquet`.
        size: most queries of a batch.

    Yields:
        The queries in order of the file, batch by batch.

    Raises:
        ValueError: a broken or empty line, with its number; a missing column, with those
            that exist; a file that is not what its suffix says.
    """
    suffix = path.suffix.lower()
    if columns.within is not None and suffix not in (".jsonl", ".parquet"):
        raise ValueError(f"within-document must be a column of .jsonl or .parquet, got {path}")
    if suffix == ".npy":
        yield from _read_matrix(path, size)
    elif suffix == ".parquet":
        yield from _read_parquet(path, columns, size)
    else:
        rows = _text_rows(path) if suffix == ".txt" else _jsonl_rows(path, columns)
        yield from _batches(rows, size)


def vectors_expected(path: Path, columns: Columns) -> bool:
    """Whether a query file holds vectors, so that no model is needed."""
    return path.suffix.lower() == ".npy" or columns.vector is not None


@dataclass(frozen=True, slots=True)
class _Row:
    id: Any
    text: str | None
    vector: list[float] | None = None
    within: str | None = None


def _batches(rows: Iterator[_Row], size: int) -> Iterator[Queries]:
    batch: list[_Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield _batch(batch)
            batch = []
    if batch:
        yield _batch(batch)


def _batch(rows: list[_Row]) -> Queries:
    first = rows[0]
    ids = [row.id for row in rows]
    if any(isinstance(name, str) for name in ids):
        ids = [str(name) for name in ids]
    return Queries(
        ids=ids,
        texts=None if first.text is None else [row.text or "" for row in rows],
        vectors=None if first.vector is None else np.array([r.vector for r in rows], np.float32),
        within=None if first.within is None else [row.within or "" for row in rows],
    )


def _text_rows(path: Path) -> Iterator[_Row]:
    for number, line in numbered_lines(path):
        yield _Row(number - 1, line)


def _jsonl_rows(path: Path, columns: Columns) -> Iterator[_Row]:
    width: int | None = None
    for number, line in numbered_lines(path):
        where = f"{path} line {number}"
        record = json_object(line, where)
        chosen = columns.chosen(list(record), where)
        values = {option: record[column] for option, column in chosen.items()}
        text = vector = within = None
        if "vector-column" in values:
            vector = checked_vector(values["vector-column"], where, width)
            width = len(vector)
        else:
            text = checked_text(values["text-column"], where)
        if "within-document" in values:
            within = checked_document(values["within-document"], where)
        name = checked_id(values["id-column"], where) if "id-column" in values else number - 1
        yield _Row(name, text, vector, within)


def _read_matrix(path: Path, size: int) -> Iterator[Queries]:
    start = 0
    for block in npy_blocks(path, size):
        if block.ndim != 2 or block.dtype.kind != "f":
            got = f"{list(block.shape)} of {block.dtype}"
            raise ValueError(f"{path} must hold a floating-point matrix [B, D], got {got}")
        if len(block):
            yield Queries(list(range(start, start + len(block))), None, _as_float(block))
        start += len(block)


def _read_parquet(path: Path, columns: Columns, size: int) -> Iterator[Queries]:
    with open_parquet(path) as file:
        chosen = columns.chosen(file.schema.names, str(path))
    start = 0
    for arrays in parquet_columns(path, chosen, size):
        found = dict(zip(chosen, arrays, strict=True))
        n = len(arrays[0])
        wheres = [f"{path} row {row + 1}" for row in range(start, start + n)]
        ids: list[Any] = list(range(start, start + n))
        if "id-column" in found:
            values = found["id-column"].to_pylist()
            ids = [checked_id(v, where) for v, where in zip(values, wheres, strict=True)]
        texts = vectors = within = None
        if "vector-column" in found:
            vectors = _as_float(rows_of(found["vector-column"], f"{columns.vector} of {path}"))
        else:
            values = found["text-column"].to_pylist()
            texts = [checked_text(v, where) for v, where in zip(values, wheres, strict=True)]
        if "within-document" in found:
            values = found["within-document"].to_pylist()
            within = [checked_document(v, where) for v, where in zip(values, wheres, strict=True)]
        yield Queries(ids, texts, vectors, within)
        start += n


def _as_float(vectors: np.ndarray) -> np.ndarray:
    """A copy out of the file in a type that the operations take: float16 stays, others do not."""
    return np.array(vectors, np.float16 if vectors.dtype == np.float16 else np.float32)
