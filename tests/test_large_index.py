"""Searches by tiles: the results of the whole matrix, in the memory of two tiles."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import ROW_DTYPES, random_corpus, random_queries, seeded, sign_corpus

pytestmark = pytest.mark.usefixtures("run")  # defines the operations


def index_of(data):
    import scar_gpu

    return scar_gpu.ChunkIndex.build(data.embeddings, data.doc_offsets, window=len(data.continuity))


@pytest.fixture
def in_tiles_of(monkeypatch):
    """Sets the rows of a tile, fewer than any budget would make worth while."""
    from scar_gpu import tiles

    return lambda rows: monkeypatch.setattr(tiles, "tile_rows", lambda *arguments: rows)


def sizes(backend):
    """N, B, k, and rows per tile."""
    if backend == "triton":
        return 9, 2, 2, [4]
    return 90, 12, 10, [1, 7, 31, 64, 89, 90, 1000]


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("window", [0, 2])
def test_tiles_of_any_size_do_not_show(backend, device, in_tiles_of, dtype, window):
    """Tiles of one row have a halo of two on either side, across documents."""
    from scar_gpu import large

    n, b, k, tiles = sizes(backend)
    data = random_corpus(n, 16, window=2, dtype=dtype)
    index = index_of(data).to(device)
    queries = random_queries(data.embeddings, b)
    queries[1, 0] = torch.nan
    queries = queries.to(device)
    options = {"lam": 0.25, "gamma": 0.5, "contiguous": True, "order": "document"}
    options["window"] = window
    ranges = torch.sort(torch.randint(0, n + 1, (b, 2), generator=seeded(3)), dim=1).values
    for bounds in (None, ranges.to(device)):
        found = index.search(queries, k, row_ranges=bounds)
        whole = index.search_expand(queries, k, row_ranges=bounds, **options)
        for rows in tiles:
            in_tiles_of(rows)
            assert_same_bits(large.search(index, queries, k, row_ranges=bounds), found)
            judged = large.search_expand(index, queries, k, row_ranges=bounds, **options)
            assert_same_bits(judged, whole)


@only_on("cuda")
def test_an_index_on_the_cpu_is_copied_tile_by_tile(device):
    """What tests/test_staging.py shows of a GPU that is late, on one that is not."""
    from benchmarks.gpu import by_tiles

    for dtype in ROW_DTYPES:
        assert by_tiles.check(device, 3000, 20, dtype)


def test_least_scores_by_tiles(backend, device, in_tiles_of):
    from scar_gpu import large

    n, b, k, tiles = sizes(backend)
    data = random_corpus(n, 16, window=2)
    index = index_of(data).to(device)
    queries = random_queries(data.embeddings, b).to(device)
    least = index.search(queries, k).scores[:, k // 2].contiguous()
    least[0] = torch.nan
    found = index.search_expand(queries, k, min_scores=least)
    for rows in tiles:
        in_tiles_of(rows)
        assert_same_bits(large.search(index, queries, k, min_scores=least), found.hits)
        assert_same_bits(large.search_expand(index, queries, k, min_scores=least), found)


@pytest.mark.parametrize("least", [None, 0.6])
def test_later_tiles_are_searched_for_what_is_kept(device, in_tiles_of, monkeypatch, least):
    """Tiles of two rows with the scores 0.5 and 0, 1 and 0.8, 0.25 and 0."""
    import scar_gpu
    from scar_gpu import api, large

    scores = torch.tensor([0.5, 0.0, 1.0, 0.8, 0.25, 0.0])
    rows = torch.stack([scores, (1 - scores**2).sqrt()], 1)
    index = scar_gpu.ChunkIndex.build(rows, device=device)
    query = torch.tensor([[1.0, 0.0]], device=device)
    asked = []

    def search(*arguments, min_scores, **options):
        asked.append(min_scores)
        return api_search(*arguments, min_scores=min_scores, **options)

    api_search = api.search
    monkeypatch.setattr(api, "search", search)
    in_tiles_of(2)
    given = None if least is None else torch.tensor([least], device=device)
    large.search(index, query, 2, min_scores=given)
    assert asked[0] is given
    expected = torch.tensor([[0.0], [0.8]] if least is None else [[0.6], [0.8]])
    torch.testing.assert_close(torch.stack(asked[1:]).cpu(), expected, atol=1e-6, rtol=0)


@only_on("cpu")
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_pages_are_brought_in(in_tiles_of, monkeypatch, tmp_path, platform):
    """By the system where it can, else one by one: none of a mapped matrix is left out."""
    import scar_gpu
    from scar_gpu import large, staging

    data = random_corpus(3000, 64)
    index_of(data).save(tmp_path / "index")
    index = scar_gpu.ChunkIndex.load(tmp_path / "index")
    rows = index.embeddings
    release = tuple(int(number) for number in os.uname().release.split(".")[:2])
    is_supported = platform == sys.platform == "linux" and release >= (5, 14)
    asked, touched = [], []

    def populate(address, nbytes):
        asked.append((address, nbytes))
        return originally(address, nbytes)

    def touch(memory, dtype):
        touched.append(memory.nbytes)
        return frombuffer(memory, dtype)

    originally, frombuffer = staging._populate, np.frombuffer
    monkeypatch.setattr(staging, "_populate", populate)
    monkeypatch.setattr(np, "frombuffer", touch)
    monkeypatch.setattr(sys, "platform", platform)
    in_tiles_of(1000)
    queries = random_queries(data.embeddings, 3)
    assert_same_bits(large.search(index, queries, 5), index.search(queries, 5))
    tile = 1000 * 64 * 4
    assert asked == [(rows.data_ptr() + i * tile, tile) for i in range(3)]
    assert touched == ([] if is_supported else [tile] * 3)
    assert originally(rows.data_ptr() + 4, rows.nbytes - 8) == is_supported
    assert not originally(1 << 40, 1)  # nothing is there


def test_ties_across_tiles(backend, device, in_tiles_of):
    from scar_gpu import large

    n, _, k, tiles = sizes(backend)
    data = sign_corpus(n, 4)
    index = index_of(data).to(device)
    queries = sign_corpus(2, 4, seed=7).embeddings.to(device)
    whole = index.search_expand(queries, k)
    for rows in tiles:
        in_tiles_of(rows)
        assert_same_bits(large.search_expand(index, queries, k), whole)


def test_nothing_to_find_or_to_ask(device, in_tiles_of):
    import scar_gpu
    from scar_gpu import large

    index = scar_gpu.ChunkIndex.build(torch.empty(0, 8), device=device)
    queries = torch.randn(2, 8, device=device)
    assert_same_bits(large.search_expand(index, queries, 3), index.search_expand(queries, 3))
    assert_same_bits(large.search(index, queries, 3), index.search(queries, 3))
    full = scar_gpu.ChunkIndex.build(torch.eye(8), device=device)
    in_tiles_of(2)
    none = queries[:0]
    assert_same_bits(large.search(full, none, 3), full.search(none, 3))
    nowhere = torch.tensor([[3, 3], [8, 8]], device=device)
    assert_same_bits(
        large.search_expand(full, queries, 3, row_ranges=nowhere),
        full.search_expand(queries, 3, row_ranges=nowhere),
    )


def test_an_index_without_rows_has_no_progress(device):
    """A share of nothing would divide by zero."""
    import scar_gpu
    from scar_gpu import large

    index = scar_gpu.ChunkIndex.build(torch.empty(0, 8), device=device)
    queries = torch.randn(2, 8, device=device)
    large.search(index, queries, 3, progress=lambda done, rows: done / rows)


def test_progress_that_cannot_be_called(device, in_tiles_of):
    """Refused before a tile is searched."""
    import scar_gpu
    from scar_gpu import large

    index = scar_gpu.ChunkIndex.build(torch.eye(8), device=device)
    in_tiles_of(None)  # which no search gets to
    for search in (large.search, large.search_expand):
        with pytest.raises(TypeError, match=r"^progress must be callable, got int$"):
            search(index, torch.eye(8, device=device), 3, progress=7)


def test_progress_counts_rows_and_may_stop(device, in_tiles_of):
    from scar_gpu import large

    index = index_of(random_corpus(50, 16)).to(device)
    queries = torch.randn(1, 16, generator=seeded(1)).to(device)
    seen = []
    in_tiles_of(20)
    large.search(index, queries, 3, progress=lambda *at: seen.append(at))
    assert seen == [(20, 50), (40, 50), (50, 50)]

    class Stop(Exception):
        pass

    def stop(done, rows):
        seen.append((done, rows))
        raise Stop

    with pytest.raises(Stop):
        large.search_expand(index, queries, 3, progress=stop)
    assert len(seen) == 4


def test_tiles_that_no_query_may_return_are_not_read(device, in_tiles_of):
    from scar_gpu import large

    index = index_of(random_corpus(50, 16)).to(device)
    queries = torch.randn(2, 16, generator=seeded(1)).to(device)
    ranges = torch.tensor([[21, 23], [22, 41]], device=device)
    seen = []
    in_tiles_of(10)
    large.search(
        index, queries, 3, row_ranges=ranges, progress=lambda done, rows: seen.append(done)
    )
    assert seen == [30, 40, 50]
    ranges[1] = 5  # an empty range in a tile that no other touches
    large.search(
        index, queries, 3, row_ranges=ranges, progress=lambda done, rows: seen.append(done)
    )
    assert seen == [30, 40, 50, 30]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"index": torch.zeros(2, 16)}, TypeError, "index must be a ChunkIndex, got Tensor"),
        ({"memory_budget": 1.5}, TypeError, "memory_budget must be an int, got float"),
        ({"memory_budget": 0}, ValueError, "memory_budget must be >= 1, got 0"),
        ({"device": "meta"}, ValueError,
         "device must be cpu like the index or a CUDA device, got meta"),
        ({"k": 0}, ValueError, "k must be >= 1, got 0"),
        ({"queries": torch.zeros(2, 3)}, ValueError, "queries must have shape [B, 16], got [2, 3]"),
        ({"row_ranges": torch.tensor([[0, 5], [3, 2]])}, IndexError,
         "row_ranges[1] must satisfy 0 <= start <= end <= 50, got [3, 2)"),
        ({"row_ranges": torch.tensor([[0, 51], [1, 2]])}, IndexError,
         "row_ranges[0] must satisfy 0 <= start <= end <= 50, got [0, 51)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["search", "search_expand"])
def test_bad_arguments(name, change, error, message):
    from scar_gpu import large

    index = index_of(random_corpus(50, 16))
    arguments = {"index": index, "queries": torch.zeros(2, 16), "k": 3} | change
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        getattr(large, name)(**arguments)


def test_a_window_beyond_the_index(device):
    from scar_gpu import large

    index = index_of(random_corpus(50, 16))
    with pytest.raises(ValueError, match=r"^window must be <= 1, the index's own, got 2$"):
        large.search_expand(index, torch.zeros(2, 16), 3, window=2)


MAPPED = """
import re, resource, sys
from pathlib import Path
import numpy as np, torch, scar_gpu
from scar_gpu import large

