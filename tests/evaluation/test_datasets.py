"""Datasets: what is read, and what is refused with file, line and field."""

from __future__ import annotations

import json
import re

import pytest

from scar_gpu.evaluation.datasets import Evidence, sample_documents
from scar_gpu.evaluation.reading import is_labelled, read_dataset
from tests.evaluation.conftest import unit

DOCS = {"a.txt": "\ufeffOne two.\r\nThree.", "deep/b": "Four five six."}
GOOD = {"id": "1", "doc": "a.txt", "question": "Which?", "evidence": [unit(1, 4, text="One")]}


def without(field: str) -> dict:
    return {key: value for key, value in GOOD.items() if key != field}


def test_what_is_read(write_folder):
    lines = [
        GOOD | {"label": "more fields are ignored"},
        "",
        {
            "id": "2",
            "question": "Both?",
            "evidence": [unit(5, 8, doc="a.txt"), unit(0, 4, doc="deep/b")],
        },
    ]
    folder = write_folder(DOCS, lines)
    found = read_dataset(folder)
    assert is_labelled(folder)
    assert found.name == "tiny"
    assert {document.id: document.text for document in found.documents} == DOCS
    first, second = found.questions
    assert (first.id, first.text, first.document) == ("1", "Which?", "a.txt")
    assert first.alternatives == ((Evidence("a.txt", 1, 4),),)
    assert second.document is None
    assert second.alternatives == ((Evidence("a.txt", 5, 8), Evidence("deep/b", 0, 4)),)


def test_alternatives_are_lists_of_units(write_folder):
    line = GOOD | {"evidence": [[unit(1, 4)], [unit(5, 8), unit(11, 16)]]}
    (question,) = read_dataset(write_folder(DOCS, [line])).questions
    assert question.alternatives == (
        (Evidence("a.txt", 1, 4),),
        (Evidence("a.txt", 5, 8), Evidence("a.txt", 11, 16)),
    )


def test_documents_without_questions_are_named(write_folder):
    assert read_dataset(write_folder(DOCS, [GOOD])).documents_without_questions() == ("deep/b",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "queries.jsonl line 2 must be JSON, got: Expecting"),
        ("[1]", "queries.jsonl line 2 must be a JSON object, got list"),
        (without("id"), "id of .* line 2 must be a text, got None"),
        (GOOD, "id of .* line 2 must be unique, got '1'"),
        (GOOD | {"id": 7}, "id of .* must be a text, got 7"),
        (GOOD | {"id": "2", "question": " "}, "question of .* must be a text, got ' '"),
        (GOOD | {"id": "2", "question": "pay \ud83d"},
         r"question of .* line 2 must be valid Unicode, got '\\ud83d' at offset 4"),
        (GOOD | {"id": "\udc00"}, r"id of .* line 2 must be valid Unicode, got '\\udc00' at"),
        (GOOD | {"id": "2", "doc": "c"}, "doc of .* must name one of the 2 documents, got 'c'"),
        (without("evidence"), "evidence of .* must be a list, got NoneType"),
        (GOOD | {"evidence": []}, "evidence of .* must have at least one unit, got none"),
        (GOOD | {"evidence": [[unit(1, 4)], []]}, r"evidence\[1\] of .* at least one unit"),
        (GOOD | {"evidence": [3]}, r"evidence\[0\] of .* must be an object, got int"),
        (GOOD | {"evidence": [unit(1, 4), [unit(1, 4)]]}, r"evidence\[1\] .*, got list"),
        (
            GOOD | {"evidence": [unit(0, 3, doc="deep/b")]},
            r"evidence\[0\].doc of .* must be the question's own, 'a.txt', got 'deep/b'",
        ),
        (GOOD | {"evidence": [unit(1, True)]}, r"evidence\[0\].end of .* must be an int, got True"),
        (GOOD | {"evidence": [unit(-1, 2)]}, r"evidence\[0\].start of .* in \[0, 17\).* got -1"),
        (GOOD | {"evidence": [unit(17, 18)]}, r"evidence\[0\].start of .*inside 'a.txt', got 17"),
        (GOOD | {"evidence": [unit(3, 18)]}, r"evidence\[0\].end of .* in \(3, 17\].* got 18"),
        (GOOD | {"evidence": [unit(3, 3)]}, r"evidence\[0\].end of .* got 3"),
        (
            GOOD | {"evidence": [[unit(1, 4)], [unit(1, 4, text="one")]]},
            r"evidence\[1\]\[0\].text of .* has at 1..4, 'One', got 'one'",
        ),
        (GOOD | {"evidence": [unit(1, 4, text=5)]}, r"evidence\[0\].text of .*, got '5'"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(write_folder, line, message):
    folder = write_folder(DOCS, [GOOD, line])
    with pytest.raises(ValueError, match=message):
        read_dataset(folder)


def test_questions_without_evidence_can_be_left_out(write_folder):
    lines = [GOOD, GOOD | {"id": "2", "evidence": []}]
    assert len(read_dataset(write_folder(DOCS, lines), skip_without_evidence=True).questions) == 1
    with pytest.raises(ValueError, match="must have at least one question with evidence, got none"):
        read_dataset(write_folder(DOCS, lines[1:]), skip_without_evidence=True)


def test_missing_parts_are_named(tmp_path):
    assert not is_labelled(tmp_path)
    with pytest.raises(FileNotFoundError, match=re.escape("queries.jsonl, which is missing")):
        read_dataset(tmp_path)
    (tmp_path / "queries.jsonl").write_text(json.dumps(GOOD))
    assert is_labelled(tmp_path)
    with pytest.raises(FileNotFoundError, match="docs, which is missing"):
        read_dataset(tmp_path)
    (tmp_path / "docs").mkdir()
    with pytest.raises(ValueError, match="docs must hold at least one document, got none"):
        read_dataset(tmp_path)


def test_files_that_are_no_text_are_named(write_folder):
    folder = write_folder(DOCS, [GOOD])
    (folder / "docs" / "c.txt").write_bytes(b"ab\xff")
    with pytest.raises(ValueError, match=r"c.txt must be UTF-8 text, got byte 0xff at offset 2"):
        read_dataset(folder)


def test_a_sample_is_whole_documents_and_always_the_same(write_folder):
    docs = {name: "Some text." for name in "abcdef"}
    lines = [
        {"id": f"{name}{i}", "doc": name, "question": "?", "evidence": [unit(0, 4)]}
        for name in "abcde"
        for i in range(2)
    ]
    found = read_dataset(write_folder(docs, lines))
    sample = sample_documents(found, 2)
    names = [document.id for document in sample.documents]
    assert len(names) == 2
    assert "f" not in names
    assert [question.id for question in sample.questions] == [
        f"{n}{i}" for n in names for i in (0, 1)
    ]
    assert sample_documents(found, 3).documents[0] in found.documents
    assert set(names) < {document.id for document in sample_documents(found, 3).documents}
    assert sample_documents(found, 9) is found
    with pytest.raises(ValueError, match="n_documents must be >= 1, got 0"):
        sample_documents(found, 0)
