"""Embedding that goes on where an interrupted build stopped."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from scar_gpu.cli.messages import note, progress
from scar_gpu.text.embedder import Embedder, count_truncated, distinct_texts, encode_unique
from scar_gpu.text.embedding_cache import CachedEmbedder

# Texts per call, in passes of the model: it sorts a call's texts by length, and what a call
# has made is what an interruption keeps.
_PASSES_PER_CALL = 4


class EmbeddingWork:
    """The vectors of one build, kept in a file beside its output until the index is written.

    Args:
        embedder: the model.
        output: the index that the vectors are for.
        resume: whether to use what an earlier build has left; else it is removed.

    Raises:
        ValueError: the file is there and holds something else.
        OSError: the file cannot be written.
    """

    def __init__(self, embedder: Embedder, output: Path, resume: bool) -> None:
        folder, prefix = output.absolute().parent, f"{output.name}.vectors"
        if not resume:
            for left in folder.glob(f"{prefix}-*.sqlite"):
                left.unlink()
        self._store = CachedEmbedder(embedder, folder, prefix)
        self._embedder = embedder

    def embed(self, texts: list[str], batch_size: int) -> np.ndarray:
        """Embed texts, equal ones once: [n, D] float32.

        Says how many were there already and how many the model truncates; after Ctrl-C or an
        error, what has been kept.
        """
        started = time.perf_counter()
        there = self._store.count()
        if there:
            note(f"going on with {there:,} vectors from {self._store.path}")
        distinct, inverse = distinct_texts(texts)
        truncated = count_truncated(self._embedder, distinct)
        if truncated:
            note(
                f"{truncated:,} of {len(distinct):,} different chunks are longer than "
                f"{self._embedder.name} reads; the rest of each is not searchable"
            )
        try:
            with progress("embedding chunks") as show:
                vectors = encode_unique(
                    self._store, distinct, batch_size=_PASSES_PER_CALL * batch_size, progress=show
                )
        except BaseException:
            kept = f"{self._store.count():,} vectors are kept in {self._store.path}"
            note(f"{kept}; the same build goes on from there")
            raise
        note(
            f"embedded {len(texts):,} chunks, {len(distinct):,} of them different, with "
            f"{self._embedder.name} in {time.perf_counter() - started:.1f} s"
        )
        return vectors[inverse]

    def remove(self) -> None:
        """Delete the file: the index holds the vectors now."""
        self._store.path.unlink(missing_ok=True)
