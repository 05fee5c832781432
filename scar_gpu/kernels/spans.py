"""The maximal runs of a query's rows within one document, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.documents import document_bounds, search_steps
from scar_gpu.kernels.launch import passes, warp_size
from scar_gpu.kernels.placement import append, default_config, pad


@triton.jit(do_not_specialize=["width", "n_documents", "n_steps", "ids_stride", "column_stride"])
def _spans_kernel(
    ids_ptr, doc_offsets_ptr, start_ptr, end_ptr, first_ptr, lengths_ptr,
    starts_ptr, ends_ptr,
    width, n_documents: tl.int64, n_steps, ids_stride: tl.int64, column_stride: tl.int64,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program joins the rows of one query into spans.

    """
    query = tl.program_id(0).to(tl.int64)
    ids_ptr += query * ids_stride
    starts_ptr += query * width
    ends_ptr += query * width
    n_chunks = tl.load(doc_offsets_ptr + n_documents)
    far: tl.constexpr = 2**62

    # Which rows begin a run, which end one?
    for first in tl.range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        row = tl.load(ids_ptr + index * column_stride, mask=index < width, other=-1).to(tl.int64)
        is_row = (row >= 0) & (row < n_chunks)
        document, end = document_bounds(doc_offsets_ptr, n_documents, n_steps, row, is_row)
        is_start = row == document
        is_end = row + 1 == end
        is_start = is_row
        is_end = is_row
        for other in tl.range(0, width):
            other_row = tl.load(ids_ptr + other * column_stride).to(tl.int64)
            is_start = is_start & ((row == document) | (other_row != row - 1))
            is_end = is_end & ((row + 1 == end) | (other_row != row + 1))
        tl.store(starts_ptr + index, tl.where(is_start, row, far), mask=index < width)
        tl.store(ends_ptr + index, tl.where(is_end, row + 1, -1), mask=index < width)
    tl.debug_barrier()

    # Each row finds the run around it; the run's first row in the list stands for it.
    results = (start_ptr + query * width, end_ptr + query * width, first_ptr + query * width)
    length = 0
    for first in tl.range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        row = tl.load(ids_ptr + index * column_stride, mask=index < width, other=-1).to(tl.int64)
        is_first = (row >= 0) & (row < n_chunks)
        start = row * 0 - 1
        end = row * 0 + far
        for other in tl.range(0, width):
            other_start = tl.load(starts_ptr + other)
            other_end = tl.load(ends_ptr + other)
            start = tl.where(other_start <= row, tl.maximum(start, other_start), start)
            end = tl.where(other_end > row, tl.minimum(end, other_end), end)
        for other in tl.range(0, width):
            other_row = tl.load(ids_ptr + other * column_stride).to(tl.int64)
            is_first = is_first & ~((other < index) & (other_row >= start) & (other_row < end))
        tl.debug_barrier()  # one block may write its results over what it has read
        length = append(results, (start, end, index), is_first, length)
    pad(results, (-1, -1, -1), 0, length, width, BLOCK)
    tl.store(lengths_ptr + query, length)


def launch_spans(ids: Tensor, doc_offsets: Tensor) -> tuple[Tensor, ...]:
    """(start, end, first [B, M], lengths [B])."""
    n_queries, width = ids.shape
    results = (
        ids.new_empty((n_queries, width), dtype=torch.int64),
        ids.new_empty((n_queries, width), dtype=torch.int64),
        ids.new_empty((n_queries, width), dtype=torch.int32),
        ids.new_empty(n_queries, dtype=torch.int32),
    )
    if ids.numel() == 0:
        results[3].zero_()
        return results
    config = default_config(width, warp_size(), largest=512)  # 1,024 spill registers
    needs_scratch = width > config["BLOCK"]
    doc_offsets = doc_offsets.contiguous()
    with torch.cuda.device_of(ids):
        for part in passes((ids, *results), scratch=16 * width if needs_scratch else 0):
            scratch = [torch.empty_like(t) if needs_scratch else t for t in part[1:3]]
            _spans_kernel[(part[0].shape[0],)](
                part[0], doc_offsets, *part[1:], *scratch, width,
                doc_offsets.shape[0] - 1, search_steps(doc_offsets), *ids.stride(), **config,
            )  # fmt: skip
    return results
