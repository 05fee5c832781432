"""The metrics once more, in plain Python over sets of characters: the definition, slowly."""

from __future__ import annotations

import re

from scar_gpu.evaluation.datasets import Dataset
from scar_gpu.text.chunks import ChunkTable


def slow_scores(rows: list[int], question: int, dataset: Dataset, chunks: ChunkTable) -> dict:
    """Every score of one question whose retrieved rows are given."""
    texts = {document.id: document.text for document in dataset.documents}
    held = {
        (chunks.ids[chunks.document[row]], position)
        for row in rows
        if row >= 0
        for position in range(chunks.start[row], chunks.end[row])
    }
    tokens = {
        (name, found.start())
        for name, text in texts.items()
        for found in re.finditer(r"\w+|[^\w\s]", text)
    }
    recall, coverage, full = 0.0, 0.0, False
    for units in dataset.questions[question].alternatives:
        characters = [{(u.document, p) for p in range(u.start, u.end)} for u in units]
        shares = [len(one & held) / len(one) for one in characters]
        coverage = max(coverage, sum(shares) / len(shares))
        full = full or all(one <= held for one in characters)
        gold = {row for unit in units for row in fewest_chunks(unit, chunks)}
        recall = max(recall, len(gold & set(rows)) / len(gold))
    return {
        "recall": recall,
        "coverage": coverage,
        "full": float(full),
        "chunks": len(set(rows) - {-1}),
        "characters": len(held),
        "tokens": len(held & tokens),
    }


def fewest_chunks(unit, chunks: ChunkTable) -> set[int]:
    """Of all runs of chunks that hold the unit, the shortest, and of these the last."""
    rows = [r for r in range(len(chunks)) if chunks.ids[chunks.document[r]] == unit.document]
    for length in range(1, len(rows) + 1):
        for first in reversed(rows[: len(rows) - length + 1]):
            if chunks.start[first] <= unit.start and unit.end <= chunks.end[first + length - 1]:
                return set(range(first, first + length))
    raise AssertionError("no run holds the unit")
