"""Documents: texts with an id, read from files and folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scar_gpu.text.extras import import_extra
from scar_gpu.text.headings import check_format
from scar_gpu.text.parquet import ParquetReader

_TEXT_FORMATS = {".txt": "auto", ".md": "markdown", ".rst": "rst"}

# A folder with these is an index: `build . -o index` must not read its own output again.
_INDEX_FILES = ("manifest.json", "tensors.safetensors")

# Rows of a Parquet file that are read at a time.
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Document:
    r"""One text to retrieve from.

    Attributes:
        id: its name, unique in a corpus.
        text: the whole text; chunks are character ranges of it.
        format: how its headings are written, see `headings`.

    Raises:
        TypeError: id or text is no string.
        ValueError: unknown format, or half of a surrogate pair in the text.

    Example:
        >>> Document("guide", "Intro\n=====\n", format="rst").id
        'guide'
    """

    id: str
    text: str
    format: str = "auto"

    def __post_init__(self) -> None:
        for name, value in (("id", self.id), ("text", self.text)):
            if not isinstance(value, str):
                raise TypeError(f"document {name} must be a str, got {type(value).__name__}")
            if found := half_character(value):
                raise ValueError(
                    f"document {name} must be valid Unicode, got {found} of {self.id!r}"
                )
        check_format(self.format)


def half_character(text: str) -> str | None:
    """The first half of a surrogate pair in the text and its offset, for messages.

    JSON can spell one; no tokenizer and no file can hold it.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"{text[error.start]!r} at offset {error.start}"
    return None


def read_documents(
    source: str | Path,
    *,
    glob: str | None = None,
    id_column: str | None = None,
    text_column: str = "text",
    format: str | None = None,
    on_bad: Callable[[Path, ValueError], None] | None = None,
) -> list[Document]:
    """Read the documents of a file or a folder.

    A `.txt`, `.md` or `.rst` file is one document, named by its path below `source`
    (by its file name when `source` is the file). A `.jsonl` file is one document per line,
    a `.parquet` file one per row. Texts are UTF-8 and keep their line endings; a byte order mark
    at the start of a file is no part of its text. So the `start` and `end` of chunks and contexts
    count the characters of `open(path, encoding="utf-8-sig", newline="").read()`. (Of a labelled
    corpus `scar_gpu.evaluation` counts the mark, as its evidence does.)

    Args:
        source: a file, or a folder that is read with all its subfolders in order of path;
            names that begin with a dot are left out.
        glob: which files of the folder, such as `"*.md"` or `"guide/**/*.txt"`; default:
            every file of a known kind. Matched files of other kinds are read as text. The
            files of an index on disk are never documents.
        id_column: column or key of the document's id in `.jsonl` and `.parquet`; default:
            `"id"` where it exists, else the file's name and the line or row number.
        text_column: column or key of the text.
        format: how headings are written, see `headings`; default: by the file's suffix.
        on_bad: called with each file that is not UTF-8 text, and why, instead of raising.

    Returns:
        The documents, at least one.

    Raises:
        FileNotFoundError: source does not exist.
        ValueError: a file of unknown kind, not in UTF-8, with a broken line or without the
            column; two documents of one id; no documents.
        ImportError: `.parquet` needs pyarrow; `scar_gpu[io]` brings it.

    Example:
        >>> read_documents("docs", glob="*.md")  # doctest: +SKIP
        [Document(id='guide.md', text='# Guide ...', format='markdown')]
    """
    if format is not None:
        check_format(format)
    root = Path(source)
    if not root.exists():
        raise FileNotFoundError(f"source must be a file or a folder, got {root}, which is missing")
    documents: list[Document] = []
    for path, name in _files(root, glob):
        try:
            documents.extend(_documents_of(path, name, id_column, text_column, format))
        except _NotUtf8Error as error:
            if on_bad is None:
                raise
            on_bad(path, error)
    check_unique_ids(documents)
    if not documents:
        known = ", ".join([*_TEXT_FORMATS, *_ROW_READERS])
        raise ValueError(f"source must hold at least one document ({known}), got none in {root}")
    return documents


