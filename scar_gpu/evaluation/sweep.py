"""The grid of lam and gamma over a trial: what is retrieved at every point, and which is best."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

import scar_gpu
from scar_gpu import ChunkIndex
from scar_gpu.evaluation.methods import Window, search
from scar_gpu.evaluation.metrics import score
from scar_gpu.evaluation.trial import Trial

LAM = tuple(round(0.02 * i, 2) for i in range(26))  # 0 to 0.5
GAMMA = tuple(round(0.1 + 0.02 * i, 2) for i in range(51))  # 0.1 to 1.1
# Bytes of the results of a block of questions; their sums take about three times as much.
_BLOCK_BYTES = 64 << 20


Group = TypeVar("Group", bound=Hashable)


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
    """Sums over n questions, at every point of a grid and for the window around the same hits.

    recall, coverage, chunks: [L, G] float64.
    window: [3] float64, recall, coverage and chunks of Window(+-reach).
    """

    n: int
    recall: Tensor
    coverage: Tensor
    chunks: Tensor
    window: Tensor


def joined(some: Sequence[GridSums]) -> GridSums:
    """The sums over the questions of several groups.

    Raises:
        ValueError: no group.
    """
    if not some:
        raise ValueError("some must be at least one group of questions, got none")
    n, *sums = zip(*some, strict=True)
    return GridSums(sum(n), *(torch.stack(part).sum(0) for part in sums))


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


def sweep(trial: Trial, grid: Grid, groups: Sequence[Group]) -> dict[Group, GridSums]:
    """Sum recall, coverage and chunks over groups of questions, at every point of a grid.

    Args:
        trial: the questions.
        grid: the points.
        groups: [Q] the group of each question, such as its kind.

    Returns:
        The sums by group, in order of first appearance.

    Raises:
        ValueError: a reach beyond the window of the trial's index.

    Example:
        >>> sums = sweep(trial, Grid(), trial.gold.kinds)["fragmented"]  # doctest: +SKIP
        >>> sums.coverage / sums.n  # doctest: +SKIP
    """
    numbers: dict[Group, int] = {}
    group = torch.tensor([numbers.setdefault(one, len(numbers)) for one in groups])
    hits = search(trial, grid.k, hybrid=grid.hybrid)
    around = neighborhood(trial.index, trial.queries, hits, grid.reach)
    n_points = len(grid.lam) * len(grid.gamma)
    sums = torch.zeros(3, len(numbers), len(grid.lam), len(grid.gamma), dtype=torch.float64)
    ranges, weights = trial.gold.ranges, trial.gold.weights
    step = max(1, _BLOCK_BYTES // (4 * (1 + weights.shape[2]) * n_points))
    for first in range(0, len(hits), step):
        some = slice(first, first + step)
        found = scar_gpu.parameter_sweep(
            hits[some],
            around.relevance[some],
            around.neighbor_relevance[some],
            around.continuity[some],
            ranges[some],
            weights[some],
            list(grid.lam),
            list(grid.gamma),
            contiguous=grid.contiguous,
        )
        best = found.covered.unflatten(1, (2, -1)).amax(2)  # of the alternatives
        for total, values in zip(sums, (best[:, 0], best[:, 1], found.chunks), strict=True):
            total.index_add_(0, group[some], values.double())
    window = Window(grid.k, grid.reach, grid.hybrid)
    scores = score(window.select(trial), trial.gold, trial.sizes)
    of_window = torch.zeros(len(numbers), 3, dtype=torch.float64)
    of_window.index_add_(0, group, torch.stack((scores.recall, scores.coverage, scores.chunks), 1))
    counts = torch.bincount(group, minlength=len(numbers)).tolist()
    recall, coverage, chunks = sums
    return {
        name: GridSums(counts[i], recall[i], coverage[i], chunks[i], of_window[i])
        for name, i in numbers.items()
    }
