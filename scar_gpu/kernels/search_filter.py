"""The filter of `search` on the GPU: a matrix product that keeps one number per group of rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.dot import dot_config, load_query, query_scale, stride_unit
from scar_gpu.kernels.launch import warp_size


def product_error(dim: int) -> float:
    """How far a product of unit vectors may be from its canonical score.

    Each of the two is within dim * 2^-24 of the exact sum in round-to-nearest arithmetic. Tensor
    cores cut off instead, by 2^-23 of the largest number at hand, for each of 16 products and for
    the sum they are added to: dim * 17 / 16 * 2^-23, twice the last part for queries in two parts.
    """
    return (1.25 * dim + 16) * 2.0**-23


def default_config(n_queries: int, dtype: torch.dtype, warp_size: int) -> dict[str, int]:
    """Tiles of the product: tensor cores for half precision, fused multiply-adds for float32."""
    if dtype == torch.float32:
        blocks = {"BLOCK_Q": 64, "BLOCK_N": 64, "num_warps": 4}
    else:  # up to 64 queries, reading the rows is what costs
        blocks = {"BLOCK_Q": 64 if n_queries <= 64 else 128, "BLOCK_N": 128, "num_warps": 8}
    # 64 KiB of shared memory on CDNA hold two tiles in flight, not three.
    stages = 3 if warp_size == 32 else 2
    return blocks | {"BLOCK_D": tile_columns(dtype), "num_stages": stages}


def tile_columns(dtype: torch.dtype) -> int:
    """Columns of a tile: 128 bytes of a row."""
    return 128 // dtype.itemsize


def query_parts(queries: torch.dtype, embeddings: torch.dtype) -> int:
    """Into how many numbers of the rows' dtype an entry of a query is split.

    Two parts double the product. Eight bits of bfloat16 alone would let many rows through; eleven
    of float16 let a few through, which is cheaper.
    """
    return 2 if embeddings == torch.bfloat16 and queries != torch.bfloat16 else 1


def query_bytes(dim: int, queries: torch.dtype, embeddings: torch.dtype) -> int:
    """Bytes of a prepared query."""
    return query_parts(queries, embeddings) * padded(dim, embeddings) * embeddings.itemsize


def padded(dim: int, dtype: torch.dtype) -> int:
    """Entries of one part of a prepared query: whole tiles."""
    return triton.cdiv(dim, tile_columns(dtype)) * tile_columns(dtype)


@triton.jit(do_not_specialize=["query_stride", "column_stride"])
def _prepare_kernel(
    queries_ptr, prepared_ptr, units_ptr, margins_ptr, error,
    query_stride: tl.int64, column_stride: tl.int64,
    PARTS: tl.constexpr, SIZE: tl.constexpr, QUERY_UNIT: tl.constexpr,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """A query in the rows' dtype, and what its products say about its cosines.

    prepared[b] = PARTS vectors of SIZE entries (zeros beyond DIM) whose sum is a power of two
    times the query but for rounding; |product * units[b] - cosine| <= margins[b] = error + the
    size of that rounding. A zero query has 0 and 0, a NaN or infinite one NaN and NaN.

    One program takes one query. Grid: (B,). Bytes: D * 4 read, PARTS * D * 2 or 4 written.
    """
    query_id = tl.program_id(0).to(tl.int64)
    query_ptr = queries_ptr + query_id * query_stride * QUERY_UNIT
    dtype = prepared_ptr.dtype.element_ty
    scale = query_scale(query_ptr, column_stride, True, DIM, LANES)
    # float16 has no room below 2^-14: the length comes near 2^12.
    boost: tl.constexpr = 2.0**12 if dtype == tl.float16 else 1.0
    squares = tl.zeros([LANES], tl.float32)
    lost = tl.zeros([LANES], tl.float32)
    for first in tl.range(0, SIZE, LANES):
        columns = first + tl.arange(0, LANES)
        rest = load_query(query_ptr, columns, column_stride, True, DIM)
        rest = rest * scale[0] * scale[1] * boost
        squares += rest * rest
        for part in tl.static_range(PARTS):
            rounded = rest.to(dtype)
            out_ptr = prepared_ptr + (query_id * PARTS + part) * SIZE
            tl.store(out_ptr + columns, rounded, mask=columns < SIZE)
            rest -= rounded.to(tl.float32)
        lost += rest * rest
    norm = tl.sqrt_rn(tl.sum(squares, axis=0))
    unit = tl.where(norm == 0, 0.0, tl.div_rn(1.0, norm))
    unit = tl.where(norm < float("inf"), unit, float("nan"))
    # The hundredth is for the rounding of the two norms.
    margin = error + 1.01 * tl.sqrt_rn(tl.sum(lost, axis=0)) * unit
    tl.store(units_ptr + query_id, unit)
    tl.store(margins_ptr + query_id, tl.where(unit == 0, 0.0, margin))


@triton.jit
def row_range(row_ranges_ptr, query, is_query, n_chunks):
    """The half-open range of rows that each query may return."""
    begin = query * 0
    end = begin + n_chunks
    if row_ranges_ptr is not None:
        begin = tl.maximum(tl.load(row_ranges_ptr + query * 2, mask=is_query, other=0), 0)
        last = tl.load(row_ranges_ptr + query * 2 + 1, mask=is_query, other=0)
        end = tl.minimum(last, end)
    return begin, end


@triton.jit(do_not_specialize=["n_queries", "n_chunks", "n_groups", "row_stride"])
def _filter_kernel(
    prepared_ptr, embeddings_ptr, row_scale_ptr, row_ranges_ptr, maxima_ptr,
    n_queries, n_chunks: tl.int64, n_groups: tl.int64, row_stride: tl.int64,
    PARTS: tl.constexpr, SIZE: tl.constexpr, GROUP: tl.constexpr, ROW_UNIT: tl.constexpr,
    DIM: tl.constexpr, UPCAST: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """maxima[b, g] = the largest <q_b, e_i> * row_scale[i] of the rows i of group g.

    Rows that the query may not return do not count; -inf when none does. A product that proves
    nothing (NaN, infinite, of a row too small for its float32) counts as +inf.

    One program takes BLOCK_Q queries and BLOCK_N rows. Grid: (B / BLOCK_Q * N / BLOCK_N,), queries
    side by side, so that they share the rows in cache. Bytes, with R those of a row:

        useful     N * (R + 4) + B * SIZE * PARTS * 2 or 4 + B * N / GROUP * 4
        requested  N * R for every BLOCK_Q queries, and the queries for every BLOCK_N rows
    """
    n_tiles = tl.cdiv(n_queries, BLOCK_Q)
    query = (tl.program_id(0) % n_tiles).to(tl.int64) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    first_row = (tl.program_id(0) // n_tiles).to(tl.int64) * BLOCK_N
    members = tl.arange(0, BLOCK_N)
    columns = tl.arange(0, BLOCK_D)
    # Beyond the end the last row is read again: fewer registers than a mask. Numbers of 32 bits
    # within the tile are fewer registers, too.
    near = tl.minimum(members, tl.minimum(n_chunks - 1 - first_row, BLOCK_N).to(tl.int32))
    row_ptrs = embeddings_ptr + first_row * row_stride * ROW_UNIT
    row_ptrs += (near.to(tl.int64) * row_stride * ROW_UNIT)[:, None] + columns[None, :]
    query_ptrs = tl.minimum(query, n_queries - 1) * (PARTS * SIZE)
    query_ptrs = prepared_ptr + query_ptrs[:, None] + columns[None, :]
    products = tl.zeros([BLOCK_Q, BLOCK_N], tl.float32)
    for first in tl.range(0, SIZE, BLOCK_D):
        if DIM == SIZE:
            tile = tl.load(row_ptrs + first)  # [BLOCK_N, BLOCK_D]
        else:
            tile = tl.load(row_ptrs + first, mask=(first + columns < DIM)[None, :], other=0)
        if UPCAST:
            tile = tile.to(tl.float32)
        for part in tl.static_range(PARTS):
            queries = tl.load(query_ptrs + (first + part * SIZE))  # [BLOCK_Q, BLOCK_D]
            if UPCAST:
                queries = queries.to(tl.float32)
            products = tl.dot(queries, tile.T, products, input_precision="ieee")

    if row_scale_ptr is not None:
        is_row = members < n_chunks - first_row
        scale = tl.load(row_scale_ptr + first_row + members, mask=is_row, other=0)
        products = products * tl.where(scale < 2.0**80, scale, float("inf"))[None, :]
    products = tl.where(tl.abs(products) < float("inf"), products, float("inf"))
    is_query = query < n_queries
    begin, end = row_range(row_ranges_ptr, query, is_query, n_chunks)
    begin = tl.minimum(tl.maximum(begin - first_row, 0), BLOCK_N).to(tl.int32)
    end = tl.minimum(tl.maximum(end - first_row, 0), BLOCK_N).to(tl.int32)
    is_inside = (members[None, :] >= begin[:, None]) & (members[None, :] < end[:, None])
    products = tl.where(is_inside, products, -float("inf"))
    maxima = tl.max(tl.reshape(products, [BLOCK_Q, BLOCK_N // GROUP, GROUP]), axis=2)
    groups = first_row // GROUP + tl.arange(0, BLOCK_N // GROUP)
    out_ptrs = maxima_ptr + (query * n_groups)[:, None] + groups[None, :]
    tl.store(out_ptrs, maxima, mask=is_query[:, None] & (groups < n_groups)[None, :])


def prepare_queries(
    queries: Tensor, dtype: torch.dtype, parts: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(prepared [B, parts, size], units [B], margins [B]) for rows of `dtype`."""
    n_queries, dim = queries.shape
    size = padded(dim, dtype)
    prepared = queries.new_empty((n_queries, parts, size), dtype=dtype)
    units, margins = (queries.new_empty(n_queries, dtype=torch.float32) for _ in range(2))
    unit = stride_unit(queries)
    _prepare_kernel[(n_queries,)](
        queries, prepared, units, margins, product_error(dim),
        queries.stride(0) // unit, queries.stride(1),
        PARTS=parts, SIZE=size, QUERY_UNIT=unit,
        **dot_config(dim, dtype, warp_size()), num_warps=1,
    )  # fmt: skip
    return prepared, units, margins


