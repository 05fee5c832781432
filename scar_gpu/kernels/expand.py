"""The union of a query's hits and their admitted neighbours, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.launch import passes
from scar_gpu.kernels.placement import append, empty_expansion, pad, sort_by_row


def default_config(n_candidates: int) -> dict[str, int]:
    """All candidates of a query in one block up to 1,024, at most four per thread."""
    block = min(1024, max(32, triton.next_power_of_2(n_candidates)))
    return {"BLOCK": block, "num_warps": max(1, block // 64)}


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
    scratch_ids_ptr, scratch_scores_ptr, scratch_anchors_ptr,
    n_hits, hits_stride: tl.int64, rank_stride: tl.int64,
    WINDOW: tl.constexpr, DOCUMENT_ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program unites the candidates of one query.

    """
    query = tl.program_id(0).to(tl.int64)
    hits_ptr += query * hits_stride
    relevance_ptr += query * n_hits
    scores_ptr += query * n_hits * (2 * WINDOW)
    mask_ptr += query * n_hits * (2 * WINDOW)
    width = n_hits * (2 * WINDOW + 1)
    entry = query * width
    results = (ids_ptr + entry, out_scores_ptr + entry, anchors_ptr + entry)
    ranked = results
    if DOCUMENT_ORDER:
        ranked = (scratch_ids_ptr + entry, scratch_scores_ptr + entry, scratch_anchors_ptr + entry)

    length = 0
    for first in tl.range(0, width, BLOCK):
        candidate = first + tl.arange(0, BLOCK)
        is_candidate = candidate < width
        rank = candidate // (2 * WINDOW + 1)
        offset = candidate % (2 * WINDOW + 1) - WINDOW
        is_hit = offset == 0
        hit = tl.load(hits_ptr + rank * rank_stride, mask=is_candidate, other=-1).to(tl.int64)
        relevance = tl.load(relevance_ptr + rank, mask=is_candidate, other=-float("inf"))
        score, is_admitted = _load_neighbor(scores_ptr, mask_ptr, rank, offset, is_candidate, WINDOW)
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
        length = append(ranked, (row, score, rank), is_kept, length)

    if DOCUMENT_ORDER:
        sort_by_row(ranked, results, length, BLOCK)
    pad(results, (-1, -float("inf"), -1), length, width, BLOCK)
    tl.store(lengths_ptr + query, length)


def launch_expand(
    hits: Tensor, relevance: Tensor, scores: Tensor, mask: Tensor, document_order: bool
) -> tuple[Tensor, ...]:
    """(ids, scores, anchors [B, M], lengths [B])."""
    results = empty_expansion(hits, hits.shape[1] * (scores.shape[2] + 1))
    expand_into(results, hits, relevance, scores, mask, document_order)
    return results


def expand_into(
    results: tuple[Tensor, ...],
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
    config = default_config(width)
    needs_scratch = document_order and width > config["BLOCK"]
    batch = (hits, relevance.contiguous(), scores.contiguous(), mask.contiguous(), *results)
    with torch.cuda.device_of(hits):
        for part in passes(batch, scratch=16 * width if needs_scratch else 0):
            scratch = [torch.empty_like(t) if needs_scratch else t for t in part[4:7]]
            _expand_kernel[(part[0].shape[0],)](
                *part, *scratch, hits.shape[1], *hits.stride(),
                WINDOW=scores.shape[2] // 2, DOCUMENT_ORDER=document_order, **config,
            )  # fmt: skip
