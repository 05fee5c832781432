"""The public operations on raw tensors.

B queries, K hits per query, N chunks of D dimensions, W rows of window on either side. Embeddings
and queries may be float32, float16 or bfloat16; ids int32 or int64; -1 is padding. Results have
static shapes, are never views of an input, and carry no gradient. On the CPU an id outside
[-1, N) raises IndexError; on a GPU it counts as padding (`check_hits` looks on request).
"""

import torch
from torch import Tensor

from scar_gpu import checks
from scar_gpu.types import Expansion, Hits, NeighborScores, Spans

_ops = torch.ops.scar_gpu
_row_scale = _ops.row_scale.default
_continuity = _ops.continuity.default
_neighbor_scores = _ops.neighbor_scores.default
_expand = _ops.expand.default
_scar_expand = _ops.scar_expand.default
_window_expand = _ops.window_expand.default
_spans = _ops.spans.default
_search = _ops.search.default


def row_scale(embeddings: Tensor) -> Tensor:
    """Compute 1 / |e_i| of every stored row, the factor that turns dot products into cosines.

    The norm is taken in float64 of the row as stored, so a half-precision matrix loses nothing to
    normalisation.

    Args:
        embeddings: [N, D] float32, float16 or bfloat16, last dimension contiguous.

    Returns:
        [N] float32; 0 for a zero row, whose cosine with anything is then 0.

    Raises:
        TypeError: embeddings is not a tensor of a supported dtype.
        ValueError: embeddings has another rank, or a strided last dimension.

    Example:
        |(3, 4)| = 5:

        >>> import torch, scar_gpu
        >>> scar_gpu.row_scale(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([0.2000, 0.0000])
    """
    try:
        return _row_scale(embeddings)
    except Exception as error:
        raise checks.explain(error, checks.row_scale, embeddings) from None


def continuity(
    embeddings: Tensor, doc_offsets: Tensor, *, window: int = 1, row_scale: Tensor | None = None
) -> Tensor:
    """Compute the cosine of every chunk with the `window` chunks after it in its document.

    continuity[j - 1, i] = cos(e_i, e_{i+j}), clamped to [-1, 1]. Computed once per index, it is
    both SCAR's penalty and its test for the end of a document.

    Args:
        embeddings: [N, D] float32, float16 or bfloat16; chunks of one document are consecutive.
        doc_offsets: [num_docs + 1] int64, non-decreasing from 0 to N: document d owns rows
            doc_offsets[d] up to, not including, doc_offsets[d + 1]. Empty documents are legal.
        window: W >= 0, the largest distance.
        row_scale: [N] float32 from `row_scale`. **None means that the rows have unit length
            already**; rows that do not then give dot products, not cosines.

    Returns:
        [W, N] float32, NaN where i + j lies outside the document of i.

    Raises:
        TypeError: wrong dtypes.
        ValueError: wrong shapes or devices; window < 0; on the CPU, doc_offsets that do not rise
            from 0 to N.

    Example:
        Two documents of two and one chunks, cos((1, 0), (0.6, 0.8)) = 0.6:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> scar_gpu.continuity(rows, torch.tensor([0, 2, 3]))
        tensor([[0.6000,    nan,    nan]])
    """
    arguments = (embeddings, doc_offsets, window, row_scale)
    try:
        return _continuity(*arguments)
    except Exception as error:
        raise checks.explain(error, checks.continuity, *arguments) from None


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
        TypeError: wrong dtypes.
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
        raise checks.explain(error, checks.neighbor_scores, *arguments) from None


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
    arguments = (hits, *neighbor_scores, checks.is_document_order(order))
    try:
        return Expansion(*_expand(*arguments))
    except Exception as error:
        raise checks.explain(error, checks.expand, *arguments) from None


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
        TypeError: wrong dtypes.
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
        raise checks.explain(error, checks.scar_expand, *arguments) from None


def window_expand(
    hits: Tensor, doc_offsets: Tensor, *, before: int = 1, after: int = 1, order: str = "rank"
) -> Expansion:
    """Add every chunk within a fixed distance of a hit: the static window baseline.

    A row reached by several hits goes to the best-ranked one. before = after = 0 gives the hits
    back, without repeats.

    Args:
        hits: [B, K] int32 or int64 rows, best first, -1 for padding.
        doc_offsets: [num_docs + 1] int64, as for `continuity`; windows end with the document.
        before: rows to add before every hit, >= 0.
        after: rows to add after every hit, >= 0.
        order: "rank" or "document", as for `expand`.

    Returns:
        Expansion(ids, scores, anchors [B, M], lengths [B]) with M = K * (before + after + 1);
        every score is 0.

    Raises:
        TypeError: wrong dtypes.
        ValueError: wrong shapes or devices; before or after negative; unknown order; on the CPU,
            doc_offsets that do not rise from 0.
        IndexError: on the CPU, a hit outside [-1, N).

    Example:
        Hits c and a of one document a, b, c, d:

        >>> import torch, scar_gpu
        >>> scar_gpu.window_expand(torch.tensor([[2, 0]]), torch.tensor([0, 4])).ids
        tensor([[ 1,  2,  3,  0, -1, -1]])
    """
    arguments = (hits, doc_offsets, before, after, checks.is_document_order(order))
    try:
        return Expansion(*_window_expand(*arguments))
    except Exception as error:
        raise checks.explain(error, checks.window_expand, *arguments) from None


def spans(expansion: Expansion, doc_offsets: Tensor) -> Spans:
    """Join the rows of an expansion into maximal runs within one document.

    A span takes the place of its row that comes first in the expansion, whatever the order of the
    expansion; `first` is that row's position, where score, anchor and rank can be read.

    Args:
        expansion: its ids [B, M] are read; repeats and padding are skipped.
        doc_offsets: [num_docs + 1] int64, as for `continuity`.

    Returns:
        Spans(start, end, first [B, M], lengths [B]): half-open row ranges.

    Raises:
        TypeError: wrong dtypes.
        ValueError: wrong shapes or devices; on the CPU, doc_offsets that do not rise from 0.
        IndexError: on the CPU, a row outside [-1, N).

    Example:
        Rows 5, 1, 2 with a document boundary between 4 and 5:

        >>> import torch, scar_gpu
        >>> bounds = torch.tensor([0, 5, 9])
        >>> hits = torch.tensor([[5, 1, 2]])
        >>> found = scar_gpu.spans(scar_gpu.window_expand(hits, bounds, before=0, after=0), bounds)
        >>> found.start, found.end
        (tensor([[ 5,  1, -1]]), tensor([[ 6,  3, -1]]))
    """
    try:
        return Spans(*_spans(expansion.ids, doc_offsets))
    except Exception as error:
        raise checks.explain(error, checks.spans, expansion.ids, doc_offsets) from None


def search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    *,
    row_scale: Tensor | None = None,
    row_ranges: Tensor | None = None,
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

    Returns:
        Hits(ids [B, k] int64, scores [B, k] float32), padded with -1 and -inf.

    Raises:
        TypeError: wrong dtypes.
        ValueError: wrong shapes or devices; k < 1.
        IndexError: on the CPU, a range outside [0, N].

    Example:
        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> scar_gpu.search(torch.tensor([[0.0, 2.0]]), rows, 2)
        Hits(ids=tensor([[2, 1]]), scores=tensor([[1.0000, 0.8000]]))
    """
    arguments = (queries, embeddings, k, row_scale, row_ranges)
    try:
        return Hits(*_search(*arguments))
    except Exception as error:
        raise checks.explain(error, checks.search, *arguments) from None


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
