"""The report's part on gamma: what it means for a model and a corpus, and what predicts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scar_gpu.evaluation.choice import is_at_end
from scar_gpu.evaluation.tables import markdown_table

# An error of gamma that changes the number of chunks by a few percent.
CLOSE = 0.05
AT_END = "†"


def chosen_point(one: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """A choice of lam and gamma, marked where it lies at the grid's end."""
    ends = {
        "lam": is_at_end(one["lam"], settings["lam"], least=0),
        "gamma": is_at_end(one["gamma"], settings["gamma"]),
    }
    return "/".join(f"{one[name]:g}{AT_END if is_end else ''}" for name, is_end in ends.items())


def thresholds(record: Mapping[str, Any]) -> Iterator[str]:
    """The part's paragraphs and tables, from the record of figures."""
    settings = record["settings"]
    spread, predicted, agreed = [], [], []
    found = [
        ([dataset, run["model"]], one)
        for run in record["runs"]
        for dataset, one in run.get("thresholds", {}).items()
    ]
    for head, one in found:
        cosines, same = one["cosines"], one["agreement"]
        numbers = ("relevance", "deviation", "neighbor_relevance", "continuity")
        ratios = " ".join(f"{value:.2f}" for value in cosines["ratios"]) or "none"
        spread.append([*head, *(_number(cosines[name]) for name in numbers), ratios])
        predicted.append([*head, *map(_threshold, one["gamma"].values())])
        agreed.append([
            *head, f"{same['rank']:.2f}", chosen_point(same, settings),
            f"{same['share']:.0%}", f"{same['coverage']:.3f}", f"{same['best']:.3f}",
        ])  # fmt: skip
    yield (
        "Without a penalty gamma cuts the distribution of cos(q, n) / cos(q, c), here of hits with "
        "cos(q, c) > 0. Where these ratios lie lower, the same gamma admits less, so it has no "
        "meaning of its own:\n"
    )
    names = ("dataset", "model", "cos(q, c)", "deviation", "cos(q, n)", "cos(c, n)")
    yield markdown_table((*names, "ratio at 10, 25, 50, 75, 90 %"), spread)
    yield (
        f"The gamma at which SCAR(±1) with lam 0.1 retrieves {settings['budget']:.0%} of "
        "Window(±1)'s chunks: for the questions themselves, which needs no labels; for questions "
        "made from sentences; and for chunks as questions, which needs neither. Where the grid "
        "ends before the gamma is found, its end is a bound:\n"
    )
    yield markdown_table(("dataset", "model", "questions", "made questions", "chunks"), predicted)
    yield _misses([one["gamma"] for _, one in found])
    yield (
        "Tuning on questions made from a corpus's own sentences, reported on its labelled ones. "
        "Rank is Spearman's correlation of the coverages over the points that cost about the "
        "budget; share and coverage are those of the point chosen on made questions, best is the "
        f"most coverage that any point within the budget has; {AT_END} marks the grid's end:\n"
    )
    columns = ("dataset", "model", "rank", "point", "share of Window", "coverage", "best")
    yield markdown_table(columns, agreed)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _threshold(one: Mapping[str, Any]) -> str:
    return f"{one['gamma']:.2f}" if one["bound"] == "=" else f"{one['bound']} {one['gamma']:.2f}"


def least_miss(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, bool]:
    """How far two gammas lie apart at the least, and whether that is all: neither is a bound."""
    if one["bound"] == other["bound"] == "=":
        return abs(one["gamma"] - other["gamma"]), True
    lower, upper = sorted((one, other), key=lambda gamma: gamma["gamma"])
    meets = lower["bound"] == ">" or upper["bound"] == "<="  # the bounds allow the same gamma
    return 0.0 if meets else upper["gamma"] - lower["gamma"], False


def _misses(gammas: Sequence[Mapping[str, Any]]) -> str:
    """How well each prediction does where it does worst."""
    said, is_close = [], True
    for name in ("probes", "chunk pairs"):
        misses = [least_miss(one[name], one["questions"]) for one in gammas]
        worst, is_exact = max(miss for miss, _ in misses), all(exact for _, exact in misses)
        said.append(f"by {'' if is_exact else 'at least '}{worst:.2f}")
        is_close &= is_exact and worst <= CLOSE
    text = f"At worst, made questions miss the gamma of the real ones {said[0]}, chunks {said[1]}. "
    if is_close:
        return f"{text}Either may stand for them.\n"
    return (
        f"{text}A calibration would have to be seen to come within {CLOSE:g} to be worth offering, "
        "so none is: real questions are needed, though not their labels.\n"
    )
