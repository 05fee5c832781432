"""SCAR's judgement of every neighbour of every hit, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.dot import dot_config, cosines, query_scale, stride_unit
from scar_gpu.kernels.launch import passes, warp_size


def default_config(dim: int, dtype: torch.dtype, warp_size: int = 32) -> dict[str, int]:
    """One warp per hit: its sums stay in registers and shuffles, without a barrier."""
    return {**dot_config(dim, dtype, warp_size), "num_warps": 1}


@triton.jit(
    do_not_specialize=["n_hits", "n_chunks", "query_stride", "row_stride", "table_stride",
                       "hits_stride", "rank_stride"]
)
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
    """S = cos(q, n) - lam * (1 - cos(c, n)), admitted where S > gamma * cos(q, c)."""
    entry = tl.program_id(0).to(tl.int64)
    query = (tl.program_id(0) // n_hits).to(tl.int64)
    rank = (tl.program_id(0) % n_hits).to(tl.int64)
    hit = tl.load(hits_ptr + query * hits_stride + rank * rank_stride).to(tl.int64)
    is_hit = (hit >= 0) & (hit < n_chunks)
    center = tl.where(is_hit, hit, 0)
    query_ptr = queries_ptr + query * (query_stride * QUERY_UNIT)
    scale = query_scale(query_ptr, column_stride, is_hit, DIM, LANES)
    relevance = 0.0
    if given_ptr is not None:
        relevance = tl.load(given_ptr + entry).to(tl.float32)
    keep_left = is_hit
    keep_right = is_hit

    # The first step away from the hit reads the hit's own row as well.
    for step in tl.range(1, max(WINDOW, 1) + 1):
        left = center - step
        right = center + step
        is_left = is_hit & (step <= WINDOW) & (left >= 0)
        is_right = is_hit & (step <= WINDOW) & (right < n_chunks)
        cohesion_ptr = continuity_ptr + (step - 1) * table_stride
        left_cohesion = tl.load(cohesion_ptr + left, mask=is_left, other=float("nan"))
        right_cohesion = tl.load(cohesion_ptr + center, mask=is_right, other=float("nan"))
        is_left = is_left & (left_cohesion == left_cohesion)
        is_right = is_right & (right_cohesion == right_cohesion)
        if given_ptr is None:
            cosine = cosines(
                query_ptr, column_stride, scale, is_hit, embeddings_ptr, row_stride * ROW_UNIT,
                row_scale_ptr, (left, right, center), (is_left, is_right, is_hit & (step == 1)),
                DIM, LANES, UNROLL,
            )
            relevance = tl.where(step == 1, cosine[2], relevance)
        else:
            cosine = cosines(
                query_ptr, column_stride, scale, is_hit, embeddings_ptr, row_stride * ROW_UNIT,
                row_scale_ptr, (left, right), (is_left, is_right), DIM, LANES, UNROLL,
            )
        left_score = tl.where(is_left, tl.fma(-lam, 1 - left_cohesion, cosine[0]), -float("inf"))
        right_score = tl.where(is_right, tl.fma(-lam, 1 - right_cohesion, cosine[1]), -float("inf"))
        is_left = is_left & (left_score > gamma * relevance)
        is_right = is_right & (right_score > gamma * relevance)
        if CONTIGUOUS:
            is_left = is_left & keep_left
            is_right = is_right & keep_right
            keep_left = is_left
            keep_right = is_right
        slot = entry * (2 * WINDOW) + WINDOW + step - 1
        tl.store(scores_ptr + slot, right_score, mask=step <= WINDOW)
        tl.store(mask_ptr + slot, is_right, mask=step <= WINDOW)
        slot = entry * (2 * WINDOW) + WINDOW - step
        tl.store(scores_ptr + slot, left_score, mask=step <= WINDOW)
        tl.store(mask_ptr + slot, is_left, mask=step <= WINDOW)
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
) -> tuple[Tensor, Tensor, Tensor]:
    """(relevance [B, K], scores [B, K, 2W], mask [B, K, 2W])."""
    n_hits, window = hits.shape[1], continuity.shape[0]
    n_chunks, dim = embeddings.shape
    shape = (*hits.shape, 2 * window)
    results = (
        hits.new_empty(hits.shape, dtype=torch.float32),
        hits.new_empty(shape, dtype=torch.float32),
        hits.new_empty(shape, dtype=torch.bool),
    )
    if hits.numel() == 0:
        return results
    if continuity.stride(1) != 1:
        continuity = continuity.contiguous()
    row_scale = None if row_scale is None else row_scale.contiguous()
    relevance = None if relevance is None else relevance.contiguous()
    query_unit, row_unit = stride_unit(queries), stride_unit(embeddings)
    config = default_config(dim, embeddings.dtype, warp_size())
    with torch.cuda.device_of(hits):
        for part in passes((queries, hits, relevance, *results), programs=n_hits):
            _neighbor_scores_kernel[(part[1].numel(),)](
                part[0], embeddings, continuity, part[1], row_scale, *part[2:],
                lam, gamma, n_hits, n_chunks,
                queries.stride(0) // query_unit, queries.stride(1),
                embeddings.stride(0) // row_unit, continuity.stride(0), *hits.stride(),
                WINDOW=window, CONTIGUOUS=contiguous, QUERY_UNIT=query_unit, ROW_UNIT=row_unit,
                **config,
            )  # fmt: skip
    return results
