"""SCAR's decision for every row of the corpus as the hit, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.dot import cosines, dot_config, query_scale, stride_unit
from scar_gpu.kernels.launch import warp_size
from scar_gpu.kernels.neighbor_scores import judge, launch_neighbor_scores
from scar_gpu.kernels.search_filter import default_config, prepare_queries

SCRATCH_BYTES = 256 * 2**20
MAX_QUERIES = 1024  # per pass
MIN_DIM = 32  # from here on 1.25 * dim + 16, a product's rounding, is within 2 * dim
SHORT_BLOCK = 256  # rows that one program looks through for short ones
SHORT_SLICES = 16  # programs that share the queries of short rows
WORDS = 4  # of a program: 128 decisions per offset, as many as it has threads


def query_parts(queries: torch.dtype, embeddings: torch.dtype) -> int:
    """Into how many numbers of the rows' dtype an entry of a query is split: all of its bits."""
    if embeddings == queries or embeddings == torch.float32:
        return 1
    return 3 if embeddings == torch.bfloat16 else 2


@triton.jit(do_not_specialize=["n_queries", "n_rows", "row_stride"])
def _corpus_cosines_kernel(
    prepared_ptr, units_ptr, embeddings_ptr, row_scale_ptr, cosines_ptr,
    n_queries, n_rows: tl.int64, row_stride: tl.int64,
    PARTS: tl.constexpr, SIZE: tl.constexpr, ROW_UNIT: tl.constexpr, DIM: tl.constexpr,
    UPCAST: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """cosines[b, i] = <q_b, e_i> * row_scale[i] / |q_b|, of a matrix product.

    One program takes BLOCK_Q queries and BLOCK_N rows. Grid: (B / BLOCK_Q * n / BLOCK_N,), queries
    side by side, so that they share the rows in cache. Bytes, with R those of a row: n * (R + 4)
    and B * PARTS * R read, B * n * 4 written; requested again for each block of the other.
    """
    n_tiles = tl.cdiv(n_queries, BLOCK_Q)
    query = (tl.program_id(0) % n_tiles).to(tl.int64) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    row = (tl.program_id(0) // n_tiles).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.arange(0, BLOCK_D)
    # Beyond the end the last one is read again: fewer registers than a mask.
    near = tl.minimum(row, n_rows - 1)
    row_ptrs = embeddings_ptr + (near * row_stride * ROW_UNIT)[:, None] + columns[None, :]
    query_ptrs = prepared_ptr + (tl.minimum(query, n_queries - 1) * (PARTS * SIZE))[:, None]
    query_ptrs += columns[None, :]
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
        products = products * tl.load(row_scale_ptr + near)[None, :]
    products = products * tl.load(units_ptr + tl.minimum(query, n_queries - 1))[:, None]
    out_ptrs = cosines_ptr + (query * n_rows)[:, None] + row[None, :]
    tl.store(out_ptrs, products, mask=(query < n_queries)[:, None] & (row < n_rows)[None, :])


@triton.jit(do_not_specialize=["n_queries", "n_rows", "query_stride", "row_stride"])
def _short_rows_kernel(
    queries_ptr, embeddings_ptr, row_scale_ptr, cosines_ptr,
    n_queries, n_rows: tl.int64, query_stride: tl.int64, column_stride, row_stride: tl.int64,
    QUERY_UNIT: tl.constexpr, ROW_UNIT: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr,
    UNROLL: tl.constexpr, BLOCK: tl.constexpr, SLICES: tl.constexpr,
):  # fmt: skip
    """cosines[b, i], canonical, of every row i shorter than 2^-80.

    Entries of its product may be subnormal, which matrix units may take for zeros: the filter of
    `search` lets such rows pass for the same reason.

    One program takes BLOCK rows, and every SLICES-th query with the short ones among them; most
    often there are none. Grid: (n / BLOCK, SLICES). Bytes: n * SLICES * 4 read.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    rows = first + tl.arange(0, BLOCK)
    scales = tl.load(row_scale_ptr + rows, mask=rows < n_rows, other=0)
    if tl.max(scales, axis=0) >= 2.0**80:
        for i in tl.range(0, BLOCK):
            row = first + i
            is_row = row < n_rows
            if tl.load(row_scale_ptr + row, mask=is_row, other=0) >= 2.0**80:
                for query in tl.range(tl.program_id(1), n_queries, SLICES):
                    number = tl.cast(query, tl.int64)
                    query_ptr = queries_ptr + number * query_stride * QUERY_UNIT
                    powers = query_scale(query_ptr, column_stride, is_row, DIM, LANES)
                    cosine = cosines(
                        query_ptr, column_stride, powers, is_row, embeddings_ptr, row_stride,
                        row_scale_ptr, (row,), (is_row,), ROW_UNIT, DIM, LANES, UNROLL,
                    )  # fmt: skip
                    tl.store(cosines_ptr + number * n_rows + row, cosine[0])


@triton.jit
def _pack(is_set):
    """[WORDS] int32 of [WORDS, 32] bits, the first one lowest."""
    lanes = tl.arange(0, 32)
    return tl.sum(is_set.to(tl.int32) << lanes[None, :], axis=1)


@triton.jit(do_not_specialize=["n_programs", "n_words", "n_chunks", "width", "table_stride"])
def _corpus_masks_kernel(
    cosines_ptr, continuity_ptr, bits_ptr, lam, gamma,
    n_programs, first_word: tl.int64, end_word: tl.int64, n_words: tl.int64,
    first_row: tl.int64, n_chunks: tl.int64, width: tl.int64, table_stride: tl.int64,
    WINDOW: tl.constexpr, CONTIGUOUS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """bits[b, o, w] = 32 decisions S = cos(q, n) - lam * (1 - cos(c, n)) > gamma * cos(q, c).

    cosines[b, i] is that of row first_row + i. One program takes WORDS words of one query at all
    offsets. Grid: (B * n_programs,). Bytes per row: 4 read and 2W / 8 written; (2W + 1) * 4 and
    2W * 4 of continuities requested, from cache.
    """
    query = (tl.program_id(0) // n_programs).to(tl.int64)
    word = first_word + (tl.program_id(0) % n_programs).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    row = word[:, None] * 32 + tl.arange(0, 32)[None, :]  # [WORDS, 32]
    is_row = (row < n_chunks) & (word < end_word)[:, None]
    cosine_ptrs = cosines_ptr + query * width + (row - first_row)
    threshold = gamma * tl.load(cosine_ptrs, mask=is_row, other=0)
    bits_ptr += query * (2 * WINDOW) * n_words
    keep_left = is_row
    keep_right = is_row
    for step in tl.range(1, WINDOW + 1):
        table_ptrs = continuity_ptr + (step - 1) * table_stride + row
        is_left = is_row & (row >= step)
        is_right = is_row & (row + step < n_chunks)
        left_cohesion = tl.load(table_ptrs - step, mask=is_left, other=float("nan"))
        right_cohesion = tl.load(table_ptrs, mask=is_right, other=float("nan"))
        left = tl.load(cosine_ptrs - step, mask=is_left, other=0)
        right = tl.load(cosine_ptrs + step, mask=is_right, other=0)
        is_left = is_left & (left_cohesion == left_cohesion)
        is_right = is_right & (right_cohesion == right_cohesion)
        _, is_left = judge(left, left_cohesion, is_left, threshold, lam)
        _, is_right = judge(right, right_cohesion, is_right, threshold, lam)
        if CONTIGUOUS:
            keep_left = keep_left & is_left
            keep_right = keep_right & is_right
            is_left = keep_left
            is_right = keep_right
        left_ptrs = bits_ptr + (WINDOW - step) * n_words + word
        tl.store(left_ptrs, _pack(is_left), mask=word < end_word)
        right_ptrs = bits_ptr + (WINDOW + step - 1) * n_words + word
        tl.store(right_ptrs, _pack(is_right), mask=word < end_word)


def _products(queries: Tensor, embeddings: Tensor, row_scale: Tensor | None) -> Tensor:
    """[B, N] cosines of a matrix product, but for rows too short for one."""
    n_queries, dim = queries.shape
    n_rows, dtype = embeddings.shape[0], embeddings.dtype
    parts, unit = query_parts(queries.dtype, dtype), stride_unit(embeddings)
    prepared, units, _ = prepare_queries(queries, dtype, parts)
    result = queries.new_empty((n_queries, n_rows), dtype=torch.float32)
    config = default_config(n_queries, dtype, warp_size())
    tiles = triton.cdiv(n_queries, config["BLOCK_Q"]) * triton.cdiv(n_rows, config["BLOCK_N"])
    # The interpreter multiplies the bit patterns of bfloat16.
    upcast = triton.knobs.runtime.interpret and dtype == torch.bfloat16
    _corpus_cosines_kernel[(tiles,)](
        prepared, units, embeddings, row_scale, result,
        n_queries, n_rows, embeddings.stride(0) // unit,
        PARTS=parts, SIZE=prepared.shape[2], ROW_UNIT=unit, DIM=dim, UPCAST=upcast, **config,
    )  # fmt: skip
    if row_scale is not None:
        query_unit = stride_unit(queries)
        _short_rows_kernel[(triton.cdiv(n_rows, SHORT_BLOCK), SHORT_SLICES)](
            queries, embeddings, row_scale, result,
            n_queries, n_rows, queries.stride(0) // query_unit, queries.stride(1),
            embeddings.stride(0) // unit, QUERY_UNIT=query_unit, ROW_UNIT=unit,
            **dot_config(dim, dtype, warp_size()), BLOCK=SHORT_BLOCK, SLICES=SHORT_SLICES,
            num_warps=1,
        )  # fmt: skip
    return result


def _canonical(queries: Tensor, embeddings: Tensor, row_scale: Tensor | None) -> Tensor:
    """[B, N] cosines in the fixed order of summation."""
    n_chunks = embeddings.shape[0]
    rows = torch.arange(n_chunks, device=queries.device).expand(queries.shape[0], n_chunks)
    none = queries.new_empty((0, n_chunks), dtype=torch.float32)
    return launch_neighbor_scores(
        queries, embeddings, none, rows, 0.0, 0.0, False, row_scale, None
    )[0]


def launch_corpus_masks(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    return_relevance: bool,
) -> tuple[Tensor, Tensor]:
    """(bits [B, 2W, ceil(N / 32)], relevance [B, N or 0]).

    Cosines of a block of queries with a stretch of rows, W more on either side, then a bit for each
    decision. Cosines that are returned are canonical, all in one stretch; and so are those of few
    dimensions, where the rounding of a product exceeds what the contract grants.
    """
    n_queries, n_chunks, window = queries.shape[0], embeddings.shape[0], continuity.shape[0]
    n_words = triton.cdiv(n_chunks, 32)
    bits = queries.new_empty((n_queries, 2 * window, n_words), dtype=torch.int32)
    relevance = queries.new_empty((n_queries, 0), dtype=torch.float32)
    row_scale = None if row_scale is None else row_scale.contiguous()
    continuity = continuity if continuity.stride(1) == 1 else continuity.contiguous()
    if return_relevance:
        relevance = _canonical(queries, embeddings, row_scale)
    if bits.numel() == 0:
        return bits, relevance

    cosines_of = _canonical if queries.shape[1] < MIN_DIM else _products
    block = n_queries if return_relevance else min(n_queries, MAX_QUERIES)
    most = max(1, (SCRATCH_BYTES // (4 * block) - 2 * window) // 32)
    size = n_words if return_relevance else min(n_words, most)
    with torch.cuda.device_of(queries):
        for begin in range(0, n_queries, block):
            part = slice(begin, begin + block)
            for word in range(0, n_words, size):
                end = min(word + size, n_words)
                low, high = max(0, 32 * word - window), min(n_chunks, 32 * end + window)
                if return_relevance:
                    known = relevance
                else:
                    scale = None if row_scale is None else row_scale[low:high]
                    known = cosines_of(queries[part], embeddings[low:high], scale)
                n_programs = triton.cdiv(end - word, WORDS)
                _corpus_masks_kernel[(known.shape[0] * n_programs,)](
                    known, continuity, bits[part], lam, gamma,
                    n_programs, word, end, n_words, low, n_chunks, known.shape[1],
                    continuity.stride(0),
                    WINDOW=window, CONTIGUOUS=contiguous, WORDS=WORDS, num_warps=4,
                )  # fmt: skip
    return bits, relevance
