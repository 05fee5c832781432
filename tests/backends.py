"""The three backends the suite runs on, and the one way it calls the public functions."""

import importlib
import os
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

OPERATIONS = (
    "row_scale",
    "continuity",
    "neighbor_scores",
    "expand",
    "scar_expand",
    "window_expand",
    "spans",
    "search",
    "search_expand",
    "corpus_masks",
)

# Dtypes of the results, in order (design, section 3).
F32, I32, I64 = torch.float32, torch.int32, torch.int64
RESULT_DTYPES = {
    "row_scale": (F32,),
    "continuity": (F32,),
    "neighbor_scores": (F32, F32, torch.bool),
    "expand": (I64, F32, I32, I32),
    "scar_expand": (I64, F32, I32, I32),
    "window_expand": (I64, F32, I32, I32),
    "spans": (I64, I64, I32, I32),
    "search": (I64, F32),
    "corpus_masks": (I32, F32),  # the second on request
    "search_expand": (I64, F32, F32, F32, torch.bool, I64, F32, I32, I32),
    "parameter_sweep": (I32, F32),
}


def only_on(*backends: str) -> Callable:
    """Collect the decorated test for these backends alone: the others promise something else."""

    def mark(test: Callable) -> Callable:
        test.backends = backends
        return test

    return mark


def prepare(backend: str) -> torch.device:
    """Settings that must stand before the first kernel is imported; the device of the backend."""
    if backend == "triton":
        os.environ["TRITON_INTERPRET"] = "1"
    if backend == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if not torch.cuda.is_available():
            raise pytest.UsageError("--backend cuda was asked for and there is no CUDA device")
        return torch.device("cuda:0")
    return torch.device("cpu")


def install_triton_launchers() -> torch.library.Library:
    """Put under the CPU key what stands under the CUDA key: the check, then the Triton launcher.

    The kernels run in the interpreter, made strict about addresses. Lasts as long as the result.
    """
    from scar_gpu import operation_checks
    from tests.kernels import memory_guard

    memory_guard.install()

    def checked(name: str) -> Callable:
        module = importlib.import_module(f"scar_gpu.kernels.{name}")
        check, launch = getattr(operation_checks, name), getattr(module, f"launch_{name}")

        def call(*arguments: object) -> object:
            check(*arguments)
            return launch(*arguments)

        return call

    library = torch.library.Library("scar_gpu", "IMPL")
    for name in OPERATIONS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Warning only once for all operators")
            library.impl(name, checked(name), "CPU", allow_override=True)
    return library


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """The tensors of an argument or a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def move(value: object, device: torch.device) -> object:
    """The argument with its tensors on the device; a NamedTuple stays one."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        moved = [move(item, device) for item in value]
        return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
    return value


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as integers, so that NaN equals itself and -0.0 differs from 0.0."""
    same_size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.detach().contiguous().view(same_size[tensor.element_size()])


class Runner:
    """Calls public functions on one device and checks on every call what all of them promise.

    Inputs keep their bits; results have the contract's dtypes, are detached, contiguous, and share
    no memory with an input. The result comes back on the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self, name: str, *args: object, **kwargs: object):
        import scar_gpu

        args = [move(value, self.device) for value in args]
        kwargs = {key: move(value, self.device) for key, value in kwargs.items()}
        inputs = list(tensors_in([*args, *kwargs.values()]))
        before = [bits(tensor).clone() for tensor in inputs]
        result = getattr(scar_gpu, name)(*args, **kwargs)

        outputs = list(tensors_in(result))
        dtypes = RESULT_DTYPES[name]
        if name == "corpus_masks" and not kwargs.get("return_relevance", False):
            dtypes = dtypes[:1]
        assert tuple(tensor.dtype for tensor in outputs) == dtypes
        for tensor, old in zip(inputs, before, strict=True):
            assert torch.equal(bits(tensor), old), f"{name} changed an input"
        owned = {tensor.untyped_storage().data_ptr() for tensor in inputs if tensor.numel()}
        for tensor in outputs:
            assert tensor.device == self.device
            assert tensor.is_contiguous()
            assert not tensor.requires_grad
            assert not tensor.numel() or tensor.untyped_storage().data_ptr() not in owned
        return move(result, torch.device("cpu"))
