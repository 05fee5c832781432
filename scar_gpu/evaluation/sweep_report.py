"""A sweep in words, figures and pictures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from scar_gpu.evaluation.choice import (
    SLACK,
    Plateau,
    Surface,
    fewest_chunks,
    is_at_end,
    most_coverage,
    plateau,
    surface_of,
)
from scar_gpu.evaluation.evaluate import ALL
from scar_gpu.evaluation.held_out import HeldOut
from scar_gpu.evaluation.methods import Method, Scar, TopK, Window
from scar_gpu.evaluation.metrics import score
from scar_gpu.evaluation.plots import Marked, Point, heat_map, pareto_plot
from scar_gpu.evaluation.sweep import Grid, GridSums, joined, sweep
from scar_gpu.evaluation.trial import Trial

# Rows and columns of the grid that are printed.
_LINES, _COLUMNS = 6, 9
# The paper's point.
DEFAULT = (0.1, 0.8)


class Best(NamedTuple):
    """A point of the grid with its means."""

    lam: float
    gamma: float
    recall: float
    coverage: float
    chunks: float


@dataclass(frozen=True)
class Swept:
    """One dataset's sweep.

    Attributes:
        trial, grid: as swept.
        kind: of the questions.
        sums: over these.
        surface: their means, relative to the window.
        within_budget: the point of most coverage within the budget; None where there is none.
        within_loss: the point of fewest chunks within the loss; None where there is none.
        flat: the plateau around the former.
    """

    trial: Trial
    grid: Grid
    kind: str
    sums: GridSums
    surface: Surface
    within_budget: Best | None
    within_loss: Best | None
    flat: Plateau | None


def sweep_dataset(trial: Trial, grid: Grid, kind: str, budget: float, loss: float) -> Swept:
    """Sweep one dataset and look for its best points.

    Raises:
        ValueError: no question of the kind.
    """
    by_kind = sweep(trial, grid, trial.gold.kinds)
    chosen = [sums for own, sums in by_kind.items() if kind in (ALL, own)]
    if not chosen:
        known = ", ".join(map(str, by_kind))
        raise ValueError(f"kind must be one of {ALL}, {known} in {trial.dataset.name}, got {kind}")
    sums = joined(chosen)
    surface = surface_of(sums)

    def best(i: int, j: int) -> Best:
        means = [float(part[i, j]) / sums.n for part in (sums.recall, sums.coverage, sums.chunks)]
        return Best(grid.lam[i], grid.gamma[j], *means)

    within_budget = flat = within_loss = None
    if bool((surface.share <= budget).any()):
        within_budget = best(*most_coverage(surface, budget))
        flat = plateau(surface, grid.lam, grid.gamma, budget)
    if bool((surface.loss <= loss).any()):
        within_loss = best(*fewest_chunks(surface, loss))
    return Swept(trial, grid, kind, sums, surface, within_budget, within_loss, flat)


def to_text(swept: Swept, budget: float, loss: float) -> str:
    """What was found, as Markdown."""
    grid, sums = swept.grid, swept.sums
    recall, coverage, chunks = (sums.window / sums.n).tolist()
    window = Window(grid.k, grid.reach, grid.hybrid).name
    parts = [
        f"### {swept.trial.dataset.name}, {swept.kind} ({sums.n:,} questions)\n",
        f"{window}: recall {recall:.3f}, coverage {coverage:.3f}, {chunks:.2f} chunks.\n",
        "Coverage / chunks, lam downwards, gamma across:\n",
        _grid_table(swept),
        f"- Most coverage with at most {budget:.0%} of {window}'s chunks: "
        + (
            _described(swept.within_budget, grid)
            if swept.within_budget
            else "no point of the grid."
        ),
        f"- Fewest chunks that lose at most {loss:g} of {window}'s recall: "
        + (_described(swept.within_loss, grid) if swept.within_loss else "no point of the grid."),
    ]
    if swept.flat:
        flat = swept.flat
        parts.append(
            f"- Plateau: {flat.n} of {flat.n_points} points lie within the budget and within "
            f"{SLACK:g} of that coverage: lam {flat.lam[0]:g} to {flat.lam[1]:g}, gamma "
            f"{flat.gamma[0]:g} to {flat.gamma[1]:g}."
        )
    parts.append("\nThese points are chosen on the questions they are scored on.\n")
    return "\n".join(parts)


def _described(best: Best, grid: Grid) -> str:
    ends = (is_at_end(best.lam, grid.lam, least=0), is_at_end(best.gamma, grid.gamma))
    lam, gamma = (" (at the grid's end)" if is_end else "" for is_end in ends)
    return (
        f"lam {best.lam:g}{lam}, gamma {best.gamma:g}{gamma}: recall {best.recall:.3f}, coverage "
        f"{best.coverage:.3f}, {best.chunks:.2f} chunks."
    )


def _spread(n: int, most: int) -> list[int]:
    """At most so many positions, evenly, the first and the last among them."""
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def _grid_table(swept: Swept) -> str:
    grid, sums = swept.grid, swept.sums
    columns = _spread(len(grid.gamma), _COLUMNS)
    lines = [["lam", *(f"{grid.gamma[j]:g}" for j in columns)], ["---:"] * (len(columns) + 1)]
    for i in _spread(len(grid.lam), _LINES):
        cells = [
            f"{sums.coverage[i, j] / sums.n:.3f} / {sums.chunks[i, j] / sums.n:.1f}"
            for j in columns
        ]
        lines.append([f"{grid.lam[i]:g}", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def choices_table(held_out: HeldOut) -> str:
    """Which point was chosen for which questions."""
    lines = [["questions of", "part", "number", "lam", "gamma"], ["---", *["---:"] * 4]]
    for one in held_out.choices:
        lines.append([one.dataset, one.part, f"{one.n:,}", f"{one.lam:g}", f"{one.gamma:g}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def grid_csv(some: Sequence[Swept]) -> str:
    """A line per dataset and point."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("dataset", "kind", "questions", "lam", "gamma", "recall", "coverage", "chunks")
    writer.writerow((*names, "share"))
    for one in some:
        sums = one.sums
        for i, lam in enumerate(one.grid.lam):
            for j, gamma in enumerate(one.grid.gamma):
                means = [float(s[i, j]) / sums.n for s in (sums.recall, sums.coverage, sums.chunks)]
                head = (one.trial.dataset.name, one.kind, sums.n, lam, gamma)
                writer.writerow((*head, *means, float(one.surface.share[i, j])))
    return out.getvalue()


