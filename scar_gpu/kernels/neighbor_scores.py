"""SCAR's judgement of every neighbour of every hit, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.dot import cosines, dot_config, query_scale, stride_unit
from scar_gpu.kernels.launch import passes, warp_size


def default_config(dim: int, dtype: torch.dtype, warp_size: int) -> dict[str, int]:
    """One warp per hit: sums stay in registers and shuffles, and nothing waits at a barrier."""
    return {**dot_config(dim, dtype, warp_size), "num_warps": 1}


@triton.jit
def judge(cosine, cohesion, is_neighbor, threshold, lam):
    """(S, S > threshold), or (-inf, False) where there is no neighbour."""
    # One rounding, wherever the compiler may fuse: S is the same in every kernel.
    score = tl.where(is_neighbor, tl.fma(-lam, 1 - cohesion, cosine), -float("inf"))
    return score, is_neighbor & (score > threshold)


@triton.jit(
    do_not_specialize=[
        "n_hits", "n_chunks", "query_stride", "row_stride", "table_stride", "hits_stride",
        "rank_stride",
    ]
)  # fmt: skip
def _neighbor_scores_kernel(
    queries_ptr, embeddings_ptr, continuity_ptr, hits_ptr, row_scale_ptr, given_ptr,
    relevance_ptr, scores_ptr, mask_ptr,
    lam, gamma, n_hits, n_chunks: tl.int64,
    query_stride: tl.int64, column_stride, row_stride: tl.int64, table_stride: tl.int64,
    hits_stride: tl.int64, rank_stride: tl.int64,
    WINDOW: tl.constexpr, CONTIGUOUS: tl.constexpr,
    QUERY_UNIT: tl.constexpr, ROW_UNIT: tl.constexpr,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """S = cos(q, n) - lam * (1 - cos(c, n)), admitted where S > gamma * cos(q, c).

    One program judges the neighbours of one hit. Grid: (B * K,). Bytes per hit, with R and Q those
    of a row and a query:

        useful     (2W + 1) * (R + 4) + 8W + 8 + Q / K + 4 + 10W
        requested  (2W + 1) * R in sectors of 32, and 32 for each of the hit, W pairs of
                   continuities and the row scales; Q twice, from cache for all but one hit

    Rows outside the document are not read, nor is anything but the id of a padding hit.
    """
    entry = tl.program_id(0).to(tl.int64)
    query = (tl.program_id(0) // n_hits).to(tl.int64)
    rank = (tl.program_id(0) % n_hits).to(tl.int64)
    hit = tl.load(hits_ptr + query * hits_stride + rank * rank_stride).to(tl.int64)
    is_hit = (hit >= 0) & (hit < n_chunks)
    center = tl.where(is_hit, hit, 0)
    query_ptr = queries_ptr + query * query_stride * QUERY_UNIT
    scale = query_scale(query_ptr, column_stride, is_hit, DIM, LANES)
    relevance = 0.0
    if given_ptr is not None:
        relevance = tl.load(given_ptr + entry)
    keep_left = is_hit
    keep_right = is_hit

    # Walk away from the hit; the first step reads the hit's own row as well.
    for step in tl.range(1, max(WINDOW, 1) + 1):
        left = center - step
        right = center + step
        is_left = is_hit & (step <= WINDOW) & (left >= 0)
        is_right = is_hit & (step <= WINDOW) & (right < n_chunks)
        table_ptr = continuity_ptr + (step - 1) * table_stride
        left_cohesion = tl.load(table_ptr + left, mask=is_left, other=float("nan"))
        right_cohesion = tl.load(table_ptr + center, mask=is_right, other=float("nan"))
        is_left = is_left & (left_cohesion == left_cohesion)
        is_right = is_right & (right_cohesion == right_cohesion)
        rows = (left, right)
        is_row = (is_left, is_right)
        if given_ptr is None:
            rows += (center,)
            is_row += (is_hit & (step == 1),)
        cosine = cosines(
            query_ptr, column_stride, scale, is_hit, embeddings_ptr, row_stride, row_scale_ptr,
            rows, is_row, ROW_UNIT, DIM, LANES, UNROLL,
        )  # fmt: skip
        if given_ptr is None:
            relevance = tl.where(step == 1, cosine[2], relevance)
        threshold = gamma * relevance
        left_score, is_left = judge(cosine[0], left_cohesion, is_left, threshold, lam)
        right_score, is_right = judge(cosine[1], right_cohesion, is_right, threshold, lam)
        if CONTIGUOUS:
            keep_left = keep_left & is_left
            keep_right = keep_right & is_right
            is_left = keep_left
            is_right = keep_right
        middle = entry * (2 * WINDOW) + WINDOW
        tl.store(scores_ptr + middle - step, left_score, mask=step <= WINDOW)
        tl.store(mask_ptr + middle - step, is_left, mask=step <= WINDOW)
        tl.store(scores_ptr + middle + step - 1, right_score, mask=step <= WINDOW)
        tl.store(mask_ptr + middle + step - 1, is_right, mask=step <= WINDOW)
    tl.store(relevance_ptr + entry, tl.where(is_hit, relevance, -float("inf")))


def launch_neighbor_scores(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    relevance: Tensor | None,
) -> tuple[Tensor, ...]:
    """(relevance [B, K], scores [B, K, 2W], mask [B, K, 2W])."""
    n_hits, window = hits.shape[1], continuity.shape[0]
    n_chunks, dim = embeddings.shape
    results = (
        hits.new_empty(hits.shape, dtype=torch.float32),
        hits.new_empty((*hits.shape, 2 * window), dtype=torch.float32),
        hits.new_empty((*hits.shape, 2 * window), dtype=torch.bool),
    )
    if hits.numel() == 0:
        return results
    if continuity.stride(1) != 1:
        continuity = continuity.contiguous()
    row_scale = None if row_scale is None else row_scale.contiguous()
    relevance = None if relevance is None else relevance.contiguous()
    query_unit, row_unit = stride_unit(queries), stride_unit(embeddings)
    config = default_config(dim, embeddings.dtype, warp_size())
    batch = (hits, queries, relevance, *results)
    with torch.cuda.device_of(hits):
        for hits_part, queries_part, *part in passes(batch, programs=n_hits):
            _neighbor_scores_kernel[(hits_part.numel(),)](
                queries_part, embeddings, continuity, hits_part, row_scale, *part,
                lam, gamma, n_hits, n_chunks,
                queries.stride(0) // query_unit, queries.stride(1),
                embeddings.stride(0) // row_unit, continuity.stride(0), *hits.stride(),
                WINDOW=window, CONTIGUOUS=contiguous, QUERY_UNIT=query_unit, ROW_UNIT=row_unit,
                **config,
            )  # fmt: skip
    return results
