"""`scar-gpu sweep`: the grid, choices, figures held out, pictures; for labelled folders and not."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from scar_gpu.evaluation.tables import from_json
from tests.cli.conftest import MODEL, Refused, Run
from tests.evaluation.machines import machines, prose

SMALL = ("--chunk-size", 50, "--overlap", 0, "--resamples", 30, "-k", 2)
GRID = ("--lam", "0,0.2", "--gamma", "0.95,0.5,0.8,0.5", "--budget", 0.8)
FILES = ["grid.csv", "machines-heatmap.png", "machines-pareto.png", "sweep.json", "sweep.md"]


def write_dataset(folder: Path, *sizes: int) -> Path:
    docs, lines = machines(*sizes)
    (folder / "docs").mkdir(parents=True)
    for name, text in docs.items():
        (folder / "docs" / name).write_text(text)
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "machines")


@pytest.fixture
def options(tmp_path: Path) -> tuple[object, ...]:
    return (*MODEL, *SMALL, *GRID, "--cache", tmp_path / "cache")


def test_prints_grid_choices_and_what_they_bring(dataset, options, succeed: Run) -> None:
    out = succeed("sweep", dataset, *options).stdout
    assert "### machines, all (30 questions)" in out
    assert "| lam | 0.5 | 0.8 | 0.95 |" in out
    assert "- Most coverage with at most 80% of Window(±1)'s chunks: lam 0" in out
    assert "- Fewest chunks that lose at most 0.03 of Window(±1)'s recall: " in out
    assert "chunks: lam 0, gamma 0.8: recall" in out
    ended = succeed("sweep", dataset, *options, "--gamma", "0.8,0.95").stdout
    assert "chunks: lam 0, gamma 0.8 (at the grid's end): recall" in ended
    assert "- Plateau: " in out
    assert "chosen on the other documents" in out
    assert out.count("| machines | ") == 5
    assert "| SCAR(±1) tuned minus top-k, as many as SCAR(±1) tuned | " in out


def test_a_folder_of_files(dataset, options, tmp_path, succeed: Run) -> None:
    output = tmp_path / "swept"
    result = succeed("sweep", dataset, *options, "-o", output, "--kind", "fragmented")
    assert result.stdout == ""
    assert sorted(path.name for path in output.iterdir()) == FILES
    for picture in output.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 10_000
    lines = list(csv.DictReader((output / "grid.csv").read_text().splitlines()))
    assert [(line["lam"], line["gamma"]) for line in lines] == [
        (lam, gamma) for lam in ("0.0", "0.2") for gamma in ("0.5", "0.8", "0.95")
    ]
    record = json.loads((output / "sweep.json").read_text())
    (point,) = record["points"]
    assert point["kind"] == "fragmented"
    best = point["within_budget"]
    at_best = next(
        line
        for line in lines
        if (float(line["lam"]), float(line["gamma"])) == (best["lam"], best["gamma"])
    )
    assert float(at_best["coverage"]) == best["coverage"]
    assert float(at_best["share"]) <= 0.8
    assert len(record["choices"]) == 5
    results, about = from_json((output / "sweep.json").read_text())
    assert about["budget"] == 0.8
    assert {row.kind for row in results.rows} == {"all", "atomic", "fragmented"}


def test_outputs_are_the_same_again_and_replaced_only_on_request(
    dataset, options, tmp_path, succeed: Run, refused: Refused
) -> None:
    output = tmp_path / "swept"
    arguments = ("sweep", dataset, *options, "-o", output)
    succeed(*arguments)
    texts = [(output / name).read_bytes() for name in FILES]
    assert "swept must not exist unless overwrite" in refused(*arguments)
    succeed(*arguments, "--overwrite")
    assert [(output / name).read_bytes() for name in FILES] == texts
    (output / "notes.txt").write_text("mine")
    assert refused(*arguments, "--overwrite").endswith(
        "swept must hold nothing but what it would be overwritten with, got notes.txt"
    )
    assert (output / "notes.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "holiday.png").write_text("mine")
    assert refused("sweep", dataset, *options, "-o", other, "--overwrite").endswith("holiday.png")


def test_leave_one_corpus_out(dataset, options, tmp_path, succeed: Run) -> None:
    others = [write_dataset(tmp_path / name, n, 4) for name, n in (("one", 3), ("two", 4))]
    out = succeed("sweep", dataset, *others, *options).stdout
    assert "chosen on the other datasets" in out
    for name in ("machines", "one", "two"):
        assert f"| {name} | all documents | " in out
        assert f"### {name}, fragmented (" in out


def test_pictures_of_datasets_whose_names_differ_in_signs_alone(
    options, tmp_path, succeed: Run
) -> None:
    folders = [write_dataset(tmp_path / name, 3, 4) for name in ("a b", "a+b", "c")]
    output = tmp_path / "swept"
    succeed("sweep", *folders, *options, "-o", output)
    assert sorted(path.name for path in output.glob("*-pareto.png")) == [
        "1-a-b-pareto.png", "2-a-b-pareto.png", "c-pareto.png",
    ]  # fmt: skip


def test_a_folder_without_questions_makes_its_own(tmp_path, options, succeed: Run) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for i in range(6):
        (folder / f"{i}.txt").write_text(prose(i, 40))
    result = succeed(
        "sweep", folder, *options, "--chunk-size", 300, "--overlap", 30, "--probes", 40
    )
    assert "so 40 questions are made from its sentences; what is best on them" in result.stderr
    assert "### own, fragmented (20 questions)" in result.stdout


def test_documents_are_sampled_before_questions_are_made(tmp_path, options, succeed: Run) -> None:
    """All of them are about the sample, rather than those of many that happen to be."""
    folder = tmp_path / "own"
    folder.mkdir()
    for i in range(6):
        (folder / f"{i}.txt").write_text(prose(i, 40))
    chunked = ("--chunk-size", 300, "--overlap", 30, "--probes", 8)
    result = succeed("sweep", folder, *options, *chunked, "--documents", 2)
    assert "own, 2 documents: 2 documents, " in result.stderr
    assert "so 8 questions are made" in result.stderr
    assert "### own, 2 documents, all (8 questions)" in result.stdout
    whole = succeed("sweep", folder, *options, *chunked, "--documents", 6)
    assert "### own, all (8 questions)" in whole.stdout


def test_too_few_documents_hold_nothing_out(tmp_path, options, succeed: Run) -> None:
    folder = write_dataset(tmp_path / "few", 2)
    result = succeed("sweep", folder, *options)
    assert "nothing is reported on questions held out: documents with" in result.stderr
    assert "Held out" not in result.stdout


def test_a_corpus_of_one_chunk(tmp_path, options, succeed: Run) -> None:
    folder = tmp_path / "one"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a").write_text("One.")
    line = {"id": "1", "doc": "a", "question": "one", "evidence": [{"start": 0, "end": 3}]}
    (folder / "queries.jsonl").write_text(json.dumps(line))
    output = tmp_path / "swept"
    result = succeed("sweep", folder, *options, "--budget", 1, "-o", output)
    assert "0.5" in (output / "sweep.md").read_text()
    assert "nothing is reported" in result.stderr
    no_point = succeed("sweep", folder, *options, "--budget", 0.5)
    assert "Window(±1)'s chunks: no point of the grid." in no_point.stdout


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--lam", ""), "lam must have at least one value, got none"),
        (("--lam", "0,-1"), "lam must be >= 0, got -1.0"),
        (("--gamma", "inf"), "gamma must be finite, got inf"),
        (("--gamma", "low"), "gamma must be numbers with commas between, got 'low'"),
        (("--kind", "hard"), "kind must be all or one of atomic, fragmented, .* got 'hard'"),
        (("--kind", "long"), "kind must be one of all, atomic, fragmented in machines, got long"),
    ],
)
def test_bad_input_writes_nothing(dataset, options, tmp_path, refused, wrong, message) -> None:
    import re

    output = tmp_path / "swept"
    assert re.fullmatch(message, refused("sweep", dataset, *options, *wrong, "-o", output))
    assert not output.exists()
    assert [path.name for path in tmp_path.iterdir() if "swept" in path.name] == []


def test_without_matplotlib(dataset, options, tmp_path, refused, succeed, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused("sweep", dataset, *options, "-o", tmp_path / "swept")
    assert message.startswith("matplotlib.figure must be installed for this")
    assert not (tmp_path / "cache").exists()  # found out before any work
    assert "### machines, all" in succeed("sweep", dataset, *options).stdout
