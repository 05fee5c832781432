"""`scar-gpu eval`: tables from a labelled folder, the same every time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scar_gpu.evaluation.reranking import load_cross_encoder
from scar_gpu.evaluation.tables import from_json
from tests.cli.conftest import MODEL, Refused, Run
from tests.evaluation.tiny_cross_encoder import write_cross_encoder

TEXT = "".join(f"Machine {i} makes part {i * 7 % 12} of steel and wood.\n\n" for i in range(12))
SMALL = ("--chunk-size", 50, "--overlap", 0, "--resamples", 30)


def write_dataset(folder: Path, n_questions: int = 8) -> Path:
    """Two documents; some questions atomic, some fragmented."""
    lines = []
    for number in range(n_questions):
        start = TEXT.index(f"Machine {number} ")
        end = start + (60 if number % 3 == 2 else 20)
        lines.append({
            "id": str(number), "doc": "ab"[number % 2] + ".txt",
            "question": f"part of machine {number}", "evidence": [{"start": start, "end": end}],
        })  # fmt: skip
    (folder / "docs").mkdir(parents=True)
    for name in "ab":
        (folder / "docs" / f"{name}.txt").write_text(TEXT)
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "machines")


@pytest.fixture
def cache(tmp_path: Path) -> tuple[str, Path]:
    return "--cache", tmp_path / "cache"


def test_prints_a_table_per_kind(dataset, cache, succeed: Run) -> None:
    result = succeed("eval", dataset, *MODEL, *SMALL, *cache)
    for kind in ("all (8 questions)", "atomic (6 questions)", "fragmented (2 questions)"):
        assert f"### machines, {kind}" in result.stdout
    assert "| SCAR(±1) 0.1/0.8 |" in result.stdout
    assert "machines: 2 documents, " in result.stderr


def test_files_hold_the_same_figures_every_time(dataset, cache, tmp_path, succeed: Run) -> None:
    outputs = [tmp_path / f"out.{suffix}" for suffix in ("json", "csv", "md")]
    arguments = ("eval", dataset, *MODEL, *SMALL, *cache, "--gamma", 0.6)
    options = [part for path in outputs for part in ("-o", path)]
    result = succeed(*arguments, *options)
    assert result.stdout == ""
    first = [path.read_text() for path in outputs]
    results, about = from_json(first[0])
    assert about["model"] == "words"
    assert about["headings"]
    assert "SCAR(±2) 0.1/0.6" in [row.method for row in results.rows]
    succeed(*arguments, *options, "--overwrite")
    assert [path.read_text() for path in outputs] == first
    assert first[1].startswith("dataset,kind,method,baseline,questions,metric,mean,low,high,d\n")
    assert first[2] == succeed(*arguments).stdout


def test_several_datasets_and_the_options(dataset, cache, tmp_path, succeed: Run) -> None:
    other = write_dataset(tmp_path / "others", 4)
    output = tmp_path / "out.json"
    options = ("--hybrid", "--scope", "corpus", "--unit", "document", "--no-headings")
    succeed("eval", dataset, other, *MODEL, *SMALL, *cache, *options, "-o", output)
    results, about = from_json(output.read_text())
    assert {row.dataset for row in results.rows} == {"machines", "others"}
    assert results.rows[0].method == "hybrid, top-5"
    assert (about["scope"], about["unit"], about["headings"]) == ("corpus", "document", False)


def test_a_sample_of_documents(dataset, cache, succeed: Run) -> None:
    result = succeed("eval", dataset, *MODEL, *SMALL, *cache, "--documents", 1)
    assert "### machines, 1 documents, all (4 questions)" in result.stdout


def test_documents_without_questions_are_mentioned(dataset, cache, succeed: Run) -> None:
    (dataset / "docs" / "c.txt").write_text("Nobody asks about this.")
    result = succeed("eval", dataset, *MODEL, *SMALL, *cache)
    assert "1 of 3 documents have no question, the first is 'c.txt'" in result.stderr


def test_a_corpus_of_one_chunk(tmp_path, cache, succeed: Run) -> None:
    folder = tmp_path / "one"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a").write_text("One.")
    line = {"id": "1", "doc": "a", "question": "one", "evidence": [{"start": 0, "end": 3}]}
    (folder / "queries.jsonl").write_text(json.dumps(line))
    result = succeed("eval", folder, *MODEL, *cache, "--resamples", 5)
    assert "| Window(±2) | 1.000 [1.000, 1.000] |" in result.stdout


def test_bad_input_writes_nothing(dataset, cache, tmp_path, refused: Refused) -> None:
    output = tmp_path / "out.json"
    arguments = (*MODEL, *SMALL, *cache, "-o", output)
    assert "got nowhere/queries.jsonl, which is missing" in refused("eval", "nowhere", *arguments)
    assert refused("eval", dataset, dataset, *arguments).endswith("got 'machines' twice")
    assert "output must end in .md or .csv or .json" in refused(
        "eval", dataset, *MODEL, "-o", tmp_path / "out.txt"
    )
    assert refused("eval", dataset, *arguments, "--reranker", "./none").startswith("reranker must")
    bad = {"id": "9", "doc": "a.txt", "question": "?", "evidence": []}
    with (dataset / "queries.jsonl").open("a") as file:
        file.write("\n" + json.dumps(bad))
    message = refused("eval", dataset, *arguments)
    assert message.startswith("evidence of ")
    assert message.endswith("queries.jsonl line 9 must have at least one unit, got none")
    assert not output.exists()
    assert not (tmp_path / "cache").exists()


def test_a_reranker(dataset, cache, tmp_path, succeed: Run, refused: Refused) -> None:
    encoder = write_cross_encoder(tmp_path)
    result = succeed("eval", dataset, *MODEL, *SMALL, *cache, "--reranker", encoder)
    assert "| reranked top-20 to 8 | " in result.stdout
    (encoder / "config.json").write_text("{}")
    load_cross_encoder.cache_clear()
    message = refused("eval", dataset, *MODEL, *SMALL, *cache, "--reranker", encoder)
    assert message.startswith(
        "reranker must be a folder or a name that sentence-transformers can load, got"
    )


def test_questions_without_evidence_can_be_left_out(dataset, cache, succeed: Run) -> None:
    bad = {"id": "9", "doc": "a.txt", "question": "?", "evidence": []}
    with (dataset / "queries.jsonl").open("a") as file:
        file.write("\n" + json.dumps(bad))
    result = succeed("eval", dataset, *MODEL, *SMALL, *cache, "--skip-without-evidence")
    assert "### machines, all (8 questions)" in result.stdout


def test_more_hits_than_memory_holds(dataset, cache, monkeypatch, refused: Refused) -> None:
    from scar_gpu import checks

    monkeypatch.setattr(checks, "MEMORY", 2**20)
    message = refused("eval", dataset, *MODEL, *SMALL, *cache, "-k", 2**21)
    assert message.startswith("k must give results that fit the 0 GiB of this machine, got 2097152")