def launch_filter(
    queries: Tensor,
    embeddings: Tensor,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
    group: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """(maxima [B, ceil(N / group)], units [B], margins [B]), of B, N >= 1."""
    n_queries, dim = queries.shape
    n_chunks, dtype = embeddings.shape[0], embeddings.dtype
    n_groups = triton.cdiv(n_chunks, group)
    config = default_config(n_queries, dtype, warp_size())
    parts = query_parts(queries.dtype, dtype)
    prepared, units, margins = prepare_queries(queries, dtype, parts)
    size = prepared.shape[2]
    maxima = queries.new_empty((n_queries, n_groups), dtype=torch.float32)
    row_unit = stride_unit(embeddings)
    tiles = triton.cdiv(n_queries, config["BLOCK_Q"]) * triton.cdiv(n_chunks, config["BLOCK_N"])
    # The interpreter multiplies the bit patterns of bfloat16.
    upcast = triton.knobs.runtime.interpret and dtype == torch.bfloat16
    _filter_kernel[(tiles,)](
        prepared, embeddings, row_scale, row_ranges, maxima,
        n_queries, n_chunks, n_groups, embeddings.stride(0) // row_unit,
        PARTS=parts, SIZE=size, GROUP=group, ROW_UNIT=row_unit, DIM=dim, UPCAST=upcast, **config,
    )  # fmt: skip
    return maxima, units, margins
