"""Memory beyond inputs and results: the growth of a process's peak by one call, see peak_memory.py.

One row for every operation at the size of the other benchmarks, one for the exponent of every curve
over one size with the others held, and one for the most of an operation's curves. What is below
0.25 MiB is pages and the stacks of threads, and counts as 0.25 in an exponent. Temporaries end at
budgets, so that most curves bend and an exponent tells less than the picture. Threads may be more
than there are cores: each has its room, until all of them share a budget.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import FULL, QUICK, TINY

FOLDER = Path(__file__).parent
LIMIT, SEARCH_LIMIT = 64 << 20, 256 << 20
BASE = {
    FULL: {"N": 50_000, "B": 1024, "K": 10, "D": 384, "W": 1, "threads": 2},
    QUICK: {"N": 10_000, "B": 256, "K": 10, "D": 384, "W": 1, "threads": 2},
    TINY: {"N": 500, "B": 8, "K": 3, "D": 16, "W": 1, "threads": 1},
}
VALUES = {
    FULL: {
        "N": [12_500, 50_000, 200_000],
        "B": [16, 128, 1024, 8192],
        "K": [10, 20, 40, 80],
        "D": [96, 384, 1536],
        "W": [1, 2, 4, 8],
        "threads": [1, 4, 16, 64],
    },
    QUICK: {
        "N": [5_000, 40_000],
        "B": [32, 1024],
        "K": [10, 40],
        "D": [96, 768],
        "W": [1, 4],
        "threads": [1, 4],
    },
    TINY: {
        "N": [250, 500],
        "B": [2, 8],
        "K": [3, 6],
        "D": [16, 32],
        "W": [1, 2],
        "threads": [1, 2],
    },
}
CURVES = {
    "search_expand": ("N", "B", "K", "D", "W", "threads"),
    "search": ("N", "B", "K", "D", "threads"),
    "scar_expand": ("B", "K", "D", "W", "threads"),
    "corpus_masks": ("N", "B", "D", "W", "threads"),
    "rank_fusion": ("B", "K", "threads"),
}


def measured(cases: list[tuple[str, dict[str, int]]]) -> list[int]:
    """Bytes beyond inputs and results, of every operation with its sizes."""
    path = os.pathsep.join(map(str, (FOLDER.parent, FOLDER)))
    run = subprocess.run(
        [sys.executable, FOLDER / "peak_memory.py", json.dumps(cases)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize("operation", ["neighbor_scores", "scar_expand", "continuity"])
def test_temporary_memory(operation, size, report, benchmark):
    case = {"N": size.n_chunks, "B": size.n_queries, "K": size.k, "D": size.dim, "W": size.window}
    [extra] = benchmark.pedantic(measured, args=([(operation, case)],), rounds=1)
    report.add_memory(benchmark, work=operation, extra=extra, limit=LIMIT)
    assert extra < 2 * LIMIT


@pytest.mark.parametrize("operation", CURVES)
def test_memory_growth(operation, size, report, benchmark):
    base, values = BASE[size], VALUES[size]
    curves = [(variable, values[variable]) for variable in CURVES[operation]]
    cases = [(operation, {**base, variable: n}) for variable, sizes in curves for n in sizes]
    extras = benchmark.pedantic(measured, args=(cases,), rounds=1)
    remaining = iter(extras)
    for variable, sizes in curves:
        held = " ".join(f"{name}={value}" for name, value in base.items() if name != variable)
        report.add_memory_curve(
            benchmark,
            work=f"{operation}, {held}",
            variable=variable,
            sizes=sizes,
            extras=[next(remaining) for _ in sizes],
        )
    limit = SEARCH_LIMIT if operation in ("search", "search_expand", "corpus_masks") else LIMIT
    work = f"{operation}, the most of its curves"
    report.add_memory(benchmark, work=work, extra=max(extras), limit=limit)
    assert max(extras) < 2 * limit
