"""Fuse rankings by reciprocal rank."""

from collections.abc import Sequence

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.api.arguments import as_lists, as_numbers
from scar_gpu.types import Fusion

_rank_fusion = torch.ops.scar_gpu.rank_fusion.default


def rank_fusion(
    rankings: Sequence[Tensor] | Tensor,
    *,
    k: float = 60.0,
    weights: Sequence[float] | None = None,
    top_n: int | None = None,
    duplicates: str = "first",
    ranks: Sequence[Tensor] | Tensor | None = None,
    contributions: Tensor | None = None,
    details: bool = False,
) -> Fusion:
    """Fuse the rankings of several retrievers into one, by reciprocal rank.

        score(d) = sum over the lists l that hold d of weight_l / (k + rank of d in l)

    Ranks count from 1. Results are ordered by score, then by the best single rank, then by the
    earliest list that gives that rank, then by smaller id. Contributions are integers, units of
    2**-44 of the power of two below the largest weight, so the result is the same to the bit on
    every device and in any order of the lists, and documents with equal sets of (weight, rank)
    tie exactly.

    A score is not a probability: with weights of 1 it lies in (0, L / (k + 1)], about 0.03 for
    two lists. `weights=[(k + 1) / L] * L` gives 1 to what is first everywhere.

    On a GPU the first call with other lengths, k or weights copies a table to the device: make one
    before capturing a CUDA graph.

    Args:
        rankings: one [B, K_l] int32 or int64 tensor of ids per list, best first, or one
            [L, B, K]. -1 is padding and keeps its position; other ids are in [0, 2**62].
        k: in (0, 1e6]; the larger, the less the top ranks stand out.
        weights: one host float >= 0 per list, default 1. A list of weight 0 is ignored.
        top_n: results per query; default: all, T = the sum of the K_l.
        duplicates: "first" = an id repeated in one list counts once, at its best rank;
            "sum" = every time, for parity with systems that add.
        ranks: ranks from 1 to use instead of positions, in the shapes of `rankings`, for example
            of `scores_to_ranks`. At most the longest K_l, or the columns of `contributions`.
        contributions: [L, R] float64 >= 0 on the CPU, what rank r of list l adds in column r - 1,
            in place of the formula (and of k and weights); see `scar_gpu.presets`. A list whose
            row is 0 throughout is ignored.
        details: also return where each document was found.

    Returns:
        Fusion(ids [B, T], scores [B, T], lengths [B], best_list [B, T], best_rank [B, T],
        ranks [B, T, L]), the last three None without `details`. Padded with -1 and -inf; T is
        top_n, however few documents there are.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: no list; lists of different B or devices; weights that are negative, not
            finite, or not one per list; k or top_n out of range; contributions negative or too
            few, or given together with k or weights; unknown duplicates.
        IndexError: on the CPU, an id outside [-1, 2**62], or a rank outside [1, R]. On a GPU such
            an entry is padding.
        MemoryError: on the CPU, results larger than the machine's memory.

    Source:
        Cormack, Clarke and Buettcher, Reciprocal Rank Fusion outperforms Condorcet and individual
        Rank Learning Methods, SIGIR 2009.

    Example:
        Document 7 is second and first, 1 / 62 + 1 / 61 = 0.0325; document 5 first, 1 / 61:

        >>> import torch, scar_gpu
        >>> fused = scar_gpu.rank_fusion([torch.tensor([[5, 7]]), torch.tensor([[7, -1, 9]])])
        >>> fused.ids, fused.lengths
        (tensor([[ 7,  5,  9, -1, -1]]), tensor([3], dtype=torch.int32))
        >>> fused.scores
        tensor([[0.0325, 0.0164, 0.0159,   -inf,   -inf]])
    """
    if contributions is not None and (weights is not None or k != 60.0):
        rule = "not be given together with k or weights"
        checks.fail(ValueError, "contributions", rule, f"k={k}, weights={weights}")
    if duplicates not in ("first", "sum"):
        checks.fail(ValueError, "duplicates", "be 'first' or 'sum'", repr(duplicates))
    if type(k) is not float:
        checks.check_rank_constant("k", k)
    if top_n is not None and type(top_n) is not int:
        checks.check_at_least("top_n", top_n, 1)
    lists = as_lists("rankings", rankings)
    if type(details) is not bool:
        checks.check_bool("details", details)
    arguments = (
        lists,
        None if ranks is None else as_lists("ranks", ranks),
        k,
        None if weights is None else as_numbers("weights", weights),
        contributions,
        top_n,
        duplicates == "sum",
        details,
    )
    if top_n is not None and top_n > checks.WIDE:
        operation_checks.rank_fusion(*arguments)
        checks.check_fits("top_n", top_n, lists[0], top_n, 12)
    try:
        return Fusion(*_rank_fusion(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.rank_fusion, *arguments) from None


def scores_to_ranks(scores: Tensor) -> Tensor:
    """Rank scores as in a competition: equal scores share the best rank.

    For `rank_fusion(ranks=...)`: where many documents have one and the same score, their positions
    are arbitrary, and so would be what they contribute.

    Args:
        scores: [B, K], or [L, B, K], any float dtype, higher is better, in any order. NaN ranks
            with -inf.

    Returns:
        int32 ranks from 1 of the same shape.

    Raises:
        TypeError: scores is not a tensor of floats.
        ValueError: scores has no dimension.

    Example:
        >>> import torch, scar_gpu
        >>> scar_gpu.scores_to_ranks(torch.tensor([[9.0, 7.0, 7.0, 5.0]]))
        tensor([[1, 2, 2, 4]], dtype=torch.int32)
    """
    if not isinstance(scores, Tensor):
        checks.fail(TypeError, "scores", "be a torch.Tensor", type(scores).__name__)
    if not scores.is_floating_point():
        checks.fail(TypeError, "scores", "be floating-point", scores.dtype)
    if scores.dim() == 0:
        checks.fail(ValueError, "scores", "have at least one dimension", "none")
    if scores.numel() == 0:
        return torch.empty_like(scores, dtype=torch.int32)
    scores = scores.detach()
    scores = torch.where(scores.isnan(), -torch.inf, scores)
    values, order = scores.sort(-1, descending=True)
    position = torch.arange(1, scores.shape[-1] + 1, dtype=torch.int32, device=scores.device)
    starts_rank = torch.ones_like(values, dtype=torch.bool)
    starts_rank[..., 1:] = values[..., 1:] != values[..., :-1]
    ranks = torch.where(starts_rank, position, 0).cummax(-1).values
    return torch.empty_like(ranks).scatter_(-1, order, ranks)
