"""The guard catches what the interpreter lets through, and nothing else."""

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError
from triton.runtime.interpreter import GridExecutor

from tests.backends import only_on


@triton.jit
def _copy_kernel(source_ptr, target_ptr, source_stride, first, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source_ptr + (first + index) * source_stride, mask=index < n, other=0)
    tl.store(target_ptr + index, values, mask=index < n)


def copy(source, target, *, first=0, n=None, programs=2):
    n = target.numel() if n is None else n
    _copy_kernel[(programs,)](source, target, source.stride(0), first, n, BLOCK=8)
    return target


@only_on("triton")
def test_the_guard_is_on():
    assert GridExecutor.is_guarded


@only_on("triton")
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64], ids=str)
def test_accesses_within_the_tensors_pass(dtype):
    source = torch.arange(13).to(dtype)
    assert torch.equal(copy(source, torch.zeros_like(source)), source)
    strided = torch.arange(26).to(dtype)[::2]
    assert torch.equal(copy(strided, torch.zeros(13, dtype=dtype)), strided)
    masked_out = torch.empty(0, dtype=dtype)
    copy(masked_out, torch.empty(0, dtype=dtype))


@only_on("triton")
@pytest.mark.parametrize("first", [-1, 1])
def test_a_planted_load_out_of_bounds_is_caught(first):
    source = torch.zeros(64)[16:29]  # both sides belong to the same storage, not to the tensor
    with pytest.raises(InterpreterError, match="load of 4 bytes"):
        copy(source, torch.zeros(13), first=first)


@only_on("triton")
def test_a_planted_store_out_of_bounds_is_caught():
    target = torch.zeros(64)[:13]
    with pytest.raises(InterpreterError, match="store of 4 bytes at 52 of a tensor of 52"):
        copy(torch.zeros(64), target, n=14)


@only_on("triton")
def test_memory_of_an_earlier_launch_is_out_of_bounds():
    old, source = torch.zeros(16), torch.zeros(16)
    copy(old, torch.zeros(16))
    distance = (old.data_ptr() - source.data_ptr()) // 4
    with pytest.raises(InterpreterError, match="load of 4 bytes"):
        copy(source, torch.zeros(16), first=distance)


@triton.jit
def _widen_kernel(source_ptr, target_ptr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(target_ptr + index, tl.load(source_ptr + index).to(tl.float32))


@only_on("triton")
def test_subnormal_bfloat16_is_widened_exactly():
    source = torch.tensor(
        [0.0, 2.0**-133, -(2.0**-130) * 1.25, 2.0**-126, 3e38, -torch.inf]
    ).bfloat16()
    source = torch.cat([source, torch.tensor([torch.nan, 1.5]).bfloat16()])
    target = torch.zeros(8)
    _widen_kernel[(1,)](source, target, BLOCK=8)
    assert torch.equal(target.view(torch.int32), source.float().view(torch.int32))
