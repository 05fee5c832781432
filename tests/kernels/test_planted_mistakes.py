"""Mistakes planted in kernels and launchers turn the checks of the machine code red."""

import pytest
import torch
import triton
import triton.language as tl

from benchmarks import ahead_of_time, kernel_launches, kernel_report, machine_code
from benchmarks.kernel_report import Row
from scar_gpu.kernels import dot, neighbor_scores
from tests.backends import only_on
from tests.kernels.addresses import narrow_products

TARGETS = tuple(ahead_of_time.TARGETS)
only_here = only_on("cpu")  # the interpreter compiles nothing


def compile_one(target: str, case: kernel_launches.Case) -> Row:
    (row,) = kernel_report.report(target, [case])
    return row


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_planted_narrow_loads_are_found(monkeypatch, target):
    """A launcher that forgets the unit of its strides: 125 * 8 columns, seen as 1000."""
    monkeypatch.setattr(neighbor_scores, "stride_unit", lambda matrix: 1)
    row = compile_one(target, kernel_launches.neighbor_scores(1000, torch.float16))
    assert row.row_bits < 128
    assert any("embedding rows are read" in text for text in row.violations())


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_planted_narrow_blocks_are_found(monkeypatch, target):
    """Half the lanes: too few columns for a widest load in every thread."""
    config = dot.dot_config

    def halved(*args):
        blocks = config(*args)
        return blocks | {"LANES": blocks["LANES"] // 2}

    monkeypatch.setattr(neighbor_scores, "dot_config", halved)
    row = compile_one(target, kernel_launches.neighbor_scores(384, torch.float16))
    assert any("embedding rows are read 64 bits" in text for text in row.violations())


@triton.jit
def _greedy_kernel(rows_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    row = tl.load(rows_ptr + columns)
    tl.store(out_ptr + columns, row * tl.sum(row, axis=0))


@triton.jit
def _strided_kernel(rows_ptr, out_ptr, stride, n_columns, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    row = tl.load(rows_ptr + columns * stride, mask=columns < n_columns, other=0)
    tl.store(out_ptr + columns, row)


@triton.jit
def _narrow_product_kernel(rows_ptr, ids_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    program = tl.program_id(0)
    row = tl.load(ids_ptr + program)
    values = tl.load(rows_ptr + row * stride + columns)
    tl.store(out_ptr + program * BLOCK + columns, values)


@triton.jit
def _wide_product_kernel(rows_ptr, ids_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    program = tl.program_id(0).to(tl.int64)
    row = tl.load(ids_ptr + program).to(tl.int64)
    values = tl.load(rows_ptr + row * stride + columns)
    tl.store(out_ptr + program * BLOCK + columns, values)


@triton.jit
def _loop_product_kernel(rows_ptr, out_ptr, stride, n_rows, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.float32)
    for row in tl.range(0, n_rows):
        sums += tl.load(rows_ptr + row * stride + columns)
    tl.store(out_ptr + columns, sums)


@triton.jit
def _scanned_rows_kernel(
    queries_ptr, rows_ptr, ids_ptr, out_ptr, stride, n_rows, IS_WIDE: tl.constexpr
):
    """Like a search: tuples of rows from a loop, in a branch, handed to the dot product."""
    for row in tl.range(0, n_rows):
        if tl.load(ids_ptr + row) >= 0:
            rows = (row, row + 1)
            if IS_WIDE:
                products = dot.cosines(
                    queries_ptr, 1, (1.0, 1.0), True, rows_ptr, stride, None, rows, (True, True),
                    1, 32, 32, 1,
                )  # fmt: skip
            else:
                row_ptrs = (rows_ptr + rows[0] * stride, rows_ptr + rows[1] * stride)
                products = dot.dots(
                    queries_ptr, 1, (1.0, 1.0), True, row_ptrs, (True, True), (), 32, 32, 1
                )
            tl.store(out_ptr + row, products[1])


@triton.jit
def _unit_stride_kernel(rows_ptr, out_ptr, stride):
    tl.store(out_ptr, tl.load(rows_ptr + stride.to(tl.int64)))


def launches_of(target: str, kernel, *args, **config) -> list[ahead_of_time.Launch]:
    with ahead_of_time.compile_only(target) as launches:
        kernel[(8,)](*args, **config)
    return launches


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_planted_spills_are_found(target):
    """A block of 32,768 numbers, all needed at once, in the registers of one warp."""
    rows, out = torch.empty(2**15), torch.empty(2**15)
    (launch,) = launches_of(target, _greedy_kernel, rows, out, BLOCK=2**15, num_warps=1)
    case = kernel_launches.expand(1, 0)
    found = kernel_report.examine(launch, target, case).violations()
    assert any("spills" in text for text in found), found


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_loads_of_a_planted_kernel_are_measured(target):
    rows, out = torch.empty(1024), torch.empty(1024)
    for stride, bits in ((1, 128), (3, 32)):
        (launch,) = launches_of(
            target, _strided_kernel, rows, out, stride, 512, BLOCK=512, num_warps=1
        )
        code = machine_code.read_machine_code(launch.compiled, target)
        assert {load.bits for load in code.loads} == {bits}
        assert {load.file for load in code.loads} == {"test_planted_mistakes.py"}
        assert len({load.line for load in code.loads}) == 1


@only_here
def test_planted_32_bit_products_are_found():
    rows, ids, out = torch.empty(64), torch.empty(8, dtype=torch.int32), torch.empty(64)

    def products(kernel, *args):
        (launch,) = launches_of("sm_90", kernel, *args, BLOCK=8, num_warps=1)
        return narrow_products(launch.compiled.asm["ttir"])

    found = products(_narrow_product_kernel, rows, ids, out, 24)
    assert len(found) == 2  # of the program id and of the loaded row
    assert all(text.startswith("test_planted_mistakes.py:") for text in found)
    assert products(_wide_product_kernel, rows, ids, out, 24) == []
    assert len(products(_loop_product_kernel, rows, out, 24, 8)) == 1


@only_here
@pytest.mark.parametrize("is_wide", [False, True])
def test_32_bit_products_are_found_through_loops_branches_and_calls(is_wide):
    rows, ids, out = torch.empty(64), torch.empty(8, dtype=torch.int32), torch.empty(64)
    (launch,) = launches_of(
        "sm_90", _scanned_rows_kernel, rows, rows, ids, out, 24, 8, IS_WIDE=is_wide, num_warps=1
    )
    found = narrow_products(launch.compiled.asm["ttir"])
    assert len(found) == (0 if is_wide else 1)  # two products on one line


@triton.jit
def _inexact_kernel(out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(out_ptr + columns)
    tl.store(out_ptr + columns, tl.sqrt(values) / (values + 1))


@only_here
def test_planted_approximations_are_found():
    (launch,) = launches_of("sm_90", _inexact_kernel, torch.empty(32), BLOCK=32, num_warps=1)
    found = machine_code.inexact_arithmetic(launch.compiled)
    assert any(name.startswith("sqrt.approx") for name in found), found
    assert any(name.startswith("div.full") for name in found), found


@only_here
def test_a_planted_stride_of_one_does_not_compile():
    """The compiler turns an argument of 1 into a constant, which has no type to convert."""
    rows, out = torch.empty(64), torch.empty(64)
    launches_of("sm_90", _unit_stride_kernel, rows, out, 2)
    with pytest.raises(triton.compiler.errors.CompilationError):
        launches_of("sm_90", _unit_stride_kernel, rows, out, 1)


@only_here
@pytest.mark.parametrize(
    ("target", "registers", "shared", "num_warps", "share"),
    [
        # 32 programs per multiprocessor, one warp each, of 64
        ("sm_90", 32, 0, 1, 0.5),
        # 65,536 registers / (128 * 32 per warp) = 16 warps
        ("sm_90", 128, 0, 4, 0.25),
        # 72 * 32 = 2,304 registers per warp: 28 warps
        ("sm_80", 72, 0, 1, 28 / 64),
        # 164 KiB / (40 + 1) KiB = 4 programs of 4 warps
        ("sm_80", 32, 40 * 1024, 4, 0.25),
        # 512 / 128 = 4 of 8 waves per SIMD
        ("gfx942", 128, 0, 4, 0.5),
        ("gfx942", 32, 32 * 1024, 4, 0.25),
    ],
)
def test_occupancy(target, registers, shared, num_warps, share):
    assert machine_code.occupancy(target, registers, shared, num_warps) == share
