"""Small indexes with and without text, and the faults done to their files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from scar_gpu import ChunkIndex
from scar_gpu.storage.manifest import _digest
from scar_gpu.text import ChunkTable
from scar_gpu.text.lexical import LexicalIndex

EMBEDDER = {"name": "words", "dim": 8, "hash": "abc", "kind": "test"}


def small_index(n_chunks: int = 7, dtype: torch.dtype = torch.float32, seed: int = 0) -> ChunkIndex:
    """Rows of 8 dimensions in documents of 0, 3, 0 and the remaining rows."""
    rows = torch.randn(n_chunks, 8, generator=torch.Generator().manual_seed(seed))
    offsets = [0, 0, min(3, n_chunks), min(3, n_chunks), n_chunks]
    return ChunkIndex.build(rows, offsets, window=2, dtype=dtype)


def small_table() -> ChunkTable:
    """The seven chunks of `small_index`.

    Document b: two-byte, three-byte and four-byte characters, a chunk inside another, a gap in
    front, between chunks and behind. Document d: overlapping chunks, an empty one, and a chunk
    that begins before the one in front of it. Documents a and c have no chunks; c has text.
    """
    return ChunkTable(
        ids=("a", "b", "ç", "d"),
        texts=("", "..Ünïcode €uro 𝄞clef and more..", "no chunk has this", "0123456789abcdef"),
        document=np.array([1, 1, 1, 3, 3, 3, 3]),
        start=np.array([2, 4, 20, 0, 4, 8, 6]),
        end=np.array([14, 8, 29, 6, 4, 14, 16]),
        path=np.array([2, 2, 0, 1, 1, 1, 0], dtype=np.int32),
        paths=((), ("Top", "Süb > \n"), ("Other",)),
    )


def small_words() -> LexicalIndex:
    """Three words of the seven chunks of `small_index`; the second is in two of them."""
    return LexicalIndex(
        words=["clef", "ünïcode", "zz"],
        starts=np.array([0, 1, 3, 4]),
        rows=np.array([2, 0, 6, 3], dtype=np.int32),
        scores=np.array([0.25, 1.5, 1e-3, 7.0], dtype=np.float32),
        n_rows=7,
    )


def assert_same_words(actual: LexicalIndex | None, expected: LexicalIndex) -> None:
    """Bit for bit."""
    assert actual is not None
    assert (list(actual.words), actual.n_rows) == (list(expected.words), expected.n_rows)
    for name in ("starts", "rows", "scores"):
        one, other = getattr(actual, name), getattr(expected, name)
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), name


def assert_same_index(actual: ChunkIndex, expected: ChunkIndex) -> None:
    """Bit for bit, NaN included."""
    for name in ("embeddings", "row_scale", "continuity", "doc_offsets"):
        one, other = getattr(actual, name).cpu(), getattr(expected, name).cpu()
        assert one.dtype == other.dtype, name
        assert one.shape == other.shape, name
        as_bytes = [t.contiguous().view(torch.uint8) for t in (one, other)]
        assert torch.equal(*as_bytes), name


def assert_same_table(actual: ChunkTable | None, expected: ChunkTable) -> None:
    assert actual is not None
    assert actual.ids == expected.ids
    assert list(actual.texts) == list(expected.texts)
    for row in range(len(expected)):
        assert actual.chunk(row) == expected.chunk(row)
        assert actual.text(row) == expected.text(row)
    for first, behind in zip(expected.doc_offsets[:-1], expected.doc_offsets[1:], strict=True):
        for begin in range(first, behind):
            for end in range(begin + 1, behind + 1):
                assert actual.passage(begin, end) == expected.passage(begin, end)


def edit_manifest(folder: Path, *keys: str, value: object) -> None:
    """Change one entry and make the checksum right again: a forged manifest."""
    path = folder / "manifest.json"
    fields = json.loads(path.read_text())
    del fields["sha256"]
    entry = fields
    for key in keys[:-1]:
        entry = entry[key]
    entry[keys[-1]] = value
    path.write_text(json.dumps(fields | {"sha256": _digest(fields)}))
