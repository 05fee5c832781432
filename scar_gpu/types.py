"""The results of the operations: NamedTuples of tensors with static, padded shapes."""

from typing import NamedTuple

from torch import Tensor


class NeighborScores(NamedTuple):
    """SCAR's judgement of the 2W neighbours of every hit, offsets in the order -W..-1, 1..W.

    relevance: [B, K] float32, cos(query, hit); -inf for a padding hit.
    scores: [B, K, 2W] float32, S(hit, neighbour); -inf outside the document and for padding.
    mask: [B, K, 2W] bool, True where the neighbour is admitted.
    """

    relevance: Tensor
    scores: Tensor
    mask: Tensor


class Expansion(NamedTuple):
    """The rows that make up each query's context, every row once.

    ids: [B, M] int64 row numbers, padded with -1.
    scores: [B, M] float32, relevance of a hit or S of a neighbour, padded with -inf.
    anchors: [B, M] int32, the position among the hits that brought the row in, padded with -1.
    lengths: [B] int32, entries in use.
    """

    ids: Tensor
    scores: Tensor
    anchors: Tensor
    lengths: Tensor


class Spans(NamedTuple):
    """Maximal runs of consecutive rows of one document, as half-open row ranges.

    start, end: [B, M] int64, padded with -1.
    first: [B, M] int32, position in the expansion of the span's earliest row, padded with -1.
    lengths: [B] int32, spans in use.
    """

    start: Tensor
    end: Tensor
    first: Tensor
    lengths: Tensor


class Hits(NamedTuple):
    """The k best rows of each query: score descending, then smaller id.

    ids: [B, k] int64 row numbers, padded with -1.
    scores: [B, k] float32 cosines, padded with -inf.
    """

    ids: Tensor
    scores: Tensor


class SearchExpansion(NamedTuple):
    """The k best rows of each query, the judgement of their neighbours, and the union of both."""

    hits: Hits
    neighbors: NeighborScores
    expansion: Expansion


class CorpusMasks(NamedTuple):
    """SCAR's decisions with every row of the corpus as the hit, 32 to a word.

    bits: [B, 2W, ceil(N / 32)] int32, offsets in the order -W..-1, 1..W. Bit c % 32 of word c // 32
        says whether the neighbour of row c is admitted; bits beyond row N - 1 are 0.
    relevance: [B, N] float32, cos(query, row), or None unless it was asked for.
    """

    bits: Tensor
    relevance: Tensor | None


class Fusion(NamedTuple):
    """The documents of several rankings, best first, every document once.

    ids: [B, T] int64, padded with -1.
    scores: [B, T] float32, padded with -inf.
    lengths: [B] int32, entries in use.
    best_list, best_rank: [B, T] int32, the list that ranks the document best and its rank there,
        padded with -1; None unless details were asked for.
    ranks: [B, T, L] int32, the document's rank in every list, 0 where it is absent and for
        padding; None unless details were asked for.
    """

    ids: Tensor
    scores: Tensor
    lengths: Tensor
    best_list: Tensor | None = None
    best_rank: Tensor | None = None
    ranks: Tensor | None = None


class ParameterSweep(NamedTuple):
    """The expansions of every query at every point of a grid of lam and gamma.

    chunks: [B, L, G] int32, distinct rows of the expansion.
    covered: [B, M, L, G] float32, summed weight of the pieces of gold that the expansion covers.
    """

    chunks: Tensor
    covered: Tensor
