"""Vectors kept on disk between runs, found again by model and text."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from scar_gpu.text.embedder import (
    Embedder,
    checked_vectors,
    count_truncated,
    count_truncated_queries,
    encode_queries,
)


def default_cache_folder() -> Path:
    """`$XDG_CACHE_HOME/scar_gpu`, or `~/.cache/scar_gpu` where that is not set."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".cache") / "scar_gpu"


class CachedEmbedder:
    """An embedder that embeds a passage only if no earlier run did.

    One SQLite file per model holds the vectors under the SHA-256 of their texts; each call's
    new vectors are committed together, so an interrupted run keeps all finished calls.
    Questions are not kept.

    Args:
        embedder: what embeds the texts that are not there yet.
        folder: where the file lies; made when missing.
        prefix: what the file's name begins with.

    Attributes:
        embedder: as given.
        name, dim, content_hash: those of the embedder.
        path: the file.

    Raises:
        ValueError: the file is there and is no such store.
        OSError: the file cannot be written, for want of space or of rights.

    Example:
        >>> CachedEmbedder(embedder, default_cache_folder())  # doctest: +SKIP
    """

    def __init__(self, embedder: Embedder, folder: Path, prefix: str = "vectors") -> None:
        self.embedder = embedder
        # A passage prompt changes the vectors and leaves the model's hash.
        prompt = str(getattr(embedder, "passage_prompt", ""))
        key = hashlib.sha256(f"{embedder.content_hash}\n{prompt}".encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{prefix}-{key[:32]}.sqlite"
        self.name = embedder.name
        self.dim = embedder.dim
        self.content_hash = embedder.content_hash
        with self._open() as store:
            store.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB)")

    def count(self) -> int:
        """The number of vectors in the file."""
        with self._open() as store:
            return int(store.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def encode(self, texts: list[str]) -> np.ndarray:
        """Embed passages: [n, D] float32, from the file where it has them."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        missing = []
        with self._open() as store:
            for i, key in enumerate(keys):
                row = store.execute("SELECT vector FROM vectors WHERE text = ?", (key,)).fetchone()
                if row is None:
                    missing.append(i)
                else:
                    vectors[i] = np.frombuffer(row[0], dtype="<f4")
        if missing:
            new = self.embedder.encode([texts[i] for i in missing])
            vectors[missing] = checked_vectors(new, len(missing), self)
            rows = [(keys[i], vectors[i].astype("<f4").tobytes()) for i in missing]
            with self._open() as store:
                store.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        return vectors

    def encode_queries(self, texts: list[str]) -> np.ndarray:
        """Embed questions, by the embedder itself."""
        return encode_queries(self.embedder, texts)

    def count_truncated(self, texts: list[str]) -> int:
        """Count the passages that are longer than the embedder reads."""
        return count_truncated(self.embedder, texts)

    def count_truncated_queries(self, texts: list[str]) -> int:
        """Count the questions that are longer than the embedder reads."""
        return count_truncated_queries(self.embedder, texts)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection that commits if its block succeeds, and closes."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
                yield connection
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path} must be a file to keep vectors in, got: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path} must be a store of vectors, got: {error}; delete it to start anew"
            ) from error
