"""Puts the Triton launcher of rank_fusion in place: its lists are tested in files of their own."""

import importlib
import warnings

import torch


def install_triton_launcher() -> torch.library.Library:
    """Under the CPU key, as `backends.install_triton_launchers` does for the other operations."""
    from scar_gpu import operation_checks
    from tests.kernels import memory_guard

    memory_guard.install()
    launch = importlib.import_module("scar_gpu.kernels.rank_fusion").launch_rank_fusion

    def call(*arguments: object) -> list[torch.Tensor]:
        operation_checks.rank_fusion(*arguments)
        return launch(*arguments)

    library = torch.library.Library("scar_gpu", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        library.impl("rank_fusion", call, "CPU", allow_override=True)
    return library
