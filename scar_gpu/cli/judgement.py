"""What `explain` shows: each hit of one query, its neighbours, and why each is in or out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from scar_gpu import ChunkIndex
    from scar_gpu.text import ChunkTable


@dataclass(frozen=True, slots=True)
class Part:
    """The text of one chunk as it stands in a run of chunks.

    Attributes:
        before: what the chunk before does not hold, up to where the next chunk begins.
        shared: what it shares with the next chunk.
    """

    before: str
    shared: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One chunk beside a hit.

    Attributes:
        offset: where it stands, from the hit.
        row: its row in the index.
        relevance: its cosine with the query.
        likeness: its cosine with the hit.
        penalty: lam * (1 - likeness).
        score: S = relevance - penalty.
        admitted: S > threshold.
        is_hit: whether it is among the hits itself.
    """

    offset: int
    row: int
    relevance: float
    likeness: float
    penalty: float
    score: float
    admitted: bool
    is_hit: bool

    @property
    def verdict(self) -> str:
        """`"admitted"`, `"refused"`, or `"a hit itself"`, which neither changes."""
        return "a hit itself" if self.is_hit else "admitted" if self.admitted else "refused"


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit and its neighbours in reading order."""

    rank: int
    row: int
    relevance: float
    threshold: float
    neighbours: tuple[Neighbour, ...]


def judge(
    index: ChunkIndex,
    vector: Tensor,
    hits: Tensor,
    relevance: Tensor | None,
    lam: float,
    gamma: float,
    window: int | None,
) -> list[Hit]:
    """Judge the neighbours of the hits [1, K] of one query [1, D]."""
    judged = index.neighbor_scores(
        vector, hits, lam=lam, gamma=gamma, relevance=relevance, window=window
    )
    rows = hits[0].tolist()
    reach = judged.scores.shape[2] // 2
    offsets = [*range(-reach, 0), *range(1, reach + 1)]
    found = []
    for position, row in enumerate(rows):
        if row < 0:
            continue
        own = judged.relevance[0, position].item()
        scores = judged.scores[0, position].tolist()
        admitted = judged.mask[0, position].tolist()
        neighbours = []
        for offset, score, inside in zip(offsets, scores, admitted, strict=True):
            if math.isinf(score):
                continue
            likeness = index.continuity[abs(offset) - 1, min(row, row + offset)].item()
            penalty = lam * (1 - likeness)
            neighbours.append(
                Neighbour(
                    offset=offset,
                    row=row + offset,
                    relevance=score + penalty,
                    likeness=likeness,
                    penalty=penalty,
                    score=score,
                    admitted=inside,
                    is_hit=row + offset in rows,
                )
            )
        found.append(Hit(position + 1, row, own, gamma * own, tuple(neighbours)))
    return found


def parts(chunks: ChunkTable, first: int, behind: int) -> Iterator[Part]:
    """The text of rows `first` to `behind`, each split where the next chunk begins.

    What two chunks share stands once, in the earlier of them.
    """
    passage = chunks.passage(first, behind)
    text, base = passage.text, passage.start
    reached = base
    for row in range(first, behind):
        end = max(int(chunks.end[row]), reached)
        border = end if row + 1 == behind else min(max(int(chunks.start[row + 1]), reached), end)
        yield Part(text[reached - base : border - base], text[border - base : end - base])
        reached = end
