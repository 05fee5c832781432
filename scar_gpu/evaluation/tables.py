"""Results as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from scar_gpu.evaluation.bootstrap import Difference, Estimate
from scar_gpu.evaluation.evaluate import Comparison, Results, Row

FORMAT = 1
_SHARES = ("recall", "coverage", "full")
_COUNTS = ("chunks", "characters", "tokens")


def to_markdown(results: Results) -> str:
    """Two tables per dataset and kind: the methods, and their paired differences."""
    parts = []
    comparisons = {
        key: list(some) for key, some in groupby(results.comparisons, lambda c: (c.dataset, c.kind))
    }
    for key, group in groupby(results.rows, lambda row: (row.dataset, row.kind)):
        rows = list(group)
        dataset, kind = key
        parts.append(f"### {dataset}, {kind} ({rows[0].n:,} questions)\n")
        parts.append(_methods_table(rows))
        if comparisons.get(key):
            parts.append(_comparisons_table(comparisons[key]))
    return "\n".join(parts)


def _methods_table(rows: Sequence[Row]) -> str:
    names = ("method", *_SHARES, *_COUNTS, "efficiency")
    lines = []
    for row in rows:
        shares = [_with_interval(row.estimates[name], _share) for name in _SHARES]
        chunks = _with_interval(row.estimates["chunks"], _count)
        sizes = [f"{row.estimates[name].mean:,.0f}" for name in _COUNTS[1:]]
        lines.append((row.method, *shares, chunks, *sizes, f"{row.efficiency:.3f}"))
    return markdown_table(names, lines)


def _comparisons_table(comparisons: Sequence[Comparison]) -> str:
    names = ("difference", *_SHARES, "chunks", "d of coverage", "d of chunks")
    lines = []
    for one in comparisons:
        shares = [_with_interval(one.differences[name], _signed_share) for name in _SHARES]
        chunks = _with_interval(one.differences["chunks"], _signed_count)
        effects = [_effect(one.differences[name].d) for name in ("coverage", "chunks")]
        lines.append((f"{one.method} minus {one.baseline}", *shares, chunks, *effects))
    return markdown_table(names, lines)


def _share(value: float) -> str:
    return f"{value:.3f}"


def _count(value: float) -> str:
    return f"{value:.2f}"


def _signed_share(value: float) -> str:
    return f"{value:+.3f}"


def _signed_count(value: float) -> str:
    return f"{value:+.2f}"


def _effect(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "no spread"


def _with_interval(estimate: Estimate | Difference, text: Callable[[float], str]) -> str:
    return f"{text(estimate.mean)} [{text(estimate.low)}, {text(estimate.high)}]"


def markdown_table(names: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of numbers behind one column of text."""
    rule = ["---", *["---:"] * (len(names) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, rule, *lines))


def to_csv(results: Results) -> str:
    """One line per figure; a difference names its baseline and has its d."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("dataset", "kind", "method", "baseline", "questions", "metric", "mean")
    writer.writerow((*names, "low", "high", "d"))
    for row in results.rows:
        head = (row.dataset, row.kind, row.method, "", row.n)
        for name, estimate in row.estimates.items():
            writer.writerow((*head, name, *estimate, ""))
        writer.writerow((*head, "efficiency", row.efficiency, "", "", ""))
    for one in results.comparisons:
        head = (one.dataset, one.kind, one.method, one.baseline, one.n)
        for name, difference in one.differences.items():
            writer.writerow((*head, name, *difference))
    return out.getvalue()


def to_json(results: Results, about: Mapping[str, Any] | None = None) -> str:
    """The results and what they were made with; an infinite d is null."""
    record = {"format": FORMAT, "about": dict(about or {}), **figures(results)}
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def figures(results: Results) -> dict[str, Any]:
    """The results as JSON can hold them."""
    return {
        "rows": [asdict(row) | {"estimates": _named(row.estimates)} for row in results.rows],
        "comparisons": [
            asdict(one) | {"differences": _named(one.differences)} for one in results.comparisons
        ],
    }


def _named(named: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    return {
        name: {key: value if math.isfinite(value) else None for key, value in one._asdict().items()}
        for name, one in named.items()
    }


def from_json(text: str) -> tuple[Results, dict[str, Any]]:
    """Read what `to_json` wrote.

    Raises:
        ValueError: something else.
    """
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise ValueError(f"results must be of format {FORMAT}, got {record['format']}")
        return from_figures(record), record["about"]
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"results must be what to_json wrote, got: {error!r}") from error


def from_figures(record: Mapping[str, Any]) -> Results:
    """The results that `figures` has put into a record."""
    rows = [
        Row(**(row | {"estimates": {n: Estimate(**e) for n, e in row["estimates"].items()}}))
        for row in record["rows"]
    ]
    comparisons = [
        Comparison(**(one | {"differences": _differences(one["differences"])}))
        for one in record["comparisons"]
    ]
    return Results(rows, comparisons)


def _differences(named: Mapping[str, Mapping[str, float | None]]) -> dict[str, Difference]:
    found = {}
    for name, one in named.items():
        mean = one["mean"]
        assert mean is not None
        d = math.copysign(math.inf, mean) if one["d"] is None else one["d"]
        found[name] = Difference(mean, one["low"] or 0.0, one["high"] or 0.0, d)
    return found
