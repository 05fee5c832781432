"""Hybrid retrieval: hits by vectors and by words, then SCAR by the cosine of each hit."""

import re
import sys

import numpy as np
import pytest
import torch

import scar_gpu
from scar_gpu.storage import open_index
from scar_gpu.text import Document, Retriever
from scar_gpu.text.hybrid import hybrid_search
from scar_gpu.text.lexical import LexicalIndex
from tests.text.word_embedder import WordEmbedder

pytest.importorskip("bm25s")


class Deaf(WordEmbedder):
    """Hears no word with a digit in it: what only the lexical lists can find."""

    def encode(self, texts):
        heard = [
            " ".join(w for w in text.split() if not any(map(str.isdigit, w))) for text in texts
        ]
        return super().encode(heard)


# Chunks of one sentence. The error's number is in the last chunk alone.
SENTENCES = [
    "red apple tree grows.",
    "green apple falls by.",
    "blue river water run.",
    "cold river water end.",
    "fault e1234 is fixed.",
]
DOCUMENTS = [Document("a", "\n\n".join(SENTENCES[:2])), Document("b", "\n\n".join(SENTENCES[2:]))]
QUERY = "river water e1234"


@pytest.fixture
def retriever() -> Retriever:
    return Retriever.from_documents(DOCUMENTS, Deaf(), chunk_size=23, overlap=0, lexical=True)


def hits_of(contexts):
    """The hits' rows by rank."""
    return [row for context in sorted(contexts, key=lambda c: c.rank) for row in context.hits]


def test_a_word_the_model_does_not_know_is_found(retriever):
    (dense,) = retriever.retrieve("e1234", 3, "none")
    (fused,) = retriever.retrieve("e1234", 3, "none", hybrid=True)
    assert 4 not in hits_of(dense)
    assert 4 in fused[0].hits
    (words,) = retriever.retrieve("e1234", 1, "none", hybrid=True, weights=(0, 1))
    assert [c.hits for c in words] == [(4,)]


def test_the_hits_are_those_of_hybrid_search_in_its_order(retriever):
    queries = [QUERY, "apple", "e1234 tree"]
    for options in ({}, {"pool": 4, "weights": [0.5, 2.0], "rrf_k": 2.0}):
        fused = hybrid_search(
            retriever.index, retriever.lexical, retriever.encode_queries(queries), queries, 3,
            **options,
        )  # fmt: skip
        table = retriever.retrieve_table(
            retriever.encode_queries(queries), texts=queries, k=3, method="none", hybrid=True,
            **options,
        )  # fmt: skip
        contexts = retriever.retrieve(queries, 3, "none", hybrid=True, **options)
        for b, rows in enumerate(fused.ids.tolist()):
            ranks = {c.rank: c.hits for c in contexts[b]}
            for rank, hits in ranks.items():
                assert rows[rank - 1] in hits
            assert sorted(sum(ranks.values(), ())) == sorted(row for row in rows if row >= 0)
        assert table["query"].to_pylist() == [b for b in range(3) for _ in contexts[b]]


def test_after_fusion_the_relevance_of_a_hit_is_its_cosine(retriever):
    """The kernel's bits; a fused score of two lists is below 2 / 61, and orders otherwise."""
    vectors = retriever.encode_queries([QUERY])
    fused = hybrid_search(retriever.index, retriever.lexical, vectors, [QUERY], 5)
    for method in ("none", "window", "scar"):
        (contexts,) = retriever.retrieve(QUERY, 5, method, hybrid=True)
        cosines = retriever.index.neighbor_scores(vectors, fused.ids).relevance[0].tolist()
        assert len(contexts) == 2
        for context in contexts:
            # The best hit by rank; its number is the cosine's to the bit.
            assert context.score == cosines[context.rank - 1]
            assert context.score != fused.scores[0, context.rank - 1].item()
    assert max(cosines) > 0.5 > 2 / 61
    exact = torch.nn.functional.cosine_similarity(
        vectors.double(), retriever.index.embeddings[fused.ids[0]].double()
    )
    assert cosines == pytest.approx(exact.tolist(), abs=1e-6)


