"""Tiles by way of copies to a GPU, on the CPU: the results, and the order of what uses a buffer."""

import time
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch._subclasses import FakeTensorMode

from benchmarks.gpu import by_tiles
from scar_gpu import ChunkIndex, api, large, staging, tiles
from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import ROW_DTYPES, random_corpus, random_queries, seeded
from tests.late_cuda import Buffer, LateCuda, RaceError

N, DIM = 90, 16


def plain(value):
    """The argument without the subclass, which an operation would hand on to its results."""
    return value.as_subclass(torch.Tensor) if isinstance(value, Buffer) else value


@pytest.fixture
def cuda(monkeypatch):
    """Searches by tiles are staged, in a CUDA that is late."""
    late = LateCuda(monkeypatch)
    for name in ("search", "search_expand"):

        def operation(*args, real, row_scale, **options):
            late.computes(*args, row_scale)
            args = [plain(value) for value in args]
            return real(*args, row_scale=plain(row_scale), **options)

        monkeypatch.setattr(api, name, partial(operation, real=getattr(api, name)))
    monkeypatch.setattr(
        tiles,
        "_source",
        lambda rows, most, device: staging.Staged(rows, most, staging.Copies(device)),
    )
    return late


def index_of(dtype=torch.float32, window=2):
    data = random_corpus(N, DIM, window=window, dtype=dtype)
    return ChunkIndex.build(data.embeddings, data.doc_offsets, window=window)


def in_tiles_of(rows, monkeypatch):
    monkeypatch.setattr(tiles, "tile_rows", lambda *arguments: rows)


