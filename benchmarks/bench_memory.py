"""Memory beyond inputs and outputs, as the growth of the peak resident set in a fresh process."""

import subprocess
import sys

import pytest

LIMIT = 64 << 20
PROGRAM = """
import resource, sys, torch, scar_gpu
sys.path.insert(0, {folder!r})
from corpus import Corpus
from sizes import {size} as size

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

corpus = Corpus.random(size, torch.float32, "fp32")
index, queries, hits = corpus.index, corpus.queries, corpus.hits
function = {{
    "neighbor_scores": lambda q, h: index.neighbor_scores(q, h),
    "scar_expand": lambda q, h: index.scar_expand(q, h),
    "continuity": lambda q, h: scar_gpu.continuity(
        index.embeddings, index.doc_offsets, row_scale=index.row_scale),
}}[{operation!r}]
function(queries[:1], hits[:1])
open("/proc/self/clear_refs", "w").write("5")  # resets the peak
before = resident()
result = function(queries, hits)
parts = result if isinstance(result, tuple) else (result,)
status = open("/proc/self/status").read()
high = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(high - before - sum(part.nbytes for part in parts))
"""


@pytest.mark.parametrize("operation", ["neighbor_scores", "scar_expand", "continuity"])
def test_temporary_memory(operation, size, report, benchmark, pytestconfig):
    name = pytestconfig.getoption("--size").upper()
    program = PROGRAM.format(
        folder=str(pytestconfig.rootpath / "benchmarks"), size=name, operation=operation
    )

    def measure():
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        return int(run.stdout)

    extra = benchmark.pedantic(measure, rounds=1)
    report.add_memory(benchmark, work=operation, extra=extra, limit=LIMIT)
    assert extra < 2 * LIMIT
