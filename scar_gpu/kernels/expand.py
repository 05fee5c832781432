"""The union of a query's hits and their admitted neighbours, on the GPU."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.launch import passes, warp_size
from scar_gpu.kernels.placement import (
    append,
    default_config,
    empty_expansion,
    launch_sort,
    pad,
    sort_block,
)


@triton.jit
def _load_neighbor(scores_ptr, mask_ptr, rank, offset, is_asked, WINDOW: tl.constexpr):
    """(S, whether it was admitted) of the rows at `offset` from the hits at `rank`."""
    is_asked = is_asked & (offset != 0)
    slot = rank * (2 * WINDOW) + offset + tl.where(offset < 0, WINDOW, WINDOW - 1)
    score = tl.load(scores_ptr + slot, mask=is_asked, other=-float("inf"))
    is_admitted = tl.load(mask_ptr + slot, mask=is_asked, other=0) != 0
    return score, is_admitted & (score > -float("inf"))


@triton.jit(do_not_specialize=["n_hits", "hits_stride", "rank_stride"])
def _expand_kernel(
    hits_ptr, relevance_ptr, scores_ptr, mask_ptr,
    ids_ptr, out_scores_ptr, anchors_ptr, lengths_ptr,
    n_hits, hits_stride: tl.int64, rank_stride: tl.int64,
    WINDOW: tl.constexpr, SORT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The hits and their admitted neighbours, each row once: rank by rank, or sorted by row.

    One program unites the M = K(2W + 1) candidates of one query; a candidate t stands for offset
    t % (2W + 1) - W from hit t // (2W + 1), so t ascends in rank order. Grid: (B,). Bytes:

        useful     K * (8 + 4 + 10W) read, 16M + 4 written
        requested  the same in whole sectors; from cache 12K more for each block of M, and
                   5 for every other hit that reaches the same row

    SORT: the entries, all in one block, are brought into ascending order of row.
    """
    query = tl.program_id(0).to(tl.int64)
    hits_ptr += query * hits_stride
    relevance_ptr += query * n_hits
    scores_ptr += query * n_hits * (2 * WINDOW)
    mask_ptr += query * n_hits * (2 * WINDOW)
    width = n_hits * (2 * WINDOW + 1)
    entry = query * width
    columns = (ids_ptr + entry, out_scores_ptr + entry, anchors_ptr + entry)

    length = 0
    for first in tl.range(0, width, BLOCK):
        candidate = first + tl.arange(0, BLOCK)
        is_candidate = candidate < width
        rank = candidate // (2 * WINDOW + 1)
        offset = candidate % (2 * WINDOW + 1) - WINDOW
        is_hit = offset == 0
        hit = tl.load(hits_ptr + rank * rank_stride, mask=is_candidate, other=-1).to(tl.int64)
        relevance = tl.load(relevance_ptr + rank, mask=is_candidate, other=-float("inf"))
        score, is_admitted = _load_neighbor(
            scores_ptr, mask_ptr, rank, offset, is_candidate, WINDOW
        )
        score = tl.where(is_hit, relevance, score)
        row = hit + offset
        is_kept = (hit >= 0) & (relevance != -float("inf")) & (is_hit | (is_admitted & (row >= 0)))
        # A candidate stays unless another one for the same row beats it.
        for other in tl.range(0, n_hits):
            other_hit = tl.load(hits_ptr + other * rank_stride).to(tl.int64)
            other_relevance = tl.load(relevance_ptr + other)
            away = row - other_hit
            is_other = (other_hit >= 0) & (other_relevance != -float("inf"))
            is_rival = is_kept & is_other & (away >= -WINDOW) & (away <= WINDOW)
            rival, is_admitted = _load_neighbor(scores_ptr, mask_ptr, other, away, is_rival, WINDOW)
            is_better = (rival > score) | ((rival == score) & (other < rank))
            is_beaten = tl.where(
                away == 0, (offset != 0) | (other < rank), (offset != 0) & is_admitted & is_better
            )
            is_kept = is_kept & ~(is_rival & is_beaten)
        length = append(columns, (row, score, rank), is_kept, length)

    if SORT:
        tl.debug_barrier()  # other threads wrote the entries
        sort_block(columns, columns, 0, length, BLOCK)
    pad(columns, (-1, -float("inf"), -1), 0, length, width, BLOCK)
    tl.store(lengths_ptr + query, length)


def launch_expand(
    hits: Tensor, relevance: Tensor, scores: Tensor, mask: Tensor, document_order: bool
) -> tuple[Tensor, ...]:
    """(ids, scores, anchors [B, M], lengths [B])."""
    results = empty_expansion(hits, hits.shape[1] * (scores.shape[2] + 1))
    expand_into(results, hits, relevance, scores, mask, document_order)
    return results


def expand_into(
    results: Sequence[Tensor],
    hits: Tensor,
    relevance: Tensor,
    scores: Tensor,
    mask: Tensor,
    document_order: bool,
) -> None:
    """`launch_expand` into tensors at hand."""
    width = results[0].shape[1]
    if results[0].numel() == 0:
        results[3].zero_()
        return
    config = default_config(width, warp_size())
    is_one_block = width <= config["BLOCK"]
    needs_scratch = document_order and not is_one_block
    batch = (hits, relevance.contiguous(), scores.contiguous(), mask.contiguous(), *results)
    with torch.cuda.device_of(hits):
        for part in passes(batch, scratch=16 * width * needs_scratch):
            columns, lengths = part[4:7], part[7]
            ranked = tuple(map(torch.empty_like, columns)) if needs_scratch else columns
            _expand_kernel[(lengths.shape[0],)](
                *part[:4], *ranked, lengths, hits.shape[1], *hits.stride(),
                WINDOW=scores.shape[2] // 2, SORT=document_order and is_one_block, **config,
            )  # fmt: skip
            if needs_scratch:
                launch_sort(ranked, columns, lengths, config)
