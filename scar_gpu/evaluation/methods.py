"""Ways to answer questions from an index, under one interface: a trial in, rows out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from scar_gpu import rank_fusion
from scar_gpu.evaluation.metrics import distinct_rows
from scar_gpu.evaluation.trial import Trial

# The least length of each of the two lists that hybrid search fuses.
_POOL = 50


class Method(Protocol):
    """What retrieves rows for the questions of a trial."""

    @property
    def name(self) -> str:
        """The method with its parameters, for tables."""
        ...

    def select(self, trial: Trial) -> Tensor:
        """The rows of every question: [Q, M] int64, padded with -1."""
        ...


def search(trial: Trial, k: int, *, hybrid: bool = False) -> Tensor:
    """The k best rows of every question: [Q, k], by cosine, or fused with those by BM25."""
    depth = max(k, _POOL) if hybrid else k
    dense = trial.index.search(trial.queries, depth, row_ranges=trial.row_ranges).ids
    return rank_fusion([dense, trial.lexical_hits(depth)], top_n=k).ids if hybrid else dense


@dataclass(frozen=True)
class TopK:
    """The k best rows."""

    k: int = 5
    hybrid: bool = False

    @property
    def name(self) -> str:
        return _named(self.hybrid, f"top-{self.k}")

    def select(self, trial: Trial) -> Tensor:
        return search(trial, self.k, hybrid=self.hybrid)


@dataclass(frozen=True)
class MatchedTopK:
    """As many best rows as another method retrieves: the fair rival of an expansion.

    The total over all questions is the other method's exactly, as far as there are rows: every
    question has k or k + 1, those with one more spread evenly, and fewer where fewer exist.
    """

    other: Method
    hybrid: bool = False

    @property
    def name(self) -> str:
        return _named(self.hybrid, f"top-k, as many as {self.other.name}")

    def select(self, trial: Trial) -> Tensor:
        rows = distinct_rows(self.other.select(trial))
        total = int((rows < trial.index.n_chunks).sum())
        counts = even_counts(total, trial.available)
        ids = search(trial, max(1, int(counts.max())), hybrid=self.hybrid)
        return torch.where(torch.arange(ids.shape[1]) < counts[:, None], ids, -1)


def even_counts(total: int, available: Tensor) -> Tensor:
    """Counts [Q] that add up to `total`, all as equal as those available allow."""
    total = min(total, int(available.sum()))
    low, high = 0, int(available.max())
    while low < high:  # the largest k that every question can have
        middle = (low + high + 1) // 2
        if int(available.clamp(max=middle).sum()) <= total:
            low = middle
        else:
            high = middle - 1
    counts = available.clamp(max=low)
    more = (available > low).nonzero()[:, 0]
    missing = total - int(counts.sum())
    if missing:
        place = torch.arange(len(more))
        counts[more] += (place + 1) * missing // len(more) - place * missing // len(more)
    return counts


@dataclass(frozen=True)
class Window:
    """The k best rows and every row within `reach` of them: the static window."""

    k: int = 5
    reach: int = 1
    hybrid: bool = False

    @property
    def name(self) -> str:
        return _named(self.hybrid, f"Window(±{self.reach})")

    def select(self, trial: Trial) -> Tensor:
        hits = search(trial, self.k, hybrid=self.hybrid)
        return trial.index.window_expand(hits, before=self.reach, after=self.reach).ids


@dataclass(frozen=True)
class Scar:
    """The k best rows and those of their neighbours that SCAR admits."""

    k: int = 5
    reach: int = 1
    lam: float = 0.1
    gamma: float = 0.8
    contiguous: bool = False
    hybrid: bool = False

    @property
    def name(self) -> str:
        kind = ", contiguous" if self.contiguous else ""
        return _named(self.hybrid, f"SCAR(±{self.reach}{kind}) {self.lam:g}/{self.gamma:g}")

    def select(self, trial: Trial) -> Tensor:
        hits = search(trial, self.k, hybrid=self.hybrid)
        return trial.index.scar_expand(
            trial.queries,
            hits,
            lam=self.lam,
            gamma=self.gamma,
            contiguous=self.contiguous,
            window=self.reach,
        ).ids


@dataclass(frozen=True)
class ParentSection:
    """Every row under the heading of one of the k best; without headings, its document."""

    k: int = 5
    hybrid: bool = False

    @property
    def name(self) -> str:
        return _named(self.hybrid, "parent section")

    def select(self, trial: Trial) -> Tensor:
        hits = search(trial, self.k, hybrid=self.hybrid)
        chunks = trial.chunks
        document, path = torch.from_numpy(chunks.document), torch.from_numpy(chunks.path)
        is_first = torch.ones(len(chunks), dtype=torch.bool)
        is_first[1:] = (document[1:] != document[:-1]) | (path[1:] != path[:-1])
        sections = torch.arange(len(chunks)).tensor_split(is_first.nonzero()[1:, 0])
        section = is_first.cumsum(0) - 1
        found = []
        for rows in (one[one >= 0] for one in hits):
            own = section[rows].unique().tolist()
            found.append(torch.cat([sections[s] for s in own]) if own else rows)
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=-1)


def _named(hybrid: bool, name: str) -> str:
    return f"hybrid, {name}" if hybrid else name