def read_rows(
    path: Path, id_column: str | None, text_column: str
) -> Iterator[tuple[int, str | None, str]]:
    """The rows of a `.jsonl` or `.parquet` file: number from 1, id or None, text.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file of another kind, a broken line, or a missing column.
    """
    if path.suffix.lower() not in _ROW_READERS:
        raise ValueError(f"source must be one of {', '.join(_ROW_READERS)}, got {path}")
    if path.is_dir() or not path.exists():
        raise FileNotFoundError(f"source must be an existing file, got {path}")
    return _ROW_READERS[path.suffix.lower()](path, id_column, text_column)


def check_unique_ids(documents: list[Document]) -> None:
    """Raise a ValueError naming the first id that two documents share."""
    seen: set[str] = set()
    for document in documents:
        if document.id in seen:
            raise ValueError(f"document ids must be unique, got {document.id!r} twice")
        seen.add(document.id)


def _files(root: Path, glob: str | None) -> Iterator[tuple[Path, str]]:
    known = {*_TEXT_FORMATS, *_ROW_READERS}
    if root.is_file():
        if root.suffix.lower() not in known:
            kinds = ", ".join([*_TEXT_FORMATS, *_ROW_READERS])
            raise ValueError(f"source must be a folder or one of {kinds}, got {root}")
        yield root, root.name
        return
    if glob is not None and (not glob or Path(glob).is_absolute()):
        raise ValueError(f"glob must be a pattern below the folder, got {glob!r}")
    for path in sorted(root.rglob(glob or "*")):
        name = path.relative_to(root)
        if any(part.startswith(".") for part in name.parts) or not path.is_file():
            continue
        if all((path.parent / part).is_file() for part in _INDEX_FILES):
            continue
        if glob is not None or path.suffix.lower() in known:
            yield path, name.as_posix()


def _documents_of(
    path: Path, name: str, id_column: str | None, text_column: str, format: str | None
) -> Iterator[Document]:
    suffix = path.suffix.lower()
    if suffix not in _ROW_READERS:
        yield Document(name, _read_text(path), format or _TEXT_FORMATS.get(suffix, "auto"))
        return
    for number, row_id, text in _ROW_READERS[suffix](path, id_column, text_column):
        yield Document(f"{name}:{number}" if row_id is None else row_id, text, format or "auto")


class _NotUtf8Error(ValueError):
    """A file that is not text."""


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise _NotUtf8Error(
            f"{path} must be UTF-8 text, got byte 0x{byte:02x} at offset {error.start}"
        ) from error


Row = tuple[int, str | None, str]


def _jsonl_rows(path: Path, id_column: str | None, text_column: str) -> Iterator[Row]:
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} line {number} must be JSON, got: {error}") from error
        if not isinstance(record, dict):
            raise ValueError(
                f"{path} line {number} must be a JSON object, got {type(record).__name__}"
            )
        yield _row(f"{path} line {number}", number, record, id_column, text_column)


def _parquet_rows(path: Path, id_column: str | None, text_column: str) -> Iterator[Row]:
    try:
        file = ParquetReader(path)
    except import_extra("pyarrow", "io").ArrowInvalid as error:
        raise ValueError(f"{path} must be a Parquet file, got: {error}") from error
    with file:
        known = file.schema.names
        wanted = [c for c in dict.fromkeys((id_column or "id", text_column)) if c in known]
        _check_columns(str(path), known, id_column, text_column)
        number = 0
        for batch in file.batches(wanted, _BATCH):
            for record in batch.to_pylist():
                number += 1
                yield _row(f"{path} row {number}", number, record, id_column, text_column)


def _check_columns(where: str, known: Any, id_column: str | None, text_column: str) -> None:
    for option, column in (("text_column", text_column), ("id_column", id_column)):
        if column is not None and column not in known:
            columns = ", ".join(known) or "none"
            raise ValueError(f"{option} must be a column of {where} ({columns}), got {column!r}")


def _row(
    where: str, number: int, record: dict[str, Any], id_column: str | None, text_column: str
) -> Row:
    _check_columns(where, record, id_column, text_column)
    text = record[text_column]
    if not isinstance(text, str):
        raise ValueError(f"{text_column} of {where} must be text, got {type(text).__name__}")
    row_id = record.get(id_column or "id")
    return number, None if row_id is None else str(row_id), text


_ROW_READERS: dict[str, Callable[[Path, str | None, str], Iterator[Row]]] = {
    ".jsonl": _jsonl_rows,
    ".parquet": _parquet_rows,
}
