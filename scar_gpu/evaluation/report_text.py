"""The report in Markdown, from the record of figures that `measure` makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scar_gpu.evaluation.bootstrap import Difference
from scar_gpu.evaluation.claims import CLAIMS, WINDOW, Case, cases_of, interval, verdict
from scar_gpu.evaluation.gold import KINDS
from scar_gpu.evaluation.measure import HYBRID
from scar_gpu.evaluation.report_thresholds import AT_END, chosen_point, thresholds
from scar_gpu.evaluation.tables import from_figures, markdown_table

_OWN = """## On your own documents

    scar-gpu eval my_corpus
    scar-gpu sweep my_corpus -o swept

`my_corpus` holds `docs/` and `queries.jsonl`, one object a line:

    {"id": "1", "doc": "contract.txt", "question": "Who signs?",
     "evidence": [{"start": 120, "end": 168}]}

Offsets count characters of the file `docs/contract.txt`. Where several passages alone answer a
question, `evidence` is a list of such lists. Of a folder of documents alone, `sweep` makes
questions from its sentences; how far these can be trusted stands above.
"""
# Where the published corpora come from, by the name of their folder.
ORIGINS = {
    "chunking_evaluation": "the general evaluation data of Chroma's *chunking_evaluation*, MIT: "
    "five long texts (public speeches, Wikitext under CC BY-SA, and texts derived from ConvFinQA, "
    "PubMed and UltraChat), and questions that a language model wrote, with extracts as evidence.",
    "lbr_contractnli": "the ContractNLI part, CC BY 4.0, of ZeroEntropy's *LegalBench-RAG*, MIT: "
    "non-disclosure agreements from the web and SEC EDGAR, with clauses as evidence.",
    "lbr_maud": "the MAUD part, The Atticus Project, CC BY 4.0, of *LegalBench-RAG*: merger "
    "agreements from SEC EDGAR, with clauses as evidence. The folder holds the 24 of most "
    "questions among those below 600 kB.",
}
# Coverage that may be missing, at worst, where one method is said to cover no less than another.
MARGIN = 0.03
_METHODS = (
    "top-5",
    "SCAR(±1) 0.1/0.8",
    "top-k, as many as SCAR(±1) 0.1/0.8",
    "SCAR(±2) 0.1/0.8",
    "top-k, as many as SCAR(±2) 0.1/0.8",
    "Window(±1)",
    "top-k, as many as Window(±1)",
    "Window(±2)",
    "parent section",
)


def to_markdown(record: Mapping[str, Any], command: str) -> str:
    """The whole report from what `measure` found.

    Args:
        record: of `measure`.
        command: what writes the report, for its reader.

    Returns:
        Markdown.
    """
    cases = list(cases_of(record))
    parts = [
        "# SCAR on real corpora\n",
        f"Every figure on this page is written by\n\n    {command}\n\nand comes out of it again.\n",
        _setting(record),
        "## The paper's claims\n",
        "On fragmented questions with headings before the text that is embedded, lam 0.1 and gamma "
        "0.8, where nothing else is said. A claim is held to the rule in brackets; differences are "
        "paired, with 95 % intervals of the bootstrap. Not measured here: a cross-encoder, and the "
        "answers of a language model.\n",
        *_claims(cases),
        "## The table\n",
        *_tables(cases),
        "## Tuned, and reported on other questions\n",
        f"The point (lam, gamma) of most coverage with at most {record['settings']['budget']:.0%} "
        "of Window(±1)'s chunks on fragmented questions, chosen on other questions than those it "
        "is reported on: on the other corpora, or on four fifths of the documents for the fifth "
        "that is left out, in turn. " + _ends(record["settings"]),
        *_goal(record),
        *_held_out(record),
        "## What gamma means, and what predicts it\n",
        *thresholds(record),
        _OWN,
    ]
    return "\n".join(parts)


def _folders(record: Mapping[str, Any]) -> set[str]:
    """The names of the datasets before any was sampled."""
    return {name.partition(", ")[0] for name in record["datasets"]}


def _setting(record: Mapping[str, Any]) -> str:
    settings = record["settings"]
    lines = [
        [name, f"{one['documents']:,}", f"{one['chunks']:,}", f"{one['questions']:,}"]
        + [f"{one['kinds'].get(kind, 0):,}" for kind in KINDS]
        for name, one in record["datasets"].items()
    ]
    table = markdown_table(("dataset", "documents", "chunks", "questions", *KINDS), lines)
    models = ", ".join(f"{name} ({key[:12]})" for name, key in record["models"].items())
    origins = "".join(
        f"- {name}: {text}\n" for name, text in ORIGINS.items() if name in _folders(record)
    )
    if origins:
        origins = (
            "Its arguments are folders in the layout at the end of this page, made from published "
            f"datasets:\n\n{origins}\n"
        )
    return (
        f"{origins}{table}\n"
        f"Chunks of {settings['chunk_size']} characters, {settings['overlap']} of them "
        f"repeated; {settings['k']} hits per question, from its own document; "
        f"{settings['resamples']:,} resamples of questions. Models: {models}.\n\n"
        "Intervals take questions as independent. Those of one document are not, so where "
        "documents are few the intervals are too narrow.\n\n"
        "Recall is the share of a question's gold chunks, coverage the share of its evidence's "
        "characters; full is the share of questions whose evidence is complete.\n"
    )


def _claims(cases: Sequence[Case]) -> Iterator[str]:
    pairs = [
        (on, off)
        for on in cases
        for off in cases
        if on.headings and not off.headings and on[:2] == off[:2]
    ]
    for claim in CLAIMS:
        findings = [claim.finding(on, off) for on, off in pairs]
        yield f"- **{claim.text}** ({claim.rule}): **{verdict(findings)}**."
        for (on, _), found in zip(pairs, findings, strict=True):
            answer = {True: "yes", False: "no", None: "too few"}[found.holds]
            yield f"  - {on.dataset}, {on.model}: {found.text}: {answer}"
    yield ""


def _tables(cases: Sequence[Case]) -> Iterator[str]:
    for case in cases:
        if not case.headings:
            continue
        for kind in ("fragmented", "atomic"):
            n = case.rows[kind, _METHODS[0]].n
            yield f"### {case.dataset}, {kind} ({n:,} questions), {case.model}\n"
            lines = []
            for method in _METHODS:
                found = case.rows[kind, method].estimates
                shares = [
                    f"{found[m].mean:.3f} [{found[m].low:.3f}, {found[m].high:.3f}]"
                    for m in ("recall", "coverage")
                ]
                efficiency = case.rows[kind, method].efficiency
                cells = [f"{found['full'].mean:.3f}", f"{found['chunks'].mean:.2f}"]
                cells += [f"{found['characters'].mean:,.0f}", f"{efficiency:.3f}"]
                lines.append([method, *shares, *cells])
            names = ("method", "recall", "coverage", "full", "chunks", "characters", "efficiency")
            yield markdown_table(names, lines)


def reaches_goal(to_window: Difference, change: float, to_best: Difference) -> bool:
    """Whether a method is no worse than the window, smaller, and worth its size.

    Args:
        to_window: its coverage less the window's.
        change: its chunks as a share of the window's, less 1.
        to_best: its coverage less that of as many best chunks.
    """
    return to_window.low >= -MARGIN and change <= -0.25 and to_best.low > 0


def _goal(record: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "Does hybrid search, with headings and tuned SCAR(±1), cover no less than Window(±1) on "
        "the dense hits, with at least 25 % fewer chunks, and more than as many best hybrid "
        f"chunks? No less, by a margin of {MARGIN:g} (non-inferiority): the 95 % interval of the "
        f"paired difference starts at -{MARGIN:g} or above. More: it lies above 0.\n"
    )
    lines = []
    for run in record["runs"]:
        found = run.get("held_out", {}).get(HYBRID)
        if found is None:
            continue
        results = from_figures(found["results"])
        rows = {(r.dataset, r.method): r for r in results.rows if r.kind == "fragmented"}
        pairs = {(c.dataset, c.baseline): c for c in results.comparisons if c.kind == "fragmented"}
        for dataset in record["datasets"]:
            window = pairs[dataset, WINDOW]
            matched = pairs[dataset, f"top-k, as many as {window.method}"]
            chunks = [rows[dataset, m].estimates["chunks"].mean for m in (window.method, WINDOW)]
            change = chunks[0] / chunks[1] - 1
            to_window, to_best = (one.differences["coverage"] for one in (window, matched))
            head = [dataset, run["model"], interval(to_window), f"{change:+.1%}", interval(to_best)]
            holds = reaches_goal(to_window, change, to_best)
            lines.append([*head, "yes" if holds else "no"])
    names = ("dataset", "model", "coverage less Window's", "chunks", "less as many best", "all")
    yield markdown_table(names, lines)


def _ends(settings: Mapping[str, Any]) -> str:
    lam, gamma = (f"{settings[name][0]:g} to {settings[name][1]:g}" for name in ("lam", "gamma"))
    return (
        f"The grid is lam {lam} and gamma {gamma}; a value marked with {AT_END} is chosen at the "
        "grid's end, so more may lie beyond. A lam of 0 is the least there is.\n"
    )


def _held_out(record: Mapping[str, Any]) -> Iterator[str]:
    for run in record["runs"]:
        for how, found in run.get("held_out", {}).items():
            yield f"### Chosen on {how}, {run['model']}\n"
            results = from_figures(found["results"])
            points: dict[str, list[str]] = {}
            for one in found["choices"]:
                point = chosen_point(one, record["settings"])
                points.setdefault(one["dataset"], []).append(point)
            rows = {(r.dataset, r.method): r for r in results.rows if r.kind == "fragmented"}
            lines = []
            for one in results.comparisons:
                if one.kind != "fragmented":
                    continue
                tuned, other = (rows[one.dataset, m].estimates for m in (one.method, one.baseline))
                fewer = tuned["chunks"].mean / other["chunks"].mean - 1
                lines.append([
                    f"{one.dataset} ({', '.join(dict.fromkeys(points[one.dataset]))})",
                    one.baseline,
                    f"{tuned['coverage'].mean:.3f}",
                    f"{tuned['chunks'].mean:.2f}",
                    f"{fewer:+.0%}",
                    interval(one.differences["recall"]),
                    interval(one.differences["coverage"]),
                ])  # fmt: skip
            names = ("dataset (points)", "tuned SCAR against", "its coverage", "its chunks")
            yield markdown_table((*names, "chunks", "recall", "coverage"), lines)
