"""Machine code of every kernel, compiled ahead of time through the real launchers, without a GPU.

The limits are those of benchmarks/kernel_report.py. Planted mistakes show that they hold.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import pytest
import torch
import triton
import triton.language as tl

from benchmarks import ahead_of_time, kernel_cases, kernel_report, machine_code, traffic
from benchmarks.kernel_report import Row
from scar_gpu.kernels import dot, neighbor_scores
from tests.backends import OPERATIONS, WITHOUT_TRITON, only_on
from tests.kernels.addresses import narrow_products

TARGETS = tuple(ahead_of_time.TARGETS)
CASES = [*kernel_cases.REPORTED, *kernel_cases.VARIANTS]


class Compiled(NamedTuple):
    """What one architecture made of all cases."""

    rows: list[Row]
    products: list[str]  # 32-bit products in addresses


def compile_all(target: str) -> Compiled:
    rows, products = [], set()
    for case, launch in kernel_report.compile_cases(target, CASES):
        rows.append(kernel_report.examine(launch, target, case))
        products.update(narrow_products(launch.compiled.asm["ttir"]))
    return Compiled(rows, sorted(products))


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    """All cases on all architectures, by two processes."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        return dict(zip(TARGETS, pool.map(compile_all, TARGETS), strict=True))


def only_here(test):
    """The interpreter compiles nothing, and one run is enough."""
    return only_on("cpu")(test)


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_is_within_its_limits(compiled, target):
    violations = [text for row in compiled[target].rows for text in row.violations()]
    assert not violations, "\n".join(violations)


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_addresses_are_products_of_64_bits(compiled, target):
    assert compiled[target].products == []


@only_here
def test_every_operation_is_compiled(compiled):
    built_on_others = {"scar_expand", "search"}  # launches of other kernels
    expected = set(OPERATIONS) - set(WITHOUT_TRITON) - built_on_others
    for target in TARGETS:
        assert expected <= {row.kernel for row in compiled[target].rows}


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_row_loads_are_found(compiled, target):
    """A limit on loads is no limit when the loads are not recognised."""
    readers = ("row_scale", "continuity", "neighbor_scores", "rescore", "scan")
    for row in compiled[target].rows:
        assert (row.row_bits is not None) == (row.kernel in readers), row


@only_here
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [384, 448, 768, 1024, 3072])
def test_neighbor_scores_moves_little_but_useful_bytes(dim, dtype):
    moved = traffic.neighbor_scores(8192, 10, 1, dim * dtype.itemsize, dim * 4)
    assert moved.share >= 0.95


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_one_shape_of_the_dot_product_per_dimension_and_dtype(target):
    """The same bits in every kernel: no batch size, window or option changes the blocks."""
    shapes = {}
    for case, launch in kernel_report.compile_cases(target, CASES):
        if "LANES" in launch.config:
            dim, dtype = case.label.split()[:2]
            blocks = tuple(launch.config[name] for name in ("DIM", "LANES", "UNROLL", "num_warps"))
            shapes.setdefault((dim, dtype), set()).add(blocks)
    assert len(shapes) > 10
    assert all(len(blocks) == 1 for blocks in shapes.values()), shapes


def compile_one(target: str, case: kernel_cases.Case) -> Row:
    (row,) = kernel_report.report(target, [case])
    return row


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_planted_narrow_loads_are_found(monkeypatch, target):
    """A launcher that forgets the unit of its strides: 125 * 8 columns, seen as 1000."""
    monkeypatch.setattr(neighbor_scores, "stride_unit", lambda matrix: 1)
    row = compile_one(target, kernel_cases.neighbor_scores(1000, torch.float16))
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
    row = compile_one(target, kernel_cases.neighbor_scores(384, torch.float16))
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
    case = kernel_cases.expand(1, 0)
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
        assert {load.file for load in code.loads} == {"test_compile_only.py"}
        assert len({load.line for load in code.loads}) == 1


