"""SCAR at every point of a grid of lam and gamma, from what is gathered once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.api.arguments import as_numbers
from scar_gpu.types import ParameterSweep

_parameter_sweep = torch.ops.scar_gpu.parameter_sweep.default


def parameter_sweep(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: Sequence[float],
    gamma: Sequence[float],
    *,
    contiguous: bool = False,
) -> ParameterSweep:
    """Count what SCAR retrieves, and what of the gold that covers, for a whole grid in one pass.

    A piece of gold is a range of rows of which any one will do, with a weight in each of M
    measures. A gold chunk is a piece of one row of weight 1 / |gold chunks|, and the covered
    weight is the chunk recall; a stretch of evidence that two chunks repeat is a piece of both.

        chunks[q, l, g]     = |expansion of q at lam[l], gamma[g]|
        covered[q, m, l, g] = sum over the pieces p that hold a row of it of gold_weights[q, p, m]

    On the CPU S and gamma * relevance are compared in float32 exactly as `neighbor_scores` compares
    them, so the counts are those of `scar_expand`. A GPU gives the same counts as the CPU for the
    same inputs; `neighbor_scores` rounds S once there, not twice, so the two may part where S is
    within a rounding of its threshold.

    Args:
        hits: [B, K] int32 or int64 rows, best first, -1 for padding.
        relevance: [B, K] float32, cos(q, c), from `neighbor_scores`.
        neighbor_relevance: [B, K, 2W] float32, cos(q, n): the scores of `neighbor_scores` at
            lam = 0.
        continuity: [B, K, 2W] float32, cos(c, n), NaN where there is no neighbour.
        gold_ranges: [B, P, 2] int64, half-open ranges of rows; an empty one is padding.
        gold_weights: [B, P, M] float64.
        lam: L host floats >= 0, in any order.
        gamma: G host floats, in any order.
        contiguous: let a direction stop at its first refusal.

    Returns:
        ParameterSweep(chunks [B, L, G], covered [B, M, L, G]).

    Raises:
        TypeError: wrong types or dtypes; lam or gamma are no sequences of floats.
        ValueError: wrong shapes or devices; an empty grid; a lam that is negative, a lam or gamma
            that is not finite.
        IndexError: on the CPU, a hit below -1.

    Example:
        Hit 4 with cos(q, c) = 0.5 and neighbours 3 and 5. Without a penalty their scores are 0.45
        and 0.3, against 0.4 and 0.25; row 5 is the gold:

        >>> import torch, scar_gpu
        >>> scar_gpu.parameter_sweep(
        ...     torch.tensor([[4]]), torch.tensor([[0.5]]), torch.tensor([[[0.45, 0.3]]]),
        ...     torch.tensor([[[0.9, 0.9]]]), torch.tensor([[[5, 6]]]),
        ...     torch.ones(1, 1, 1, dtype=torch.float64), lam=[0.0], gamma=[0.8, 0.5])
        ParameterSweep(chunks=tensor([[[2, 3]]], dtype=torch.int32), covered=tensor([[[[0., 1.]]]]))
    """
    if type(contiguous) is not bool:
        checks.check_bool("contiguous", contiguous)
    arguments = (
        hits,
        relevance,
        neighbor_relevance,
        continuity,
        gold_ranges,
        gold_weights,
        as_numbers("lam", lam),
        as_numbers("gamma", gamma),
        contiguous,
    )
    try:
        return ParameterSweep(*_parameter_sweep(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.parameter_sweep, *arguments) from None
