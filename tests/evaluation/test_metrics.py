"""Metrics: hand-computed tiny cases, and a slow plain version on random ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from scar_gpu.evaluation.gold import gold_of
from scar_gpu.evaluation.metrics import document_means, score, sizes_of
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.text.chunks import ChunkTable, chunk_documents
from tests.evaluation.conftest import unit
from tests.evaluation.slow_metrics import slow_scores

TEXT = "One two, three four. Five six."
#       0123456789012345678901234567890
#       chunk 0 = 0..9, 1 = 4..20, 2 = 20..30


@pytest.fixture
def chunks() -> ChunkTable:
    rows = np.zeros(3, dtype=np.int64)
    starts, ends = np.array([0, 4, 20]), np.array([9, 20, 30])
    return ChunkTable(("d",), (TEXT,), rows, starts, ends, rows.astype(np.int32), ((),))


def scores_of(dataset, chunks, *rows: list[int], **options):
    width = max(map(len, rows))
    ids = torch.tensor([[*one, *[-1] * (width - len(one))] for one in rows])
    return score(ids, gold_of(dataset, chunks), sizes_of(chunks), **options)


def test_one_question_by_hand(dataset_of, chunks):
    # "two, three" is 4..14: chunk 1 holds it, chunk 0 half of it.
    dataset = dataset_of(TEXT, *[[unit(4, 14)]] * 5)
    found = scores_of(dataset, chunks, [1], [0], [0, 1, 1], [2], [-1, 2, 0])
    assert found.recall.tolist() == [1, 0, 1, 0, 0]
    assert found.coverage.tolist() == pytest.approx([1, 5 / 10, 1, 0, 5 / 10])
    assert found.full.tolist() == [1, 0, 1, 0, 0]
    assert found.chunks.tolist() == [1, 1, 2, 1, 2]
    assert found.characters.tolist() == [16, 9, 20, 10, 19]  # 0 and 1 share 4..9
    # "One two," has 3; "two, three four." 5, two of which it repeats; "Five six." 3.
    assert found.tokens.tolist() == [5, 3, 6, 3, 6]


def test_units_weigh_the_same_and_overlap_counts_once(dataset_of, chunks):
    # 2 of the 4 characters of 7..11 lie in chunk 0, all of 25..26 in chunk 2.
    dataset = dataset_of(TEXT, [unit(7, 11), unit(25, 26)], [unit(7, 11), unit(25, 26)])
    found = scores_of(dataset, chunks, [2, 0], [0, 1])
    assert found.coverage.tolist() == pytest.approx([(2 / 4 + 1) / 2, (1 + 0) / 2])
    assert found.recall.tolist() == [1 / 2, 1 / 2]  # the gold chunks are 1 and 2


def test_the_best_alternative_counts_and_none_are_mixed(dataset_of, chunks):
    # Complete in chunk 2; or 4..14 with 0..3, of which chunk 1 has the first alone.
    either = [[unit(21, 25)], [unit(4, 14), unit(0, 3)]]
    found = scores_of(dataset_of(TEXT, either, either, either), chunks, [2], [1], [0])
    assert found.coverage.tolist() == pytest.approx([1, 1 / 2, (5 / 10 + 1) / 2])
    assert found.full.tolist() == [1, 0, 0]
    assert found.recall.tolist() == [1, 1 / 2, 1 / 2]


def test_full_may_be_less_than_all(dataset_of, chunks):
    dataset = dataset_of(TEXT, [unit(4, 14)])
    assert scores_of(dataset, chunks, [0], full_at=0.5).full.tolist() == [1]
    assert scores_of(dataset, chunks, [0], full_at=0.51).full.tolist() == [0]
    for wrong in (0, 1.5):
        with pytest.raises(ValueError, match=rf"full_at must be in \(0, 1\], got {wrong}"):
            scores_of(dataset, chunks, [0], full_at=wrong)


def test_nothing_retrieved(dataset_of, chunks):
    dataset = dataset_of(TEXT, [unit(4, 14)])
    for ids in (torch.empty(1, 0, dtype=torch.int64), torch.full((1, 3), -1)):
        found = score(ids, gold_of(dataset, chunks), sizes_of(chunks))
        assert [column.tolist() for column in found] == [[0]] * 6


def test_bad_ids_are_refused(dataset_of, chunks):
    gold, sizes = gold_of(dataset_of(TEXT, [unit(4, 14)]), chunks), sizes_of(chunks)
    with pytest.raises(ValueError, match=r"ids must have shape \[1, M\], got \[2, 1\]"):
        score(torch.tensor([[0], [1]]), gold, sizes)
    with pytest.raises(ValueError, match=r"ids must be -1 or in \[0, 3\), got 0..3"):
        score(torch.tensor([[0, 3]]), gold, sizes)


def test_random_corpora_agree_with_the_slow_version(write_folder):
    generator = np.random.default_rng(1)
    docs = {name: "".join(generator.choice(list("ab, .\n"), 400)) for name in "abc"}
    lines = []
    for number in range(30):
        name = "abc"[number % 3]
        units = [unit(*sorted(generator.choice(400, 2, replace=False).tolist())) for _ in range(4)]
        evidence = [units[:1], units[1:3], units[3:]][: 1 + number % 3]
        lines.append({"id": str(number), "doc": name, "question": "?", "evidence": evidence})
    dataset = read_dataset(write_folder(docs, lines))
    chunks = chunk_documents(dataset.documents, chunk_size=40, overlap=15)
    ids = torch.from_numpy(generator.integers(-1, len(chunks), (30, 9)))
    found = score(ids, gold_of(dataset, chunks), sizes_of(chunks))
    some_full = scores_of_all = 0
    for q in range(30):
        exact = slow_scores(ids[q].tolist(), q, dataset, chunks)
        for name, value in exact.items():
            assert getattr(found, name)[q].item() == pytest.approx(value), (q, name)
        some_full += exact["full"]
        scores_of_all += exact["coverage"]
    assert some_full > 0  # the cases are not all empty
    assert 0 < scores_of_all < 30


def test_documents_count_the_same_however_many_questions_they_have():
    values = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 4.0], [0.5, 1.0]])
    means = document_means(values, ["b", "a", "a", "b"])
    assert means.tolist() == [[0.75, 0.5], [0.0, 3.0]]
