"""What is wrong with an index on disk."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn


class IndexFormatError(ValueError):
    """A folder that is no index, or not the one its manifest describes."""


class IndexNotFoundError(IndexFormatError, FileNotFoundError):
    """There is no index at a path."""


def refuse(path: Path, rule: str, got: object) -> NoReturn:
    """Raise IndexFormatError with the message "`path` must `rule`, got `got`"."""
    raise IndexFormatError(f"{path} must {rule}, got {got}")


def refuse_digest(path: Path, part: str = "its bytes") -> NoReturn:
    """Raise IndexFormatError for bytes that have another checksum than the manifest's."""
    refuse(path, f"hold {part} as its manifest says", "others (the checksum differs)")
