"""The ranked lists of one query, brought together into scratch memory on the GPU.

A tensor holds one list, or several stacked. Its layout: the number of lists, their length, the
strides of the ids (list, query, position), those of the ranks. In scratch memory the entries of
all lists follow each other: `ids_ptr`, `ranks_ptr`, and where each list begins, `starts_ptr`.
"""

import triton
import triton.language as tl


@triton.jit
def _gather_list(ids_ptr, ranks_ptr, ids_source, ranks_source, layout, n_ranks,
                 HAS_RANKS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Copy one list; id -1 for padding and for entries whose id or rank is out of range."""
    largest: tl.constexpr = 2**62
    for begin in tl.range(0, layout[1], BLOCK):
        position = begin + tl.arange(0, BLOCK)
        is_entry = position < layout[1]
        place = position.to(tl.int64)
        ids = tl.load(ids_source + place * layout[4], mask=is_entry, other=-1).to(tl.int64)
        ids = tl.where((ids >= 0) & (ids <= largest), ids, -1)
        if HAS_RANKS:
            ranks = tl.load(ranks_source + place * layout[7], mask=is_entry, other=0).to(tl.int64)
            ids = tl.where((ranks >= 1) & (ranks <= n_ranks), ids, -1)
        else:
            ranks = place + 1
        tl.store(ids_ptr + position, ids, mask=is_entry)
        tl.store(ranks_ptr + position, ranks.to(tl.int32), mask=is_entry)


@triton.jit
def gather_lists(ids_ptr, ranks_ptr, starts_ptr, rankings, ranks, layouts, query, n_ranks,
                 HAS_RANKS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Copy a query's lists into scratch memory."""
    start = 0
    tl.store(starts_ptr, start)
    for i in tl.static_range(len(rankings)):
        for part in tl.range(0, layouts[i][0]):
            level = tl.cast(part, tl.int64)
            _gather_list(
                ids_ptr + start, ranks_ptr + start,
                rankings[i] + level * layouts[i][2] + query * layouts[i][3],
                ranks[i] + level * layouts[i][5] + query * layouts[i][6],
                layouts[i], n_ranks, HAS_RANKS, BLOCK,
            )  # fmt: skip
            start += layouts[i][1]
            tl.store(starts_ptr + i + part + 1, start)
    tl.debug_barrier()  # read by other threads from here on


@triton.jit
def find_in_list(own, ids_ptr, ranks_ptr, row_ptr, start, end, n_ranks, SUMS: tl.constexpr):
    """Where the ids `own` [BLOCK] occur in entries `start` to `end`: one list.

    Returns the best rank, n_ranks + 1 where absent; the first entry; and the contribution.
    """
    best = tl.zeros(own.shape, tl.int32) + (n_ranks + 1)
    first = tl.zeros(own.shape, tl.int32) + end
    total = tl.zeros(own.shape, tl.int64)
    for entry in tl.range(start, end):
        other = tl.load(ids_ptr + entry)
        rank = tl.load(ranks_ptr + entry)
        is_same = (own == other) & (other >= 0)
        best = tl.where(is_same, tl.minimum(best, rank), best)
        first = tl.where(is_same, tl.minimum(first, entry), first)
        if SUMS:
            contribution = tl.load(row_ptr + rank - 1, mask=other >= 0, other=0)
            total += tl.where(is_same, contribution, 0)
    if not SUMS:
        total = tl.load(row_ptr + best - 1, mask=best <= n_ranks, other=0)
    return best, first, total
