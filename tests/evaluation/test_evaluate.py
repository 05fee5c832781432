"""The table: means by kind, matched within each kind, paired, and written without loss."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
import torch

from scar_gpu.evaluation.bootstrap import differences
from scar_gpu.evaluation.evaluate import Results, evaluate, paper_methods, summarize
from scar_gpu.evaluation.methods import MatchedTopK, Scar, TopK, Window
from scar_gpu.evaluation.metrics import Scores, score
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.evaluation.tables import from_json, to_csv, to_json, to_markdown
from scar_gpu.evaluation.trial import Settings, Trial, prepare
from tests.evaluation.conftest import unit
from tests.text.word_embedder import WordEmbedder

LINES = [f"Machine {i} makes part {i * 7 % 12} of steel and wood.\n\n" for i in range(12)]
TEXT = "".join(LINES)


@pytest.fixture
def trial(write_folder) -> Trial:
    """Two documents; five atomic questions, three fragmented ones."""
    lines = []
    for number in range(8):
        start = TEXT.index(f"Machine {number} ")
        length = 60 if number % 3 == 2 else 20
        lines.append({
            "id": str(number), "doc": "ab"[number % 2], "question": f"part of machine {number}",
            "evidence": [unit(start, start + length)],
        })  # fmt: skip
    dataset = read_dataset(write_folder({"a": TEXT, "b": TEXT}, lines))
    return prepare(dataset, WordEmbedder(), Settings(chunk_size=50, overlap=0))


def test_rows_are_means_of_scores_by_kind(trial):
    methods = [TopK(2), Window(2)]
    found = evaluate(trial, methods, resamples=50)
    assert [(row.kind, row.method, row.n) for row in found.rows] == [
        (kind, method, n)
        for kind, n in (("all", 8), ("atomic", 6), ("fragmented", 2))
        for method in ("top-2", "Window(±1)")
    ]
    scores = score(Window(2).select(trial), trial.gold, trial.sizes)
    fragmented = torch.tensor([kind == "fragmented" for kind in trial.gold.kinds])
    row = found.rows[-1]
    for name, values in zip(Scores._fields, scores, strict=True):
        assert row.estimates[name].mean == pytest.approx(values[fragmented].mean().item())
        assert row.estimates[name].low <= row.estimates[name].mean <= row.estimates[name].high
    assert row.efficiency == row.estimates["recall"].mean / row.estimates["chunks"].mean


def test_comparisons_are_paired(trial):
    methods = paper_methods(2)
    found = evaluate(trial, methods, resamples=50)
    names = {(one.method, one.baseline) for one in found.comparisons}
    assert ("SCAR(±1) 0.1/0.8", "Window(±1)") in names
    assert ("SCAR(±2) 0.1/0.8", "Window(±2)") in names
    assert ("SCAR(±1) 0.1/0.8", "top-k, as many as SCAR(±1) 0.1/0.8") in names
    assert ("Window(±2)", "top-k, as many as Window(±2)") in names
    ours, theirs = (
        torch.stack(score(method.select(trial), trial.gold, trial.sizes), 1)
        for method in (Scar(2), Window(2))
    )
    expected = differences(ours, theirs, 50)
    (one,) = (
        one
        for one in found.comparisons
        if (one.kind, one.method, one.baseline) == ("all", "SCAR(±1) 0.1/0.8", "Window(±1)")
    )
    assert list(one.differences.values()) == expected
    for one in found.comparisons:
        if one.baseline.startswith("top-k"):
            assert one.differences["chunks"].mean == pytest.approx(0)


def test_documents_as_units(trial):
    some = trial.of([0, 2, 4, 1])  # three questions about "a", one about "b"
    (row,) = evaluate(some, [TopK(1)], unit="document", resamples=50).rows[:1]
    recall = score(TopK(1).select(some), some.gold, some.sizes).recall
    assert row.estimates["recall"].mean == pytest.approx(
        ((recall[:3].mean() + recall[3]) / 2).item()
    )


def test_progress_and_bad_input(trial):
    seen = []
    evaluate(trial, [TopK(1), TopK(2)], resamples=5, progress=lambda *done: seen.append(done))
    assert seen == [(i, 6) for i in range(1, 7)]
    with pytest.raises(ValueError, match=r"methods must be at least one, .* got \[\]"):
        evaluate(trial, [])
    with pytest.raises(ValueError, match="methods must be at least one, of different names"):
        evaluate(trial, [TopK(1), TopK(1)])
    with pytest.raises(ValueError, match="unit must be question or document, got 'word'"):
        evaluate(trial, [TopK(1)], unit="word")


def without_spread(trial) -> Results:
    """One method better than another by the same on every question: d is infinite."""
    worse = Scores(*torch.zeros(6, len(trial.gold.kinds), dtype=torch.float64))
    better = Scores(*(column + 1 for column in worse))
    methods = [TopK(2), TopK(1)]
    return summarize(trial, "all", methods, [better, worse], resamples=5, pairs=[tuple(methods)])


def test_json_comes_back_as_it_was(trial):
    for results in (evaluate(trial, paper_methods(2), resamples=20), without_spread(trial)):
        text = to_json(results, {"model": "words"})
        again, about = from_json(text)
        assert again == results
        assert about == {"model": "words"}
    (one,) = results.comparisons
    assert one.differences["recall"].d == math.inf
    assert json.loads(text)["comparisons"][0]["differences"]["recall"]["d"] is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 9}', '{"format": 1, "rows": [3]}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="results must be"):
        from_json(text)


def test_csv_has_a_line_per_figure(trial):
    results = evaluate(trial, [Scar(2), MatchedTopK(Scar(2))], resamples=20)
    lines = list(csv.DictReader(io.StringIO(to_csv(results))))
    assert len(lines) == 7 * len(results.rows) + 6 * len(results.comparisons)
    first = results.rows[0]
    assert lines[0]["metric"] == "recall"
    assert float(lines[0]["mean"]) == first.estimates["recall"].mean
    assert float(lines[-1]["d"]) == results.comparisons[-1].differences["tokens"].d
    assert lines[-1]["baseline"] == MatchedTopK(Scar(2)).name


def test_markdown(trial):
    results = evaluate(trial, [Scar(2), MatchedTopK(Scar(2))], resamples=20)
    text = to_markdown(results)
    assert "### tiny, all (8 questions)\n\n| method | recall | coverage |" in text
    row = results.rows[0].estimates["recall"]
    assert f"| SCAR(±1) 0.1/0.8 | {row.mean:.3f} [{row.low:.3f}, {row.high:.3f}] |" in text
    assert "| SCAR(±1) 0.1/0.8 minus top-k, as many as SCAR(±1) 0.1/0.8 | " in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("|")}
    assert widths == {6, 7}
    assert "no spread" in to_markdown(without_spread(trial))


def test_the_package_has_what_it_names():
    import scar_gpu.evaluation

    names = scar_gpu.evaluation.__all__
    assert sorted(names) == names
    assert all(hasattr(scar_gpu.evaluation, name) for name in names)
