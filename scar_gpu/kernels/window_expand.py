"""Every row within a fixed distance of a hit, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.documents import document_bounds, search_steps
from scar_gpu.kernels.launch import passes, warp_size
from scar_gpu.kernels.placement import (
    append,
    default_config,
    empty_expansion,
    launch_sort,
    pad,
    sort_block,
)


@triton.jit(do_not_specialize=["n_hits", "n_documents", "n_steps", "hits_stride", "rank_stride"])
def _window_expand_kernel(
    hits_ptr, doc_offsets_ptr, ids_ptr, scores_ptr, anchors_ptr, lengths_ptr,
    n_hits, n_documents: tl.int64, n_steps, hits_stride: tl.int64, rank_stride: tl.int64,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, SORT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows within BEFORE / AFTER of a hit in its document, each with the best-ranked hit.

    One program unites the M = K(BEFORE + AFTER + 1) candidates of one query, numbered as in
    `expand`. Grid: (B,). Bytes:

        useful     8K read, 16M + 4 written
        requested  the same in whole sectors; from cache 8K more for each block of M, and
                   8 * log2(documents) per candidate for the bounds of its document

    SORT: the entries, all in one block, are brought into ascending order of row.
    """
    query = tl.program_id(0).to(tl.int64)
    hits_ptr += query * hits_stride
    n_chunks = tl.load(doc_offsets_ptr + n_documents)
    width = n_hits * (BEFORE + AFTER + 1)
    entry = query * width
    columns = (ids_ptr + entry, scores_ptr + entry, anchors_ptr + entry)

    length = 0
    for first in tl.range(0, width, BLOCK):
        candidate = first + tl.arange(0, BLOCK)
        rank = candidate // (BEFORE + AFTER + 1)
        hit = tl.load(hits_ptr + rank * rank_stride, mask=candidate < width, other=-1).to(tl.int64)
        row = hit + candidate % (BEFORE + AFTER + 1) - BEFORE
        is_hit = (hit >= 0) & (hit < n_chunks)
        document, end = document_bounds(doc_offsets_ptr, n_documents, n_steps, hit, is_hit)
        is_kept = is_hit & (row >= document) & (row < end)
        # A better-ranked hit between these rows reaches the row as well, and takes it.
        lowest = tl.maximum(document, row - AFTER)
        highest = tl.minimum(end - 1, row + BEFORE)
        for other in tl.range(0, n_hits):
            other_hit = tl.load(hits_ptr + other * rank_stride).to(tl.int64)
            is_taken = (other < rank) & (other_hit >= lowest) & (other_hit <= highest)
            is_kept = is_kept & ~is_taken
        length = append(columns, (row, tl.zeros([BLOCK], tl.float32), rank), is_kept, length)

    if SORT:
        tl.debug_barrier()  # other threads wrote the entries
        sort_block(columns, columns, 0, length, BLOCK)
    pad(columns, (-1, -float("inf"), -1), 0, length, width, BLOCK)
    tl.store(lengths_ptr + query, length)


def launch_window_expand(
    hits: Tensor, doc_offsets: Tensor, before: int, after: int, document_order: bool
) -> tuple[Tensor, ...]:
    """(ids, scores, anchors [B, M], lengths [B])."""
    width = hits.shape[1] * (before + after + 1)
    results = empty_expansion(hits, width)
    if results[0].numel() == 0:
        results[3].zero_()
        return results
    config = default_config(width, warp_size())
    is_one_block = width <= config["BLOCK"]
    needs_scratch = document_order and not is_one_block
    doc_offsets = doc_offsets.contiguous()
    with torch.cuda.device_of(hits):
        for part in passes((hits, *results), scratch=16 * width * needs_scratch):
            columns, lengths = part[1:4], part[4]
            ranked = tuple(map(torch.empty_like, columns)) if needs_scratch else columns
            _window_expand_kernel[(lengths.shape[0],)](
                part[0], doc_offsets, *ranked, lengths, hits.shape[1],
                doc_offsets.shape[0] - 1, search_steps(doc_offsets), *hits.stride(),
                BEFORE=before, AFTER=after, SORT=document_order and is_one_block, **config,
            )  # fmt: skip
            if needs_scratch:
                launch_sort(ranked, columns, lengths, config)
    return results
