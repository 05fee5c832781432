"""The canonical dot product: one order of summation for every kernel of one dimension and dtype.

A row is cut into slices of LANES columns. Lane l adds the products of its column of every slice
with fused multiply-adds, slice by slice; the lanes are then added in neighbouring pairs, again and
again, until one number is left. The order is spelled out in the program, so it does not depend on
how the compiler lays the lanes out over threads: any number of warps gives the same bits.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LOAD_BYTES = 16  # the widest load of one thread


def dot_config(dim: int, dtype: torch.dtype, warp_size: int) -> dict[str, int]:
    """The blocks of the canonical dot product over rows of `dim` columns."""
    lanes = warp_size * (LOAD_BYTES // dtype.itemsize)  # one widest load per thread and slice
    # Up to 2 KiB of each row in flight: enough to cover latency, few enough for the registers.
    unroll = min(128 // warp_size, triton.cdiv(dim, lanes))
    return {"DIM": dim, "LANES": lanes, "UNROLL": max(1, unroll)}


def stride_unit(matrix: Tensor) -> int:
    """What divides the row stride, so that rows can be read with the widest loads.

    Of an argument the compiler knows only whether 16 divides it. Kernels take the stride divided
    by this unit, a constexpr, and multiply inside.
    """
    entries = LOAD_BYTES // matrix.dtype.itemsize
    return entries if matrix.stride(0) % entries == 0 else 1


@triton.constexpr_function
def _half_log(dim):
    """The smallest i with 4**i >= dim."""
    return (max(dim, 1) - 1).bit_length() + 1 >> 1


@triton.jit
def add_pairs(lanes, SIZE: tl.constexpr):
    """The sum of `lanes` [SIZE] over a binary tree of neighbouring pairs."""
    for level in tl.static_range(1, 16):
        if SIZE >> level > 1:
            # [SIZE >> level, 2]: two addends commute, so no layout can change the sum
            lanes = tl.sum(tl.reshape(lanes, [SIZE >> level, 2]), axis=1)
    return tl.sum(lanes, axis=0)


@triton.jit
def load_query(query_ptr, columns, stride, is_used, DIM: tl.constexpr):
    """The query's entries at `columns` [LANES] as float32, 0 beyond its end."""
    query_ptrs = query_ptr + columns.to(tl.int64) * stride
    return tl.load(query_ptrs, mask=is_used & (columns < DIM), other=0).to(tl.float32)


@triton.jit
def query_scale(query_ptr, stride, is_used, DIM: tl.constexpr, LANES: tl.constexpr):
    """Two powers of two that bring the query's length between 1 / (2 * sqrt(DIM)) and 2, exactly.

    Its squares then neither overflow nor vanish, nor do its products with any row whose inverse
    length is a normal float32. Two factors, one after the other, because the smallest queries need
    more than the largest power, and the largest ones less than the smallest.
    """
    largest = tl.zeros([LANES], tl.float32)
    for first in tl.range(0, DIM, LANES):
        columns = first + tl.arange(0, LANES)
        query = load_query(query_ptr, columns, stride, is_used, DIM)
        largest = tl.maximum(largest, tl.abs(query))
    largest = tl.max(largest, axis=0)
    first = tl.where(largest < 2.0**-64, 2.0**64, tl.where(largest > 2.0**64, 2.0**-64, 1.0))
    exponent = ((largest * first).to(tl.int32, bitcast=True) >> 23) & 255
    # The largest entry goes below 2 / sqrt(DIM).
    half_log: tl.constexpr = _half_log(DIM)
    second = (tl.maximum(254 - half_log - exponent, 1) << 23).to(tl.float32, bitcast=True)
    return first, second


@triton.jit
def split_scale(row_scale):
    """(power of two, rest) whose product is row_scale; a row times the power has a length near 1.

    Nothing is rounded. Where row_scale itself is at an end of float32 the rest makes up for it.
    """
    exponent = row_scale.to(tl.int32, bitcast=True) & 0x7F800000
    exponent = tl.minimum(tl.maximum(exponent, 0x00800000), 0x7E800000)  # 2^-126 to 2^126
    inverse = (0x7F000000 - exponent).to(tl.float32, bitcast=True)
    return exponent.to(tl.float32, bitcast=True), row_scale * inverse


@triton.jit
def dots(
    query_ptr, stride, scale, is_used, row_ptrs, is_row, row_powers,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """(<q, q>, <q, row> for each of `row_ptrs`) where q is the query times both of `scale`.

    Rows are multiplied by `row_powers` if there are any. Rows whose `is_row` is False are not read
    and give 0.
    """
    sums = (tl.zeros([LANES], tl.float32),)
    for _ in tl.static_range(len(row_ptrs)):
        sums += (tl.zeros([LANES], tl.float32),)
    for first in tl.range(0, DIM, LANES * UNROLL):
        for step in tl.static_range(UNROLL):
            columns = first + step * LANES + tl.arange(0, LANES)
            query = load_query(query_ptr, columns, stride, is_used, DIM)
            query = query * scale[0] * scale[1]
            grown = (tl.fma(query, query, sums[0]),)
            for i in tl.static_range(len(row_ptrs)):
                row = tl.load(row_ptrs[i] + columns, mask=is_row[i] & (columns < DIM), other=0)
                row = row.to(tl.float32)
                if len(row_powers) > 0:
                    row *= row_powers[i]
                grown += (tl.fma(query, row, sums[i + 1]),)
            sums = grown
    totals = (add_pairs(sums[0], LANES),)
    for i in tl.static_range(len(row_ptrs)):
        totals += (add_pairs(sums[i + 1], LANES),)
    return totals


@triton.jit
def cosines(
    query_ptr, stride, scale, is_used, embeddings_ptr, row_stride, row_scale_ptr, rows, is_row,
    ROW_UNIT: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """cos(q, e_row) for each of `rows`: dot product, times row_scale, times 1/|q|.

    A zero query has cosine 0 with every row, a NaN or infinite one has NaN.
    """
    row_ptrs = ()
    for i in tl.static_range(len(rows)):
        row_ptrs += (embeddings_ptr + tl.cast(rows[i], tl.int64) * row_stride * ROW_UNIT,)
    totals = dots(query_ptr, stride, scale, is_used, row_ptrs, is_row, (), DIM, LANES, UNROLL)
    norm = tl.sqrt_rn(totals[0])
    inverse = tl.where(norm == 0, 0.0, tl.div_rn(1.0, norm))
    results = ()
    for i in tl.static_range(len(rows)):
        dot = totals[i + 1]
        if row_scale_ptr is not None:
            dot = dot * tl.load(row_scale_ptr + rows[i], mask=is_row[i], other=0)
        results += (dot * inverse,)
    return results
