"""Probes: sentence pairs inside a chunk and across a border, with questions from their words."""

from __future__ import annotations

import pytest

from scar_gpu.evaluation.gold import gold_of
from scar_gpu.evaluation.probes import make_probes
from scar_gpu.text import Document, chunk_documents
from tests.evaluation.machines import prose

DOCUMENTS = [Document(f"{i}.txt", prose(i, 40)) for i in range(4)]
SIZES = {"chunk_size": 300, "overlap": 30}


def test_half_of_the_pairs_straddle_a_border():
    found = make_probes(DOCUMENTS, n=40, **SIZES)
    kinds = gold_of(found, chunk_documents(DOCUMENTS, 300, 30)).kinds
    assert kinds.count("fragmented") == kinds.count("atomic") == 20
    assert len({question.id for question in found.questions}) == 40


def test_evidence_is_two_sentences_and_the_question_their_words():
    texts = {document.id: document.text for document in DOCUMENTS}
    for question in make_probes(DOCUMENTS, n=30, **SIZES).questions:
        ((unit,),) = question.alternatives
        assert unit.document == question.document
        text = texts[unit.document][unit.start : unit.end]
        assert text.endswith(".")
        assert text.count(".") == 2
        words = question.text.split()
        assert len(words) == 6
        places = [text.lower().index(word) for word in words]
        assert places == sorted(places)


def test_rare_words_are_chosen():
    text = (
        "Common phrase about ordinary people walking slowly. "
        "Common phrase about ordinary zebras grazing quietly yonder.\n\n"
    )
    padding = "Common phrase about ordinary people walking slowly over there.\n\n" * 20
    documents = [Document("a", text + padding)]
    first = make_probes(documents, n=99, chunk_size=120, overlap=0).questions[0]
    assert {"zebras", "grazing", "quietly", "yonder"} < set(first.text.split())


def test_the_seed_decides_and_the_order_is_that_of_the_text():
    one, again, other = (make_probes(DOCUMENTS, n=10, seed=s, **SIZES) for s in (1, 1, 2))
    assert one.questions == again.questions != other.questions
    places = [(question.document, question.alternatives[0][0].start) for question in one.questions]
    assert places == sorted(places)


def test_what_is_no_prose_makes_no_probe():
    for text in ("", "Short. Shorter.", "A heading without end\n\n" * 9):
        with pytest.raises(ValueError, match="documents must hold two sentences in a row"):
            make_probes([Document("a", text)])
    with pytest.raises(ValueError, match="n must be >= 1, got 0"):
        make_probes(DOCUMENTS, n=0)
