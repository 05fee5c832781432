"""A retriever whose matrix exceeds its budget: the same answers, by tiles."""

from types import SimpleNamespace

import pytest
import torch
from torch._subclasses import FakeTensorMode

from scar_gpu import ChunkIndex, large, tile_size
from scar_gpu.storage import save_index
from scar_gpu.text import Retriever
from scar_gpu.text.lexical import LexicalIndex
from scar_gpu.text.searching import Search, on_device
from tests.corpora import random_corpus, random_queries, seeded
from tests.storage.test_mapped import large_table

N, DIM = 600, 16
N_BYTES = N * DIM * 4
SMALL = 4096  # bytes: tiles of 23 rows


@pytest.fixture
def small_tiles(monkeypatch):
    """A budget is for rows alone, and may be any."""
    monkeypatch.setattr(tile_size, "_search_bytes", lambda *arguments: 0)
    monkeypatch.setattr(tile_size, "LEAST_TILE_BYTES", 1)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The folder of an index with words."""
    pytest.importorskip("bm25s")
    chunks = large_table(N)
    rows = random_corpus(N, DIM).embeddings
    index = ChunkIndex.build(rows, chunks.doc_offsets, window=2)
    path = tmp_path_factory.mktemp("stored") / "index"
    save_index(path, index, chunks=chunks, lexical=LexicalIndex.of_chunks(chunks))
    return path


def question(index):
    vectors = random_queries(index.embeddings, 9)
    texts = [f"chunk {number} of text" for number in range(9)]
    ranges = torch.sort(torch.randint(0, N + 1, (9, 2), generator=seeded(3)), dim=1).values
    return {"vectors": vectors, "texts": texts}, ranges


@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"order": "document", "lam": 0.5, "gamma": 0.5, "window": 2}, {"method": "window"},
     {"method": "none", "k": 50}, {"hybrid": True}, {"hybrid": True, "method": "none", "pool": 7}],
    ids=str,
)  # fmt: skip
def test_the_budget_does_not_show(stored, small_tiles, options, ranged):
    at_once = Retriever.from_index(stored, memory_budget=N_BYTES)
    by_tiles = Retriever.from_index(stored, memory_budget=SMALL)
    asked, ranges = question(at_once.index)
    if ranged:
        asked["row_ranges"] = ranges
    seen = []

    def progress(done, rows):
        seen.append((done, rows))

    expected = at_once.retrieve_table(**asked, **options, progress=progress)
    assert seen == []
    assert len(expected) > 0
    assert by_tiles.retrieve_table(**asked, **options, progress=progress) == expected
    assert seen[-1] == (N, N) or ranged  # the end may be in no range
    assert len(seen) > N // 30
    objects = by_tiles.retrieve_vectors(**asked, **options, progress=progress)
    assert objects == at_once.retrieve_vectors(**asked, **options)
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_a_matrix_beyond_the_budget_is_searched_by_tiles(stored, small_tiles):
    for budget, is_tiled in ((N_BYTES, False), (N_BYTES - 1, True), (None, False)):
        assert Retriever.from_index(stored, memory_budget=budget).searching().is_tiled == is_tiled


def test_given_hits_are_not_searched_for(stored):
    """So the budget, too small for any search, does not matter."""
    at_once, by_tiles = Retriever.from_index(stored), Retriever.from_index(stored, memory_budget=1)
    vectors, hits = question(at_once.index)[0]["vectors"], torch.arange(9)[:, None]
    assert by_tiles.retrieve_table(vectors, hits) == at_once.retrieve_table(vectors, hits)


def test_a_budget_that_no_search_can_keep(stored):
    retriever = Retriever.from_index(stored, memory_budget=SMALL)
    asked, _ = question(retriever.index)
    message = r"^memory_budget must be >= \d+ for 9 queries and k = 5, got 4096$"
    with pytest.raises(ValueError, match=message):
        retriever.retrieve_vectors(**asked)


@pytest.mark.parametrize(
    ("budget", "error", "message"),
    [("1GB", TypeError, "memory_budget must be an int, got str"),
     (True, TypeError, "memory_budget must be an int, got bool"),
     (0, ValueError, "memory_budget must be >= 1, got 0")],
)  # fmt: skip
def test_bad_budgets(stored, budget, error, message):
    index = ChunkIndex.build(torch.eye(4))
    for make in (
        lambda: Retriever.from_index(stored, memory_budget=budget),
        lambda: Retriever(index, memory_budget=budget),
        lambda: Search(index, budget),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            make()


def test_a_gpu_that_the_matrix_does_not_fit_into_searches_it_by_tiles(monkeypatch):
    """Tensors without values stand for those of a GPU."""
    index, gpu = ChunkIndex.build(torch.eye(64)), torch.device("cuda:0")
    size = index.embeddings.nbytes
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert on_device(index, "cuda:0", size).embeddings.device == gpu
        assert on_device(index, "cuda:0", size - 1) is index
        assert on_device(index, None, size - 1) is index
        assert not Search(index.to(gpu), 1).is_tiled  # it is there in whole
        for total, device in ((size // 3 * 4 + 4, gpu), (size, torch.device("cpu"))):
            properties = SimpleNamespace(total_memory=total)
            monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, p=properties: p)
            assert on_device(index, gpu, None).embeddings.device == device
    calls = []
    for name in ("search", "search_expand"):
        monkeypatch.setattr(large, name, lambda *args, **options: calls.append(options))
    search = Search(index, size - 1, gpu, print)
    search.search(index.embeddings, 3)
    search.search_expand(index.embeddings, 3, lam=0.5)
    tiling = {"device": gpu, "memory_budget": size - 1, "progress": print}
    assert calls == [tiling | {"row_ranges": None}, tiling | {"lam": 0.5}]
    Search(index, None, gpu).search(index.embeddings, 3)
    tiling = {"device": gpu, "memory_budget": size // 4 * 3, "progress": None}
    assert calls[2] == tiling | {"row_ranges": None}
