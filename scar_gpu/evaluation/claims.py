"""The paper's claims, each held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scar_gpu.evaluation.bootstrap import Difference
from scar_gpu.evaluation.evaluate import Comparison, Row
from scar_gpu.evaluation.tables import from_figures

SCAR, SCAR_2 = "SCAR(±1) 0.1/0.8", "SCAR(±2) 0.1/0.8"
WINDOW, WINDOW_2, TOP = "Window(±1)", "Window(±2)", "top-5"
MATCHED = f"top-k, as many as {SCAR}"


# Questions of a kind below which a case decides nothing.
FEWEST = 20


class Case(NamedTuple):
    """One dataset with one model, headings on or off: where its figures are found."""

    dataset: str
    model: str
    headings: bool
    rows: Mapping[tuple[str, str], Row]
    comparisons: Mapping[tuple[str, str, str], Comparison]

    def mean(self, method: str, metric: str, kind: str = "fragmented") -> float:
        """The mean of one figure."""
        return self.rows[kind, method].estimates[metric].mean

    def difference(self, one: str, other: str, metric: str, kind: str = "fragmented") -> Difference:
        """The paired difference of one figure."""
        return self.comparisons[kind, one, other].differences[metric]

    def fewer(self, kind: str = "fragmented") -> float:
        """The share of the window's chunks that SCAR leaves out."""
        return 1 - self.mean(SCAR, "chunks", kind) / self.mean(WINDOW, "chunks", kind)


class Finding(NamedTuple):
    """What one case says of a claim; None where it has too few questions to say anything."""

    text: str
    holds: bool | None


class Claim(NamedTuple):
    """A claim with the paper's figure and the test of one case, headings on and off."""

    text: str
    rule: str
    test: Callable[[Case, Case], Finding]
    kind: str = "fragmented"

    def finding(self, on: Case, off: Case) -> Finding:
        """The test's, where there are questions enough."""
        n = on.rows[self.kind, SCAR].n
        if n < FEWEST:
            return Finding(f"{n} questions", None)
        return self.test(on, off)


def cases_of(record: Mapping[str, Any]) -> Iterator[Case]:
    """Every dataset with every model that has fragmented and atomic questions."""
    for run in record["runs"]:
        results = from_figures(run["table"])
        for dataset in record["datasets"]:
            rows = {(r.kind, r.method): r for r in results.rows if r.dataset == dataset}
            pairs = {
                (c.kind, c.method, c.baseline): c
                for c in results.comparisons
                if c.dataset == dataset
            }
            if ("fragmented", SCAR) in rows and ("atomic", SCAR) in rows:
                yield Case(dataset, run["model"], run["headings"], rows, pairs)


def interval(one: Difference, digits: int = 3) -> str:
    """A difference with its interval."""
    return f"{one.mean:+.{digits}f} [{one.low:+.{digits}f}, {one.high:+.{digits}f}]"


def _fewer_chunks(on: Case, off: Case) -> Finding:
    one = on.difference(SCAR, WINDOW, "chunks")
    text = f"{interval(one, 2)} chunks, {on.fewer():.0%} fewer, d {one.d:.2f}"
    return Finding(text, one.high < 0 and on.fewer() >= 0.2)


def _small_loss(on: Case, off: Case) -> Finding:
    one = on.difference(SCAR, WINDOW, "recall")
    return Finding(f"{interval(one)}, d {one.d:.2f}", one.mean >= -0.05)


def _more_than_top(on: Case, off: Case) -> Finding:
    one = on.difference(SCAR, TOP, "recall")
    return Finding(interval(one), one.low > 0)


def _more_than_matched(on: Case, off: Case) -> Finding:
    recall, coverage = (on.difference(SCAR, MATCHED, m) for m in ("recall", "coverage"))
    text = f"recall {interval(recall)}, coverage {interval(coverage)}"
    return Finding(text, recall.low > 0 and coverage.low > 0)


