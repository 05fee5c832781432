"""From documents and questions to contexts."""

import logging

import numpy as np
import pytest
import torch

from scar_gpu import ChunkIndex
from scar_gpu.text import Document, Retriever, chunk_documents
from tests.text.word_embedder import WordEmbedder

# Chunks of 20 characters without overlap: one sentence each.
SENTENCES = [
    "red apple tree grows",
    "green apple falls by",
    "blue river water run",
    "cold river water end",
]
DOCUMENTS = [
    Document("fruit", "\n\n".join(SENTENCES[:2])),
    Document("empty", ""),
    Document("water", "\n\n".join(SENTENCES[2:])),
]


@pytest.fixture
def retriever(embedder: WordEmbedder) -> Retriever:
    return Retriever.from_documents(DOCUMENTS, embedder, chunk_size=23, overlap=0)


def test_the_index_has_a_row_per_chunk_and_every_document(retriever: Retriever) -> None:
    assert retriever.index.n_chunks == len(retriever.chunks) == 4
    assert retriever.index.doc_offsets.tolist() == [0, 2, 2, 4]
    assert retriever.index.window == 1


def test_each_method_returns_its_neighbours(retriever: Retriever) -> None:
    query = "red apple tree grows"
    (none,) = retriever.retrieve(query, 1, "none")
    (window,) = retriever.retrieve(query, 1, "window")
    assert [(c.hits, c.neighbours, c.text) for c in none] == [((0,), (), SENTENCES[0] + "\n\n")]
    assert [(c.hits, c.neighbours) for c in window] == [((0,), (1,))]
    assert window[0].text == DOCUMENTS[0].text
    # The only neighbour shares one word of four: admitted or refused by gamma alone.
    (strict,) = retriever.retrieve(query, 1, "scar", gamma=0.99)
    (loose,) = retriever.retrieve(query, 1, "scar", gamma=-1.0)
    assert strict == none
    assert loose == window
    (unlike,) = retriever.retrieve(query, 1, "scar", gamma=-1.0, lam=100.0)
    assert unlike == none


def test_a_context_carries_the_hits_rank_and_relevance(retriever: Retriever) -> None:
    queries = ["cold river water end", "red apple tree grows"]
    answers = retriever.retrieve(queries, 3, "none")
    hits = retriever.index.search(retriever.encode_queries(queries), 3)
    assert [contexts[0].score for contexts in answers] == pytest.approx([1.0, 1.0])
    assert [contexts[0].document for contexts in answers] == ["water", "fruit"]
    for contexts, rows, scores in zip(
        answers, hits.ids.tolist(), hits.scores.tolist(), strict=True
    ):
        # Three of four chunks in two documents: one whole document, half of the other.
        assert sorted(len(c.hits) for c in contexts) == [1, 2]
        for context in contexts:
            assert context.rank == min(rows.index(row) for row in context.hits) + 1
            assert context.score == scores[context.rank - 1]


def test_every_method_has_the_same_hits(retriever: Retriever) -> None:
    for k in (1, 2, 3, 4):
        hits = retriever.index.search(retriever.encode_queries("river apple"), k).ids[0].tolist()
        for method in ("none", "window", "scar"):
            (contexts,) = retriever.retrieve("river apple", k, method)
            assert sorted(hits) == sorted(row for c in contexts for row in c.hits)


def test_orders(retriever: Retriever) -> None:
    query = "cold river water end"
    ranked, reading = (
        retriever.retrieve(query, 3, "none", order=order)[0] for order in ("rank", "document")
    )
    assert [c.document for c in ranked] == ["water", "fruit"]
    assert [c.document for c in reading] == ["fruit", "water"]
    assert [c.rank for c in reading] == [c.rank for c in ranked][::-1]
    assert sorted(ranked, key=lambda c: c.rank) == sorted(reading, key=lambda c: c.rank)


def test_windows_up_to_the_indexs_own(embedder: WordEmbedder) -> None:
    text = " ".join(f"w{i:02}" for i in range(12))  # chunks of 4 characters: one word each
    retriever = Retriever.from_documents(
        [Document("d", text)], embedder, chunk_size=5, overlap=0, window=2
    )
    sizes = {
        window: len(retriever.retrieve("w05", 1, "scar", window=window, gamma=-9)[0][0].neighbours)
        for window in (None, 0, 1, 2)
    }
    assert sizes == {None: 4, 0: 0, 1: 2, 2: 4}
    assert retriever.retrieve("w05", 1, "window", window=3)[0][0].neighbours == (2, 3, 4, 6, 7, 8)
    with pytest.raises(ValueError, match="window must be <= 2, the index's own, got 3"):
        retriever.retrieve("w05", 1, "scar", window=3)


def test_a_batch_is_its_queries_one_by_one(retriever: Retriever) -> None:
    queries = [*SENTENCES, "apple water"]
    batch = retriever.retrieve(queries, 2)
    assert batch == [retriever.retrieve(query, 2)[0] for query in queries]
    assert retriever.retrieve([], 2) == []
    # More hits asked for than there are chunks: padding, not contexts.
    (everything,) = retriever.retrieve("apple", 50, "none")
    assert sorted(row for c in everything for row in c.hits) == [0, 1, 2, 3]


