"""Evidence in a chunking: which rows hold it, and what kind of question it makes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from scar_gpu.evaluation.datasets import Dataset, Evidence, Question
from scar_gpu.text.chunks import ChunkTable

Kind = Literal["atomic", "fragmented", "long", "scattered"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# A question is fragmented while so many consecutive chunks hold all its evidence.
MOST_FRAGMENTS = 5


class Gold(NamedTuple):
    """The evidence of Q questions as pieces, each of which lies in consecutive rows.

    A piece is covered when one of its rows is retrieved. Chunk recall and evidence coverage are
    both sums of the weights of covered pieces: a gold chunk is a piece of one row, and a stretch
    of evidence between two chunk borders is a piece of all the rows that repeat it.

    ranges: [Q, P, 2] int64 half-open ranges of rows, padded with empty ones.
    weights: [Q, P, 2A] float64; column a holds the weights of chunk recall in the alternative a,
        column A + a those of evidence coverage.
    kinds: the kind of each question in this chunking.
    """

    ranges: Tensor
    weights: Tensor
    kinds: tuple[Kind, ...]


def gold_of(dataset: Dataset, chunks: ChunkTable) -> Gold:
    """Find the evidence of a dataset in its chunks.

    - *Gold chunks* of a unit of evidence: the fewest chunks that hold all of it, of two chunks
      that hold the same the later.
    - *Chunk recall* in an alternative: the share of its gold chunks that are retrieved.
    - *Evidence coverage* in an alternative: the share of a unit's characters that are retrieved,
      averaged over the units with equal weight.
    - *Kind*: atomic when one chunk holds all evidence, fragmented when up to five consecutive
      chunks do, long when more consecutive chunks do and each of them holds evidence, else
      scattered; of several alternatives the first in this order.

    Args:
        dataset: the questions.
        chunks: the chunks of its documents, which must rise within a document.

    Returns:
        The pieces and the kinds, question by question.

    Raises:
        ValueError: a document that the chunks do not have, or chunks in another order.
    """
    places = _Places(chunks)
    found = [
        [_Alternative(places, units) for units in question.alternatives]
        for question in dataset.questions
    ]
    most = max(len(alternatives) for alternatives in found)
    pieces = [_pieces(alternatives, most) for alternatives in found]
    n_pieces = max(len(ranges) for ranges, _ in pieces)
    ranges = torch.zeros(len(found), n_pieces, 2, dtype=torch.int64)
    weights = torch.zeros(len(found), n_pieces, 2 * most, dtype=torch.float64)
    for q, (rows, values) in enumerate(pieces):
        ranges[q, : len(rows)] = torch.tensor(rows)
        weights[q, : len(rows)] = torch.tensor(values, dtype=torch.float64)
    kinds = tuple(min((one.kind for one in some), key=KINDS.index) for some in found)
    return Gold(ranges, weights, kinds)


def row_ranges_of(questions: Sequence[Question], chunks: ChunkTable) -> Tensor:
    """The rows of each question's document: [Q, 2] int64.

    Raises:
        ValueError: a question that is asked of no document, or of one without chunks.
    """
    offsets = chunks.doc_offsets
    ranges = {name: (offsets[d], offsets[d + 1]) for d, name in enumerate(chunks.ids)}
    for question in questions:
        if question.document is None:
            raise ValueError(
                f"questions must name their document to be answered within it, got {question.id!r}"
            )
        if question.document not in ranges:
            raise ValueError(f"documents must hold {question.document!r}, got no such document")
    return torch.tensor(
        [ranges[str(question.document)] for question in questions], dtype=torch.int64
    ).reshape(-1, 2)


class _Places:
    """Where characters of a document are, in rows."""

    def __init__(self, chunks: ChunkTable) -> None:
        offsets = chunks.doc_offsets
        self._first = {name: int(offsets[d]) for d, name in enumerate(chunks.ids)}
        self._bounds = {
            name: (
                chunks.start[offsets[d] : offsets[d + 1]],
                chunks.end[offsets[d] : offsets[d + 1]],
            )
            for d, name in enumerate(chunks.ids)
        }
        for name, bounds in self._bounds.items():
            if any(np.any(np.diff(column) < 0) for column in bounds):
                raise ValueError(f"chunks of {name!r} must rise in start and end, got a fall")

    def rows_at(self, document: str, position: int) -> tuple[int, int]:
        """The rows that hold a character: a half-open range."""
        starts, ends = self._of(document)
        first = self._first[document]
        low = np.searchsorted(ends, position, side="right")
        high = np.searchsorted(starts, position, side="right")
        return first + int(low), first + int(max(low, high))

    def cover(self, document: str, start: int, end: int) -> list[int]:
        """The fewest rows that hold the characters from start to end."""
        starts, ends = self._of(document)
        rows: list[int] = []
        position = start
        while position < end:
            row = int(np.searchsorted(starts, position, side="right")) - 1
            if row < 0 or ends[row] <= position:  # characters that no chunk holds
                row += 1
                if row == len(starts):
                    break
            if starts[row] < end:
                rows.append(self._first[document] + row)
            position = int(ends[row])
        return rows

    def cuts(self, document: str, start: int, end: int) -> list[int]:
        """The chunk borders inside a range, with the range's own."""
        borders = np.concatenate(self._of(document))
        inside = borders[(borders > start) & (borders < end)]
        return [start, *np.unique(inside).tolist(), end]

    def _of(self, document: str) -> tuple[np.ndarray, np.ndarray]:
        if document not in self._bounds:
            raise ValueError(f"documents must hold {document!r}, got no such document")
        return self._bounds[document]


class _Alternative:
    """One complete set of evidence in the chunks."""

    def __init__(self, places: _Places, units: Sequence[Evidence]) -> None:
        covers = [places.cover(*unit) for unit in units]
        self.chunks = sorted({row for rows in covers for row in rows})
        self.segments: list[tuple[tuple[int, int], float]] = []  # rows, weight
        for unit in units:
            cuts = places.cuts(*unit)
            for start, end in pairwise(cuts):
                weight = (end - start) / (unit.end - unit.start) / len(units)
                self.segments.append((places.rows_at(unit.document, start), weight))
        self.kind = self._kind(places, units)

    def _kind(self, places: _Places, units: Sequence[Evidence]) -> Kind:
        documents = {unit.document for unit in units}
        if len(documents) > 1:
            return "scattered"
        start, end = min(unit.start for unit in units), max(unit.end for unit in units)
        rows = places.cover(documents.pop(), start, end)
        length = rows[-1] - rows[0] + 1 if rows else 0
        if length <= 1:
            return "atomic"
        if length <= MOST_FRAGMENTS:
            return "fragmented"
        is_whole = len(self.chunks) == self.chunks[-1] - self.chunks[0] + 1
        return "long" if is_whole else "scattered"


def _pieces(
    alternatives: Sequence[_Alternative], most: int
) -> tuple[list[tuple[int, int]], list[list[float]]]:
    """Ranges of rows and their weights [2 * most], equal ranges joined."""
    pieces: dict[tuple[int, int], list[float]] = {}
    for a, alternative in enumerate(alternatives):
        for row in alternative.chunks:
            piece = pieces.setdefault((row, row + 1), [0.0] * (2 * most))
            piece[a] += 1 / len(alternative.chunks)
        for rows, weight in alternative.segments:
            pieces.setdefault(rows, [0.0] * (2 * most))[most + a] += weight
    return list(pieces), list(pieces.values())
