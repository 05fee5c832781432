"""Compile kernels for a GPU that is not there, through their real launchers.

A stand-in driver names the target; a launch then stops after compiling, so the kernel has exactly
the arguments, specialisations and configuration that the launcher gives it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.jit import JITFunction

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


class Launch(NamedTuple):
    """One launch that was compiled instead of run."""

    kernel: str
    n_programs: int
    config: dict[str, Any]  # the kernel's constexprs and the number of warps
    compiled: CompiledKernel


class CompileOnlyDriver:
    """What the compiler asks a driver, answered for a GPU of the given name."""

    def __init__(self, target: str) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return TARGETS[self.target]

    def get_current_device(self) -> str:
        return self.target  # compiled kernels are kept per device

    def get_current_stream(self, device: str) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


@contextmanager
def compile_only(target: str) -> Iterator[list[Launch]]:
    """Within, launches of CPU tensors are compiled for `target` and collected, not run."""
    launches: list[Launch] = []
    run = JITFunction.run
    driver = triton.runtime.driver
    active = driver._active

    def compile_launch(kernel: JITFunction, *args: Any, grid: Any, **kwargs: Any) -> Any:
        compiled = run(kernel, *args, **(kwargs | {"grid": grid, "warmup": True}))
        names = dict(zip(kernel.arg_names, args, strict=False))
        config = {k: v for k, v in {**names, **kwargs}.items() if k.isupper() or k == "num_warps"}
        launches.append(Launch(kernel.__name__, grid[0], config, compiled))
        return compiled

    JITFunction.run = compile_launch
    driver.set_active(CompileOnlyDriver(target))
    try:
        yield launches
    finally:
        JITFunction.run = run
        driver._active = active