def _penalty(on: Case, off: Case) -> Finding:
    more, recall = (on.difference("SCAR(±1) 0/0.8", SCAR, m) for m in ("chunks", "recall"))
    share = more.mean / on.mean(SCAR, "chunks")
    text = f"{share:+.1%} chunks, recall {interval(recall)}"
    return Finding(text, 0 <= share <= 0.08 and recall.mean <= 0.02)


def _penalties_alike(on: Case, off: Case) -> Finding:
    values = [on.mean(f"SCAR(±1) {lam}/0.8", "recall") for lam in ("0.05", "0.1", "0.15")]
    text = ", ".join(f"{value:.3f}" for value in values)
    return Finding(text, max(values) - min(values) <= 0.03)


def _wider(on: Case, off: Case) -> Finding:
    text = ", ".join(
        f"{name} {on.mean(name, 'recall'):.3f} / {on.mean(name, 'chunks'):.1f}"
        for name in (SCAR_2, WINDOW)
    )
    share = on.mean(SCAR_2, "chunks") / on.mean(WINDOW, "chunks")
    loss = on.mean(WINDOW, "recall") - on.mean(SCAR_2, "recall")
    return Finding(text, share < 1 and loss <= 0.02)


def _atomic(on: Case, off: Case) -> Finding:
    recall = on.difference(SCAR, WINDOW, "recall", "atomic")
    text = f"{on.fewer('atomic'):.0%} fewer chunks, recall {interval(recall)}"
    return Finding(text, on.fewer("atomic") >= 0.25 and recall.mean >= -0.01)


def _headings(on: Case, off: Case) -> Finding:
    text = f"{off.fewer():.0%} fewer without, {on.fewer():.0%} with headings"
    return Finding(text, off.fewer() >= on.fewer() + 0.05)


def _section(on: Case, off: Case) -> Finding:
    recall, chunks = (on.mean("parent section", m) for m in ("recall", "chunks"))
    return Finding(f"{recall:.3f} / {chunks:.1f}", recall >= 0.95 and chunks >= 25)


CLAIMS = (
    Claim(
        "SCAR(±1) retrieves fewer chunks than Window(±1): 2.32 [2.09, 2.57] or 23 % fewer, d -1.49",
        "at least 20 % fewer, the interval below 0",
        _fewer_chunks,
    ),
    Claim("The cost in recall is small: -0.039, d -0.33", "at most 0.05", _small_loss),
    Claim("SCAR(±1) recalls more than top-5: +0.098", "the interval above 0", _more_than_top),
    Claim(
        "The fair rival, which the paper does not show: SCAR(±1) recalls and covers more than as "
        "many best chunks",
        "both intervals above 0",
        _more_than_matched,
    ),
    Claim(
        "Without the penalty (lam 0) up to 7.2 % more chunks, with little change in recall",
        "0 to 8 % more chunks and at most 0.02 more recall",
        _penalty,
    ),
    Claim(
        "lam 0.05, 0.10 and 0.15 are comparable (recall at gamma 0.8)",
        "recall within 0.03",
        _penalties_alike,
    ),
    Claim(
        "SCAR(±2) comes close to Window(±1) with fewer chunks: 0.949 / 9.2 against 0.967 / 10.2",
        "fewer chunks, at most 0.02 less recall",
        _wider,
    ),
    Claim(
        "Atomic questions: no regret, 7.6 chunks against 11.3",
        "at least 25 % fewer chunks, at most 0.01 less recall",
        _atomic,
        "atomic",
    ),
    Claim(
        "Without headings before the text the saving is larger: 37 % against 23 %",
        "at least 5 points larger",
        _headings,
    ),
    Claim(
        "The parent section has nearly all at many times the size: 0.968 / 50.2",
        "recall of at least 0.95, at least 25 chunks",
        _section,
    ),
)


def verdict(findings: Sequence[Finding]) -> str:
    """In words, over all cases that say something."""
    said = [one.holds for one in findings if one.holds is not None]
    if not said:
        return "not measured"
    if all(said):
        return "holds"
    return f"holds in {sum(said)} of {len(said)} cases" if any(said) else "does not hold"
