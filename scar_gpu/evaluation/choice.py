"""Which point of a grid is best, and how flat the grid is around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from scar_gpu.evaluation.sweep import GridSums

# Coverage that a plateau may lie below the best point.
SLACK = 0.005


class Surface(NamedTuple):
    """Means at every point of a grid, relative to Window(+-reach) around the same hits.

    coverage: [L, G] mean evidence coverage.
    loss: [L, G] mean chunk recall of the window, less that of the point.
    share: [L, G] mean chunks as a share of the window's.
    """

    coverage: Tensor
    loss: Tensor
    share: Tensor


class Plateau(NamedTuple):
    """The points within a budget that come close to the best.

    n: how many there are, of n_points.
    lam, gamma: the least and the largest value among them.
    """

    n: int
    n_points: int
    lam: tuple[float, float]
    gamma: tuple[float, float]


def surface_of(sums: GridSums) -> Surface:
    """The means of one group of questions."""
    recall, _, chunks = (sums.window / sums.n).tolist()
    return Surface(
        sums.coverage / sums.n, recall - sums.recall / sums.n, sums.chunks / sums.n / chunks
    )


def average(surfaces: Sequence[Surface]) -> Surface:
    """The mean of several corpora, each of which counts the same."""
    return Surface(*(torch.stack(parts).mean(0) for parts in zip(*surfaces, strict=True)))


def most_coverage(surface: Surface, budget: float) -> tuple[int, int]:
    """The point of most coverage whose chunks are at most `budget` of the window's.

    Of equal ones the one with fewer chunks, then the smaller lam, then the larger gamma.

    Returns:
        The positions in lam and gamma.

    Raises:
        ValueError: no point is within the budget.
    """
    allowed = surface.share <= budget
    if not bool(allowed.any()):
        least = float(surface.share.min())
        raise ValueError(
            f"budget must be >= {least:.3f} of the window's chunks, the least on the grid, "
            f"got {budget}"
        )
    return _best(allowed, -surface.coverage, surface.share)


def fewest_chunks(surface: Surface, loss: float) -> tuple[int, int]:
    """The point of fewest chunks that loses at most `loss` of the window's recall.

    Of equal ones the one with more coverage, then the smaller lam, then the larger gamma.

    Returns:
        The positions in lam and gamma.

    Raises:
        ValueError: every point loses more.
    """
    allowed = surface.loss <= loss
    if not bool(allowed.any()):
        least = float(surface.loss.min())
        raise ValueError(f"loss must be >= {least:.3f}, the least on the grid, got {loss}")
    return _best(allowed, surface.share, -surface.coverage)


def _best(allowed: Tensor, first: Tensor, second: Tensor) -> tuple[int, int]:
    """The allowed point with the least (first, second, lam, -gamma)."""
    *_, i, negated = min(
        (first[i, j].item(), second[i, j].item(), i, -j) for i, j in allowed.nonzero().tolist()
    )
    return i, -negated


def plateau(
    surface: Surface,
    lam: Sequence[float],
    gamma: Sequence[float],
    budget: float,
    slack: float = SLACK,
) -> Plateau:
    """The points within the budget whose coverage is at most `slack` below the best.

    Raises:
        ValueError: no point is within the budget.
    """
    best = surface.coverage[most_coverage(surface, budget)]
    close = ((surface.share <= budget) & (surface.coverage >= best - slack)).nonzero().tolist()
    lams, gammas = [lam[i] for i, _ in close], [gamma[j] for _, j in close]
    ranges = (min(lams), max(lams)), (min(gammas), max(gammas))
    return Plateau(len(close), surface.coverage.numel(), *ranges)


def is_at_end(value: float, values: Sequence[float], least: float = -math.inf) -> bool:
    """Whether the best of some values is their first or last, so that a better may lie beyond.

    Args:
        value: the best.
        values: what it was chosen from; of a single one it was not chosen.
        least: a value with nothing below it, such as 0 for lam.
    """
    first, last = min(values), max(values)
    return first < last and (value == last or (value == first and first > least))


def pareto(chunks: Tensor, value: Tensor) -> list[tuple[float, float]]:
    """The points that no other beats in both: (chunks, value), in order of chunks."""
    points = sorted(zip(chunks.flatten().tolist(), (-value).flatten().tolist(), strict=True))
    front: list[tuple[float, float]] = []
    for size, negated in points:
        if not front or -negated > front[-1][1]:
            front.append((size, -negated))
    return front