def points_record(some: Sequence[Swept]) -> list[dict[str, Any]]:
    """The best points, as JSON can hold them."""
    return [
        {
            "dataset": one.trial.dataset.name,
            "kind": one.kind,
            "questions": one.sums.n,
            "window": dict(
                zip(
                    ("recall", "coverage", "chunks"),
                    (one.sums.window / one.sums.n).tolist(),
                    strict=True,
                )
            ),
            "within_budget": one.within_budget and one.within_budget._asdict(),
            "within_loss": one.within_loss and one.within_loss._asdict(),
            "plateau": one.flat and one.flat._asdict(),
        }
        for one in some
    ]


def draw(swept: Swept, budget: float, heat: Path, curve: Path) -> None:
    """Write both pictures of a sweep."""
    grid, sums, best = swept.grid, swept.sums, swept.within_budget
    name = f"{swept.trial.dataset.name}, {swept.kind}, {swept.trial.model}"
    marked = [Marked("the paper's", *DEFAULT)]
    if best is not None:
        marked.append(Marked("best within budget", best.lam, best.gamma))
    shown = [one for one in marked if _is_inside(one, grid)]
    share, coverage = swept.surface.share, swept.surface.coverage
    heat_map(heat, name, grid.lam, grid.gamma, coverage, share, budget, shown)

    kinds = swept.trial.gold.kinds
    some = swept.trial.of([q for q, own in enumerate(kinds) if swept.kind in (ALL, own)])
    methods: list[Method] = [
        Window(grid.k, reach, grid.hybrid) for reach in range(1, grid.reach + 1)
    ]
    scars: list[Method] = [Scar(grid.k, grid.reach, *DEFAULT, grid.contiguous, grid.hybrid)]
    if best is not None:
        scars.append(Scar(grid.k, grid.reach, best.lam, best.gamma, grid.contiguous, grid.hybrid))
    points = [_point(some, method) for method in dict.fromkeys([*methods, *scars])]
    most = min(50, int(max(one.chunks for one in points)) + 2)
    curve_of = [_point(some, TopK(k, grid.hybrid)) for k in range(1, most + 1)]
    chunks, recall, covered = (part / sums.n for part in (sums.chunks, sums.recall, sums.coverage))
    pareto_plot(curve, name, chunks, recall, covered, curve_of, points)


def _is_inside(point: Marked, grid: Grid) -> bool:
    return min(grid.lam) <= point.lam <= max(grid.lam) and min(grid.gamma) <= point.gamma <= max(
        grid.gamma
    )


def _point(trial: Trial, method: Method) -> Point:
    scores = score(method.select(trial), trial.gold, trial.sizes)
    columns = torch.stack((scores.chunks, scores.recall, scores.coverage), 1)
    return Point(method.name, *columns.mean(0).tolist())
