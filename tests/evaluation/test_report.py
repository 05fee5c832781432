"""The report: every figure from one record, the same every time; claims held to their rules."""

from __future__ import annotations

import copy
import json
import re

import pytest

from scar_gpu.evaluation import claims, report
from scar_gpu.evaluation.bootstrap import Difference
from scar_gpu.evaluation.claims import CLAIMS, Finding, cases_of, verdict
from scar_gpu.evaluation.evaluate import evaluate
from scar_gpu.evaluation.measure import measure
from scar_gpu.evaluation.methods import Scar, Window
from scar_gpu.evaluation.probes import make_probes
from scar_gpu.evaluation.report_text import ORIGINS, reaches_goal, to_markdown
from scar_gpu.evaluation.report_thresholds import chosen_point, least_miss
from scar_gpu.evaluation.sweep import Grid
from scar_gpu.evaluation.trial import Settings, prepare
from scar_gpu.text import Document
from tests.evaluation.machines import prose
from tests.text.word_embedder import WordEmbedder

SETTINGS = Settings(chunk_size=300, overlap=30)
GRID = Grid(lam=(0.0, 0.1), gamma=(0.4, 0.8, 1.0))


def corpus(name: str, seed: int):
    """Six documents with ten questions of each kind."""
    documents = [Document(f"{name}{i}", prose(seed + i, 40)) for i in range(6)]
    return make_probes(documents, name, n=20, seed=seed, chunk_size=300, overlap=30)


@pytest.fixture(scope="module")
def datasets():
    return [corpus("one", 0), corpus("two", 50)]


@pytest.fixture(scope="module")
def record(datasets):
    said: list[str] = []
    found = measure(
        datasets, [WordEmbedder()], cache=None, resamples=30, settings=SETTINGS, grid=GRID,
        say=said.append,
    )  # fmt: skip
    assert said == ["words, headings on", "words, headings off"]
    return found


def test_the_record_survives_json_and_decides_the_text(record):
    text = to_markdown(record, "the command")
    again = json.loads(json.dumps(record, allow_nan=False))
    assert to_markdown(again, "the command") == text
    assert "\n    the command\n" in text
    for part in (
        "where documents are few the intervals are too narrow", "| one | 6 | ",
        "### one, fragmented (10 questions), words",
        "### Chosen on other corpora, words", "### Chosen on other documents, hybrid, words",
        "| dataset | model | questions | made questions | chunks |",
    ):  # fmt: skip
        assert part in text
    for line in text.splitlines():
        assert "nan" not in line.split(" ")
    headers = [line for line in text.splitlines() if line.startswith("| ---")]
    assert len(headers) == 1 + 4 + 1 + 3 + 3  # setting, tables, goal, held out, thresholds


def test_figures_are_those_of_the_evaluation(record, datasets):
    trial = prepare(datasets[1], WordEmbedder(), SETTINGS)
    results = evaluate(trial, [Scar(5), Window(5)], resamples=30)
    case = next(one for one in cases_of(record) if one.dataset == "two" and one.headings)
    row = next(r for r in results.rows if (r.kind, r.method) == ("fragmented", Scar(5).name))
    assert case.mean(Scar(5).name, "coverage") == row.estimates["coverage"].mean
    share = row.estimates["chunks"].mean / case.mean("Window(±1)", "chunks")
    assert case.fewer() == pytest.approx(1 - share)


def test_claims_are_held_to_their_rules(record):
    on, off = (next(c for c in cases_of(record) if c.headings == h) for h in (True, False))
    texts = [claim.text for claim in CLAIMS]
    fewer = CLAIMS[0].test(on, off)
    one = on.difference("SCAR(±1) 0.1/0.8", "Window(±1)", "chunks")
    assert fewer.holds == (one.high < 0 and on.fewer() >= 0.2)
    assert f"{one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}]" in fewer.text
    loss = CLAIMS[1].test(on, off)
    assert loss.holds == (on.difference("SCAR(±1) 0.1/0.8", "Window(±1)", "recall").mean >= -0.05)
    assert len(set(texts)) == len(texts)
    assert CLAIMS[0].finding(on, off) == ("10 questions", None)  # too few to decide
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "FEWEST", 10)
        assert CLAIMS[0].finding(on, off) == fewer


def test_verdicts():
    yes, no, few = Finding("", True), Finding("", False), Finding("", None)
    assert verdict([yes, yes]) == "holds"
    assert verdict([no, no]) == "does not hold"
    assert verdict([yes, no, few, yes]) == "holds in 2 of 3 cases"
    assert verdict([yes, few]) == "holds"
    assert verdict([few, few]) == "not measured"


def test_intervals():
    assert claims.interval(Difference(0.1234, -0.1, 0.3, 1.0)) == "+0.123 [-0.100, +0.300]"


def test_no_less_than_the_window_needs_an_interval_within_the_margin(record):
    def reached(low: float, change: float, least: float) -> bool:
        to_window = Difference(low + 0.05, low, low + 0.1, 0.0)
        return reaches_goal(to_window, change, Difference(least, least, least, 0.0))

    assert reached(-0.03, -0.25, 0.001)
    assert not reached(-0.031, -0.25, 0.001)  # though the interval reaches 0.069
    assert not reached(-0.03, -0.249, 0.001)
    assert not reached(-0.03, -0.25, 0.0)
    text = to_markdown(record, "the command")
    assert "cover no less than Window(±1)" in text
    assert "No less, by a margin of 0.03 (non-inferiority): the 95 % interval" in text
    assert "cover as much as" not in text


