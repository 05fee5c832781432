"""Embedders: what turns lists of texts into matrices of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors; any object with these members will do.

    An embedder that treats questions unlike passages also has
    `encode_queries(texts) -> array`; without it, `encode` serves both. One that reads only
    the beginning of a long text has `count_truncated(texts) -> int`, and, where questions
    differ, `count_truncated_queries(texts) -> int`.

    Attributes:
        name: the model's name, for people.
        dim: D, the length of a vector.
        content_hash: changes when the vectors of a text would; the key of stored vectors.
    """

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def content_hash(self) -> str: ...

    def encode(self, texts: list[str]) -> np.ndarray:
        """Embed n texts into [n, D] float32."""
        ...


def encode_queries(embedder: Embedder, texts: list[str]) -> np.ndarray:
    """Embed questions: by `encode_queries` where the embedder has it, else by `encode`."""
    encode = getattr(embedder, "encode_queries", embedder.encode)
    return checked_vectors(encode(texts), len(texts), embedder)


def count_truncated(embedder: Embedder, texts: list[str]) -> int:
    """Count the passages of which the embedder reads only the beginning, if it can tell."""
    count = getattr(embedder, "count_truncated", None)
    return 0 if count is None else int(count(texts))


def count_truncated_queries(embedder: Embedder, texts: list[str]) -> int:
    """Count the questions of which the embedder reads only the beginning, if it can tell."""
    count = getattr(embedder, "count_truncated_queries", None)
    return count_truncated(embedder, texts) if count is None else int(count(texts))


def encode_unique(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    batch_size: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Embed passages in batches, equal texts once.

    Args:
        embedder: see `Embedder`.
        texts: n texts.
        batch_size: texts per call of `embedder.encode`.
        progress: called with (distinct texts done, distinct texts) after each batch.

    Returns:
        [n, D] float32.

    Raises:
        ValueError: the embedder returned an array of another shape.
    """
    distinct, inverse = distinct_texts(texts)
    vectors = np.empty((len(distinct), embedder.dim), dtype=np.float32)
    for start in range(0, len(distinct), batch_size):
        batch = distinct[start : start + batch_size]
        vectors[start : start + len(batch)] = checked_vectors(
            embedder.encode(batch), len(batch), embedder
        )
        if progress is not None:
            progress(start + len(batch), len(distinct))
    return vectors[inverse]


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The different texts in order of appearance, and for each text its position there."""
    rows: dict[str, int] = {}
    inverse = [rows.setdefault(text, len(rows)) for text in texts]
    return list(rows), np.array(inverse, dtype=np.int64)


def checked_vectors(vectors: np.ndarray, n: int, embedder: Embedder) -> np.ndarray:
    """The vectors as float32, or a ValueError if they are not [n, D]."""
    if vectors.shape != (n, embedder.dim):
        raise ValueError(
            f"vectors of {embedder.name} must have shape {(n, embedder.dim)}, got {vectors.shape}"
        )
    return np.asarray(vectors, dtype=np.float32)
