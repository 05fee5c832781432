"""Methods: which rows each retrieves, on a corpus small enough to see it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scar_gpu.evaluation.datasets import Dataset
from scar_gpu.evaluation.methods import (
    MatchedTopK,
    ParentSection,
    Scar,
    TopK,
    Window,
    even_counts,
    search,
)
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.evaluation.reranking import Reranked, load_cross_encoder
from scar_gpu.evaluation.trial import Settings, Trial, prepare
from scar_gpu.text.lexical import LexicalIndex
from tests.evaluation.conftest import unit
from tests.evaluation.tiny_cross_encoder import write_cross_encoder
from tests.text.word_embedder import WordEmbedder

FRUIT = "# Apples\n\n" + "".join(f"Apple tree {i} grows red fruit.\n\n" for i in range(6))
FRUIT += "# Pears\n\n" + "".join(f"Pear tree {i} grows green fruit.\n\n" for i in range(6))
WATER = "".join(f"River {i} runs cold and blue.\n\n" for i in range(8))
SMALL = {"chunk_size": 40, "overlap": 0}
FIVE = [TopK(), Window(), Scar(), ParentSection(), MatchedTopK(Window())]


@pytest.fixture
def dataset(write_folder) -> Dataset:
    def question(number: int, document: str, text: str) -> dict:
        evidence = [unit(0, 5)]
        return {"id": str(number), "doc": document, "question": text, "evidence": evidence}

    lines = [
        question(0, "fruit.md", "red apple tree 3"),
        question(1, "water.txt", "river 5"),
        question(2, "fruit.md", "green"),
        question(3, "water.txt", "which river runs cold 2"),
    ]
    return read_dataset(write_folder({"fruit.md": FRUIT, "water.txt": WATER}, lines))


@pytest.fixture
def trial(dataset) -> Trial:
    return prepare(dataset, WordEmbedder(), Settings(**SMALL))


def rows(ids: torch.Tensor) -> list[list[int]]:
    return [[row for row in one if row >= 0] for one in ids.tolist()]


def test_searches_stay_inside_the_document(trial, dataset):
    fruit = int(trial.chunks.doc_offsets[1])
    for method in [*FIVE, TopK(hybrid=True), Window(hybrid=True), Scar(hybrid=True)]:
        for question, found in zip(dataset.questions, rows(method.select(trial)), strict=True):
            assert found, method.name
            assert all((row < fruit) == (question.document == "fruit.md") for row in found)


def test_the_whole_corpus_can_be_searched(dataset):
    trial = prepare(dataset, WordEmbedder(), Settings(**SMALL, scope="corpus"))
    assert trial.row_ranges is None
    expected = trial.index.search(trial.queries, 5).ids
    assert torch.equal(TopK().select(trial), expected)
    assert trial.lexical_hits(50).shape == (4, 50)


def test_expansions_are_those_of_the_index(trial):
    hits = trial.index.search(trial.queries, 3, row_ranges=trial.row_ranges).ids
    queries = trial.queries
    for method, expected in [
        (TopK(3), hits),
        (Window(3, 2), trial.index.window_expand(hits, before=2, after=2).ids),
        (
            Scar(3, 1, 0.2, 0.6),
            trial.index.scar_expand(queries, hits, lam=0.2, gamma=0.6, window=1).ids,
        ),
        (
            Scar(3, 2, 0.2, 0.6, contiguous=True),
            trial.index.scar_expand(queries, hits, lam=0.2, gamma=0.6, contiguous=True).ids,
        ),
    ]:
        assert torch.equal(method.select(trial), expected), method.name


def test_the_same_number_of_chunks(trial):
    for other in (Window(2), Scar(3, 2, gamma=0.5), ParentSection(1)):
        matched = rows(MatchedTopK(other).select(trial))
        theirs = rows(other.select(trial))
        assert sum(map(len, matched)) == sum(map(len, theirs))
        ranked = rows(search(trial, 99))
        assert all(found == best[: len(found)] for found, best in zip(matched, ranked, strict=True))


def test_as_many_chunks_as_a_hybrid_list_would_not_hold(trial, monkeypatch):
    from scar_gpu.evaluation import methods

    monkeypatch.setattr(methods, "_POOL", 2)
    other = Window(3, 2, hybrid=True)
    matched = rows(MatchedTopK(other, hybrid=True).select(trial))
    assert sum(map(len, matched)) == sum(map(len, rows(other.select(trial))))


@pytest.mark.parametrize(
    ("total", "available", "counts"),
    [
        (8, [9, 9, 9, 9], [2, 2, 2, 2]),
        (10, [9, 9, 9, 9], [2, 3, 2, 3]),
        (10, [9, 1, 9, 9], [3, 1, 3, 3]),
        (11, [9, 1, 9, 9], [3, 1, 3, 4]),
        (99, [2, 1, 0, 3], [2, 1, 0, 3]),
        (0, [2, 1], [0, 0]),
    ],
)
def test_even_counts(total, available, counts):
    assert even_counts(total, torch.tensor(available)).tolist() == counts


def test_parent_sections(trial):
    fruit = int(trial.chunks.doc_offsets[1])
    paths = [trial.chunks.chunk(row).headings for row in range(fruit)]
    apples = [row for row in range(fruit) if paths[row] == ("Apples",)]
    pears = [row for row in range(fruit) if paths[row] == ("Pears",)]
    assert apples
    assert pears
    found = rows(ParentSection(1).select(trial))
    assert found[0] == apples
    assert found[2] == pears
    assert found[1] == list(range(fruit, len(trial.chunks)))  # no headings: the document
    assert rows(ParentSection(50).select(trial))[0] == [*apples, *pears]


def test_hybrid_lists_are_fused_with_their_own_document_alone(trial):
    (lexical,) = rows(trial.lexical_hits(50)[:1])
    assert {"Apple", "tree", "red"} <= set(trial.chunks.text(lexical[0]).split())
    fruit = int(trial.chunks.doc_offsets[1])
    assert all(row < fruit for row in lexical)
    assert all(row >= fruit for row in rows(trial.lexical_hits(50))[1])
    # Those of a search without a range, as far as they are the document's.
    ranked = rows(trial.lexical.search(trial.questions, len(trial.chunks)).ids)
    for own, found, bounds in zip(
        rows(trial.lexical_hits(50)), ranked, trial.row_ranges.tolist(), strict=True
    ):
        assert own == [row for row in found if row in range(*bounds)][:50]


def test_words_of_headings_are_found_where_they_are_embedded(dataset):
    """Pears, in the plural, are a title; the text below it has pear alone."""
    asked = replace(dataset, questions=(replace(dataset.questions[2], text="pears"),))
    on, off = (
        prepare(asked, WordEmbedder(), Settings(**SMALL, headings=headings))
        for headings in (True, False)
    )
    chunks = on.chunks
    said = [row for row in range(len(chunks)) if "Pears" in chunks.text(row)]
    below = [row for row in range(len(chunks)) if chunks.chunk(row).headings == ("Pears",)]
    assert set(below) - set(said)
    assert rows(off.lexical_hits(50)) == [said]
    assert sorted(rows(on.lexical_hits(50))[0]) == sorted({*said, *below})
    built = LexicalIndex.of_chunks(chunks)  # what `build --lexical` keeps
    assert np.array_equal(on.lexical.scores, built.scores)


def test_some_of_the_questions(trial):
    whole = {method.name: method.select(trial) for method in (Scar(2), Scar(2, hybrid=True))}
    assert trial.of([0, 1, 2, 3]) is trial
    some = trial.of([3, 1])
    assert [question.id for question in some.dataset.questions] == ["3", "1"]
    assert some.gold.kinds == (trial.gold.kinds[3], trial.gold.kinds[1])
    for method in (Scar(2), Scar(2, hybrid=True)):
        assert torch.equal(method.select(some), whole[method.name][[3, 1]])


def test_headings_are_embedded_or_not(dataset):
    on, off = WordEmbedder(), WordEmbedder()
    prepare(dataset, on, Settings(**SMALL))
    prepare(dataset, off, Settings(**SMALL, headings=False))
    assert any(text.startswith("Apples\n") for text in on.seen)
    assert not any(text.startswith("Apples\n") for text in off.seen)


def test_a_second_run_embeds_nothing(dataset, tmp_path):
    first = prepare(dataset, WordEmbedder(), Settings(**SMALL), cache=tmp_path / "cache")
    again = WordEmbedder()
    second = prepare(dataset, again, Settings(**SMALL), cache=tmp_path / "cache")
    assert again.seen == []
    assert torch.equal(first.index.embeddings, second.index.embeddings)
    assert torch.equal(first.queries, second.queries)


def test_bad_settings():
    with pytest.raises(ValueError, match="scope must be document or corpus, got 'all'"):
        Settings(scope="all")
    with pytest.raises(ValueError, match="window must be >= 0, got -1"):
        Settings(window=-1)


def test_a_corpus_without_text_is_refused(dataset):
    from scar_gpu.text import Document

    empty = replace(dataset, documents=(Document("fruit.md", ""), Document("water.txt", "")))
    with pytest.raises(ValueError, match="documents of tiny must hold some text, got none"):
        prepare(empty, WordEmbedder())


def test_names_tell_methods_apart():
    methods = [*FIVE, Scar(reach=2), Scar(contiguous=True), Scar(gamma=0.6), Window(reach=2)]
    names = [method.name for method in methods]
    assert len(set(names)) == len(names)
    assert TopK(hybrid=True).name == "hybrid, top-5"


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross-encoder"))


def test_reranking_keeps_the_best_of_the_pool(trial, cross_encoder):
    seen = []
    method = Reranked(str(cross_encoder), k=3, pool=6, progress=lambda *done: seen.append(done))
    found = method.select(trial)
    pool = search(trial, 6)
    encoder = load_cross_encoder(str(cross_encoder))
    for q, question in enumerate(trial.questions):
        texts = [trial.chunks.text(row) for row in pool[q].tolist()]
        scores = encoder.predict([(question, text) for text in texts])
        best = sorted(range(6), key=lambda place: -scores[place])[:3]
        assert found[q].tolist() == pool[q][best].tolist()
    assert seen == [(24, 24)]
    assert not torch.equal(found, pool[:, :3])


def test_a_reranker_that_is_not_there(trial):
    with pytest.raises(FileNotFoundError, match="reranker must be a folder or a model's name"):
        Reranked("./nowhere").select(trial)
