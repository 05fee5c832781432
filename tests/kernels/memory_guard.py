"""The Triton interpreter made strict: a load or store outside the kernel's own tensors raises.

By itself the interpreter reads and writes any address, so an out-of-bounds store corrupts the heap
and an out-of-bounds load returns whatever lies there. A 32-bit product that wraps around raises as
well. The interpreter forgets that an argument is annotated as 64-bit, so it multiplies with 32 bits
wherever a kernel leaves that to the annotation alone.
"""

from collections.abc import Iterator

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, InterpreterBuilder


class OutOfBoundsError(Exception):
    """A kernel touched memory that belongs to none of its arguments."""


class WrappedProductError(Exception):
    """A product left its 32 bits."""


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


def _is_int32(handle: interpreter.TensorHandle) -> bool:
    return handle.get_element_ty().is_int() and handle.data.dtype.itemsize == 4


def install() -> None:
    """Check every access and product from now on. Idempotent."""
    if getattr(GridExecutor, "is_guarded", False):
        return
    GridExecutor.is_guarded = True
    np.seterr(all="ignore")  # NaN and infinity are values here
    masked_load, masked_store = (
        InterpreterBuilder.create_masked_load,
        InterpreterBuilder.create_masked_store,
    )
    multiply, cast = InterpreterBuilder.create_mul, InterpreterBuilder.cast_impl
    call = GridExecutor.__call__

    def guarded_load(self, ptrs, mask, *rest):
        _check("load", ptrs, mask.data)
        return masked_load(self, ptrs, mask, *rest)

    def guarded_store(self, ptrs, value, mask, *rest):
        _check("store", ptrs, mask.data)
        return masked_store(self, ptrs, value, mask, *rest)

    def guarded_multiply(self, one, other):
        product = multiply(self, one, other)
        if _is_int32(one):
            exact = one.data.astype(np.int64) * other.data.astype(np.int64)
            if (exact != product.data).any():
                raise WrappedProductError(f"{one.data.flat[0]} * {other.data.flat[0]} in 32 bits")
        return product

    def exact_cast(self, source, target_type):
        # The interpreter gets subnormal bfloat16 wrong.
        kinds = source.dtype.scalar, target_type.scalar
        if kinds != (tl.bfloat16, tl.float32):
            return cast(self, source, target_type)
        bits = source.data.view(np.uint16).astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

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

    InterpreterBuilder.create_mul = guarded_multiply
    InterpreterBuilder.cast_impl = exact_cast
    InterpreterBuilder.create_masked_load = guarded_load
    InterpreterBuilder.create_masked_store = guarded_store
    GridExecutor.__call__ = guarded_call
    InterpretedFunction.__call__ = call_device_function
    # Arguments are on the CPU already; the interpreter would copy every storage onto itself.
    GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
    GridExecutor._restore_args_dev = lambda self, *args: None
