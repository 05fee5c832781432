"""The Triton interpreter made strict: a load or store outside the kernel's own tensors raises.

By itself the interpreter reads and writes any address, so an out-of-bounds store corrupts the heap
and an out-of-bounds load returns whatever lies there.
"""

from collections.abc import Iterator

import numpy as np
import torch
import triton.runtime.interpreter as interpreter
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, InterpreterBuilder


class OutOfBoundsError(Exception):
    """A kernel touched memory that belongs to none of its arguments."""


# Of the launch in progress: [first address, end) of every tensor; modules made ready for NumPy.
_allowed: list[tuple[int, int]] = []
_patched: set[int] = set()


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses between the first and the last element of a tensor, whatever its strides."""
    first = tensor.data_ptr()
    if tensor.numel() == 0:
        return first, first
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return first, first + (last + 1) * tensor.element_size()


def _check(action: str, pointers: interpreter.TensorHandle, mask: np.ndarray | None) -> None:
    addresses = pointers.data
    if mask is not None:
        addresses = addresses[np.broadcast_to(mask.astype(bool), addresses.shape)]
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    is_inside = np.zeros(addresses.shape, dtype=bool)
    for first, end in _allowed:
        is_inside |= (addresses >= first) & (addresses + size <= end)
    if not is_inside.all():
        outside = int(addresses[~is_inside].flat[0])
        near = min(_allowed, key=lambda extent: min(abs(outside - edge) for edge in extent))
        raise OutOfBoundsError(
            f"{action} of {size} bytes at {outside - near[0]} of a tensor of {near[1] - near[0]}"
        )


def install() -> None:
    """Check every access from now on. Idempotent."""
    if getattr(GridExecutor, "is_guarded", False):
        return
    GridExecutor.is_guarded = True
    np.seterr(all="ignore")  # NaN and infinity are values here
    masked_load, masked_store = (
        InterpreterBuilder.create_masked_load,
        InterpreterBuilder.create_masked_store,
    )
    call = GridExecutor.__call__

    def guarded_load(self, ptrs, mask, *rest):
        _check("load", ptrs, mask.data)
        return masked_load(self, ptrs, mask, *rest)

    def guarded_store(self, ptrs, value, mask, *rest):
        _check("store", ptrs, mask.data)
        return masked_store(self, ptrs, value, mask, *rest)

    def guarded_call(self, *args, **kwargs):
        _allowed[:] = [_extent(tensor) for tensor in _tensors([*args, *kwargs.values()])]
        try:
            return call(self, *args, **kwargs)
        finally:
            _allowed.clear()
            _patched.clear()

    def call_device_function(self, *args, **kwargs):
        # The interpreter prepares `triton.language` again at every call, most of a kernel's time.
        if id(self.fn.__globals__) not in _patched:
            _patched.add(id(self.fn.__globals__))
            interpreter._patch_lang(self.fn)
        return self.rewrite()(*args, **kwargs)

    InterpreterBuilder.create_masked_load = guarded_load
    InterpreterBuilder.create_masked_store = guarded_store
    GridExecutor.__call__ = guarded_call
    InterpretedFunction.__call__ = call_device_function
    # Arguments are on the CPU already; the interpreter would copy every storage onto itself.
    GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
    GridExecutor._restore_args_dev = lambda self, *args: None