def test_neighbours_are_judged_by_the_cosine(retriever):
    """Hit 4 has cosine 0: by its fused score its neighbour would need only 0.8 / 61."""
    vectors = retriever.encode_queries([QUERY])
    options = {"lam": 0.0, "gamma": 0.8}
    (contexts,) = retriever.retrieve(QUERY, 1, hybrid=True, weights=(1, 0), **options)
    hit = contexts[0].hits[0]
    judged = retriever.index.neighbor_scores(vectors, torch.tensor([[hit]]), **options)
    wrong = scar_gpu.neighbor_scores(
        vectors, retriever.index.embeddings, retriever.index.continuity, torch.tensor([[hit]]),
        row_scale=retriever.index.row_scale, relevance=torch.tensor([[1 / 61]]), **options,
    )  # fmt: skip
    # Far below the threshold of the cosine and above that of the fused score, by construction.
    assert judged.mask.tolist() != wrong.mask.tolist()
    admitted = [hit - 1] * bool(judged.mask[0, 0, 0]) + [hit + 1] * bool(judged.mask[0, 0, 1])
    assert list(contexts[0].neighbours) == admitted


def test_saved_loaded_and_saved_again(retriever, tmp_path):
    expected = retriever.retrieve([QUERY, "apple"], 3, hybrid=True)
    retriever.save(tmp_path / "index")
    loaded = Retriever.from_index(tmp_path / "index", Deaf())
    assert loaded.retrieve([QUERY, "apple"], 3, hybrid=True) == expected
    Retriever.from_index(tmp_path / "index").save(tmp_path / "again")
    assert open_index(tmp_path / "again").lexical is not None
    batches = loaded.retrieve_batches(iter([QUERY, "apple"]), 1, k=3, hybrid=True)
    assert list(batches) == expected