@only_on("cpu")
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 31, 89, 1000])
@pytest.mark.parametrize("window", [0, 2])
def test_staged_tiles_do_not_show(monkeypatch, request, dtype, rows, window):
    index = index_of(dtype)
    queries = random_queries(index.embeddings, 12)
    ranges = torch.sort(torch.randint(0, N + 1, (12, 2), generator=seeded(3)), dim=1).values
    options = {"lam": 0.25, "gamma": 0.5, "contiguous": True, "window": window}
    cases = [
        (bounds, index.search(queries, 10, row_ranges=bounds),
         index.search_expand(queries, 10, row_ranges=bounds, **options))
        for bounds in (None, ranges, ranges[:, :1].expand(12, 2))
    ]  # fmt: skip
    cuda = request.getfixturevalue("cuda")
    in_tiles_of(rows, monkeypatch)
    for bounds, found, whole in cases:
        assert_same_bits(large.search(index, queries, 10, row_ranges=bounds), found)
        judged = large.search_expand(index, queries, 10, row_ranges=bounds, **options)
        assert_same_bits(judged, whole)
        cuda.check_end()
    assert cuda.n_copies >= 4 * -(-N // rows)


@only_on("cpu")
def test_the_check_on_a_gpu_in_the_late_one(cuda):
    assert by_tiles.check(torch.device("cpu"), 300, 12, torch.float32)
    assert cuda.n_copies > 100
    cuda.check_end()


@only_on("cpu")
def test_where_a_search_runs():
    """Tensors without values stand for those of two GPUs."""
    index, one, other = index_of(), torch.device("cuda:0"), torch.device("cuda:1")

    def place(index, queries, ranges, device=None):
        least = None if ranges is None else torch.zeros(2)
        asked = tiles.ask(index, queries, 3, None, ranges, least, device, None, None)
        for limit in () if ranges is None else (asked.row_ranges, asked.min_scores):
            assert limit.device == asked.queries.device
        return asked.queries.device

    with FakeTensorMode(allow_non_fake_inputs=True):
        host, there = torch.empty(2, DIM), torch.empty(2, DIM, device=one)
        ranges = torch.zeros(2, 2, dtype=torch.int64)
        assert place(index, host, ranges) == torch.device("cpu")
        assert place(index, there, None) == one
        assert place(index, host, ranges, "cuda:1") == place(index, there, ranges, other) == other
        assert place(index, there, ranges, "cpu") == torch.device("cpu")
        on_gpu = index.to(one)
        assert place(on_gpu, there, None) == place(on_gpu, host, ranges, one) == one
        for device in ("cpu", "cuda:1"):
            message = f"^device must be cuda:0 like the index, got {device}$"
            with pytest.raises(ValueError, match=message):
                place(on_gpu, host, ranges, device)
        with pytest.raises(
            ValueError, match=r"^queries must be on cuda:0 like embeddings, got cpu"
        ):
            place(on_gpu, host, None)
        with pytest.raises(ValueError, match=r"^row_ranges must be on cuda:0 like embeddings, got"):
            place(index, there, ranges)


@only_on("cpu")
def test_strided_rows_that_require_grad(monkeypatch, request):
    wide = torch.randn(N, 2 * DIM, generator=seeded(0))
    built = ChunkIndex.build(wide[:, :DIM], window=1)
    index = ChunkIndex(
        built.embeddings.detach().requires_grad_(), built.row_scale, built.continuity,
        built.doc_offsets,
    )  # fmt: skip
    queries = torch.randn(3, DIM, generator=seeded(1))
    expected = built.search_expand(queries, 5)
    request.getfixturevalue("cuda")
    in_tiles_of(20, monkeypatch)
    assert_same_bits(large.search_expand(index, queries, 5), expected)


@only_on("cpu")
def test_a_search_that_is_stopped_leaves_its_buffers_to_the_copies(monkeypatch, cuda):
    def stop(done, rows):
        deadline = time.monotonic() + 60
        while not cuda.pending and time.monotonic() < deadline:  # the next tile is on its way
            time.sleep(0.001)
        raise KeyboardInterrupt

    in_tiles_of(20, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        large.search(index_of(), torch.ones(1, DIM), 5, progress=stop)
    assert cuda.pending
    cuda.check_end()


def without(owner, name):
    """The planted mistake of a call that does nothing."""
    return lambda patch: patch.setattr(owner, name, lambda *arguments: None)


def unordered_copy(patch):
    copy = staging.Copies.copy

    def planted(self, target, source, after):
        return copy(self, target, source, torch.cuda.Event(blocking=True))

    patch.setattr(staging.Copies, "copy", planted)


def early_event(patch):
    """The event of the search of a tile is recorded before it."""
    take, done = staging.Staged.take, staging.Staged.done
    numbers = iter(range(1000))

    def planted(self, tile):
        rows = take(self, tile)
        done(self, next(numbers))
        return rows

    patch.setattr(staging.Staged, "take", planted)
    patch.setattr(staging.Staged, "done", lambda self, number: None)


def unrecorded(patch):
    patch.setattr(Buffer, "record_stream", lambda self, stream: None)


def fresh_memory(patch):
    """The first copies do not wait for what had the memory before."""
    init = staging.Staged.__init__

    def planted(self, rows, most, copies):
        init(self, rows, most, copies)
        self._computed = [torch.cuda.Event(blocking=True)] * 2

    patch.setattr(staging.Staged, "__init__", planted)


def one_pinned_buffer(patch):
    init = staging.Staged.__init__

    def planted(self, rows, most, copies):
        init(self, rows, most, copies)
        self._host[1] = self._host[0]

    patch.setattr(staging.Staged, "__init__", planted)


def waiting_search(patch):
    take = staging.Staged.take

    def planted(self, tile):
        tile.event.synchronize()
        return take(self, tile)

    patch.setattr(staging.Staged, "take", planted)


MISTAKES = {
    "the reader does not wait": (without(staging.Copies, "wait"), "host does not wait for copies"),
    "the search does not wait": (
        without(staging.Copies, "compute_after"), "compute does not wait for copies"),
    "the copy does not wait": (unordered_copy, "copies does not wait for compute"),
    "no event behind the search": (
        without(staging.Staged, "done"), "copies does not wait for compute"),
    "an event before the search": (early_event, "copies does not wait for compute"),
    "fresh memory": (fresh_memory, "copies does not wait for compute"),
    "memory given away": (unrecorded, "memory is given away"),
    "one pinned buffer": (one_pinned_buffer, "host does not wait for copies"),
    "the search waits": (waiting_search, "searching thread waits"),
    "the reader's own device": (
        lambda patch: patch.setattr(torch.cuda, "device_of", nullcontext),
        "stream of another device"),
}  # fmt: skip


@only_on("cpu")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_noticed(monkeypatch, cuda, name):
    """The late CUDA is worth something: each wait that is dropped is a race."""
    plant, message = MISTAKES[name]
    index, queries = index_of(), torch.randn(3, DIM, generator=seeded(1))
    in_tiles_of(20, monkeypatch)

    def search():
        large.search_expand(index, queries, 5)
        cuda.check_end()

    search()
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(RaceError, match=message):
            search()


@only_on("cpu")
def test_what_is_read_too_early_is_poison(monkeypatch, cuda):
    """Apart from the clocks: without a wait the copy has not run."""
    monkeypatch.setattr(LateCuda, "access", lambda *arguments: None)
    monkeypatch.setattr(staging.Copies, "compute_after", lambda *arguments: None)
    in_tiles_of(N, monkeypatch)  # one tile: nobody waits for another
    found = large.search(index_of(), torch.ones(1, DIM), 5)
    assert found.ids.tolist() == [[-1] * 5]
