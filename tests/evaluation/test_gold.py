"""Gold: where evidence lies in a chunking, by hand, and the labels of the data sets."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from scar_gpu.evaluation.gold import gold_of, row_ranges_of
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.text.chunks import ChunkTable, chunk_documents
from tests.evaluation.conftest import unit

DATA = Path(__file__).parents[3] / "shared" / "data"


def table(*bounds: tuple[int, int], text: str = "x" * 100) -> ChunkTable:
    """Chunks of one document "d"."""
    starts, ends = (np.array(column) for column in zip(*bounds, strict=True))
    rows = np.zeros(len(bounds), dtype=np.int64)
    return ChunkTable(("d",), (text,), rows, starts, ends, rows.astype(np.int32), ((),))


# Ten chunks of 10 characters; each repeats the last two of the one before it.
OVERLAPPING = table(*[(8 * i, 8 * i + 10) for i in range(10)])


def pieces(gold, question: int = 0) -> dict[tuple[int, int], list[float]]:
    """Ranges with their weights, without padding."""
    rows = zip(gold.ranges[question].tolist(), gold.weights[question].tolist(), strict=True)
    return {(first, end): weights for (first, end), weights in rows if end > first}


def test_pieces_by_hand(dataset_of):
    # Evidence 5..20: chunk 0 alone holds 5..8, 8..10 lies in 0 and 1, 10..16 in 1 alone,
    # 16..18 in 1 and 2, 18..20 in 2 alone. The fewest chunks that hold it are 0, 1, 2.
    gold = gold_of(dataset_of("x" * 100, [unit(5, 20)]), OVERLAPPING)
    assert gold.kinds == ("fragmented",)
    expected = {
        (0, 1): [1 / 3, 3 / 15],
        (1, 2): [1 / 3, 6 / 15],
        (2, 3): [1 / 3, 2 / 15],
        (0, 2): [0, 2 / 15],
        (1, 3): [0, 2 / 15],
    }
    assert pieces(gold) == {rows: pytest.approx(weights) for rows, weights in expected.items()}


def test_units_weigh_the_same_whatever_their_length(dataset_of):
    gold = gold_of(dataset_of("x" * 100, [unit(2, 7), unit(50, 51)]), OVERLAPPING)
    # 50 lies in chunks 5 (40..50, exclusive), 6 (48..58): only 6 holds it.
    assert pieces(gold) == {(0, 1): [1 / 2, 1 / 2], (6, 7): [1 / 2, 1 / 2]}


def test_evidence_in_an_overlap_has_one_gold_chunk_and_two_that_cover_it(dataset_of):
    gold = gold_of(dataset_of("x" * 100, [unit(8, 10)]), OVERLAPPING)
    assert pieces(gold) == {(1, 2): [1, 0], (0, 2): [0, 1]}
    assert gold.kinds == ("atomic",)


def test_alternatives_stand_side_by_side(dataset_of):
    dataset = dataset_of("x" * 100, [[unit(2, 7)], [unit(12, 14), unit(90, 92)]], [unit(2, 7)])
    gold = gold_of(dataset, table((0, 10), (10, 20), (20, 92), (92, 100)))
    assert pieces(gold) == {
        (0, 1): [1, 0, 1, 0],
        (1, 2): [0, 1 / 2, 0, 1 / 2],
        (2, 3): [0, 1 / 2, 0, 1 / 2],
    }
    assert pieces(gold, 1) == {(0, 1): [1, 0, 1, 0]}
    assert gold.kinds == ("atomic", "atomic")


def test_characters_that_no_chunk_holds_are_never_covered(dataset_of):
    gold = gold_of(dataset_of("x" * 100, [unit(5, 25)]), table((0, 10), (20, 30)))
    assert pieces(gold) == {(0, 1): [1 / 2, 5 / 20], (1, 2): [1 / 2, 5 / 20]}
    assert gold.weights.sum(1).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        ([unit(0, 10)], "atomic"),
        ([unit(1, 3), unit(8, 10)], "atomic"),
        ([unit(1, 11)], "fragmented"),
        ([unit(1, 3), unit(41, 42)], "fragmented"),  # chunks 0 to 4
        ([unit(1, 3), unit(43, 44)], "scattered"),  # chunks 0 to 5, three of them without
        ([unit(1, 43)], "long"),
        ([unit(1, 20), unit(18, 43)], "long"),
        ([[unit(1, 43)], [unit(1, 11)]], "fragmented"),
    ],
)
def test_kinds(dataset_of, evidence, kind):
    assert gold_of(dataset_of("x" * 100, evidence), OVERLAPPING).kinds == (kind,)


def test_evidence_in_two_documents_is_scattered(write_folder):
    line = {"id": "1", "question": "?", "evidence": [unit(0, 1, doc="a"), unit(0, 1, doc="b")]}
    dataset = read_dataset(write_folder({"a": "one", "b": "two"}, [line]))
    gold = gold_of(dataset, chunk_documents(dataset.documents))
    assert gold.kinds == ("scattered",)
    assert pieces(gold) == {(0, 1): [1 / 2, 1 / 2], (1, 2): [1 / 2, 1 / 2]}
    with pytest.raises(ValueError, match=r"questions must name their document .* got '1'"):
        row_ranges_of(dataset.questions, chunk_documents(dataset.documents))


def test_pieces_agree_with_characters(dataset_of):
    """For any set of rows: the weights of covered pieces are the share of characters in it."""
    generator = np.random.default_rng(0)
    text = "".join(generator.choice(list("ab \n."), 2000))
    evidence = [unit(*sorted(generator.choice(2000, 2, replace=False).tolist())) for _ in range(20)]
    dataset = dataset_of(text, *[[one, two] for one, two in pairwise(evidence)])
    chunks = chunk_documents(dataset.documents, chunk_size=90, overlap=40)
    gold = gold_of(dataset, chunks)
    for q, question in enumerate(dataset.questions):
        rows = set(generator.choice(len(chunks), 8, replace=False).tolist())
        held = np.zeros(2000, dtype=bool)
        for row in rows:
            held[chunks.start[row] : chunks.end[row]] = True
        exact = np.mean([held[e.start : e.end].mean() for e in question.alternatives[0]])
        covered = [bool(rows & set(range(first, end))) for first, end in gold.ranges[q].tolist()]
        assert gold.weights[q, torch.tensor(covered), 1].sum().item() == pytest.approx(exact)


def test_chunks_that_fall_are_refused(dataset_of):
    with pytest.raises(ValueError, match="chunks of 'd' must rise in start and end, got a fall"):
        gold_of(dataset_of("x" * 100, [unit(0, 1)]), table((10, 20), (0, 15)))


def test_row_ranges(dataset_of):
    dataset = dataset_of("x" * 100, [unit(0, 1)], [unit(5, 6)])
    assert row_ranges_of(dataset.questions, OVERLAPPING).tolist() == [[0, 10], [0, 10]]


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data sets are not here")
@pytest.mark.parametrize("name", ["chunking_evaluation", "lbr_contractnli"])
def test_the_kinds_are_those_of_the_labels(name):
    """The labels were made by another implementation for 600/60."""
    folder = DATA / name
    lines = (folder / "queries.jsonl").read_text().splitlines()
    labels = {line["id"]: line["label_600_60"] for line in map(json.loads, lines)}
    dataset = read_dataset(folder)
    kinds = gold_of(dataset, chunk_documents(dataset.documents)).kinds
    names = {"long_span": "long"}
    expected = [labels[question.id] for question in dataset.questions]
    assert list(kinds) == [names.get(label, label) for label in expected]
