"""The texts of a stored chunk table: read by row group, when a row of it is asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from scar_gpu.storage.errors import refuse
from scar_gpu.text.chunks import LazyTexts
from scar_gpu.text.parquet import ParquetReader
from scar_gpu.text.text_bytes import sums

# Decoded text kept for the next call. One call reads each row group once, whatever it asks for.
_CACHE_BYTES = 64 << 20


class StoredTexts(LazyTexts):
    """The documents' texts as a sequence, and as `scar_gpu.text.text_bytes.TextBytes`.

    Attributes:
        lengths: [D] int64, characters of each document.
        start, end: [N] int64, bytes of each chunk in all documents that have chunks, joined.
    """

    def __init__(
        self,
        path: Path,
        file: ParquetReader,
        doc_offsets: np.ndarray,
        characters: np.ndarray,
        sizes: np.ndarray,
        start_byte: np.ndarray,
        end_byte: np.ndarray,
        loose: Any,
    ) -> None:
        self.lengths = characters
        self._path, self._file, self._loose = path, file, loose
        self._doc_offsets = doc_offsets
        chunks = np.diff(doc_offsets)
        self._bases = sums(np.where(chunks > 0, sizes, 0))
        base = np.repeat(self._bases[:-1], chunks)
        if not ((start_byte >= 0) & (start_byte <= end_byte)).all():
            refuse(path, "have start_byte <= end_byte", "a chunk that ends before it starts")
        self.start, self.end = start_byte + base, end_byte + base
        # Row i of the file holds the bytes from cuts[i] to cuts[i + 1].
        cuts = np.append(np.maximum.accumulate(self.start), self._bases[-1])
        cuts[doc_offsets[:-1][chunks > 0]] = self._bases[:-1][chunks > 0]
        metadata = file.metadata
        groups = range(metadata.num_row_groups)
        rows = sums(np.array([metadata.row_group(g).num_rows for g in groups], dtype=np.int64))
        self._group_bytes = cuts[rows]
        self._groups: OrderedDict[int, bytes] = OrderedDict()
        self._cached = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.lengths)

    @overload
    def __getitem__(self, document: int) -> str: ...
    @overload
    def __getitem__(self, document: slice) -> list[str]: ...
    def __getitem__(self, document: int | slice) -> str | list[str]:
        """The whole text of a document, or of several."""
        if isinstance(document, slice):
            return [self[i] for i in range(*document.indices(len(self)))]
        document = range(len(self))[document]
        if self._doc_offsets[document] == self._doc_offsets[document + 1]:
            return self._loose[document].as_py() or ""
        begin, behind = self._bases[document : document + 2]
        return self._read(int(begin), int(behind))

    def between(self, first: int, behind: int) -> str:
        """The text from the first start to the last end of the chunks `first` to `behind`."""
        return self._read(int(self.start[first:behind].min()), int(self.end[first:behind].max()))

    def gather(self, begin: np.ndarray, behind: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Read ranges, see `TextBytes`; each row group is decoded once, in order of the file."""
        parts = [b""] * len(begin)
        groups = self._group_of(begin)
        order = np.argsort(groups, kind="stable")
        edges = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1)).tolist()
        for edge, next_edge in pairwise(edges):
            chosen = order[edge:next_edge]
            group = int(groups[chosen[0]])
            data, base = self._group(group), self._group_bytes[group]
            ranges = zip(
                chosen.tolist(),
                (begin[chosen] - base).tolist(),
                (behind[chosen] - base).tolist(),
                strict=True,
            )
            for i, first, last in ranges:
                # The few that go on into the next row group are read on their own.
                inside = last <= len(data)
                parts[i] = data[first:last] if inside else self._joined(begin[i], behind[i])
        return b"".join(parts), sums(behind - begin)

    def _group_of(self, positions: Any) -> Any:
        found = np.searchsorted(self._group_bytes, positions, side="right") - 1
        return np.clip(found, 0, len(self._group_bytes) - 2)

    def _read(self, begin: int, behind: int) -> str:
        return self._joined(begin, behind).decode()

    def _joined(self, begin: int, behind: int) -> bytes:
        if begin >= behind:
            return b""
        parts = []
        for group in range(int(self._group_of(begin)), int(self._group_of(behind - 1)) + 1):
            first = max(begin, int(self._group_bytes[group]))
            last = min(behind, int(self._group_bytes[group + 1]))
            parts.append(self._part(group, first, last))
        return b"".join(parts)

    def _part(self, group: int, begin: int, behind: int) -> bytes:
        if begin >= behind:
            return b""
        base = int(self._group_bytes[group])
        return self._group(group)[begin - base : behind - base]

    def _group(self, group: int) -> bytes:
        with self._lock:
            data = self._groups.get(group)
            if data is None:
                data = self._decode(group)
                self._groups[group] = data
                self._cached += len(data)
                while self._cached > _CACHE_BYTES and len(self._groups) > 1:
                    _, dropped = self._groups.popitem(last=False)
                    self._cached -= len(dropped)
            else:
                self._groups.move_to_end(group)
            return data

    def _decode(self, group: int) -> bytes:
        """The bytes of one row group: its strings already lie one behind the other."""
        column = self._file.read_group(group, ["text"])["text"].combine_chunks()
        size = int(self._group_bytes[group + 1] - self._group_bytes[group])
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int64)[column.offset :][: len(column) + 1]
        if column.null_count or int(bounds[-1] - bounds[0]) != size:
            got = int(bounds[-1] - bounds[0])
            refuse(self._path, f"hold {size} bytes of text in row group {group}", got)
        if not size:
            return b""
        return bytes(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
