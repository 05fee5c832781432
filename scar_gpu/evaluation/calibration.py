"""What a relative threshold means for a model and a corpus, and what predicts it without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

import scar_gpu
from scar_gpu.evaluation.choice import Surface, most_coverage
from scar_gpu.evaluation.methods import search
from scar_gpu.evaluation.sweep import Grid, neighborhood
from scar_gpu.evaluation.trial import Trial

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
# Points whose chunks are this close to the budget, as a share of the window's, cost the same.
_BAND = 0.05


class Cosines(NamedTuple):
    """The cosines that SCAR compares, over the hits of a trial's questions.

    None stands for the figures of nothing, such as of neighbours where documents have one chunk.

    relevance, deviation: mean and standard deviation of cos(q, c).
    neighbor_relevance: mean of cos(q, n).
    continuity: mean of cos(c, n).
    ratios: quantiles of cos(q, n) / cos(q, c), which gamma cuts at lam = 0, over the hits of
        cos(q, c) > 0: below, gamma cuts the other way. Empty where there is none.
    """

    relevance: float | None
    deviation: float | None
    neighbor_relevance: float | None
    continuity: float | None
    ratios: list[float]


class Threshold(NamedTuple):
    """A gamma found among given values.

    gamma: one of them.
    bound: `"<="`: it is the first, and less may do too; `">"`: it is the last, and not enough;
        `"="`: neither.
    """

    gamma: float
    bound: Literal["=", "<=", ">"]


class Agreement(NamedTuple):
    """What tuning on probes brings on labelled questions.

    rank: Spearman's correlation of the two coverages over points of about the budget.
    lam, gamma: the point chosen on probes.
    share, coverage: of that point on labelled questions.
    best: the most coverage within the budget on labelled questions.
    """

    rank: float
    lam: float
    gamma: float
    share: float
    coverage: float
    best: float


def cosines_of(trial: Trial, k: int = 5, reach: int = 1) -> Cosines:
    """Look at the cosines around the hits of a trial."""
    around = neighborhood(trial.index, trial.queries, search(trial, k), reach)
    is_hit, is_neighbor = around.relevance > -torch.inf, around.neighbor_relevance > -torch.inf
    relevance, neighbors = around.relevance[is_hit], around.neighbor_relevance[is_neighbor]
    is_cut = is_neighbor & (around.relevance > 0)[..., None]
    ratios = (around.neighbor_relevance / around.relevance[..., None])[is_cut]
    return Cosines(
        _mean(relevance),
        float(relevance.std()) if len(relevance) > 1 else None,
        _mean(neighbors),
        _mean(around.continuity[is_neighbor]),
        quantiles(ratios, QUANTILES),
    )


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if len(values) else None


def quantiles(values: Tensor, shares: Sequence[float]) -> list[float]:
    """The quantiles of values [N], between two of them linearly; empty where there is none.

    `Tensor.quantile` refuses nothing, and more than 16 million values.
    """
    if not len(values):
        return []
    ordered = np.sort(values.numpy())
    place = np.array(shares) * (len(ordered) - 1)
    below = place.astype(np.int64)
    low, high = (ordered[at].astype(np.float64) for at in (below, np.ceil(place).astype(np.int64)))
    return (low + (high - low) * (place - below)).tolist()


def chunk_pairs(trial: Trial, k: int = 5, n: int = 1000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Chunks as questions: vectors [B, D], and for each its k nearest others [B, k]."""
    index = trial.index
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(index.n_chunks, generator=generator)[:n]
    document = torch.from_numpy(trial.chunks.document)[rows]
    ranges = torch.stack((index.doc_offsets[document], index.doc_offsets[document + 1]), 1)
    queries = index.embeddings[rows]
    found = index.search(queries, k + 1, row_ranges=ranges).ids
    order = (found == rows[:, None]).byte().sort(dim=1, stable=True).indices[:, :k]
    others = found.gather(1, order)
    return queries, torch.where(others == rows[:, None], -1, others)


def gamma_of_share(
    trial: Trial,
    queries: Tensor,
    hits: Tensor,
    share: float,
    *,
    lam: float = 0.1,
    gamma: Sequence[float] = Grid().gamma,
    reach: int = 1,
) -> Threshold:
    """The least gamma at which SCAR retrieves at most a share of the window's chunks.

    It needs questions, or what stands for them, and no labels.

    Args:
        trial: whose index is asked.
        queries: [B, D].
        hits: [B, K] their hits.
        share: of the chunks of Window(+-reach).
        lam: as for SCAR.
        gamma: ascending values to choose from.
        reach: the furthest neighbour.

    Returns:
        One of `gamma`, and whether it is but a bound.

    Raises:
        ValueError: hits without any row.
    """
    around = neighborhood(trial.index, queries, hits, reach)
    nothing = torch.zeros(len(hits), 0, 2, dtype=torch.int64)
    no_weights = torch.zeros(len(hits), 0, 0, dtype=torch.float64)
    found = scar_gpu.parameter_sweep(hits, *around, nothing, no_weights, [lam], list(gamma))
    window = int(trial.index.window_expand(hits, before=reach, after=reach).lengths.sum())
    if not window:
        raise ValueError("hits must hold at least one row, got none")
    shares = [chunks / window for chunks in found.chunks.sum((0, 1)).tolist()]
    for place, (value, one) in enumerate(zip(gamma, shares, strict=True)):
        if one <= share:
            return Threshold(value, "=" if place else "<=")
    return Threshold(gamma[-1], ">")


def agreement(labelled: Surface, probes: Surface, grid: Grid, budget: float) -> Agreement:
    """Compare two sweeps of one grid over one corpus.

    Raises:
        ValueError: no point within the budget.
    """
    i, j = most_coverage(probes, budget)
    best = most_coverage(labelled, budget)
    band = (labelled.share - budget).abs() <= _BAND
    return Agreement(
        spearman(labelled.coverage[band], probes.coverage[band]),
        grid.lam[i],
        grid.gamma[j],
        float(labelled.share[i, j]),
        float(labelled.coverage[i, j]),
        float(labelled.coverage[best]),
    )


def spearman(one: Tensor, other: Tensor) -> float:
    """The correlation of the ranks, equal values sharing their mean rank; 0 where there is none."""
    ranks = torch.stack([_mean_ranks(one), _mean_ranks(other)])
    if ranks.shape[1] < 2 or bool((ranks.std(1) == 0).any()):
        return 0.0
    return float(torch.corrcoef(ranks)[0, 1])


def _mean_ranks(values: Tensor) -> Tensor:
    _, place, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts.double() - 1) / 2)[place]