def test_words_are_read_only_when_they_are_asked_for(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    path = tmp_path / "index" / "lexical.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    loaded = Retriever.from_index(tmp_path / "index", Deaf())
    assert loaded.retrieve(QUERY, 2)
    with pytest.raises(ValueError, match=r"lexical\.parquet must hold its bytes as its manifest"):
        loaded.retrieve(QUERY, 2, hybrid=True)


def test_a_range_of_rows(retriever):
    vectors = retriever.encode_queries([QUERY] * 2)
    ranges = torch.tensor([[0, 2], [2, 5]])
    found = retriever.retrieve_vectors(
        vectors, texts=[QUERY] * 2, row_ranges=ranges, k=3, method="none", hybrid=True
    )
    assert [sorted(hits_of(contexts)) for contexts in found] == [[0, 1], [2, 3, 4]]


def test_the_pool_grows_with_k(retriever):
    """The default serves a k above 50."""
    (everything,) = retriever.retrieve("apple", 60, "none", hybrid=True)
    assert sorted(hits_of(everything)) == [0, 1, 2, 3, 4]


BAD = [
    ({"hybrid": 1}, TypeError, "hybrid must be a bool, got int"),
    ({"hybrid": True, "pool": 0}, ValueError, "pool must be >= 1, got 0"),
    ({"hybrid": True, "pool": 2.0}, TypeError, "pool must be an int, got float"),
    ({"hybrid": True, "k": 9, "pool": 8}, ValueError, "pool must be >= k (9), got 8"),
    ({"hybrid": True, "k": 0}, ValueError, "k must be >= 1, got 0"),
    ({"hybrid": True, "weights": [1]}, ValueError,
     "weights must be two, of the hits by vectors and of those by words, got 1"),
    ({"hybrid": True, "weights": 1.0}, TypeError,
     "weights must be a sequence of two floats, got float"),
    ({"hybrid": True, "weights": "11"}, TypeError,
     "weights must be a sequence of two floats, got str"),
    ({"hybrid": True, "weights": [1, -2]}, ValueError, "weights[1] must be >= 0, got -2"),
    ({"hybrid": True, "weights": [float("nan"), 1]}, ValueError,
     "weights[0] must be finite, got nan"),
    ({"hybrid": True, "weights": [0, 0.0]}, ValueError, "weights must not both be 0, got [0, 0.0]"),
    ({"hybrid": True, "rrf_k": 0}, ValueError, "rrf_k must be > 0 and <= 1000000, got 0"),
    ({"hybrid": True, "rrf_k": "60"}, TypeError, "rrf_k must be a float, got str"),
    ({"pool": 20}, ValueError, "pool must come with hybrid retrieval, got 20 without"),
    ({"weights": [1, 1]}, ValueError,
     "weights must come with hybrid retrieval, got [1, 1] without"),
    ({"weights": np.ones(2)}, ValueError,
     "weights must come with hybrid retrieval, got [1. 1.] without"),
    ({"hybrid": True, "weights": np.ones(2)}, TypeError,
     "weights must be a sequence of two floats, got ndarray"),
    ({"rrf_k": 2.0}, ValueError, "rrf_k must come with hybrid retrieval, got 2.0 without"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "error", "message"), BAD, ids=str)
def test_bad_options_are_refused_before_the_model_is_asked(retriever, options, error, message):
    seen = len(retriever.embedder.seen)
    for call in (
        lambda: retriever.retrieve(QUERY, **options),
        lambda: retriever.retrieve_batches([QUERY], **options),
        lambda: retriever.retrieve_vectors(torch.ones(1, 32), texts=[QUERY], **options),
    ):
        with pytest.raises(error, match=f"^{re.escape(message)}$"):
            call()
    assert len(retriever.embedder.seen) == seen


def test_what_hybrid_retrieval_needs(retriever):
    without = Retriever(retriever.index, retriever.chunks, retriever.embedder)
    rule = "hybrid must be asked of an index with lexical lists, got one without"
    for call in (without.retrieve, without.retrieve_batches):
        with pytest.raises(ValueError, match=f"^{rule}$"):
            call([QUERY], hybrid=True)
    vectors = retriever.encode_queries([QUERY])
    with pytest.raises(ValueError, match=f"^{rule}$"):
        without.retrieve_vectors(vectors, texts=[QUERY], hybrid=True)
    with pytest.raises(ValueError, match="hybrid must be asked for with queries in words, got vec"):
        retriever.retrieve_vectors(vectors, hybrid=True)
    with pytest.raises(ValueError, match="hybrid must not be asked for with hits"):
        retriever.retrieve_vectors(vectors, torch.tensor([[0]]), texts=[QUERY], hybrid=True)
    with pytest.raises(ValueError, match=re.escape("one text per row of vectors (1), got 2")):
        retriever.retrieve_vectors(vectors, texts=[QUERY] * 2, hybrid=True)
    with pytest.raises(ValueError, match=re.escape("one row per chunk of the index (5), got 1")):
        Retriever(retriever.index, lexical=LexicalIndex.build(["x"]))


def test_without_bm25s(retriever, monkeypatch):
    """Refused before a document or a query is embedded."""
    monkeypatch.setitem(sys.modules, "bm25s", None)
    embedder, seen = WordEmbedder(), len(retriever.embedder.seen)
    message = re.escape("pip install 'scar_gpu[hybrid]'")
    with pytest.raises(ImportError, match=message):
        Retriever.from_documents(DOCUMENTS, embedder, lexical=True)
    with pytest.raises(ImportError, match=message):
        retriever.retrieve(QUERY, hybrid=True)
    assert not embedder.seen
    assert len(retriever.embedder.seen) == seen


@pytest.mark.parametrize("method", ["scar", "window", "none"])
def test_more_hits_than_chunks_cost_nothing(retriever, method):
    """Contexts show no padding, so none is made: 2^31 results would be 24 GiB per query."""
    queries = [QUERY, "apple"] * 50
    huge = 2**31 - 1
    assert retriever.retrieve(queries, huge, method) == retriever.retrieve(queries, 5, method)
    options = {"hybrid": True, "pool": huge}
    every = retriever.retrieve(queries, 5, method, hybrid=True, pool=5)
    assert retriever.retrieve(queries, huge, method, **options) == every
    lists = (retriever.index, retriever.lexical, retriever.encode_queries(queries), queries)
    fused, short = (hybrid_search(*lists, 5, pool=pool) for pool in (huge, 5))
    for one, other in zip(fused, short, strict=True):
        assert torch.equal(one, other)
