"""Lexical lists in our order, and the fusion of both kinds of search."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import scar_gpu
from scar_gpu import ChunkIndex
from scar_gpu.storage import save_index
from scar_gpu.text import Document, chunk_documents
from scar_gpu.text.hybrid import hybrid_search
from scar_gpu.text.lexical import LexicalIndex, _best

pytest.importorskip("bm25s")
TEXTS = ["cats purr", "dogs bark loudly", "cats and dogs", "the", "dogs bark loudly", ""]
INF = float("inf")


@pytest.fixture(scope="module")
def lexical():
    return LexicalIndex.build(TEXTS)


def test_rows_that_share_words_best_first(lexical):
    hits = lexical.search(["Which DOGS bark?", "purring", "", "the", "zebra cats"], 4)
    assert hits.ids.tolist() == [
        [1, 4, 2, -1],  # equal texts by smaller row; one word of two; then padding
        [-1] * 4,
        [-1] * 4,
        [-1] * 4,  # a stop word
        [0, 2, -1, -1],
    ]
    assert hits.ids.dtype == torch.int64
    assert hits.scores.dtype == torch.float32
    assert hits.scores[0, 0] == hits.scores[0, 1] > hits.scores[0, 2] > 0
    assert hits.scores[0, 3] == -INF


def test_ties_at_the_last_place_go_to_the_smaller_row():
    lexical = LexicalIndex.build(["red ball"] * 9 + ["blue ball"])
    for k in (1, 3, 9):
        assert lexical.search(["red"], k).ids.tolist() == [[*range(k)]]
    assert lexical.search(["red"], 12).ids.tolist() == [[*range(9), -1, -1, -1]]


def test_selection_is_a_sort():
    scores = torch.randint(0, 6, (200,), generator=torch.Generator().manual_seed(0)).float()
    expected = [i for i in sorted(range(200), key=lambda i: (-scores[i], i)) if scores[i] > 0]
    for k in (1, 7, 50, 199, 400):
        assert _best(scores.numpy(), k).tolist() == expected[:k]


def test_scores_are_those_of_bm25s():
    """To the bit, whatever number its vocabulary gives to a word."""
    import bm25s

    choose = random.Random(0)
    vocabulary = [f"w{i:02}" for i in range(40)]
    texts = [" ".join(choose.choices(vocabulary, k=choose.randint(0, 30))) for _ in range(200)]
    lexical = LexicalIndex.build(texts)
    assert list(lexical.words) == sorted(vocabulary)
    model = bm25s.BM25()
    split = bm25s.tokenize(texts, stopwords="english", return_ids=False, show_progress=False)
    model.index(split, show_progress=False)
    for _ in range(20):
        words = choose.choices(vocabulary, k=6)  # with repeats
        hits = lexical.search([" ".join(words)], 200)
        found = hits.ids[0] >= 0
        scores = torch.from_numpy(model.get_scores(words))
        assert torch.equal(hits.scores[0, found], scores[hits.ids[0, found]])
        assert int(found.sum()) == int((scores > 0).sum())


def test_a_query_may_be_restricted_to_a_range_of_rows(lexical):
    ranges = torch.tensor([[0, 6], [2, 5], [2, 2], [5, 6]])
    hits = lexical.search(["dogs bark"] * 4, 3, row_ranges=ranges)
    assert hits.ids.tolist() == [[1, 4, 2], [4, 2, -1], [-1] * 3, [-1] * 3]
    with pytest.raises(
        ValueError, match=re.escape("row_ranges must have shape [1, 2], got [4, 2]")
    ):
        lexical.search(["dogs"], 1, row_ranges=ranges)
    for wrong in ([-4, 5], [3, 7], [4, 3]):
        message = f"row_ranges[1] must satisfy 0 <= start <= end <= 6, got [{wrong[0]}, {wrong[1]})"
        with pytest.raises(IndexError, match=re.escape(message)):
            lexical.search(["dogs"] * 2, 1, row_ranges=torch.tensor([[0, 6], wrong]))


def test_chunks_are_found_by_their_headings():
    table = chunk_documents([Document("a", "Cats\n====\n\nThey purr.", format="rst")], 10, 0)
    assert table.text(1) == "They purr."
    assert 1 in LexicalIndex.of_chunks(table).search(["cats"], 5).ids[0].tolist()


@pytest.mark.parametrize("texts", [[], [""], ["the", ""]])
def test_without_any_word(texts):
    lexical = LexicalIndex.build(texts)
    assert lexical.n_rows == len(texts)
    assert lexical.search(["cats"], 2).ids.tolist() == [[-1, -1]]


def test_bad_input(lexical):
    with pytest.raises(TypeError, match=r"^queries must be a sequence of str, got one str$"):
        lexical.search("dogs", 1)
    with pytest.raises(TypeError, match=re.escape("queries[1] must be a str, got int")):
        lexical.search(["dogs", 3], 1)
    with pytest.raises(ValueError, match=r"^k must be >= 1, got 0$"):
        lexical.search(["dogs"], 0)
    with pytest.raises(TypeError, match=r"^texts must be a sequence of str, got one str$"):
        LexicalIndex.build("dogs")


# Cosines with the query (1, 0): 0.6, 0, 1, 0.8, 0, 0.28.
ROWS = torch.tensor([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.28, 0.96]])
QUERY = torch.tensor([[1.0, 0.0]])


@pytest.fixture(scope="module")
def index():
    return ChunkIndex.build(ROWS)


def test_hybrid_fuses_both_lists(index, lexical):
    """Dense: 2, 3, 0. Lexical: 1, 4, 2. Row 2 is in both: 1 / 61 + 1 / 63."""
    fused = hybrid_search(index, lexical, QUERY, ["dogs bark"], 5, pool=3)
    assert fused.ids.tolist() == [[2, 1, 3, 4, 0]]
    assert fused.scores[0, 0].item() == pytest.approx(1 / 61 + 1 / 63)
    assert fused.ranks.tolist() == [[[1, 3], [0, 1], [2, 0], [0, 2], [3, 0]]]
    lexical_only = hybrid_search(
        index, lexical, QUERY, ["dogs bark"], 3, pool=3, weights=[0, 1], rrf_k=1
    )
    assert lexical_only.ids.tolist() == [[1, 4, 2]]
    assert lexical_only.scores.tolist() == [[0.5, pytest.approx(1 / 3), 0.25]]


def test_after_fusion_the_relevance_of_a_hit_is_its_cosine(index, lexical):
    """Row 1 is a hit by its words alone; its relevance is cos = 0, not 1 / 61."""
    fused = hybrid_search(index, lexical, QUERY, ["dogs bark"], 5, pool=3)
    judged = index.neighbor_scores(QUERY, fused.ids)
    assert judged.relevance[0].tolist() == pytest.approx([1.0, 0.0, 0.8, 0.0, 0.6])
    expansion = index.scar_expand(QUERY, fused.ids)
    relevance = dict(zip(expansion.ids[0].tolist(), expansion.scores[0].tolist(), strict=True))
    assert relevance[2] == 1.0
    assert relevance[1] == pytest.approx(0.0)


def test_what_does_not_belong_together(index, lexical):
    with pytest.raises(
        ValueError, match=re.escape("lexical must have one row per chunk of the index (6), got 1")
    ):
        hybrid_search(index, LexicalIndex.build(["dogs"]), QUERY, ["dogs"], 2)
    with pytest.raises(
        ValueError, match=re.escape("queries must have one text per row of vectors (1), got 2")
    ):
        hybrid_search(index, lexical, QUERY, ["dogs", "cats"], 2)
    with pytest.raises(ValueError, match=r"^pool must be >= 1, got 0$"):
        hybrid_search(index, lexical, QUERY, ["dogs"], 2, pool=0)


READ = """
import os, sys
import pyarrow.parquet
from scar_gpu.storage import open_index

stored = open_index(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
assert stored.lexical.words
assert len(os.listdir("/proc/self/task")) == before
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_reading_starts_no_threads(lexical, tmp_path):
    """Those of pyarrow may abort a process with PyTorch in it that ends soon after."""
    rows = scar_gpu.ChunkIndex.build(torch.ones(lexical.n_rows, 2))
    save_index(tmp_path / "index", rows, lexical=lexical)
    subprocess.run([sys.executable, "-c", READ, tmp_path / "index"], check=True)


def test_more_results_than_memory_holds_are_refused(lexical):
    with pytest.raises(
        MemoryError, match=r"^k must give results .* \[1000, 2147483647\] are 24000"
    ):
        lexical.search(["dogs"] * 1000, 2**31 - 1)
