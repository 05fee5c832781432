"""A query's entries in one of several ranked lists, on the GPU.

A tensor holds one list, or several stacked. Its layout: the number of lists, their length, the
strides of the ids (list, query, position), those of the ranks.
"""

import triton
import triton.language as tl


@triton.jit
def query_entries(ids_ptr, ranks_ptr, layout, query, part):
    """Where a query's entries of one list begin, and their ranks."""
    part = tl.cast(part, tl.int64)
    ids_ptr += part * layout[2] + query * layout[3]
    ranks_ptr += part * layout[5] + query * layout[6]
    return ids_ptr, ranks_ptr


@triton.jit
def load_entries(ids_ptr, ranks_ptr, layout, position, is_asked, n_ranks, HAS_RANKS: tl.constexpr):
    """(ids, ranks) at `position` of a list; id -1 for padding and whatever is out of range."""
    largest: tl.constexpr = 2**62
    position = tl.cast(position, tl.int64)
    ids = tl.load(ids_ptr + position * layout[4], mask=is_asked, other=-1).to(tl.int64)
    ids = tl.where((ids >= 0) & (ids <= largest), ids, -1)
    ranks = position + 1
    if HAS_RANKS:
        ranks_ptr += position * layout[7]
        ranks = tl.load(ranks_ptr, mask=is_asked, other=0).to(tl.int64)
        ids = tl.where((ranks >= 1) & (ranks <= n_ranks), ids, -1)
    return ids, ranks.to(tl.int32)


@triton.jit
def find_in_list(
    own, ids_ptr, ranks_ptr, layout, row_ptr, n_ranks, HAS_RANKS: tl.constexpr, SUMS: tl.constexpr
):
    """Where the ids `own` [BLOCK] occur in one list: (best rank, first position, contribution).

    The rank is n_ranks + 1 where an id does not occur.
    """
    best = tl.zeros(own.shape, tl.int32) + (n_ranks + 1)
    first = tl.full(own.shape, 2**30, tl.int32)
    total = tl.zeros(own.shape, tl.int64)
    for position in tl.range(0, layout[1]):
        other, rank = load_entries(ids_ptr, ranks_ptr, layout, position, True, n_ranks, HAS_RANKS)
        is_same = (own == other) & (other >= 0)
        best = tl.where(is_same, tl.minimum(best, rank), best)
        first = tl.where(is_same, tl.minimum(first, position), first)
        if SUMS:
            contribution = tl.load(row_ptr + rank - 1, mask=other >= 0, other=0)
            total += tl.where(is_same, contribution, 0)
    if not SUMS:
        total = tl.load(row_ptr + best - 1, mask=best <= n_ranks, other=0)
    return best, first, total
