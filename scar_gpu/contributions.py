"""What an entry of a ranking adds to its document's score, as integers.

Integers add up to the same sum in any order, so every backend gives the same bits and documents
with equal sets of contributions tie exactly.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from scar_gpu import checks

FRACTION_BITS = 44
LARGEST_ID = 2**62
# Sums stay below this, far from the end of int64.
_LARGEST_SUM = 2**62


class Contributions(NamedTuple):
    """The integers of every list and rank, and what turns their sums into scores.

    table: [L, R] int64 on the CPU; column r stands for rank r + 1.
    used: whether each list counts at all.
    scale: a power of two; score = float32(sum) * scale.
    """

    table: Tensor
    used: list[bool]
    scale: float


def of_weights(
    n_lists: int, n_ranks: int, k: float, weights: Sequence[float] | None
) -> Contributions:
    """round(w / (k + rank) * 2**44), with the weights scaled so that the largest is in [1, 2)."""
    values = [1.0] * n_lists if weights is None else [float(weight) for weight in weights]
    shift = _shift(max(values))
    scaled = torch.tensor([math.ldexp(value, shift) for value in values], dtype=torch.float64)
    ranks = torch.arange(1, n_ranks + 1, dtype=torch.float64)
    return _rounded(scaled[:, None] / (k + ranks), [value > 0 for value in values], shift)


def of_table(contributions: Tensor) -> Contributions:
    """round(c * 2**44), with the table scaled so that the largest entry is in [1, 2)."""
    bad = (~(contributions.isfinite() & (contributions >= 0))).nonzero()
    if bad.shape[0]:
        row, column = bad[0].tolist()
        name = f"contributions[{row}, {column}]"
        checks.fail(ValueError, name, "be >= 0 and finite", contributions[row, column].item())
    shift = _shift(contributions.max().item() if contributions.numel() else 0.0)
    # Twice, since one power of two may be too large for a float64.
    scaled = contributions * math.ldexp(1.0, shift // 2) * math.ldexp(1.0, shift - shift // 2)
    return _rounded(scaled, (contributions > 0).any(1).tolist(), shift)


def check_sums(contributions: Contributions, lengths: Sequence[int], are_ranks_given: bool) -> None:
    """Refuse lists whose repeated ids could add up beyond int64."""
    largest = 0
    for row, length in zip(contributions.table, lengths, strict=True):
        if are_ranks_given:
            largest += length * (int(row.max()) if row.numel() else 0)
        else:
            largest += sum(row[:length].tolist())
    if largest >= _LARGEST_SUM:
        rule = f"add up to less than 2**{_LARGEST_SUM.bit_length() - 1} with duplicates='sum'"
        checks.fail(ValueError, "contributions", rule, f"up to {largest}")


def _shift(largest: float) -> int:
    """The power of two that brings a positive number into [1, 2)."""
    return 1 - math.frexp(largest)[1] if largest > 0 else 0


def _rounded(scaled: Tensor, used: list[bool], shift: int) -> Contributions:
    table = (scaled * 2.0**FRACTION_BITS).round().long()
    return Contributions(table, used, math.ldexp(1.0, -shift - FRACTION_BITS))
