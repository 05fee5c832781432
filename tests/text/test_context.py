"""Contexts from expansions: text, rank, score, hits and neighbours of each span."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from scar_gpu.text import ChunkTable, Context, assemble
from scar_gpu.types import Expansion, Hits, Spans

# Rows 0-3 are document a, rows 4-5 document b; each chunk repeats two characters.
TABLE = ChunkTable(
    ids=("a", "b"),
    texts=("0123456789", "uvwxyz"),
    document=np.array([0, 0, 0, 0, 1, 1]),
    start=np.array([0, 2, 4, 6, 0, 2]),
    end=np.array([4, 6, 8, 10, 4, 6]),
    path=np.zeros(6, dtype=np.int32),
    paths=((),),
)


def one_query(
    hits: list[int],
    scores: list[float],
    rows: list[int],
    anchors: list[int],
    spans: list[tuple[int, int]],
) -> list[Context]:
    """Assemble one query, padded by two entries everywhere."""
    padded = [*rows, -1, -1]
    starts, ends = ([*column, -1, -1] for column in zip(*spans, strict=True))
    (contexts,) = assemble(
        Hits(torch.tensor([hits]), torch.tensor([scores])),
        Expansion(
            torch.tensor([padded]),
            torch.zeros(1, len(padded)),
            torch.tensor([[*anchors, -1, -1]]),
            torch.tensor([len(rows)]),
        ),
        Spans(
            torch.tensor([starts]),
            torch.tensor([ends]),
            torch.zeros(1, len(starts)),
            torch.tensor([len(spans)]),
        ),
        TABLE,
    )
    return contexts


def test_one_context_per_span() -> None:
    contexts = one_query([4, 1], [0.5, 0.25], [4, 0, 1, 2], [0, 1, 1, 1], [(4, 5), (0, 3)])
    assert contexts == [
        Context("b", 0, 4, "uvwx", rank=1, score=0.5, hits=(4,), neighbours=()),
        Context("a", 0, 8, "01234567", rank=2, score=0.25, hits=(1,), neighbours=(0, 2)),
    ]


def test_rank_and_score_are_those_of_the_best_hit() -> None:
    (context,) = one_query([3, 1], [0.75, 0.5], [2, 3, 1], [0, 0, 1], [(1, 4)])
    assert (context.rank, context.score) == (1, 0.75)
    assert (context.hits, context.neighbours) == ((1, 3), (2,))


def test_a_hit_stays_a_hit_beside_a_better_one() -> None:
    # A static window gives row 2, a hit itself, to the better hit next to it.
    (context,) = one_query([1, 2], [0.75, 0.5], [0, 1, 2, 3], [0, 0, 0, 1], [(0, 4)])
    assert (context.rank, context.hits, context.neighbours) == (1, (1, 2), (0, 3))


def test_a_span_without_a_hit_has_the_score_of_the_one_that_admitted_it() -> None:
    contexts = one_query([5, 0], [0.5, 0.25], [5, 0, 2], [0, 1, 1], [(5, 6), (0, 1), (2, 3)])
    assert contexts[2] == Context("a", 4, 8, "4567", 2, 0.25, hits=(), neighbours=(2,))


def test_padding_hits_and_empty_queries() -> None:
    contexts = one_query([1, -1], [0.5, float("-inf")], [1], [0], [(1, 2)])
    assert [context.hits for context in contexts] == [(1,)]
    empty = torch.zeros(1, 0, dtype=torch.int64)
    none = torch.zeros(1, dtype=torch.int32)
    hits = Hits(empty, empty.float())
    expansion = Expansion(empty, empty.float(), empty, none)
    assert assemble(hits, expansion, Spans(empty, empty, empty, none), TABLE) == [[]]


def test_a_context_is_one_json_object_and_does_not_change() -> None:
    (context,) = one_query([1], [0.5], [1], [0], [(1, 2)])
    record = json.loads(json.dumps(dataclasses.asdict(context)))
    assert record == {
        "document": "a", "start": 2, "end": 6, "text": "2345", "rank": 1, "score": 0.5,
        "hits": [1], "neighbours": [], "headings": [],
    }  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.rank = 2  # type: ignore[misc]
