"""What launchers need to know of the machine: warp width, grid limit, scratch memory."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import triton
from triton.backends.driver import DriverBase

MAX_PROGRAMS = 2**31 - 1  # grid.x
SCRATCH_BYTES = 64 * 2**20


def warp_size() -> int:
    """Threads per warp of the current GPU: 32 on CUDA, 64 on CDNA."""
    return 32 if triton.knobs.runtime.interpret else _warp_size(triton.runtime.driver.active)


@cache
def _warp_size(driver: DriverBase) -> int:
    return driver.get_current_target().warp_size


def passes(
    batch: tuple[Any, ...], programs: int = 1, scratch: int = 0
) -> Iterator[tuple[Any, ...]]:
    """The batched tensors (or None) cut along their first dimension, one tuple per pass.

    A pass is all of the batch unless `programs` per query exceed the grid, or `scratch` bytes per
    query the memory an operation may take.
    """
    n_queries = batch[0].shape[0]
    step = MAX_PROGRAMS // max(programs, 1)
    if scratch:
        step = min(step, SCRATCH_BYTES // scratch)
    step = max(step, 1)
    if n_queries <= step:
        yield batch
        return
    for first in range(0, n_queries, step):
        yield tuple(None if t is None else t[first : first + step] for t in batch)
