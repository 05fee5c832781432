"""One line or row of a query file, and what may be wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_INT64 = 2**63


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file from 1; blank ones at the end are left out, others are not.

    Raises:
        ValueError: a line that is not UTF-8, or an empty one between others.
    """
    blank: list[int] = []
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path} line {number} must be UTF-8 text, "
                    f"got byte 0x{raw[error.start]:02x} at offset {error.start} of the line"
                ) from error
            if not line.strip():
                blank.append(number)
                continue
            if blank:
                raise ValueError(f"{path} line {blank[0]} must be a query, got an empty line")
            yield number, line


def json_object(line: str, where: str) -> dict[str, Any]:
    """The object of a line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} must be JSON, got: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{where} must be a JSON object, got {type(record).__name__}")
    return record


def checked_id(value: Any, where: str) -> str | int:
    """A query's id: text or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(
            f"{where} must hold the query's id, text or a whole number, got {type(value).__name__}"
        )
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError(f"{where} must hold a query's id of 64 bits, got {value}")
    return value if isinstance(value, int) else _valid(value, where)


def checked_text(value: Any, where: str) -> str:
    """A query that asks something."""
    if not isinstance(value, str):
        raise ValueError(f"{where} must hold the query as text, got {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"{where} must hold a query, got {value!r}, which is empty")
    return _valid(value, where)


def _valid(value: str, where: str) -> str:
    """JSON can spell half a surrogate pair; no tokenizer and no file can hold it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} must be valid Unicode, got {value[error.start]!r} at offset {error.start}"
        ) from error
    return value


def checked_vector(value: Any, where: str, width: int | None) -> list[float]:
    """A query's vector, as long as the ones before."""
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise ValueError(f"{where} must hold the query's vector as a list of numbers")
    if width is not None and len(value) != width:
        raise ValueError(f"{where} must hold a vector of {width} numbers, got {len(value)}")
    return value


def checked_document(value: Any, where: str) -> str:
    """The id of the document that a query is restricted to."""
    if value is None:
        raise ValueError(f"{where} must name the document of its query, got none")
    return str(value)
