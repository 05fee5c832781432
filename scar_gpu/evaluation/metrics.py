"""What a retrieval found of the evidence, and what it cost: batched over questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from scar_gpu.evaluation.gold import Gold
from scar_gpu.text.chunks import ChunkTable

# Words and punctuation marks: no model's tokens, and the same everywhere.
_TOKEN = re.compile(r"\w+|[^\w\s]")
# Sums of shares that make one whole differ from 1 by less than this.
_ROUNDING = 1e-9


class Sizes(NamedTuple):
    """Where rows begin and end, in characters and in tokens of their document.

    document, start, end, first_token, last_token: [N] int64.
    """

    document: Tensor
    start: Tensor
    end: Tensor
    first_token: Tensor
    last_token: Tensor


class Scores(NamedTuple):
    """One method's scores, question by question: [Q] float64 each.

    recall: share of the gold chunks retrieved, of the best alternative.
    coverage: share of the evidence's characters retrieved, units with equal weight, characters
        in two chunks once, of the best alternative.
    full: 1 where the coverage is complete, else 0.
    chunks: rows retrieved.
    characters: characters retrieved, each once.
    tokens: words and punctuation marks retrieved, each once.
    """

    recall: Tensor
    coverage: Tensor
    full: Tensor
    chunks: Tensor
    characters: Tensor
    tokens: Tensor


def sizes_of(chunks: ChunkTable) -> Sizes:
    """Count the characters and tokens before every border of a chunk.

    Args:
        chunks: rows of an index.

    Returns:
        The sizes. A token belongs to the chunk in which it begins.
    """
    tokens = np.zeros((2, len(chunks)), dtype=np.int64)
    offsets = chunks.doc_offsets
    for d, text in enumerate(chunks.texts):
        rows = slice(offsets[d], offsets[d + 1])
        begins = np.array([found.start() for found in _TOKEN.finditer(text)], dtype=np.int64)
        tokens[0, rows] = np.searchsorted(begins, chunks.start[rows])
        tokens[1, rows] = np.searchsorted(begins, chunks.end[rows])
    columns = (chunks.document, chunks.start, chunks.end, *tokens)
    return Sizes(*(torch.from_numpy(np.ascontiguousarray(column)).long() for column in columns))


def score(ids: Tensor, gold: Gold, sizes: Sizes, *, full_at: float = 1.0) -> Scores:
    """Score the rows that a method retrieved.

        recall   = max over alternatives of |gold chunks retrieved| / |gold chunks|
        coverage = max over alternatives of the mean over its units e of |e retrieved| / |e|

    Args:
        ids: [Q, M] int64 rows, in any order, padded with -1; a repeated row counts once.
        gold: the evidence of the same questions.
        sizes: of the same rows.
        full_at: the coverage that counts as complete, in (0, 1].

    Returns:
        The scores.

    Raises:
        ValueError: ids of another number of questions, rows out of range, or full_at out of
            range.

    Example:
        >>> score(expansion.ids, gold, sizes).recall.mean()  # doctest: +SKIP
    """
    n_questions, n_rows = gold.ranges.shape[0], len(sizes.start)
    if ids.ndim != 2 or ids.shape[0] != n_questions:
        raise ValueError(f"ids must have shape [{n_questions}, M], got {list(ids.shape)}")
    if ids.numel() and not -1 <= int(ids.min()) <= int(ids.max()) < n_rows:
        got = f"{int(ids.min())}..{int(ids.max())}"
        raise ValueError(f"ids must be -1 or in [0, {n_rows}), got {got}")
    if not 0 < full_at <= 1:
        raise ValueError(f"full_at must be in (0, 1], got {full_at}")
    rows = distinct_rows(ids.long())
    weights = torch.einsum("qp,qpm->qm", covered(rows, gold.ranges).double(), gold.weights)
    if weights.numel():
        recall, coverage = weights.unflatten(1, (2, -1)).amax(2).unbind(1)
    else:
        recall = coverage = weights.new_zeros(n_questions)
    return Scores(
        recall=recall,
        coverage=coverage,
        full=(coverage > full_at - _ROUNDING).double(),
        chunks=(rows < n_rows).sum(1).double(),
        characters=_length(rows, sizes.document, sizes.start, sizes.end),
        tokens=_length(rows, sizes.document, sizes.first_token, sizes.last_token),
    )


def distinct_rows(ids: Tensor) -> Tensor:
    """The different rows of each question, ascending; padding, as the largest integer, behind."""
    last = torch.iinfo(torch.int64).max
    rows = torch.where(ids < 0, last, ids).sort(1).values
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = last
    return rows.sort(1).values


def covered(rows: Tensor, ranges: Tensor) -> Tensor:
    """Which ranges [Q, P, 2] hold one of the ascending rows [Q, M]: [Q, P] bool."""
    first, end = ranges[..., 0].contiguous(), ranges[..., 1].contiguous()
    return torch.searchsorted(rows, first) < torch.searchsorted(rows, end)


def _length(rows: Tensor, document: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """The length of the union of each question's ranges; rows are distinct and ascending."""
    n_rows = len(start)
    if n_rows == 0 or rows.shape[1] == 0:
        return torch.zeros(rows.shape[0], dtype=torch.float64)
    is_row = rows < n_rows
    at = rows.clamp(max=n_rows - 1)
    begin, behind, owner = start[at], end[at], document[at]
    # Starts and ends ascend, so what a row repeats of all before it, it repeats of the last.
    is_same = (owner[:, 1:] == owner[:, :-1]) & is_row[:, 1:]
    begin[:, 1:] = torch.where(is_same, torch.maximum(begin[:, 1:], behind[:, :-1]), begin[:, 1:])
    return torch.where(is_row, (behind - begin).clamp(min=0), 0).sum(1).double()


def document_means(values: Tensor, documents: Sequence[object]) -> Tensor:
    """Means within each document: [D, C] of values [Q, C], in order of first appearance.

    The mean of these is the mean over documents, in which a document counts the same however
    many questions it has.
    """
    numbers: dict[object, int] = {}
    owner = torch.tensor([numbers.setdefault(one, len(numbers)) for one in documents])
    sums = torch.zeros(len(numbers), values.shape[1], dtype=torch.float64)
    sums.index_add_(0, owner, values.double())
    return sums / torch.bincount(owner, minlength=len(numbers))[:, None]
