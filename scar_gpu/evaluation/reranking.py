"""Reranking a pool of rows with a cross-encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scar_gpu.evaluation.methods import search
from scar_gpu.evaluation.trial import Trial
from scar_gpu.text.extras import import_extra

# Pairs per call of the model, between two reports of progress.
_PAIRS = 1024


@dataclass(frozen=True)
class Reranked:
    """The k best of the `pool` best rows, by the score of a cross-encoder.

    Attributes:
        model: folder or name of a model that sentence-transformers loads as a CrossEncoder.
        k: rows to keep; equal scores keep the order of the pool.
        pool: rows to read.
        progress: called with (pairs scored, pairs).
    """

    model: str
    k: int = 8
    pool: int = 20
    hybrid: bool = False
    progress: Callable[[int, int], None] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        before = "hybrid, " if self.hybrid else ""
        return f"{before}reranked top-{self.pool} to {self.k}"

    def select(self, trial: Trial) -> Tensor:
        ids = search(trial, self.pool, hybrid=self.hybrid)
        places = (ids >= 0).nonzero()
        texts = trial.questions
        pairs = [(texts[q], trial.chunks.text(int(ids[q, c]))) for q, c in places.tolist()]
        scores = torch.full(ids.shape, -torch.inf)
        encoder = load_cross_encoder(self.model)
        for first in range(0, len(pairs), _PAIRS):
            some = pairs[first : first + _PAIRS]
            found = encoder.predict(some, show_progress_bar=False, convert_to_numpy=True)
            at = places[first : first + len(some)]
            scores[at[:, 0], at[:, 1]] = torch.from_numpy(found).float().reshape(-1)
            if self.progress is not None:
                self.progress(first + len(some), len(pairs))
        order = scores.sort(dim=1, descending=True, stable=True).indices[:, : self.k]
        return ids.gather(1, order)


@cache
def load_cross_encoder(model: str) -> Any:
    """A CrossEncoder from a folder, which is read from disk alone, or by name.

    Raises:
        FileNotFoundError: model reads like a path and is no folder.
        ValueError: a model that cannot be loaded, or one with several scores per pair.
        ImportError: sentence-transformers is missing.
    """
    is_folder = Path(model).is_dir()
    if not is_folder and model.startswith((".", "/", "~")):
        raise FileNotFoundError(f"reranker must be a folder or a model's name, got {model}")
    from scar_gpu.text.sentence_transformer import loading

    library = import_extra("sentence_transformers", "text")
    with loading("reranker", model):
        encoder = library.CrossEncoder(model, local_files_only=is_folder)
    if encoder.num_labels != 1:
        raise ValueError(f"reranker must give one score per pair, got {encoder.num_labels}")
    return encoder
