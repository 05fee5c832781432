"""The table: every method on every kind of question, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from scar_gpu.evaluation import bootstrap
from scar_gpu.evaluation.bootstrap import Difference, Estimate
from scar_gpu.evaluation.gold import KINDS
from scar_gpu.evaluation.methods import MatchedTopK, Method, ParentSection, Scar, TopK, Window
from scar_gpu.evaluation.metrics import Scores, document_means, score
from scar_gpu.evaluation.trial import Trial

Unit = Literal["question", "document"]
ALL = "all"


@dataclass(frozen=True)
class Row:
    """One method on one kind of question.

    Attributes:
        dataset, kind, method: names.
        n: questions.
        estimates: by the names of `Scores`: mean and 95 % interval.
        efficiency: mean recall per mean chunk.
    """

    dataset: str
    kind: str
    method: str
    n: int
    estimates: dict[str, Estimate]
    efficiency: float


@dataclass(frozen=True)
class Comparison:
    """One method against another on the same questions: the means of paired differences."""

    dataset: str
    kind: str
    method: str
    baseline: str
    n: int
    differences: dict[str, Difference]


@dataclass(frozen=True)
class Results:
    """What `evaluate` found, in the order of kinds and methods."""

    rows: list[Row] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)

    def extend(self, other: Results) -> None:
        """Add the results of another dataset."""
        self.rows.extend(other.rows)
        self.comparisons.extend(other.comparisons)


def paper_methods(
    k: int = 5, lam: float = 0.1, gamma: float = 0.8, *, hybrid: bool = False
) -> list[Method]:
    """The methods of the paper's table that need no other model, and the fair rivals of each."""
    found: list[Method] = [TopK(k, hybrid)]
    for reach in (1, 2):
        scar = Scar(k, reach, lam, gamma, hybrid=hybrid)
        found += [scar, MatchedTopK(scar, hybrid)]
    found.append(Scar(k, 2, lam, gamma, contiguous=True, hybrid=hybrid))
    for reach in (1, 2):
        window = Window(k, reach, hybrid)
        found += [window, MatchedTopK(window, hybrid)]
    return [*found, ParentSection(k, hybrid)]


def pairs_of(methods: Sequence[Method]) -> Iterator[tuple[Method, Method]]:
    """Which method is compared with which: with as many best rows, and SCAR with its window."""
    for method in methods:
        if isinstance(method, MatchedTopK):
            yield method.other, method
        if isinstance(method, Scar):
            window = Window(method.k, method.reach, method.hybrid)
            if window in methods:
                yield method, window


def evaluate(
    trial: Trial,
    methods: Sequence[Method],
    *,
    unit: Unit = "question",
    resamples: int = bootstrap.RESAMPLES,
    seed: int = bootstrap.SEED,
    full_at: float = 1.0,
    pairs: Sequence[tuple[Method, Method]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Results:
    """Score methods on all questions of a trial, and on those of every kind.

    A method that matches another's number of chunks matches it within each kind.

    Args:
        trial: the questions.
        methods: at least one.
        unit: what is averaged and resampled: questions, or documents, each of which counts the
            same.
        resamples: of the bootstrap.
        seed: the same.
        full_at: see `metrics.score`.
        pairs: which methods to compare, each with its baseline; default: `pairs_of`.
        progress: called with (methods done, methods), once per kind and method.

    Returns:
        Rows and comparisons.

    Raises:
        ValueError: no method, two of one name, an unknown unit, or documents as units of
            questions that name none.
    """
    names = [method.name for method in methods]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"methods must be at least one, of different names, got {names}")
    if unit not in get_args(Unit):
        raise ValueError(f"unit must be question or document, got {unit!r}")
    found = Results()
    groups = list(_groups(trial))
    done = 0
    for kind, positions in groups:
        some = trial.of(positions)
        scores = []
        for method in methods:
            scores.append(score(method.select(some), some.gold, some.sizes, full_at=full_at))
            done += 1
            if progress is not None:
                progress(done, len(groups) * len(methods))
        found.extend(
            summarize(
                some, kind, methods, scores, unit=unit, resamples=resamples, seed=seed, pairs=pairs
            )
        )
    return found


def _groups(trial: Trial) -> Iterator[tuple[str, list[int]]]:
    """All questions, then those of each kind that occurs."""
    yield ALL, list(range(len(trial.gold.kinds)))
    for kind in KINDS:
        positions = [q for q, one in enumerate(trial.gold.kinds) if one == kind]
        if positions:
            yield kind, positions


def summarize(
    trial: Trial,
    kind: str,
    methods: Sequence[Method],
    scores: Sequence[Scores],
    *,
    unit: Unit = "question",
    resamples: int = bootstrap.RESAMPLES,
    seed: int = bootstrap.SEED,
    pairs: Sequence[tuple[Method, Method]] | None = None,
) -> Results:
    """Means, intervals and paired differences of scores that are there already.

    Args:
        trial: the questions.
        kind: what to call them.
        methods: whose scores they are.
        scores: one per method.
        unit: as for `evaluate`.
        resamples: the same.
        seed: the same.
        pairs: which to compare; default: `pairs_of`.

    Returns:
        A row per method, a comparison per pair.
    """
    n = len(trial.gold.kinds)
    place = {method: number for number, method in enumerate(methods)}
    compared = list(pairs_of(methods) if pairs is None else pairs)
    table = torch.stack([torch.stack(one, 1) for one in scores])  # [methods, Q, 6]
    paired = [table[place[one]] - table[place[other]] for one, other in compared]
    columns = _units(trial, torch.cat([*table, *paired], 1), unit)
    estimates = bootstrap.estimates(columns, resamples, seed)
    spread = columns.std(0).tolist() if len(columns) > 1 else [0.0] * columns.shape[1]
    width = len(Scores._fields)
    found = Results()
    for number, method in enumerate(methods):
        block = estimates[number * width : (number + 1) * width]
        named = dict(zip(Scores._fields, block, strict=True))
        chunks = named["chunks"].mean
        efficiency = named["recall"].mean / chunks if chunks else 0.0
        found.rows.append(Row(trial.dataset.name, kind, method.name, n, named, efficiency))
    for number, (one, other) in enumerate(compared, len(methods)):
        block_of = slice(number * width, (number + 1) * width)
        named_differences = {
            name: Difference(*estimate, bootstrap.cohens_d(estimate.mean, deviation))
            for name, estimate, deviation in zip(
                Scores._fields, estimates[block_of], spread[block_of], strict=True
            )
        }
        names = (trial.dataset.name, kind, one.name, other.name)
        found.comparisons.append(Comparison(*names, n, named_differences))
    return found


def _units(trial: Trial, values: Tensor, unit: Unit) -> Tensor:
    if unit == "question":
        return values
    documents = [question.document for question in trial.dataset.questions]
    if None in documents:
        raise ValueError("questions must name their document to be averaged over documents")
    return document_means(values, documents)
