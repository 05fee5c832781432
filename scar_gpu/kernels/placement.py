"""Writing a query's entries without holes: compaction, ascending rows, padding.

Entries are columns of several results, handled together as tuples of pointers to the first entry
of a query.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


def default_config(width: int, warp_size: int, largest: int = 1024) -> dict[str, int]:
    """One entry per thread; beyond the largest block, a program goes through several.

    More entries per thread spill registers; blocks above 256 spill scalar registers on CDNA.
    """
    largest = largest if warp_size == 32 else 256
    block = min(largest, max(warp_size, triton.next_power_of_2(width)))
    return {"BLOCK": block, "num_warps": block // warp_size}


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
    """Write the kept lanes of `values` [BLOCK] behind the first `length` entries.

    Returns the new length.
    """
    place = length + tl.cumsum(is_kept.to(tl.int32), axis=0) - 1
    for i in tl.static_range(len(column_ptrs)):
        tl.store(column_ptrs[i] + place, values[i], mask=is_kept)
    return length + tl.sum(is_kept.to(tl.int32), axis=0)


@triton.jit
def pad(column_ptrs, fills, first, length, end, BLOCK: tl.constexpr):
    """Fill entries `first` up to `end` that lie beyond `length`."""
    for start in tl.range(first, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        is_free = (place >= length) & (place < end)
        for i in tl.static_range(len(column_ptrs)):
            tl.store(column_ptrs[i] + place, fills[i], mask=is_free)


@triton.jit
def sort_block(source_ptrs, column_ptrs, first, length, BLOCK: tl.constexpr):
    """Copy entries `first` up to `first + BLOCK` to their places in ascending order of row.

    The rows, in the first column, are distinct, and an entry's place is the count of smaller ones:
    `length` comparisons per entry, but nothing to exchange. A block that holds all entries may
    sort in place.
    """
    index = first + tl.arange(0, BLOCK)
    is_entry = index < length
    rows = tl.load(source_ptrs[0] + index, mask=is_entry, other=0)
    place = tl.zeros([BLOCK], tl.int32)
    for other in tl.range(0, length):
        place += (tl.load(source_ptrs[0] + other) < rows).to(tl.int32)
    values = (rows,)
    for i in tl.static_range(1, len(source_ptrs)):
        values += (tl.load(source_ptrs[i] + index, mask=is_entry, other=0),)
    tl.debug_barrier()  # everything is read before anything is overwritten
    for i in tl.static_range(len(column_ptrs)):
        tl.store(column_ptrs[i] + place, values[i], mask=is_entry)


@triton.jit(do_not_specialize=["width", "n_blocks"])
def _sort_kernel(
    ranked_ids_ptr, ranked_scores_ptr, ranked_anchors_ptr, ids_ptr, scores_ptr, anchors_ptr,
    lengths_ptr, width, n_blocks, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program places one block of one query's entries. Grid: (B * n_blocks,).

    Useful bytes: 16 read and written per entry; requested: 8 more per pair of an entry and a
    block, from cache.
    """
    query = (tl.program_id(0) // n_blocks).to(tl.int64)
    first = (tl.program_id(0) % n_blocks).to(tl.int64) * BLOCK
    entry = query * width
    ranked = (ranked_ids_ptr + entry, ranked_scores_ptr + entry, ranked_anchors_ptr + entry)
    columns = (ids_ptr + entry, scores_ptr + entry, anchors_ptr + entry)
    length = tl.load(lengths_ptr + query)
    sort_block(ranked, columns, first, length, BLOCK)
    pad(columns, (-1, -float("inf"), -1), first, length, tl.minimum(first + BLOCK, width), BLOCK)


def launch_sort(
    ranked: tuple[Tensor, ...], columns: tuple[Tensor, ...], lengths: Tensor, config: dict[str, int]
) -> None:
    """Copy (ids, scores, anchors) [B, M] in rank order into `columns` in ascending order of row."""
    n_queries, width = columns[0].shape
    n_blocks = triton.cdiv(width, config["BLOCK"])
    _sort_kernel[(n_queries * n_blocks,)](*ranked, *columns, lengths, width, n_blocks, **config)
