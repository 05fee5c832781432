"""cos(e_i, e_{i+j}) of neighbouring chunks, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.documents import document_bounds, search_steps
from scar_gpu.kernels.dot import dot_config, dots, split_scale, stride_unit
from scar_gpu.kernels.launch import warp_size


def default_config(dim: int, dtype: torch.dtype, warp_size: int) -> dict[str, int]:
    """One warp takes 16 rows: it looks up their documents at once and stores whole sectors."""
    return {**dot_config(dim, dtype, warp_size), "ROWS": 16, "num_warps": 1}


@triton.jit(do_not_specialize=["n_chunks", "n_documents", "n_steps", "window", "row_stride"])
def _continuity_kernel(
    embeddings_ptr, doc_offsets_ptr, row_scale_ptr, continuity_ptr,
    n_chunks: tl.int64, n_documents: tl.int64, n_steps, window, row_stride: tl.int64,
    ROW_UNIT: tl.constexpr, ROWS: tl.constexpr,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """continuity[j - 1, i] = cos(e_i, e_{i+j}) in [-1, 1], NaN where i + j leaves the document.

    One program takes ROWS rows at one distance. Grid: (W * N / ROWS,), distances side by side, so
    that they share the rows in cache. Bytes per row of R:

        useful     R + 8 + 4W
        requested  2W * (R + 4), from cache all but R + 4; 8 * log2(documents) per program
    """
    program = tl.program_id(0)
    distance = program % window + 1
    first_row = (program // window).to(tl.int64) * ROWS
    members = first_row + tl.arange(0, ROWS)
    is_row = members < n_chunks
    _, document_end = document_bounds(doc_offsets_ptr, n_documents, n_steps, members, is_row)

    cosines = tl.zeros([ROWS], tl.float32)
    for i in tl.range(0, ROWS):
        row = first_row + i
        other = row + distance
        is_pair = other < n_chunks
        power = (1.0, 1.0)
        rest = 1.0
        powers = ()
        if row_scale_ptr is not None:
            own_scale = tl.load(row_scale_ptr + row, mask=is_pair, other=0)
            own_power, rest = split_scale(own_scale)
            other_scale = tl.load(row_scale_ptr + other, mask=is_pair, other=0)
            other_power, other_rest = split_scale(other_scale)
            power = (own_power, 1.0)
            powers = (other_power,)
            rest *= other_rest
        row_ptr = embeddings_ptr + row * row_stride * ROW_UNIT
        other_ptr = embeddings_ptr + other * row_stride * ROW_UNIT
        totals = dots(
            row_ptr, 1, power, is_pair, (other_ptr,), (is_pair,), powers, DIM, LANES, UNROLL
        )
        cosines = tl.where(members == row, totals[1] * rest, cosines)
    cosines = tl.where(cosines > 1, 1.0, tl.where(cosines < -1, -1.0, cosines))
    cosines = tl.where(members + distance < document_end, cosines, float("nan"))
    out_ptr = continuity_ptr + (distance - 1).to(tl.int64) * n_chunks
    tl.store(out_ptr + members, cosines, mask=is_row)


def launch_continuity(
    embeddings: Tensor, doc_offsets: Tensor, window: int, row_scale: Tensor | None
) -> Tensor:
    """[W, N] float32."""
    n_chunks, dim = embeddings.shape
    continuity = embeddings.new_empty((window, n_chunks), dtype=torch.float32)
    if continuity.numel() == 0:
        return continuity
    unit = stride_unit(embeddings)
    config = default_config(dim, embeddings.dtype, warp_size())
    n_programs = triton.cdiv(n_chunks, config["ROWS"]) * window
    with torch.cuda.device_of(embeddings):
        _continuity_kernel[(n_programs,)](
            embeddings,
            doc_offsets.contiguous(),
            None if row_scale is None else row_scale.contiguous(),
            continuity,
            n_chunks,
            doc_offsets.shape[0] - 1,
            search_steps(doc_offsets),
            window,
            embeddings.stride(0) // unit,
            ROW_UNIT=unit,
            **config,
        )
    return continuity
