"""Canonical scores of groups of rows, and the exact scan of `search` on the GPU."""

import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.dot import cosines, query_scale, stride_unit
from scar_gpu.kernels.launch import warp_size
from scar_gpu.kernels.search_filter import row_range
from scar_gpu.kernels.search_select import HIGHEST, LOWEST, pack, position_of, score_of

# queries, embeddings, row_scale, row_ranges
Inputs = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
# maxima, units, margins, floors of the filter; or four times None
Found = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


@triton.jit
def group_keys(
    query_ptr, column_stride, scale, embeddings_ptr, row_stride, row_scale_ptr, first, begin, end,
    GROUP: tl.constexpr, ROW_UNIT: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """The keys [GROUP] of the canonical scores of the rows from `first` on, within [begin, end)."""
    members = first + tl.arange(0, GROUP)
    scores = tl.zeros([GROUP], tl.float32)
    for i in tl.range(0, GROUP, 2):  # two rows in flight
        rows = (first + i, first + i + 1)
        is_row = ((rows[0] >= begin) & (rows[0] < end), (rows[1] >= begin) & (rows[1] < end))
        cosine = cosines(
            query_ptr, column_stride, scale, begin < end, embeddings_ptr, row_stride,
            row_scale_ptr, rows, is_row, ROW_UNIT, DIM, LANES, UNROLL,
        )  # fmt: skip
        scores = tl.where(members == rows[0], cosine[0], scores)
        scores = tl.where(members == rows[1], cosine[1], scores)
    is_member = (members >= begin) & (members < end)
    return tl.where(is_member, pack(scores, members), LOWEST)


@triton.jit(do_not_specialize=["n_chunks", "n_chosen", "query_stride", "row_stride"])
def _rescore_kernel(
    queries_ptr, embeddings_ptr, row_scale_ptr, row_ranges_ptr, chosen_ptr, units_ptr,
    margins_ptr, keys_ptr, n_chunks: tl.int64, n_chosen,
    query_stride: tl.int64, column_stride, row_stride: tl.int64,
    GROUP: tl.constexpr, QUERY_UNIT: tl.constexpr, ROW_UNIT: tl.constexpr,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The keys of all rows of the chosen groups.

    A score that differs from its product by more than the margin shows that the margin is wrong:
    rows are not unit vectors times row_scale. The query's margin becomes inf, which proves nothing.

    One program takes one group of one query. Grid: (B * n_chosen,). Bytes, with R those of a row:
    GROUP * (R + 12) + 8, and the query twice for every two rows, from cache.
    """
    entry = tl.program_id(0).to(tl.int64)
    query = (tl.program_id(0) // n_chosen).to(tl.int64)
    key = tl.load(chosen_ptr + query * (n_chosen.to(tl.int64) + 1) + tl.program_id(0) % n_chosen)
    begin, end = row_range(row_ranges_ptr, query, True, n_chunks)
    end = tl.where(key == LOWEST, begin, end)
    query_ptr = queries_ptr + query * query_stride * QUERY_UNIT
    scale = query_scale(query_ptr, column_stride, begin < end, DIM, LANES)
    keys = group_keys(
        query_ptr, column_stride, scale, embeddings_ptr, row_stride, row_scale_ptr,
        position_of(key) * GROUP, begin, end, GROUP, ROW_UNIT, DIM, LANES, UNROLL,
    )  # fmt: skip
    tl.store(keys_ptr + entry * GROUP + tl.arange(0, GROUP), keys)
    product = score_of(key)
    difference = tl.abs(score_of(tl.max(keys, axis=0)) - product * tl.load(units_ptr + query))
    is_right = (difference <= tl.load(margins_ptr + query)) | (product == float("inf"))
    # Whoever writes, writes the same.
    tl.store(margins_ptr + query, float("inf"), mask=(key != LOWEST) & ~is_right)


@triton.jit
def _insert(list_ptr, length, k, GROUP: tl.constexpr):
    """Merge the GROUP keys behind a descending list of at most k into it; its new length.

    The list moves from its end on, so that nothing is overwritten before it is read.
    """
    new_ptr = list_ptr + k
    new = tl.load(new_ptr + tl.arange(0, GROUP))
    is_new = new != LOWEST
    count = tl.sum(is_new.to(tl.int32), axis=0)
    if count > 0:
        place = tl.zeros([GROUP], tl.int32)
        for i in tl.range(0, GROUP):
            place += (tl.load(new_ptr + i) > new).to(tl.int32)
        n_blocks = tl.cdiv(length, GROUP)
        for block in tl.range(0, n_blocks):
            first = (n_blocks - 1 - block).to(tl.int64) * GROUP
            index = first + tl.arange(0, GROUP)
            is_old = index < length
            old = tl.load(list_ptr + index, mask=is_old, other=LOWEST)
            old_place = index
            for i in tl.range(0, GROUP):
                old_place += (tl.load(new_ptr + i) > old).to(tl.int64)
                one = tl.load(list_ptr + first + i, mask=first + i < length, other=LOWEST)
                place += (one > new).to(tl.int32)
            tl.debug_barrier()
            tl.store(list_ptr + old_place, old, mask=is_old & (old_place < k))
        tl.store(list_ptr + place, new, mask=is_new & (place < k))
        tl.debug_barrier()  # read by other threads from here on
    return tl.minimum(k, length + count)


@triton.jit(
    do_not_specialize=["n_chunks", "n_groups", "n_slices", "k", "query_stride", "row_stride"]
)
def _scan_kernel(
    queries_ptr, embeddings_ptr, row_scale_ptr, row_ranges_ptr,
    maxima_ptr, units_ptr, margins_ptr, floors_ptr, lists_ptr,
    n_chunks: tl.int64, n_groups: tl.int64, n_slices, k,
    query_stride: tl.int64, column_stride, row_stride: tl.int64,
    GROUP: tl.constexpr, QUERY_UNIT: tl.constexpr, ROW_UNIT: tl.constexpr,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The k best keys of a slice of the rows that the query may return, best first.

    Given maxima, a query whose result is proven exits at once, and groups whose maximum plus
    margin stays below the k-th score found so far are passed over.

    One program takes one slice for one query. Grid: (B * n_slices,). Bytes per slice of n rows of
    R: n * (R + 4) + 8 * k, and the list again for every group that has a row for it.
    """
    program = tl.program_id(0).to(tl.int64)
    query = (tl.program_id(0) // n_slices).to(tl.int64)
    part = (tl.program_id(0) % n_slices).to(tl.int64)
    list_ptr = lists_ptr + program * (k.to(tl.int64) + GROUP)
    begin, end = row_range(row_ranges_ptr, query, True, n_chunks)
    floor = tl.full([], LOWEST, tl.int64)
    if floors_ptr is not None:
        floor = tl.load(floors_ptr + query)
        unit = tl.load(units_ptr + query)
        margin = tl.load(margins_ptr + query)
    is_open = floor != HIGHEST
    end = tl.where(is_open, end, begin)
    query_ptr = queries_ptr + query * query_stride * QUERY_UNIT
    scale = query_scale(query_ptr, column_stride, begin < end, DIM, LANES)
    first_group = begin // GROUP
    last_group = tl.where(begin < end, (end + GROUP - 1) // GROUP, first_group)
    size = (last_group - first_group + n_slices - 1) // n_slices
    first_group += part * size
    length = 0
    for group in tl.range(first_group, tl.minimum(first_group + size, last_group)):
        is_wanted = is_open
        if maxima_ptr is not None:
            maximum = tl.load(maxima_ptr + query * n_groups + group)
            is_wanted = ~(maximum * unit + margin < score_of(floor))  # NaN proves nothing
        if is_wanted:
            keys = group_keys(
                query_ptr, column_stride, scale, embeddings_ptr, row_stride, row_scale_ptr,
                group * GROUP, begin, end, GROUP, ROW_UNIT, DIM, LANES, UNROLL,
            )  # fmt: skip
            tl.store(list_ptr + k + tl.arange(0, GROUP), tl.where(keys > floor, keys, LOWEST))
            tl.debug_barrier()  # other threads read the list and the keys
            length = _insert(list_ptr, length, k, GROUP)
            kth = tl.load(list_ptr + k - 1, mask=length == k, other=LOWEST)
            floor = tl.maximum(floor, kth)
    for first in tl.range(length, tl.where(is_open, k, 0), GROUP):
        place = first + tl.arange(0, GROUP)
        tl.store(list_ptr + place, LOWEST, mask=place < k)


@triton.jit(do_not_specialize=["n_slices", "k", "n_steps"])
def _merge_kernel(
    lists_ptr, floors_ptr, ids_ptr, scores_ptr, n_slices, k, n_steps,
    GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Put the entries of sorted lists at their places in the result: the count of larger keys.

    One program places one of the n_slices lists of one query. Grid: (B * n_slices,). Bytes per
    list: 8 * k read, 12 for each of its results written; from cache, n_slices * log2(k) * 8 for
    each entry.
    """
    program = tl.program_id(0).to(tl.int64)
    query = (tl.program_id(0) // n_slices).to(tl.int64)
    lists = query * n_slices
    width = k.to(tl.int64) + GROUP  # of a list and the room behind it
    end = k
    if floors_ptr is not None:
        end = tl.where(tl.load(floors_ptr + query) == HIGHEST, 0, k)
    for first in tl.range(0, end, BLOCK):
        index = first + tl.arange(0, BLOCK)
        own = tl.load(lists_ptr + program * width + index, mask=index < k, other=LOWEST)
        place = tl.zeros([BLOCK], tl.int32)
        for other in tl.range(0, n_slices):
            other_ptr = lists_ptr + (lists + other) * width
            low = tl.zeros([BLOCK], tl.int32)
            high = low + k
            for _ in tl.range(0, n_steps):  # keys before low are larger, those from high on not
                middle = (low + high) // 2
                key = tl.load(other_ptr + middle, mask=low < high, other=LOWEST)
                is_larger = key > own
                low = tl.where(is_larger, middle + 1, low)
                high = tl.where(is_larger, high, middle)
            place += low
        is_hit = (own != LOWEST) & (place < k)
        entry = query * k + place
        tl.store(ids_ptr + entry, position_of(own), mask=is_hit)
        tl.store(scores_ptr + entry, score_of(own), mask=is_hit)


def launch_rescore(
    inputs: Inputs,
    chosen: Tensor,
    units: Tensor,
    margins: Tensor,
    group: int,
    config: dict[str, int],
) -> Tensor:
    """[B, n_chosen, group] keys of the rows of the chosen groups; the last one is left out.

    Margins that turn out to be wrong are set to inf.
    """
    queries, embeddings = inputs[:2]
    n_queries, n_chosen = chosen.shape[0], chosen.shape[1] - 1
    keys = chosen.new_empty((n_queries, n_chosen, group))
    query_unit, row_unit = stride_unit(queries), stride_unit(embeddings)
    _rescore_kernel[(n_queries * n_chosen,)](
        *inputs, chosen, units, margins, keys, embeddings.shape[0], n_chosen,
        queries.stride(0) // query_unit, queries.stride(1), embeddings.stride(0) // row_unit,
        GROUP=group, QUERY_UNIT=query_unit, ROW_UNIT=row_unit, **config,
    )  # fmt: skip
    return keys


def launch_scan(
    inputs: Inputs,
    found: Found,
    results: tuple[Tensor, Tensor],
    group: int,
    n_slices: int,
    config: dict[str, int],
) -> None:
    """Write ids and scores of all queries, or of those whose result is not proven."""
    queries, embeddings = inputs[:2]
    n_queries, k = results[0].shape
    n_chunks = embeddings.shape[0]
    lists = results[0].new_empty((n_queries, n_slices, k + group))
    query_unit, row_unit = stride_unit(queries), stride_unit(embeddings)
    if warp_size() == 32:
        config = config | {"maxnreg": 80}  # some need a few less than the compiler would take
    _scan_kernel[(n_queries * n_slices,)](
        *inputs, *found, lists, n_chunks, triton.cdiv(n_chunks, group), n_slices, k,
        queries.stride(0) // query_unit, queries.stride(1), embeddings.stride(0) // row_unit,
        GROUP=group, QUERY_UNIT=query_unit, ROW_UNIT=row_unit, **config,
    )  # fmt: skip
    _merge_kernel[(n_queries * n_slices,)](
        lists, found[3], *results, n_slices, k, k.bit_length(),
        GROUP=group, BLOCK=32, num_warps=1,
    )  # fmt: skip