@only_here
def test_planted_32_bit_products_are_found():
    rows, ids, out = torch.empty(64), torch.empty(8, dtype=torch.int32), torch.empty(64)

    def products(kernel, *args):
        (launch,) = launches_of("sm_90", kernel, *args, BLOCK=8, num_warps=1)
        return narrow_products(launch.compiled.asm["ttir"])

    found = products(_narrow_product_kernel, rows, ids, out, 24)
    assert len(found) == 2  # of the program id and of the loaded row
    assert all(text.startswith("test_compile_only.py:") for text in found)
    assert products(_wide_product_kernel, rows, ids, out, 24) == []
    assert len(products(_loop_product_kernel, rows, out, 24, 8)) == 1


@only_here
def test_a_planted_stride_of_one_does_not_compile():
    """The compiler turns an argument of 1 into a constant, which has no type to convert."""
    rows, out = torch.empty(64), torch.empty(64)
    launches_of("sm_90", _unit_stride_kernel, rows, out, 2)
    with pytest.raises(triton.compiler.errors.CompilationError):
        launches_of("sm_90", _unit_stride_kernel, rows, out, 1)


@only_here
@pytest.mark.parametrize("order", ["rank", "document"])
def test_nothing_is_left_to_compile_after_warmup(monkeypatch, order):
    """Calls of other batch sizes, and of other k in the same blocks, find their kernels."""
    import scar_gpu
    from scar_gpu.kernels import scar_expand, spans, window_expand
    from scar_gpu.kernels.warmup import warmup

    def through_launchers(queries, rows, table, hits, *, contiguous=False, row_scale, order):
        args = (queries, rows, table, hits, 0.1, 0.8, contiguous, row_scale, None)
        return scar_expand.launch_scar_expand(*args, order == "document")

    def window_through_launchers(hits, offsets, *, before, after, order):
        return window_expand.launch_window_expand(hits, offsets, before, after, order == "document")

    monkeypatch.setattr(scar_gpu, "scar_expand", through_launchers)
    monkeypatch.setattr(scar_gpu, "window_expand", window_through_launchers)
    monkeypatch.setattr(scar_gpu, "spans", lambda e, offsets: spans.launch_spans(e[0], offsets))
    index = scar_gpu.ChunkIndex.build(torch.randn(100, 24), [0, 30, 100])
    with ahead_of_time.compile_only("sm_90") as launches:
        warmup(index, [1, 8], [5, 40], order=order)
        warmed = {launch.compiled.hash for launch in launches}
        launches.clear()
        for n_queries, k in ((1, 5), (3, 7), (1000, 42)):
            queries, hits = torch.randn(n_queries, 24), torch.zeros(n_queries, k).long()
            expansion = through_launchers(
                queries,
                index.embeddings,
                index.continuity,
                hits,
                row_scale=index.row_scale,
                order=order,
            )
            spans.launch_spans(expansion[0], index.doc_offsets)
            window_through_launchers(hits, index.doc_offsets, before=1, after=1, order=order)
    assert len(launches) >= 12
    assert {launch.compiled.hash for launch in launches} <= warmed


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


@only_here
def test_report_prints_a_table_and_fails_on_a_violation(monkeypatch, capsys, tmp_path):
    cases = [kernel_cases.row_scale(384, torch.float16), kernel_cases.expand(10, 1)]
    monkeypatch.setattr(kernel_report, "REPORTED", cases)
    file = tmp_path / "report.json"
    assert kernel_report.main(["--targets", "sm_80", "gfx942", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line] == [
        "target", "sm_80", "sm_80", "target", "gfx942", "gfx942", "4",
    ]  # fmt: skip
    rows = json.loads(file.read_text())
    assert [row["target"] for row in rows] == ["sm_80", "sm_80", "gfx942", "gfx942"]
    assert rows[0]["code"]["spills"] == 0

    monkeypatch.setattr(kernel_report, "MIN_OCCUPANCY", 1.1)
    assert kernel_report.main(["--targets", "sm_80"]) == 1
    assert "occupancy" in capsys.readouterr().out.splitlines()[-1]