def data():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmData:\\s+(\\d+) kB", status)[1]) * 1024

rows = np.memmap(sys.argv[1], mode="r", dtype=np.float16).reshape(-1, 256)
scale, table = torch.ones(len(rows)) / 16, torch.ones(1, len(rows))
small = scar_gpu.ChunkIndex.build(rows[:5000])
index = scar_gpu.ChunkIndex(
    scar_gpu.index._as_tensor("rows", rows), scale, table, torch.tensor([0, len(rows)]))
queries = torch.randn(64, 256)
large.search_expand(small, queries, 10)  # threads and libraries
BUDGET = 64 * 2**20
limit = data() + BUDGET
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
CALL
"""


@pytest.mark.slow
@only_on("cpu")
def test_a_mapped_matrix_takes_no_more_memory_than_the_budget(tmp_path):
    """512 MiB of float16 rows, with 64 MiB of memory to allocate; a copy of them does not fit."""
    path = tmp_path / "rows.bin"
    part = np.random.default_rng(0).standard_normal(2**22).astype(np.float16)
    with path.open("wb") as file:
        for _ in range(64):
            part.tofile(file)

    def outcome(call):
        script = MAPPED.replace("CALL", call)
        return subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)

    for call in (
        "large.search_expand(index, queries, 10, memory_budget=BUDGET)",
        "index.search_expand(queries, 10)",
    ):
        result = outcome(f"print({call}.hits.ids.diff().unique().tolist())")
        assert result.returncode == 0, result.stderr
        assert result.stdout == "[16384]\n"  # the first copies of the best row
    assert "memory" in outcome("index.embeddings.float()").stderr
