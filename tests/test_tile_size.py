"""The memory of a search by tiles: what its budget promises, and what it takes."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from scar_gpu import ChunkIndex, checks, tile_size
from scar_gpu.tile_size import MOST_TILE_BYTES, TILE_BYTES, tile_rows
from tests.backends import only_on

CPU = torch.device("cpu")


def index_of(n, dim, dtype=torch.float32, window=2):
    """An index of one number: no page of it is written."""
    return ChunkIndex(
        torch.zeros((), dtype=dtype).expand(n, dim),
        torch.zeros(()).expand(n),
        torch.zeros(()).expand(window, n),
        torch.tensor([0, n]),
    )


def least_budget(index, n_queries, k, window):
    """The budget that a smaller one is told."""
    with pytest.raises(ValueError, match=rf"for {n_queries} queries and k = {k}, got 1$") as error:
        tile_rows(index, n_queries, k, window, CPU, 1)
    return int(re.search(r"^memory_budget must be >= (\d+) for", str(error.value))[1])


@only_on("cpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [1, 384, 200_000])
@pytest.mark.parametrize("window", [0, 2])
def test_tiles_fill_the_budget(dtype, dim, window):
    index = index_of(10**7, dim, dtype)
    row = dim * dtype.itemsize + 4 + 4 * window
    least = least_budget(index, 1000, 10, window)
    with pytest.raises(ValueError, match=rf"must be >= {least} for .*, got {least - 1}$"):
        tile_rows(index, 1000, 10, window, CPU, least - 1)
    few = tile_rows(index, 1000, 10, window, CPU, least)
    more = tile_rows(index, 1000, 10, window, CPU, least + 2**20)
    assert few >= 1
    assert abs((more - few) * row - 2**19) <= row  # half of the additional bytes: there are two
    for budget, most in ((None, TILE_BYTES), (2**40, MOST_TILE_BYTES)):
        rows = tile_rows(index, 1000, 10, window, CPU, budget)
        assert most - (2 * window + 1) * row - 768 < rows * row <= most


@only_on("cpu")
def test_a_budget_may_be_an_integer_of_numpy():
    index = index_of(10**6, 16)
    sizes = [tile_rows(index, 1, 1, 1, CPU, kind(10**8)) for kind in (int, np.int32, np.uint64)]
    assert len(set(sizes)) == 1
    assert type(sizes[2]) is int
    with pytest.raises(ValueError, match="memory_budget must be >= 1, got -3"):
        tile_rows(index, 1, 1, 1, CPU, np.int64(-3))
    for wrong in (True, np.True_, 1e9, np.float64(1e9), "1GB"):
        with pytest.raises(TypeError, match="memory_budget must be an int, got"):
            tile_rows(index, 1, 1, 1, CPU, wrong)


@only_on("cpu")
def test_a_small_index_needs_no_room_for_a_larger_one():
    assert least_budget(index_of(10, 16), 1, 1, 1) < least_budget(index_of(10**6, 16), 1, 1, 1)
    assert tile_rows(index_of(0, 16), 1, 1, 1, CPU, None) >= 1


@only_on("cpu")
def test_the_memory_of_containers(tmp_path, monkeypatch):
    """What results must fit, and the default budget in three quarters of it."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(checks, "CONTAINER_LIMIT", limit)
    machine = checks.machine_memory()
    assert machine > 2**28
    for text, expected in (("max\n", machine), (f"{2**60}\n", machine), (f"{2**28}\n", 2**28)):
        limit.write_text(text)
        assert checks.machine_memory() == expected
    monkeypatch.setattr(checks, "MEMORY", 2**28)
    assert tile_size.default_budget(CPU) == 2**28 // 4 * 3


PEAK = r"""
import re, sys
from pathlib import Path
import torch
import scar_gpu
from scar_gpu import large, tile_size

def memory(name):
    status = Path("/proc/self/status").read_text()
    return int(re.search(name + r":\s+(\d+) kB", status)[1]) * 1024

def index_of(n, dim, window, dtype):
    rows = torch.empty(n, dim, dtype=dtype).normal_()
    scale, table = scar_gpu.row_scale(rows), torch.empty(window, n).uniform_(-1, 1)
    return scar_gpu.ChunkIndex(rows, scale, table, torch.tensor([0, n]))

n, dim, b, k, window = map(int, sys.argv[1:6])
index = index_of(n, dim, window, getattr(torch, sys.argv[6]))
queries = torch.randn(b, dim)
large.search_expand(index_of(5000, 16, 1, torch.float16), torch.randn(20, 16), 5)
try:
    large.search_expand(index, queries, k, memory_budget=1)
except ValueError as error:
    budget = int(re.search(r">= (\d+)", str(error))[1])
SETUP
Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
before = memory("VmRSS")
found = large.search_expand(index, queries, k, memory_budget=budget)
tiles = 2 * tile_size.LEAST_TILE_BYTES
print(memory("VmHWM") - before, budget - tiles, tiles)
"""
# A GPU that is the CPU: its buffers count as much.
STAGED = """
from types import SimpleNamespace
from scar_gpu import staging, tiles
empty = lambda nbytes: torch.empty(nbytes, dtype=torch.uint8).fill_(1)
copies = SimpleNamespace(
    host_buffer=empty, device_buffer=empty, computed=lambda: None, wait=lambda event: None,
    copy=lambda target, source, after: target.copy_(source), compute_after=lambda event: None)
tiles._source = lambda rows, most, device: staging.Staged(rows, most, copies)
"""
SIZES = [
    ("100000", "64", "256", "10", "1", "float32"),
    ("100000", "64", "4096", "10", "1", "float16"),
    ("100000", "32", "20000", "10", "1", "float32"),
    ("100000", "32", "1024", "100", "3", "bfloat16"),
    ("30000", "384", "300", "1000", "1", "float16"),
]


@only_on("cpu")
@pytest.mark.slow
@pytest.mark.parametrize("setup", ["", STAGED], ids=["in place", "staged"])
@pytest.mark.parametrize("sizes", SIZES, ids="-".join)
def test_a_search_takes_no_more_than_its_budget(sizes, setup):
    """The index is in memory before, so that tiles in place cost nothing."""
    script = PEAK.replace("SETUP", setup)
    output = subprocess.run(
        [sys.executable, "-c", script, *sizes], check=True, capture_output=True, text=True
    )
    growth, rest, tiles = map(int, output.stdout.split())
    # Pinned memory lies before the device.
    assert growth <= rest + (2 * tiles if setup else 0)
    assert growth > rest // 10  # what is measured is there
