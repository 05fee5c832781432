"""Retrievers on disk, and batches of queries that never stand in memory together."""

import gc

import numpy as np
import pytest

from scar_gpu import ChunkIndex
from scar_gpu.storage import IndexFormatError, describe, open_index, save_index
from scar_gpu.text import Document, Retriever
from tests.text.word_embedder import WordEmbedder

DOCUMENTS = [
    Document("fruit", "# Fruit\n\nred apple tree\n\ngreen apple falls", format="markdown"),
    Document("empty", ""),
    Document("water", "blue river water run\n\ncold river water end"),
]
QUERIES = ["apple", "river", "green falls", "cold", "tree"]


@pytest.fixture
def retriever(embedder: WordEmbedder) -> Retriever:
    return Retriever.from_documents(DOCUMENTS, embedder, chunk_size=24, overlap=4)


def test_a_saved_retriever_answers_alike(retriever, embedder, tmp_path):
    retriever.save(tmp_path / "index")
    loaded = Retriever.from_index(tmp_path / "index", WordEmbedder())
    answers = retriever.retrieve(QUERIES, 2)
    assert loaded.retrieve(QUERIES, 2) == answers
    assert answers[2][0].headings == ("Fruit",)
    record = {"name": "words", "dim": 32, "hash": embedder.content_hash}
    assert describe(tmp_path / "index")["embedder"] == record
    with pytest.raises(FileExistsError):
        retriever.save(tmp_path / "index")
    loaded.save(tmp_path / "index", overwrite=True)
    assert Retriever.from_index(tmp_path / "index", embedder).retrieve(QUERIES, 2) == answers


def test_another_model_is_refused_and_both_are_named(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    other = WordEmbedder()
    other.content_hash = "0123456789abcdef"
    other.name = "others"
    with pytest.raises(ValueError, match=r"words \(32 .*, hash .{12}\), got others .*0123456789ab"):
        Retriever.from_index(tmp_path / "index", other)
    other.content_hash, other.dim = WordEmbedder.content_hash, 16
    with pytest.raises(ValueError, match=r"words \(32 dimensions.* got others \(16 dimensions"):
        Retriever.from_index(tmp_path / "index", other)


def test_vectors_need_no_model(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    loaded = Retriever.from_index(tmp_path / "index")
    vectors = retriever.encode_queries(QUERIES)
    assert loaded.retrieve_vectors(vectors, k=2) == retriever.retrieve(QUERIES, 2)
    with pytest.raises(ValueError, match=r"model must be given .* made with words, got none"):
        loaded.retrieve("apple")
    # The record is kept even where the model was never loaded.
    loaded.save(tmp_path / "copy")
    assert open_index(tmp_path / "copy").embedder == open_index(tmp_path / "index").embedder


def test_an_index_of_vectors_alone(retriever, embedder, tmp_path):
    retriever.index.save(tmp_path / "index")
    loaded = Retriever.from_index(tmp_path / "index")
    with pytest.raises(ValueError, match="embedder must be given for queries in words, got none"):
        loaded.retrieve("apple")
    with pytest.raises(ValueError, match="with_text must be False for an index without text"):
        Retriever.from_index(tmp_path / "index", embedder).retrieve("apple")
    with pytest.raises(IndexFormatError):
        Retriever.from_index(tmp_path)


def test_the_recorded_default_model_is_loaded_for_words(tmp_path):
    documents = [Document("a", "Cats purr.\n\nDogs bark.")]
    built = Retriever.from_documents(documents, chunk_size=12, overlap=0)
    built.save(tmp_path / "index")
    loaded = Retriever.from_index(tmp_path / "index", device="cpu")
    assert loaded._embedder is None
    assert loaded.retrieve("which animal barks?", 1) == built.retrieve("which animal barks?", 1)
    assert loaded.embedder.name == built.embedder.name


@pytest.mark.parametrize("batch_size", [1, 2, 5, 256])
def test_batches_are_the_whole(retriever, batch_size):
    answers = retriever.retrieve_batches(iter(QUERIES), batch_size, k=2, order="document")
    assert list(answers) == retriever.retrieve(QUERIES, 2, order="document")
    assert list(retriever.retrieve_batches([], batch_size)) == []


def test_queries_are_read_and_answered_as_they_are_needed(retriever):
    read = []

    def endless():
        while True:
            read.append(len(read))
            yield QUERIES[len(read) % 5]

    answers = retriever.retrieve_batches(endless(), batch_size=3)
    assert read == []
    first = next(answers)
    assert len(read) == 3
    for _ in range(1000):
        next(answers)
    assert len(read) <= 1005
    assert first == retriever.retrieve(QUERIES[1])[0]


def test_results_are_not_kept(retriever):
    """A thousand batches leave no more objects behind than ten."""

    def objects(n: int) -> int:
        for _ in retriever.retrieve_batches((QUERIES[i % 5] for i in range(n)), batch_size=4):
            pass
        retriever.embedder.seen.clear()
        gc.collect()
        return len(gc.get_objects())

    objects(8)
    few = objects(40)
    assert objects(1200) < few + 200


def test_a_bad_query_is_named_by_its_place_among_all(retriever):
    answers = retriever.retrieve_batches(["a", "b", "c", " "], batch_size=2)
    assert len([next(answers), next(answers)]) == 2
    with pytest.raises(ValueError, match="queries must not be empty, got ' ' at position 3"):
        next(answers)


def test_bad_options_are_refused_at_the_call(retriever):
    with pytest.raises(ValueError, match="batch_size must be >= 1, got 0"):
        retriever.retrieve_batches(QUERIES, 0)
    with pytest.raises(TypeError, match="queries must be an iterable of str, got one str"):
        retriever.retrieve_batches("apple")
    with pytest.raises(ValueError, match="method must be"):
        retriever.retrieve_batches(QUERIES, method="all")
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        retriever.retrieve_batches(QUERIES, depth=3)


def test_half_precision_and_maps_give_the_same_answers(retriever, embedder, tmp_path):
    half = ChunkIndex.build(retriever.index.embeddings.half(), retriever.index.doc_offsets)
    save_index(tmp_path / "index", half, chunks=retriever.chunks)
    loaded = Retriever.from_index(tmp_path / "index", embedder)
    assert loaded.retrieve(QUERIES) == Retriever(half, retriever.chunks, embedder).retrieve(QUERIES)
    vectors = retriever.encode_queries(QUERIES).numpy()
    np.save(tmp_path / "queries.npy", vectors)
    mapped = np.load(tmp_path / "queries.npy", mmap_mode="r")
    assert loaded.retrieve_vectors(mapped) == loaded.retrieve(QUERIES)
