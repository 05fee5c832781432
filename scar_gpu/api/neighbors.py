"""SCAR: judge the neighbours of hits, and unite what is admitted."""

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.types import Expansion, NeighborScores

_neighbor_scores = torch.ops.scar_gpu.neighbor_scores.default
_expand = torch.ops.scar_gpu.expand.default
_scar_expand = torch.ops.scar_gpu.scar_expand.default


def neighbor_scores(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    relevance: Tensor | None = None,
) -> NeighborScores:
    """Judge, for every hit, which of the W chunks on either side belong in the context.

    For a query q, a hit c and its neighbour n:

        S(c, n) = cos(q, n) - lam * (1 - cos(c, n)),    admitted when S > gamma * cos(q, c)

    Every offset is judged on its own. With a negative relevance and gamma < 1 the threshold lies
    above the relevance itself, so "a larger gamma never admits more" holds for hits of relevance
    >= 0 only. A zero query has relevance 0 everywhere and admits nothing; a NaN or infinite one
    has relevance NaN and admits nothing.

    Args:
        queries: [B, D], any supported float dtype and strides; normalised inside.
        embeddings: [N, D], any supported float dtype, last dimension contiguous.
        continuity: [W, N] float32, from `continuity`; its height is the window.
        hits: [B, K] int32 or int64 rows, best first, -1 for padding.
        lam: weight of the continuity penalty, >= 0.
        gamma: share of the hit's relevance that a neighbour must exceed.
        contiguous: let a direction stop at its first refusal (the mask changes, S does not).
        row_scale: [N] float32 from `row_scale`. **None means unit rows.**
        relevance: [B, K] float32, cos(q, c) where it is already known; saves reading row c.

    Returns:
        NeighborScores(relevance [B, K], scores [B, K, 2W], mask [B, K, 2W]), offsets in the order
        -W..-1, 1..W. Outside the document and for padding: scores -inf, mask False; for padding
        also relevance -inf.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; lam negative; lam or gamma not finite.
        IndexError: on the CPU, a hit outside [-1, N).

    Source:
        SCAR, arXiv 2606.16661.

    Example:
        cos(q, c) = 1, cos(q, n) = cos(c, n) = 0.96, S = 0.96 - 0.1 * 0.04 = 0.956 > 0.8:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]])
        >>> table = scar_gpu.continuity(rows, torch.tensor([0, 3]))
        >>> judged = scar_gpu.neighbor_scores(rows[:1], rows, table, torch.tensor([[0]]))
        >>> judged.scores, judged.mask
        (tensor([[[  -inf, 0.9560]]]), tensor([[[False,  True]]]))
    """
    if type(lam) is not float or type(gamma) is not float or type(contiguous) is not bool:
        checks.check_judgement(lam, gamma, contiguous)
    arguments = (
        queries,
        embeddings,
        continuity,
        hits,
        lam,
        gamma,
        contiguous,
        row_scale,
        relevance,
    )
    try:
        return NeighborScores(*_neighbor_scores(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.neighbor_scores, *arguments) from None


def expand(hits: Tensor, neighbor_scores: NeighborScores, *, order: str = "rank") -> Expansion:
    """Unite the hits and their admitted neighbours, each row once.

    A row that is a hit keeps its own relevance and is its own anchor (a repeated hit counts once,
    at its first position). A neighbour admitted by several hits takes the one with the higher S,
    then the better rank. A hit is padding when its id is negative or its relevance -inf.

    Args:
        hits: [B, K] int32 or int64 rows, best first, -1 for padding.
        neighbor_scores: what `neighbor_scores` returned for these hits.
        order: "rank" = hit by hit, each with its own neighbours around it in reading order;
            "document" = ascending row number.

    Returns:
        Expansion(ids, scores, anchors [B, M], lengths [B]) with M = K * (2W + 1).

    Raises:
        TypeError: wrong dtypes.
        ValueError: wrong shapes or devices, or an unknown order.

    Example:
        Row 1 is the only hit and brings in row 2:

        >>> import torch, scar_gpu
        >>> judged = scar_gpu.NeighborScores(
        ...     torch.tensor([[0.9]]),
        ...     torch.tensor([[[0.5, 0.8]]]),
        ...     torch.tensor([[[False, True]]]),
        ... )
        >>> scar_gpu.expand(torch.tensor([[1]]), judged).ids
        tensor([[ 1,  2, -1]])
    """
    checks.check_result("neighbor_scores", neighbor_scores, NeighborScores)
    arguments = (hits, *neighbor_scores, checks.is_document_order(order))
    try:
        return Expansion(*_expand(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.expand, *arguments) from None


def scar_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    relevance: Tensor | None = None,
    order: str = "rank",
) -> Expansion:
    """Judge the neighbours of the hits and unite what is admitted: SCAR in one call.

    Bit for bit `expand(hits, neighbor_scores(...))`, without its intermediate tensors.

    Args:
        queries: [B, D], as for `neighbor_scores`, like the following.
        embeddings: [N, D].
        continuity: [W, N] float32.
        hits: [B, K] int32 or int64 rows, best first, -1 for padding.
        lam: weight of the continuity penalty, >= 0.
        gamma: share of the hit's relevance that a neighbour must exceed.
        contiguous: let a direction stop at its first refusal.
        row_scale: [N] float32. **None means unit rows.**
        relevance: [B, K] float32 where already known.
        order: "rank" or "document", as for `expand`.

    Returns:
        Expansion(ids, scores, anchors [B, M], lengths [B]) with M = K * (2W + 1).

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; lam negative; lam or gamma not finite; unknown order.
        IndexError: on the CPU, a hit outside [-1, N).

    Source:
        SCAR, arXiv 2606.16661.

    Example:
        Row 1 is admitted with S = 0.956 > 0.8, as computed at `neighbor_scores`:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]])
        >>> table = scar_gpu.continuity(rows, torch.tensor([0, 3]))
        >>> scar_gpu.scar_expand(rows[:1], rows, table, torch.tensor([[0]])).ids
        tensor([[ 0,  1, -1]])
    """
    if type(lam) is not float or type(gamma) is not float or type(contiguous) is not bool:
        checks.check_judgement(lam, gamma, contiguous)
    arguments = (
        queries,
        embeddings,
        continuity,
        hits,
        lam,
        gamma,
        contiguous,
        row_scale,
        relevance,
        checks.is_document_order(order),
    )
    try:
        return Expansion(*_scar_expand(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.scar_expand, *arguments) from None
