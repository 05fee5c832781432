"""Puts in place the launcher of an operation that has lists among its arguments.

Such operations are tested in files of their own.
"""

import importlib
import warnings

import torch


def install_triton_launcher(name: str = "rank_fusion") -> torch.library.Library:
    """Under the CPU key, as `backends.install_triton_launchers` does for the other operations.

    Lasts as long as the result.
    """
    from scar_gpu import operation_checks
    from tests.kernels import memory_guard

    memory_guard.install()
    module = importlib.import_module(f"scar_gpu.kernels.{name}")
    check, launch = getattr(operation_checks, name), getattr(module, f"launch_{name}")

    def call(*arguments: object) -> object:
        check(*arguments)
        return launch(*arguments)

    library = torch.library.Library("scar_gpu", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        library.impl(name, call, "CPU", allow_override=True)
    return library
