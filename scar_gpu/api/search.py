"""Exact search for the rows of highest cosine, and a check of any retriever's hits."""

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.types import Expansion, Hits, NeighborScores, SearchExpansion

_search = torch.ops.scar_gpu.search.default
_search_expand = torch.ops.scar_gpu.search_expand.default


def search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    *,
    row_scale: Tensor | None = None,
    row_ranges: Tensor | None = None,
    min_scores: Tensor | None = None,
) -> Hits:
    """Find the k rows of highest cosine, exactly.

    Ordered by score, then by smaller id; the first 3 of k = 10 are the result of k = 3. A row
    whose score is NaN is never returned: a NaN or infinite query yields padding only, a zero query
    rows 0..k-1.

    Args:
        queries: [B, D], any supported float dtype and strides; normalised inside.
        embeddings: [N, D], any supported float dtype, last dimension contiguous.
        k: results per query, >= 1; more than N pads.
        row_scale: [N] float32 from `row_scale`. **None means unit rows.**
        row_ranges: [B, 2] int64, half-open ranges of rows that each query is restricted to.
        min_scores: [B] float32, a least score for each query; rows below it are not returned.
            NaN and -inf cut nothing off.

    Returns:
        Hits(ids [B, k] int64, scores [B, k] float32), padded with -1 and -inf.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; k < 1.
        IndexError: on the CPU, a range outside [0, N].
        MemoryError: on the CPU, results larger than the machine's memory.

    Example:
        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> scar_gpu.search(torch.tensor([[0.0, 2.0]]), rows, 2)
        Hits(ids=tensor([[2, 1]]), scores=tensor([[1.0000, 0.8000]]))
    """
    if type(k) is not int:
        checks.check_at_least("k", k, 1)
    arguments = (queries, embeddings, k, row_scale, row_ranges, min_scores)
    if k > checks.WIDE:
        operation_checks.search(*arguments)
        checks.check_fits("k", k, queries, k, 12)
    try:
        return Hits(*_search(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.search, *arguments) from None


def search_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    k: int,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    row_ranges: Tensor | None = None,
    min_scores: Tensor | None = None,
    order: str = "rank",
) -> SearchExpansion:
    """Find the k rows of highest cosine and decide which of their neighbours join them.

    Bit for bit `search`, then `neighbor_scores` and `expand` of what it found, in one call.
    `row_ranges` restricts the hits alone: a hit at the end of its range may bring in the row
    behind it.

    Args:
        queries: [B, D], any supported float dtype and strides; normalised inside.
        embeddings: [N, D], any supported float dtype, last dimension contiguous.
        continuity: [W, N] float32, from `continuity`; its height is the window.
        k: results per query, >= 1; more than N pads.
        lam: weight of the continuity penalty, >= 0.
        gamma: share of the hit's relevance that a neighbour must exceed.
        contiguous: let a direction stop at its first refusal.
        row_scale: [N] float32 from `row_scale`. **None means unit rows.**
        row_ranges: [B, 2] int64, half-open ranges of rows that each query's hits come from.
        min_scores: [B] float32, a least score for each query's hits, as for `search`; neighbours
            may score less.
        order: "rank" or "document", as for `expand`.

    Returns:
        SearchExpansion(hits, neighbors, expansion), the results of the three operations with
        K = k and M = k * (2W + 1).

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; k < 1; lam negative; lam or gamma not finite; unknown
            order.
        IndexError: on the CPU, a range outside [0, N].
        MemoryError: on the CPU, results larger than the machine's memory.

    Source:
        SCAR, arXiv 2606.16661.

    Example:
        Row 0 is the best and brings in row 1, with S = 0.956 > 0.8 as at `neighbor_scores`:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]])
        >>> table = scar_gpu.continuity(rows, torch.tensor([0, 3]))
        >>> found = scar_gpu.search_expand(rows[:1], rows, table, 1)
        >>> found.hits.ids, found.expansion.ids
        (tensor([[0]]), tensor([[ 0,  1, -1]]))
    """
    if type(k) is not int:
        checks.check_at_least("k", k, 1)
    if type(lam) is not float or type(gamma) is not float or type(contiguous) is not bool:
        checks.check_judgement(lam, gamma, contiguous)
    arguments = (
        queries,
        embeddings,
        continuity,
        k,
        lam,
        gamma,
        contiguous,
        row_scale,
        row_ranges,
        min_scores,
        checks.is_document_order(order),
    )
    if k > checks.WIDE:
        operation_checks.search_expand(*arguments)
        checks.check_fits("k", k, queries, k, 32 + 42 * continuity.shape[0])
    try:
        results = _search_expand(*arguments)
    except Exception as error:
        raise checks.explain(error, operation_checks.search_expand, *arguments) from None
    return SearchExpansion(
        Hits(*results[:2]), NeighborScores(*results[2:5]), Expansion(*results[5:])
    )


def check_hits(hits: Tensor, n_chunks: int) -> None:
    """Raise IndexError for the first id outside [-1, n_chunks); waits for the device.

    The operations refuse such ids on the CPU by themselves; on a GPU they treat them as padding,
    because looking would stall the stream.

    Args:
        hits: [B, K] int32 or int64.
        n_chunks: N, the number of rows.

    Returns:
        None.

    Raises:
        TypeError: hits is not an integer tensor.
        ValueError: hits is not two-dimensional; n_chunks < 0.
        IndexError: names row, column, value and limit.

    Example:
        >>> import torch, scar_gpu
        >>> scar_gpu.check_hits(torch.tensor([[0, 3]]), 3)
        Traceback (most recent call last):
        IndexError: hits[0, 1] must be -1 or in [0, 3), got 3
    """
    checks.check_tensor("hits", hits, checks.ID_DTYPES, ("B", "K"))
    checks.check_at_least("n_chunks", n_chunks, 0)
    outside = ((hits < -1) | (hits >= n_chunks)).nonzero()
    if outside.shape[0]:
        row, column = outside[0].tolist()
        checks.fail(
            IndexError,
            f"hits[{row}, {column}]",
            f"be -1 or in [0, {n_chunks})",
            int(hits[row, column]),
        )
