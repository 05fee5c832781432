"""1 / |e_i| of every stored row, on the GPU."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu.kernels.dot import dot_config, stride_unit
from scar_gpu.kernels.launch import warp_size


def default_config(dim: int, dtype: torch.dtype, warp_size: int) -> dict[str, int]:
    """One warp takes 16 rows: its results fill whole sectors."""
    return {**dot_config(dim, dtype, warp_size), "ROWS": 16, "num_warps": 1}


@triton.jit(do_not_specialize=["n_chunks", "row_stride"])
def _row_scale_kernel(
    embeddings_ptr, row_scale_ptr, n_chunks: tl.int64, row_stride: tl.int64,
    ROW_UNIT: tl.constexpr, ROWS: tl.constexpr,
    DIM: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """row_scale[i] = 1 / |e_i|, the norm in float64, 0 for a zero row.

    One program takes ROWS rows. Grid: (N / ROWS,). Bytes per row of R: R + 4 useful; requested the
    same, R in whole sectors.
    """
    first_row = tl.program_id(0).to(tl.int64) * ROWS
    member = tl.arange(0, ROWS)
    squares = tl.zeros([ROWS], tl.float64)
    for i in tl.range(0, ROWS):
        row_ptr = embeddings_ptr + (first_row + i) * row_stride * ROW_UNIT
        is_row = first_row + i < n_chunks
        sums = tl.zeros([LANES], tl.float64)
        for first in tl.range(0, DIM, LANES * UNROLL):
            for step in tl.static_range(UNROLL):
                columns = first + step * LANES + tl.arange(0, LANES)
                row = tl.load(row_ptr + columns, mask=is_row & (columns < DIM), other=0)
                sums += row.to(tl.float64) * row.to(tl.float64)
        squares = tl.where(member == i, tl.sum(sums, axis=0), squares)
    norm = tl.sqrt(squares)
    scale = tl.where(norm == 0, 0.0, 1 / norm)
    rows = first_row + member
    tl.store(row_scale_ptr + rows, scale.to(tl.float32), mask=rows < n_chunks)


def launch_row_scale(embeddings: Tensor) -> Tensor:
    """[N] float32."""
    n_chunks, dim = embeddings.shape
    row_scale = embeddings.new_empty(n_chunks, dtype=torch.float32)
    if n_chunks == 0:
        return row_scale
    unit = stride_unit(embeddings)
    config = default_config(dim, embeddings.dtype, warp_size())
    with torch.cuda.device_of(embeddings):
        _row_scale_kernel[(triton.cdiv(n_chunks, config["ROWS"]),)](
            embeddings, row_scale, n_chunks, embeddings.stride(0) // unit, ROW_UNIT=unit, **config
        )
    return row_scale
