"""The grid of lam and gamma over a trial: what is retrieved at every point, and which is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

import scar_gpu
from scar_gpu import ChunkIndex
from scar_gpu.evaluation.methods import search
from scar_gpu.evaluation.trial import Trial

LAM = tuple(round(0.02 * i, 2) for i in range(26))  # 0 to 0.5
GAMMA = tuple(round(0.3 + 0.02 * i, 2) for i in range(41))  # 0.3 to 1.1
# Bytes of the results of a block of questions: the byte budget of `search`.
_BLOCK_BYTES = 256 << 20


class Neighborhood(NamedTuple):
    """What a sweep needs of hits [B, K] and their neighbours, gathered once.

    relevance: [B, K] float32, cos(q, c).
    neighbor_relevance: [B, K, 2W] float32, cos(q, n), -inf where there is no neighbour.
    continuity: [B, K, 2W] float32, cos(c, n), NaN where there is no neighbour.
    """

    relevance: Tensor
    neighbor_relevance: Tensor
    continuity: Tensor


def neighborhood(index: ChunkIndex, queries: Tensor, hits: Tensor, window: int) -> Neighborhood:
    """Gather the relevances and continuities around hits.

    Args:
        index: of at least this window.
        queries: [B, D].
        hits: [B, K] rows, -1 for padding.
        window: W, the furthest neighbour.

    Returns:
        The neighbourhood, with the bits that `index.neighbor_scores` judges.

    Raises:
        ValueError: a window beyond the index's.
    """
    # Without a penalty S is the neighbour's relevance itself.
    judged = index.neighbor_scores(queries, hits, lam=0.0, window=window)
    offsets = torch.tensor([*range(-window, 0), *range(1, window + 1)], device=hits.device)
    if index.n_chunks == 0 or window == 0:
        return Neighborhood(judged.relevance, judged.scores, torch.full_like(judged.scores, 0))
    left = hits[:, :, None] + offsets.clamp(max=0)  # of the pair, the row that comes first
    is_neighbor = judged.scores > -torch.inf
    at = torch.where(is_neighbor, left, 0)
    continuity = index.continuity[offsets.abs() - 1, at]
    return Neighborhood(
        judged.relevance, judged.scores, torch.where(is_neighbor, continuity, torch.nan)
    )


class GridSums(NamedTuple):
    """Sums over the questions of a group at every point of a grid: [L, G] float64 each."""

    recall: Tensor
    coverage: Tensor
    chunks: Tensor
    n: int

    def means(self) -> GridMeans:
        """The means over the group."""
        return GridMeans(*(sums / self.n for sums in self[:3]))


class GridMeans(NamedTuple):
    """Means over the questions of a group at every point of a grid: [L, G] float64 each."""

    recall: Tensor
    coverage: Tensor
    chunks: Tensor


@dataclass(frozen=True)
class Grid:
    """The points (lam, gamma) of a sweep, and what is swept.

    Raises:
        ValueError: an empty grid, a lam below 0, a value that is not finite.
    """

    lam: Sequence[float] = LAM
    gamma: Sequence[float] = GAMMA
    k: int = 5
    reach: int = 1
    contiguous: bool = False
    hybrid: bool = False

    def __post_init__(self) -> None:
        for name, values in (("lam", self.lam), ("gamma", self.gamma)):
            if not len(values):
                raise ValueError(f"{name} must have at least one value, got none")
            for value in values:
                if not -torch.inf < value < torch.inf:
                    raise ValueError(f"{name} must be finite, got {value}")
        if min(self.lam) < 0:
            raise ValueError(f"lam must be >= 0, got {min(self.lam)}")


def sweep(trial: Trial, grid: Grid, groups: Sequence[object] | None = None) -> dict:
    """Sum recall, coverage and chunks over groups of questions, at every point of a grid.

    Args:
        trial: the questions.
        grid: the points.
        groups: [Q] the group of each question; default: its kind.

    Returns:
        `GridSums` by group, in order of first appearance.

    Raises:
        ValueError: a reach beyond the window of the trial's index.
    """
    groups = trial.gold.kinds if groups is None else groups
    hits = search(trial, grid.k, hybrid=grid.hybrid)
    around = neighborhood(trial.index, trial.queries, hits, grid.reach)
    numbers: dict[object, int] = {}
    group = torch.tensor([numbers.setdefault(one, len(numbers)) for one in groups])
    shape = (len(numbers), len(grid.lam), len(grid.gamma))
    sums = torch.zeros(3, *shape, dtype=torch.float64)
    ranges, weights = trial.gold.ranges, trial.gold.weights
    point_bytes = 4 * (1 + weights.shape[2])
    step = max(1, _BLOCK_BYTES // (point_bytes * shape[1] * shape[2]))
    for first in range(0, len(hits), step):
        some = slice(first, first + step)
        found = scar_gpu.parameter_sweep(
            hits[some],
            *(part[some] for part in around),
            ranges[some],
            weights[some],
            list(grid.lam),
            list(grid.gamma),
            contiguous=grid.contiguous,
        )
        best = found.covered.unflatten(1, (2, -1)).amax(2)  # of the alternatives
        for total, values in zip(sums, (best[:, 0], best[:, 1], found.chunks), strict=True):
            total.index_add_(0, group[some], values.double())
    counts = torch.bincount(group, minlength=len(numbers)).tolist()
    return {name: GridSums(*sums[:, number], counts[number]) for name, number in numbers.items()}
