"""`scar-gpu retrieve`: what it refuses, and what an error leaves behind."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import MODEL, QUESTIONS, Refused, Run
from tests.text.word_embedder import WordEmbedder

# Outputs


def test_an_existing_output_needs_overwrite(
    index: Path, questions: Path, tmp_path: Path, succeed: Run, refused: Refused
) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("precious")
    message = refused("retrieve", index, questions, "-o", output, *MODEL)
    assert message == f"output must not exist yet, got {output}; --overwrite replaces it"
    assert output.read_text() == "precious"
    succeed("retrieve", index, questions, "-o", output, *MODEL, "--overwrite")
    assert len(output.read_text().splitlines()) >= len(QUESTIONS)
    for wrong, rule in (
        (tmp_path / "out.csv", "output must end in .jsonl or .parquet"),
        (tmp_path / "gone" / "out.jsonl", "output must lie in an existing folder"),
    ):
        assert rule in refused("retrieve", index, questions, "-o", wrong, *MODEL)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_an_error_on_the_way_leaves_the_old_output(
    index: Path, tmp_path: Path, refused: Refused, suffix: str
) -> None:
    queries, output = tmp_path / "q.txt", tmp_path / f"out{suffix}"
    queries.write_text("fruit\nwater\n\nriver\n")
    output.write_text("precious")
    message = refused(
        "retrieve", index, queries, "-o", output, *MODEL, "--overwrite", "--batch-size", 1
    )
    assert message == f"{queries} line 3 must be a query, got an empty line"
    assert output.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "index", output.name, "q.txt"]


class Interrupted(WordEmbedder):
    """Ctrl-C during the second batch."""

    def encode(self, texts: list[str]) -> np.ndarray:
        if QUESTIONS[1] in texts:
            raise KeyboardInterrupt
        return super().encode(texts)


def test_an_interruption_leaves_nothing(
    index: Path, questions: Path, tmp_path: Path, run: Run
) -> None:
    options = ("--model", f"{__name__}:Interrupted", "--batch-size", 1)
    result = run("retrieve", index, questions, "-o", tmp_path / "out.parquet", *options)
    assert result.exit_code == 130
    assert result.stderr == "scar-gpu: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "index", "q.txt"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_full_disk_leaves_the_old_output(
    index: Path, tmp_path: Path, run: Run, suffix: str
) -> None:
    queries, output = tmp_path / "q.txt", tmp_path / f"out{suffix}"
    rows = np.random.default_rng(0).integers(0, 10**9, (900, 3))
    queries.write_text("".join(f"river {a} {b} {c} fruit\n" for a, b, c in rows))
    output.write_text("precious")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        result = run("retrieve", index, queries, "-o", output, *MODEL, "--overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 2, result.output
    assert f"{output} must be writable to its end, got: File too large" in result.stderr
    assert output.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "index", output.name, "q.txt"]


# What is refused


def test_an_index_that_is_not_there_or_not_whole(
    index: Path, tmp_path: Path, refused: Refused
) -> None:
    assert "must be the folder of an index" in refused("retrieve", tmp_path / "gone", "why")
    assert "index" in refused("retrieve", tmp_path / "corpus", "why")
    manifest = index / "manifest.json"
    whole = manifest.read_text()
    fields = json.loads(whole)
    manifest.write_text(json.dumps(fields | {"version": 99}))
    assert "version" in refused("retrieve", index, "why", *MODEL)
    manifest.write_text(json.dumps({"some": "other file"}))
    assert "must be the manifest of an index" in refused("info", index)
    manifest.write_text(whole)
    tensors = index / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    for command in (("retrieve", index, "why", *MODEL), ("explain", index, "why"), ("info", index)):
        assert "tensors.safetensors must have" in refused(*command)


class Wider(WordEmbedder):
    """Another model of another dimension under the same name."""

    dim = 33


class Retrained(WordEmbedder):
    """The same name and dimension, other weights."""

    content_hash = "0" * 64


def test_another_model_is_told_by_dimension_and_hash(
    index: Path, tmp_path: Path, refused: Refused
) -> None:
    ours = f"words (32 dimensions, hash {WordEmbedder.content_hash[:12]})"
    for name, theirs in (("Wider", "words (33 dim"), ("Retrained", "words (32 dimensions, hash 0")):
        message = refused("retrieve", index, "why", "--model", f"{__name__}:{name}")
        assert f"model must be the one that made the index, {ours}, got {theirs}" in message
    # Which code to import is for the user to say, not for an index.
    message = refused("retrieve", index, "why")
    assert "model must be given as package.module:factory for an index made with words" in message


def test_vectors_and_hits_of_the_wrong_size(index: Path, tmp_path: Path, refused: Refused) -> None:
    vectors, hits = tmp_path / "v.npy", tmp_path / "h.npy"
    np.save(vectors, np.ones((2, 31), np.float32))
    message = refused("retrieve", index, vectors)
    assert message == "query vectors must have the index's 32 dimensions, got 31"
    np.save(vectors, np.ones((2, 32), np.float32))
    for rows, rule in (
        ([[0]], "hits must have one row per query, got 1 rows"),
        ([[0], [1], [2]], "hits must have one row per query (2), got more"),
        ([[0], [10**6]], "got 1000000 for query 1"),
        ([[0], [-2]], "got -2 for query 1"),
    ):
        np.save(hits, np.array(rows))
        assert rule in refused("retrieve", index, vectors, "--hits", hits)
    assert "window must be <= 1" in refused("retrieve", index, vectors, "--window", 2)


def test_queries_that_ask_nothing(index: Path, tmp_path: Path, refused: Refused) -> None:
    empty = tmp_path / "q.txt"
    empty.write_text("")
    for query in ("", "  "):
        assert "queries must not be empty" in refused("retrieve", index, query, *MODEL)
    message = refused("retrieve", index, empty, "-o", tmp_path / "out.jsonl", *MODEL)
    assert message == f"queries must hold at least one query, got none in {empty}"
    assert not (tmp_path / "out.jsonl").exists()
    missing = refused("retrieve", index, tmp_path / "gone.jsonl", *MODEL)
    assert "must be a text or an existing file" in missing


def test_debug_is_taken_on_either_side_of_the_command(index: Path, run: Run) -> None:
    for arguments in (("--debug", "retrieve", index, ""), ("retrieve", index, "", "--debug")):
        result = run(*arguments, *MODEL)
        assert type(result.exception) is ValueError
    # Behind "--" it is a question.
    result = run("retrieve", *MODEL, "--k", 1, "--", index, "--debug")
    assert result.stdout.startswith("--debug\n")
