"""Writing a query's results without holes: compaction, order by row, padding.

A query's entries are columns of several outputs, handled together as a tuple of pointers to the
query's first element. One program owns all entries of its query.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


def empty_expansion(hits: Tensor, width: int) -> tuple[Tensor, ...]:
    """Uninitialised (ids, scores, anchors [B, width], lengths [B])."""
    n_queries = hits.shape[0]
    return (
        hits.new_empty((n_queries, width), dtype=torch.int64),
        hits.new_empty((n_queries, width), dtype=torch.float32),
        hits.new_empty((n_queries, width), dtype=torch.int32),
        hits.new_empty(n_queries, dtype=torch.int32),
    )


@triton.jit
def append(column_ptrs, values, is_kept, length):
    """Write the kept lanes of `values` [BLOCK] behind the first `length` entries; the new length."""
    place = length + tl.cumsum(is_kept.to(tl.int32), axis=0) - 1
    for i in tl.static_range(len(column_ptrs)):
        tl.store(column_ptrs[i] + place, values[i], mask=is_kept)
    return length + tl.sum(is_kept.to(tl.int32), axis=0)


@triton.jit
def pad(column_ptrs, fills, length, width, BLOCK: tl.constexpr):
    """Fill the columns from entry `length` up to `width`."""
    for first in tl.range(0, width, BLOCK):
        place = first + tl.arange(0, BLOCK)
        is_free = (place >= length) & (place < width)
        for i in tl.static_range(len(column_ptrs)):
            tl.store(column_ptrs[i] + place, fills[i], mask=is_free)


@triton.jit
def sort_by_row(source_ptrs, column_ptrs, length, BLOCK: tl.constexpr):
    """Copy the entries into ascending order of their first column, whose numbers are distinct.

    An entry's place is the count of smaller rows: `length` comparisons per entry, no network of
    exchanges to compile. Source and destination may be the same where one block holds all.
    """
    tl.debug_barrier()  # the source was written by other threads
    for first in tl.range(0, length, BLOCK):
        index = first + tl.arange(0, BLOCK)
        is_entry = index < length
        rows = tl.load(source_ptrs[0] + index, mask=is_entry, other=0)
        place = tl.zeros([BLOCK], tl.int32)
        for other in tl.range(0, length):
            place += (tl.load(source_ptrs[0] + other) < rows).to(tl.int32)
        values = (rows,)
        for i in tl.static_range(1, len(source_ptrs)):
            values += (tl.load(source_ptrs[i] + index, mask=is_entry, other=0),)
        tl.debug_barrier()  # everything is read before it is overwritten
        for i in tl.static_range(len(column_ptrs)):
            tl.store(column_ptrs[i] + place, values[i], mask=is_entry)