def test_the_heading_path_is_searched_and_not_returned(embedder: WordEmbedder) -> None:
    text = "Volcano\n=======\n\nhot rock\n\nmore stone\n\nOcean\n=====\n\ndeep blue\n\nlast word\n"
    retriever = Retriever.from_documents(
        [Document("d", text, "rst")], embedder, chunk_size=14, overlap=0
    )
    assert "Volcano\nmore stone\n\n" in embedder.seen
    (contexts,) = retriever.retrieve("volcano stone", 1, "none")
    assert contexts[0].text == "more stone\n\n"


def test_overlaps_appear_once_in_what_is_returned(embedder: WordEmbedder) -> None:
    words = [f"word{i:02}" for i in range(60)]
    document = Document("d", " ".join(words))
    retriever = Retriever.from_documents([document], embedder, chunk_size=60, overlap=24)
    chunks = retriever.chunks
    assert (chunks.end[:-1] > chunks.start[1:]).all()
    for contexts in retriever.retrieve([f"{words[10]} {words[11]}", words[40]], 3, "window"):
        for context in contexts:
            assert context.text == document.text[context.start : context.end]
            assert len(set(context.text.split())) == len(context.text.split())


@pytest.mark.parametrize(
    ("queries", "error", "message"),
    [
        ("", ValueError, "queries must not be empty, got '' at position 0"),
        (["fine", " \n"], ValueError, r"queries must not be empty, got ' \\n' at position 1"),
        (
            ["fine", "not \ud800"],
            ValueError,
            r"queries must be valid Unicode, got '\\ud800' at offset 4 of position 1",
        ),
        (["fine", 3], TypeError, "queries must be str, got int at position 1"),
    ],
)
def test_queries_that_ask_nothing(
    retriever: Retriever, queries: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        retriever.retrieve(queries)


def test_values_out_of_range(retriever: Retriever) -> None:
    with pytest.raises(ValueError, match="method must be scar, window or none, got 'all'"):
        retriever.retrieve("a", method="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"k must be .*, got 0"):
        retriever.retrieve("a", 0)
    with pytest.raises(ValueError, match=r"order must be .*, got .*best"):
        retriever.retrieve("a", order="best")  # type: ignore[arg-type]


def test_documents_without_text(embedder: WordEmbedder) -> None:
    with pytest.raises(ValueError, match="documents must hold some text, got 1 documents"):
        Retriever.from_documents([Document("a", "")], embedder)
    with pytest.raises(ValueError, match="documents must hold some text, got 0 documents"):
        Retriever.from_documents([], embedder)


def test_parts_that_do_not_belong_together(retriever: Retriever, embedder: WordEmbedder) -> None:
    index, chunks = retriever.index, retriever.chunks
    with pytest.raises(ValueError, match=r"chunks must have one row per .* \(4\), got 1"):
        Retriever(index, chunk_documents([Document("a", "x")]), embedder)
    embedder.dim = 8
    with pytest.raises(ValueError, match=r"embedder must make .* \(32\), got 8 from words"):
        Retriever(index, chunks, embedder)
    embedder.dim = 32
    other = ChunkIndex.build(index.embeddings, [0, 1, 2, 4])
    with pytest.raises(ValueError, match="chunks must have the documents of the index"):
        Retriever(other, chunks, embedder)


def test_dtype_and_progress_are_passed_on(embedder: WordEmbedder) -> None:
    steps: list[tuple[int, int]] = []
    retriever = Retriever.from_documents(
        DOCUMENTS,
        embedder,
        chunk_size=23,
        overlap=0,
        dtype=torch.float16,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert retriever.index.embeddings.dtype == torch.float16
    assert steps == [(4, 4)]


def test_truncated_chunks_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Limited(WordEmbedder):
        def count_truncated(self, texts: list[str]) -> int:
            return sum("river" in text for text in texts)

    with caplog.at_level(logging.WARNING, "scar_gpu.text"):
        Retriever.from_documents(DOCUMENTS, Limited(), chunk_size=23, overlap=0)
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 4 chunks are longer than words reads; the rest of them is not searchable"
    ]


def test_a_real_model_finds_the_paragraph() -> None:
    text = (
        "Cats purr when they are content.\n\nA violin has four strings, tuned in fifths.\n\n"
        "Glaciers flow downhill under their own weight."
    )
    retriever = Retriever.from_documents([Document("facts", text)], chunk_size=60, overlap=0)
    answers = retriever.retrieve(
        ["Which instrument is played with a bow?", "moving ice"], 1, "none"
    )
    assert [contexts[0].text.split()[0] for contexts in answers] == ["A", "Glaciers"]
    assert np.isclose(retriever.index.embeddings.norm(dim=1).numpy(), 1, atol=1e-5).all()
