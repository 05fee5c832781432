"""LangChain's recursive character splitter, with the exact offsets of every chunk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from langchain_text_splitters import RecursiveCharacterTextSplitter

# As LangChain's own, with the paragraphs and lines of a CRLF text found too.
_SEPARATORS = ["\r\n\r\n", "\n\n", "\r\n", "\n", " ", ""]


class _Piece(str):
    """A piece of the text that knows its range."""

    start: int
    end: int

    @classmethod
    def at(cls, text: str, start: int) -> _Piece:
        piece = cls(text)
        piece.start, piece.end = start, start + len(text)
        return piece


class OffsetSplitter(RecursiveCharacterTextSplitter):
    """The recursive splitter, keeping every character and reporting ranges.

    LangChain's own `add_start_index` searches the text for each chunk from about where it
    must begin, and takes an earlier equal passage where the text repeats itself. Here the
    pieces carry their offsets through the merging instead: they partition the text and are
    merged in order, so a running count tells where each one lies.

    Separators stay at the end of a piece, so a chunk begins with its first word or heading.
    """

    def __init__(self, chunk_size: int, overlap: int) -> None:
        super().__init__(
            separators=_SEPARATORS,
            keep_separator="end",
            chunk_size=chunk_size,
            chunk_overlap=overlap,
            strip_whitespace=False,
        )
        self._position = 0
        self._ranges: list[tuple[int, int]] = []

    def ranges(self, text: str) -> list[tuple[int, int]]:
        """Split `text` and return the half-open character range of every chunk, in order."""
        self._position = 0
        self._ranges = []
        self.split_text(text)
        return self._ranges

    def _merge_splits(self, splits: Iterable[str], separator: str) -> list[str]:
        pieces = []
        for split in splits:
            pieces.append(_Piece.at(split, self._position))
            self._position += len(split)
        return super()._merge_splits(pieces, separator)

    def _join_docs(self, docs: list[str], separator: str) -> str | None:
        first, last = cast(_Piece, docs[0]), cast(_Piece, docs[-1])
        self._ranges.append((first.start, last.end))
        return super()._join_docs(docs, separator)
