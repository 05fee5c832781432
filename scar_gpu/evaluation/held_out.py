"""Choose lam and gamma on some questions, report on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import torch

from scar_gpu.evaluation import bootstrap
from scar_gpu.evaluation.choice import Surface, average, most_coverage, surface_of
from scar_gpu.evaluation.evaluate import ALL, Results, Unit, summarize
from scar_gpu.evaluation.gold import KINDS
from scar_gpu.evaluation.methods import MatchedTopK, Method, Scar, TopK, Window
from scar_gpu.evaluation.metrics import Scores, score
from scar_gpu.evaluation.sweep import Grid, GridSums, joined, sweep
from scar_gpu.evaluation.trial import Trial

FOLDS = 5


class Choice(NamedTuple):
    """What was chosen for the questions of one part, from the others.

    dataset: the corpus reported on.
    part: which fifth of its documents, or all of them where other corpora were tuned on.
    n: questions reported on.
    lam, gamma: the point.
    """

    dataset: str
    part: str
    n: int
    lam: float
    gamma: float


@dataclass(frozen=True)
class HeldOut:
    """Choices, and what they retrieved where they were not made."""

    choices: list[Choice]
    results: Results


@dataclass(frozen=True)
class _Named:
    """A method whose parameters differ from part to part."""

    name: str

    def select(self, trial: Trial) -> torch.Tensor:
        raise TypeError(f"{self.name} is several methods")


def folds_of(trial: Trial, n_folds: int = FOLDS) -> list[int]:
    """The part of every question: whole documents, dealt out in order of their ids' SHA-256.

    Raises:
        ValueError: fewer documents than parts; the questions of one document cannot be tuned on
            and reported on.
    """
    documents = [str(question.document) for question in trial.dataset.questions]
    distinct = sorted(set(documents), key=lambda name: sha256(name.encode()).hexdigest())
    if len(distinct) < n_folds:
        raise ValueError(
            f"documents with questions must be at least {n_folds} to hold some out, got "
            f"{len(distinct)} in {trial.dataset.name}"
        )
    part = {name: number % n_folds for number, name in enumerate(distinct)}
    return [part[name] for name in documents]


def hold_out(
    trials: Sequence[Trial],
    grid: Grid,
    budget: float,
    *,
    kind: str = ALL,
    unit: Unit = "question",
    resamples: int = bootstrap.RESAMPLES,
    seed: int = bootstrap.SEED,
    n_folds: int = FOLDS,
) -> HeldOut:
    """Tune on other corpora, or of one corpus on other documents, and report where not tuned.

    With several trials, the point of each is the one of most coverage within the budget on the
    mean of the others. With one, its documents are dealt into parts, and the point of each part
    is chosen on the others.

    Args:
        trials: different datasets.
        grid: the points.
        budget: most chunks, as a share of Window(+-reach)'s.
        kind: the kind of questions to tune on, or all.
        unit: as for `evaluate`.
        resamples: the same.
        seed: the same.
        n_folds: parts of a single dataset.

    Returns:
        The choices; and, by dataset and kind: top-k, SCAR at 0.1/0.8, tuned SCAR, as many best
        rows as each, and the window.

    Raises:
        ValueError: no point within the budget, no question of that kind to tune on, or too few
            documents.
    """
    found = HeldOut([], Results())
    if len(trials) == 1:
        (trial,) = trials
        folds = folds_of(trial, n_folds)
        groups = list(zip(folds, trial.gold.kinds, strict=True))
        sums = sweep(trial, grid, groups)
        points = {}
        for fold in range(n_folds):
            rest = [one for (other, own), one in sums.items() if other != fold and _is(own, kind)]
            points[fold] = _point(grid, surface_of(_join(rest, kind)), budget)
            name = f"{fold + 1} of {n_folds}"
            found.choices.append(Choice(trial.dataset.name, name, folds.count(fold), *points[fold]))
        found.results.extend(_report(trial, grid, folds, points, unit, resamples, seed))
        return found
    surfaces = []
    for trial in trials:
        by_kind = sweep(trial, grid, trial.gold.kinds)
        some = [sums for own, sums in by_kind.items() if _is(own, kind)]
        surfaces.append(surface_of(_join(some, kind)))
    for number, trial in enumerate(trials):
        others = average(surfaces[:number] + surfaces[number + 1 :])
        point = _point(grid, others, budget)
        n = len(trial.gold.kinds)
        found.choices.append(Choice(trial.dataset.name, "all documents", n, *point))
        found.results.extend(_report(trial, grid, [0] * n, {0: point}, unit, resamples, seed))
    return found


def _is(own: object, kind: str) -> bool:
    return kind in (ALL, own)


def _join(some: Sequence[GridSums], kind: str) -> GridSums:
    if not some:
        raise ValueError(f"kind must occur among the questions that are tuned on, got {kind!r}")
    return joined(some)


def _point(grid: Grid, surface: Surface, budget: float) -> tuple[float, float]:
    i, j = most_coverage(surface, budget)
    return grid.lam[i], grid.gamma[j]


def _report(
    trial: Trial,
    grid: Grid,
    parts: Sequence[int],
    points: dict[int, tuple[float, float]],
    unit: Unit,
    resamples: int,
    seed: int,
) -> Results:
    """Score every part with its own point, kind by kind, and put the parts together."""
    found = Results()
    for kind in (ALL, *KINDS):
        positions = [q for q, own in enumerate(trial.gold.kinds) if _is(own, kind)]
        if not positions:
            continue
        scores: dict[str, list[Scores]] = {}
        order: list[int] = []
        for part, point in points.items():
            own = [q for q in positions if parts[q] == part]
            if not own:
                continue
            some = trial.of(own)
            order += own
            for name, method in _methods(grid, point).items():
                scores.setdefault(name, []).append(
                    score(method.select(some), some.gold, some.sizes)
                )
        named: dict[str, Method] = {name: _Named(name) for name in scores}
        columns = [
            Scores(*(torch.cat(column) for column in zip(*some_scores, strict=True)))
            for some_scores in scores.values()
        ]
        tuned, *rivals = list(named)[1:]
        pairs = [(tuned, rival) for rival in rivals if rival != _matching(default_of(grid).name)]
        found.extend(
            summarize(
                trial.of(order),
                kind,
                list(named.values()),
                columns,
                unit=unit,
                resamples=resamples,
                seed=seed,
                pairs=[(named[one], named[other]) for one, other in pairs],
            )
        )
    return found


def _methods(grid: Grid, point: tuple[float, float]) -> dict[str, Method]:
    """The methods under names that no part's point changes."""
    k, reach, hybrid = grid.k, grid.reach, grid.hybrid
    default = default_of(grid)
    tuned = Scar(k, reach, *point, contiguous=grid.contiguous, hybrid=hybrid)
    name = f"{default.name.rpartition(' ')[0]} tuned"
    window, top = Window(k, reach, hybrid), TopK(k, hybrid)
    found: dict[str, Method] = {
        top.name: top,
        name: tuned,
        _matching(name): MatchedTopK(tuned, hybrid),
        window.name: window,
        default.name: default,
        _matching(default.name): MatchedTopK(default, hybrid),
    }
    if hybrid:  # the window that users without a lexical index have
        dense = Window(k, reach)
        found[dense.name] = dense
    return found


def default_of(grid: Grid) -> Scar:
    """SCAR at the paper's point."""
    return Scar(grid.k, grid.reach, contiguous=grid.contiguous, hybrid=grid.hybrid)


def _matching(name: str) -> str:
    return f"top-k, as many as {name}"
