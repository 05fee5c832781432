"""The maximal runs of a query's rows within one document, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.documents import document_bounds, search_steps
from scar_gpu.kernels.launch import passes, warp_size
from scar_gpu.kernels.placement import append, default_config, pad


@triton.jit
def _load_rows(ids_ptr, index, column_stride, width):
    """The rows at `index` [BLOCK], -1 beyond the width."""
    ids = tl.load(ids_ptr + index * column_stride, mask=index < width, other=-1)
    return ids.to(tl.int64)


@triton.jit(do_not_specialize=["width", "n_documents", "n_steps", "ids_stride", "column_stride"])
def _spans_kernel(
    ids_ptr, doc_offsets_ptr, start_ptr, end_ptr, first_ptr, lengths_ptr,
    run_starts_ptr, run_ends_ptr,
    width, n_documents: tl.int64, n_steps, ids_stride: tl.int64, column_stride: tl.int64,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """[start, end) of every maximal run, in the order of the runs' first rows in the list.

    One program joins the M rows of one query: it marks the rows that begin and end a run, finds
    for each row the run around it, and keeps the row of each run that comes first. Grid: (B,).
    Bytes:

        useful     8M read, 20M + 4 written
        requested  16M more written and read; from cache 32M for each block of M, and
                   8 * log2(documents) per row
    """
    query = tl.program_id(0).to(tl.int64)
    ids_ptr += query * ids_stride
    run_starts_ptr += query * width
    run_ends_ptr += query * width
    n_chunks = tl.load(doc_offsets_ptr + n_documents)

    for first in tl.range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        row = _load_rows(ids_ptr, index, column_stride, width)
        is_row = (row >= 0) & (row < n_chunks)
        document, end = document_bounds(doc_offsets_ptr, n_documents, n_steps, row, is_row)
        is_start = is_row
        is_end = is_row
        for other in tl.range(0, width):
            other_row = tl.load(ids_ptr + other * column_stride).to(tl.int64)
            is_start = is_start & ((row == document) | (other_row != row - 1))
            is_end = is_end & ((row + 1 == end) | (other_row != row + 1))
        # No row lies above n_chunks or below 0, so these bound nothing.
        tl.store(run_starts_ptr + index, tl.where(is_start, row, n_chunks), mask=index < width)
        tl.store(run_ends_ptr + index, tl.where(is_end, row + 1, 0), mask=index < width)
    tl.debug_barrier()  # other threads wrote the bounds

    results = (start_ptr + query * width, end_ptr + query * width, first_ptr + query * width)
    length = 0
    for first in tl.range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        row = _load_rows(ids_ptr, index, column_stride, width)
        is_first = (row >= 0) & (row < n_chunks)
        start = tl.zeros([BLOCK], tl.int64)
        end = start + n_chunks
        for other in tl.range(0, width):
            other_start = tl.load(run_starts_ptr + other)
            other_end = tl.load(run_ends_ptr + other)
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
        for part in passes((ids, *results), scratch=16 * width * needs_scratch):
            bounds = tuple(map(torch.empty_like, part[1:3])) if needs_scratch else part[1:3]
            _spans_kernel[(part[0].shape[0],)](
                part[0], doc_offsets, *part[1:], *bounds, width,
                doc_offsets.shape[0] - 1, search_steps(doc_offsets), *ids.stride(), **config,
            )  # fmt: skip
    return results
