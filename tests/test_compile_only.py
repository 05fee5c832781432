"""Machine code of every kernel, compiled ahead of time through the real launchers, without a GPU.

The limits are those of benchmarks/kernel_report.py; tests/kernels/test_planted_mistakes.py shows
that they hold.
"""

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from benchmarks import (
    ahead_of_time,
    kernel_cases,
    kernel_launches,
    kernel_report,
    machine_code,
    traffic,
)
from benchmarks.gpu.questions import OPERATIONS as OPERATIONS_ON_GPU
from benchmarks.kernel_report import Row
from tests.backends import OPERATIONS, only_on
from tests.kernels.addresses import narrow_products

TARGETS = tuple(ahead_of_time.TARGETS)
CASES = [*kernel_cases.REPORTED, *kernel_cases.VARIANTS]
# Operations without a kernel of their name: launches of several kernels, which have cases;
IN_SEVERAL_KERNELS = {"scar_expand", "search"}
# the launchers of other operations one after the other, whose cases are the same;
CALLS_OF_OTHERS = {"search_expand"}
# and kernels of PyTorch alone, which compile nothing here.
BY_PYTORCH = {"parameter_sweep"}


class Compiled(NamedTuple):
    """What one architecture made of all cases."""

    rows: list[Row]
    products: list[str]  # 32-bit products in addresses
    inexact: list[str]  # instructions that take subnormal numbers for 0 or round in their own way


def compile_all(target: str) -> Compiled:
    rows, products, inexact = [], set(), set()
    for case, launch in kernel_report.compile_cases(target, CASES):
        rows.append(kernel_report.examine(launch, target, case))
        products.update(narrow_products(launch.compiled.asm["ttir"]))
        found = machine_code.inexact_arithmetic(launch.compiled)
        inexact.update(f"{launch.kernel}: {name}" for name in found)
    return Compiled(rows, sorted(products), sorted(inexact))


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    """All cases on all architectures, by two processes."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        return dict(zip(TARGETS, pool.map(compile_all, TARGETS), strict=True))


only_here = only_on("cpu")  # the interpreter compiles nothing


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_is_within_its_limits(compiled, target):
    violations = [text for row in compiled[target].rows for text in row.violations()]
    assert not violations, "\n".join(violations)


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_subnormal_numbers_and_roundings_are_those_of_ieee_754(compiled, target):
    assert compiled[target].inexact == []


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_addresses_are_products_of_64_bits(compiled, target):
    assert compiled[target].products == []


def registered_operations() -> set[str]:
    """What the dispatcher knows of the package."""
    import scar_gpu  # noqa: F401

    names = torch._C._dispatch_get_all_op_names()
    return {name.removeprefix("scar_gpu::") for name in names if name.startswith("scar_gpu::")}


@only_here
def test_every_operation_has_a_launcher_for_cuda():
    from scar_gpu import library

    operations = registered_operations()
    assert set(OPERATIONS) < operations
    for name in operations:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"scar_gpu::{name}", "CUDA")
        assert callable(library.launcher(name))


@only_here
def test_every_operation_is_compiled_and_measured(compiled):
    operations = registered_operations()
    assert set(OPERATIONS_ON_GPU) == operations
    with_cases = operations - CALLS_OF_OTHERS - BY_PYTORCH
    assert {case.operation for case in CASES} == with_cases
    for target in TARGETS:
        kernels = {row.kernel for row in compiled[target].rows}
        assert with_cases - IN_SEVERAL_KERNELS <= kernels
        assert not IN_SEVERAL_KERNELS & kernels


@only_here
def test_operations_without_a_case_launch_no_kernel_of_their_own():
    from scar_gpu import kernels

    for name in CALLS_OF_OTHERS | BY_PYTORCH:
        source = Path(kernels.__path__[0], f"{name}.py").read_text()
        assert "triton" not in source
        launchers = set(re.findall(r"launch_\w+", source)) - {f"launch_{name}"}
        others = {launcher.removeprefix("launch_") for launcher in launchers}
        assert others <= {case.operation for case in CASES}
        assert bool(others) == (name in CALLS_OF_OTHERS)


@only_here
@pytest.mark.parametrize("target", TARGETS)
def test_row_loads_are_found(compiled, target):
    """A limit on loads is no limit when the loads are not recognised."""
    readers = ("row_scale", "continuity", "neighbor_scores", "rescore", "scan", "short_rows")
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
def test_report_prints_a_table_and_fails_on_a_violation(monkeypatch, capsys, tmp_path):
    cases = [kernel_launches.row_scale(384, torch.float16), kernel_launches.expand(10, 1)]
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
