"""Intervals of means by bootstrap, and paired differences with their effect size."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

RESAMPLES = 10_000
SEED = 0
_CONFIDENCE = 0.95
_ROUNDING = 1e-12
# Entries of the block of counts that is in memory at a time: 32 MiB.
_BLOCK = 1 << 22


class Estimate(NamedTuple):
    """A mean with the borders of its 95 % interval."""

    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """The mean of paired differences, its interval, and Cohen's d: mean over deviation."""

    mean: float
    low: float
    high: float
    d: float


def resampled_means(values: Tensor, n: int = RESAMPLES, seed: int = SEED) -> Tensor:
    """Means of samples drawn with replacement, as many as there are units.

    A resample is a row of counts, so all means are one matrix product; every column sees the same
    resamples, which makes their differences paired.

    Args:
        values: [U, C] one row per unit: a question, or the means of a whole document.
        n: number of resamples, >= 1.
        seed: the same seed gives the same resamples for the same U.

    Returns:
        [n, C] float64.

    Raises:
        ValueError: no unit, values that are not finite, or n < 1.

    Example:
        >>> resampled_means(torch.tensor([[2.0], [2.0]]), n=1)
        tensor([[2.]], dtype=torch.float64)
    """
    if values.ndim != 2 or values.shape[0] == 0:
        raise ValueError(f"values must have shape [U, C] with U >= 1, got {list(values.shape)}")
    if not bool(values.isfinite().all()):
        raise ValueError("values must be finite, got NaN or infinity")
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n}")
    n_units = values.shape[0]
    generator = np.random.default_rng(seed)
    numbers = values.double().numpy()
    means = np.empty((n, values.shape[1]))
    step = max(1, _BLOCK // n_units)
    for first in range(0, n, step):
        drawn = generator.integers(n_units, size=(min(step, n - first), n_units), dtype=np.int32)
        counts = np.empty(drawn.shape)
        for row, units in enumerate(drawn):
            counts[row] = np.bincount(units, minlength=n_units)
        np.matmul(counts, numbers, out=means[first : first + step])
    return torch.from_numpy(means / n_units)


def estimates(values: Tensor, n: int = RESAMPLES, seed: int = SEED) -> list[Estimate]:
    """The mean of every column with its interval; arguments as for `resampled_means`."""
    means = resampled_means(values, n, seed)
    return [
        Estimate(*numbers)
        for numbers in zip(values.double().mean(0).tolist(), *interval(means), strict=True)
    ]


def differences(
    values: Tensor, baseline: Tensor, n: int = RESAMPLES, seed: int = SEED
) -> list[Difference]:
    """The paired differences values - baseline of every column.

    Args:
        values: [U, C].
        baseline: [U, C] the same units of another method.
        n: as for `resampled_means`.
        seed: the same.

    Returns:
        Mean, interval and Cohen's d of the differences of every column: their mean over their
        standard deviation (with U - 1), 0 where they are all 0 and infinite where they are all
        the same otherwise.

    Raises:
        ValueError: two shapes, or what `resampled_means` refuses.
    """
    if values.shape != baseline.shape:
        raise ValueError(
            f"baseline must have shape {list(values.shape)}, got {list(baseline.shape)}"
        )
    paired = values.double() - baseline.double()
    found = estimates(paired, n, seed)
    spread = paired.std(0) if len(paired) > 1 else torch.zeros(paired.shape[1])
    return [
        Difference(*one, cohens_d(one.mean, deviation))
        for one, deviation in zip(found, spread.tolist(), strict=True)
    ]


def cohens_d(mean: float, deviation: float) -> float:
    """The effect size of paired differences: their mean over their standard deviation."""
    if mean == 0:
        return 0.0
    # The deviation of equal numbers may be a rounding of their mean instead of 0.
    if deviation <= _ROUNDING * abs(mean):
        return math.copysign(math.inf, mean)
    return mean / deviation


def interval(means: Tensor, confidence: float = _CONFIDENCE) -> tuple[list[float], list[float]]:
    """The borders of the central share of resampled means [n, C], by linear interpolation."""
    ordered = means.sort(0).values
    borders = []
    for share in ((1 - confidence) / 2, (1 + confidence) / 2):
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        borders.append(torch.lerp(ordered[below], ordered[above], place - below).tolist())
    return borders[0], borders[1]
