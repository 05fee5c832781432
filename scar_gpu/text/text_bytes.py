"""The corpus as UTF-8: byte positions of every chunk, and many ranges read at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from scar_gpu.text.chunks import ChunkTable


@runtime_checkable
class TextBytes(Protocol):
    """The documents' texts one after the other as UTF-8.

    Attributes:
        start: [N] int64, where each chunk begins in that.
        end: [N] int64, behind its last byte.
    """

    start: np.ndarray
    end: np.ndarray

    def gather(self, begin: np.ndarray, behind: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Read S ranges: their bytes in one piece, and [S + 1] int64 offsets into it."""
        ...


class MemoryBytes:
    """`TextBytes` of a table whose texts are in memory; a second copy of them, encoded."""

    def __init__(self, chunks: ChunkTable) -> None:
        offsets = chunks.doc_offsets
        self.start = np.empty(len(chunks), dtype=np.int64)
        self.end = np.empty(len(chunks), dtype=np.int64)
        parts = []
        base = 0
        for text, first, behind in zip(chunks.texts, offsets[:-1], offsets[1:], strict=True):
            data = text.encode()
            rows = slice(first, behind)
            self.start[rows] = byte_positions(text, data, chunks.start[rows]) + base
            self.end[rows] = byte_positions(text, data, chunks.end[rows]) + base
            parts.append(data)
            base += len(data)
        self._data = memoryview(b"".join(parts))

    def gather(self, begin: np.ndarray, behind: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Read ranges, see `TextBytes`."""
        data = self._data
        ranges = zip(begin.tolist(), behind.tolist(), strict=True)
        return b"".join([data[first:last] for first, last in ranges]), sums(behind - begin)


def byte_positions(text: str, data: bytes, positions: np.ndarray) -> np.ndarray:
    """Where characters of `text` begin in `data`, its UTF-8 form.

    Args:
        text: any text.
        data: the same, encoded.
        positions: [n] character positions, `len(text)` included.

    Returns:
        [n] int64 byte positions.

    Example:
        >>> byte_positions("aéb", "aéb".encode(), np.array([0, 1, 2, 3]))
        array([0, 1, 3, 4])
    """
    if len(data) == len(text):
        return positions.astype(np.int64)
    # Every byte but the continuation bytes 10xxxxxx begins a character.
    begins = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) & 0xC0 != 0x80)
    return np.append(begins, len(data))[positions]


def sums(sizes: np.ndarray) -> np.ndarray:
    """[n + 1] int64: 0, and the sums of the first 1, 2, ... n sizes."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