def test_published_corpora_are_named_with_their_origin(record):
    assert "made from published" not in to_markdown(record, "the command")  # of nobody knows where
    changed = copy.deepcopy(record)
    text = json.dumps(changed).replace('"one"', '"lbr_maud, 12 documents"')
    text = to_markdown(json.loads(text), "the command")
    assert text.count("\n- lbr_maud: the MAUD part, ") == 1
    assert "- lbr_contractnli: " not in text
    assert all("CC BY" in origin and origin.endswith(".") for origin in ORIGINS.values())


def test_values_at_the_ends_of_the_grid_are_bounds(record):
    def gamma(value: float, bound: str = "=") -> dict[str, object]:
        return {"gamma": value, "bound": bound}

    low, high = gamma(0.1, "<="), gamma(1.1, ">")
    assert least_miss(gamma(0.5), gamma(0.25)) == (0.25, True)
    assert least_miss(low, gamma(0.5)) == least_miss(gamma(0.5), low) == (0.4, False)
    assert least_miss(high, gamma(0.5)) == (pytest.approx(0.6), False)
    assert least_miss(low, high) == (1.0, False)
    assert least_miss(low, low) == least_miss(high, high) == (0.0, False)

    changed = copy.deepcopy(record)
    changed["settings"] |= {"lam": [0.0, 0.5], "gamma": [0.1, 1.1]}
    for one in changed["runs"][0]["thresholds"].values():
        one["gamma"] = {"questions": gamma(0.5), "probes": low, "chunk pairs": gamma(0.48)}
        one["agreement"] |= {"lam": 0.5, "gamma": 0.3}
        one["cosines"] |= {"neighbor_relevance": None, "ratios": []}
    text = to_markdown(changed, "the command")
    assert "| one | words | 0.50 | <= 0.10 | 0.48 |" in text
    assert "made questions miss the gamma of the real ones by at least 0.40, chunks by 0.02" in text
    assert "| 0.5†/0.3 |" in text
    assert "| none |" in text
    for one in changed["runs"][0]["thresholds"].values():
        one["gamma"]["questions"] = low  # perhaps the same, perhaps not: nothing is shown
        one["gamma"]["chunk pairs"] = low
    text = to_markdown(changed, "the command")
    assert "real ones by at least 0.00, chunks by at least 0.00. A calibration would" in text
    for one in changed["runs"][0]["thresholds"].values():
        one["gamma"] = dict.fromkeys(one["gamma"], gamma(0.5))
    assert "ones by 0.00, chunks by 0.00. Either may" in to_markdown(changed, "the command")


@pytest.mark.parametrize(
    ("lam", "gamma", "text"),
    [
        (0.0, 0.5, "0/0.5"),  # nothing lies below
        (0.5, 0.1, "0.5†/0.1†"),
        (0.1, 1.1, "0.1/1.1†"),
        (0.48, 0.12, "0.48/0.12"),
    ],
)
def test_points_at_the_ends_of_the_grid_are_marked(lam, gamma, text):
    settings = {"lam": [0.0, 0.5], "gamma": [0.1, 1.1]}
    assert chosen_point({"lam": lam, "gamma": gamma}, settings) == text


def test_measure_needs_two_datasets_and_a_model(datasets):
    for some, models in ((datasets[:1], [WordEmbedder()]), (datasets, [])):
        with pytest.raises(ValueError, match="datasets must be at least two, and models one"):
            measure(some, models, cache=None, resamples=5)


def test_the_command(record, monkeypatch, tmp_path, write_folder):
    """Reads, samples, measures, writes; its own line stands in the report."""
    lines = [
        {"id": name, "doc": name, "question": "?", "evidence": [{"start": 0, "end": 1}]}
        for name in ("a", "b")
    ]
    folders = [write_folder({"a": "A.", "b": "B."}, lines, name=name) for name in ("one", "two")]
    given = {}

    def canned(datasets, embedders, **options):
        given.update(options, datasets=datasets, embedders=embedders)
        return record

    monkeypatch.setattr(report, "measure", canned)
    monkeypatch.chdir(tmp_path)
    model = "tests.text.word_embedder:WordEmbedder"
    arguments = [*map(str, folders), "--sample", "two=1", "--model", model, "--resamples", "7"]
    arguments += ["--cache", str(tmp_path / "cache"), "--json", "out.json", "-o", "out.md"]
    assert report.main(arguments) == 0
    assert [len(one.documents) for one in given["datasets"]] == [2, 1]
    assert given["embedders"][0].name == "words"
    assert (given["resamples"], given["cache"]) == (7, tmp_path / "cache")
    text = (tmp_path / "out.md").read_text()
    command = (
        f"python -m scar_gpu.evaluation.report one two --sample two=1 --model {model} "
        "--resamples 7 -o out.md"
    )
    assert f"\n    {command}\n" in text
    assert to_markdown(json.loads((tmp_path / "out.json").read_text()), command) == text
    assert str(tmp_path) not in text
    arguments[arguments.index("7")] = "10000"  # the default goes without saying
    assert report.main(arguments) == 0
    assert f"--model {model} -o out.md\n" in (tmp_path / "out.md").read_text()
    assert re.search(r"not measured", text)
