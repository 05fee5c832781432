"""Everything the report tells, measured into one record of figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scar_gpu.evaluation import calibration
from scar_gpu.evaluation.choice import surface_of
from scar_gpu.evaluation.datasets import Dataset
from scar_gpu.evaluation.evaluate import Results, pairs_of, paper_methods
from scar_gpu.evaluation.evaluate import evaluate as evaluate_trial
from scar_gpu.evaluation.held_out import hold_out
from scar_gpu.evaluation.methods import Method, Scar, TopK, search
from scar_gpu.evaluation.probes import make_probes
from scar_gpu.evaluation.sweep import Grid, joined, sweep
from scar_gpu.evaluation.tables import figures
from scar_gpu.evaluation.trial import Settings, Trial, prepare
from scar_gpu.text.embedder import Embedder

BUDGET = 0.75
HYBRID = "other documents, hybrid"
# Questions made per dataset without labels.
N_PROBES = 1000

Say = Callable[[str], None]


def measure(
    datasets: Sequence[Dataset],
    embedders: Sequence[Embedder],
    *,
    cache: Path | None,
    resamples: int,
    settings: Settings | None = None,
    grid: Grid | None = None,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Evaluate every dataset with every model.

    Args:
        datasets: at least two, so that each can be reported on with what the others choose.
        embedders: at least one.
        cache: where vectors are kept.
        resamples: of the bootstrap.
        settings: of all trials, but for headings, which are embedded or not; default `Settings()`.
        grid: of the sweeps; default `Grid()`.
        say: told what is being done.

    Returns:
        A record that JSON can hold; `report.to_markdown` writes it out.

    Raises:
        ValueError: fewer than two datasets, or no model.
    """
    if len(datasets) < 2 or not embedders:
        got = f"{len(datasets)} datasets and {len(embedders)} models"
        raise ValueError(f"datasets must be at least two, and models one, got {got}")
    settings, grid = settings or Settings(), grid or Grid()
    record: dict[str, Any] = {
        "settings": {
            "chunk_size": settings.chunk_size,
            "overlap": settings.overlap,
            "k": grid.k,
            "budget": BUDGET,
            "resamples": resamples,
            "points": len(grid.lam) * len(grid.gamma),
            "lam": [min(grid.lam), max(grid.lam)],
            "gamma": [min(grid.gamma), max(grid.gamma)],
        },
        "models": {embedder.name: embedder.content_hash for embedder in embedders},
        "datasets": {},
        "runs": [],
    }
    for embedder in embedders:
        for headings in (True, False):
            say(f"{embedder.name}, headings {'on' if headings else 'off'}")
            own = replace(settings, headings=headings)
            trials = [prepare(one, embedder, own, cache=cache) for one in datasets]
            for trial in trials:
                record["datasets"][trial.dataset.name] = _described(trial)
            run: dict[str, Any] = {"model": embedder.name, "headings": headings}
            run |= _tables(trials, grid, resamples)
            if headings:
                run |= _tuned(trials, grid, resamples)
                run["thresholds"] = {
                    trial.dataset.name: _threshold(trial, embedder, grid, cache) for trial in trials
                }
            record["runs"].append(run)
    return record


def _described(trial: Trial) -> dict[str, Any]:
    return {
        "documents": len(trial.dataset.documents),
        "chunks": len(trial.chunks),
        "questions": len(trial.dataset.questions),
        "kinds": dict(Counter(trial.gold.kinds)),
    }


def _tables(trials: Sequence[Trial], grid: Grid, resamples: int) -> dict[str, Any]:
    """The paper's table, with SCAR without a penalty and at other penalties."""
    found = Results()
    for trial in trials:
        methods = paper_methods(grid.k)
        others: list[Method] = [Scar(grid.k, 1, lam) for lam in (0.0, 0.05, 0.15)]
        default = Scar(grid.k)
        pairs = [*pairs_of(methods), (default, TopK(grid.k))]
        pairs += [(other, default) for other in others]
        found.extend(evaluate_trial(trial, [*methods, *others], resamples=resamples, pairs=pairs))
    return {"table": figures(found)}


def _tuned(trials: Sequence[Trial], grid: Grid, resamples: int) -> dict[str, Any]:
    """Points chosen on other corpora, on other documents, and with hybrid hits."""
    options: dict[str, Any] = {"kind": "fragmented", "resamples": resamples}
    found = {"other corpora": hold_out(trials, grid, BUDGET, **options)}
    by_name = {"other documents": grid, HYBRID: replace(grid, hybrid=True)}
    for name, own in by_name.items():
        for trial in trials:
            one = hold_out([trial], own, BUDGET, **options)
            if name not in found:
                found[name] = one
            else:
                found[name].choices.extend(one.choices)
                found[name].results.extend(one.results)
    return {
        "held_out": {
            name: {
                "choices": [choice._asdict() for choice in one.choices],
                "results": figures(one.results),
            }
            for name, one in found.items()
        }
    }


def _threshold(trial: Trial, embedder: Embedder, grid: Grid, cache: Path | None) -> dict[str, Any]:
    """What gamma means here, and what predicts it without labels."""
    made = make_probes(
        trial.dataset.documents,
        f"{trial.dataset.name}, made",
        n=N_PROBES,
        chunk_size=trial.settings.chunk_size,
        overlap=trial.settings.overlap,
    )
    probes = prepare(made, embedder, trial.settings, cache=cache)
    gammas = {
        "questions": (trial.queries, search(trial, grid.k)),
        "probes": (probes.queries, search(probes, grid.k)),
        "chunk pairs": calibration.chunk_pairs(trial, grid.k),
    }
    labelled, unlabelled = (
        surface_of(joined(list(sweep(one, grid, one.gold.kinds).values())))
        for one in (trial, probes)
    )
    return {
        "cosines": calibration.cosines_of(trial, grid.k)._asdict(),
        "gamma": {
            name: calibration.gamma_of_share(trial, *given, BUDGET, gamma=grid.gamma)._asdict()
            for name, given in gammas.items()
        },
        "agreement": calibration.agreement(labelled, unlabelled, grid, BUDGET)._asdict(),
    }
