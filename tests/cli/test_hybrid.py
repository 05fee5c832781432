"""`scar-gpu build --lexical`, `retrieve --hybrid`, `explain --hybrid`: words beside vectors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scar_gpu.storage import open_index
from scar_gpu.text import Retriever
from tests.cli.conftest import MODEL, QUESTIONS, WORDS, Refused, Run
from tests.text.word_embedder import WordEmbedder

pytest.importorskip("bm25s")
QUERY = "apple tree 7"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def hybrid(corpus: Path, tmp_path: Path, succeed: Run) -> Path:
    """The corpus indexed with its words."""
    path = tmp_path / "hybrid"
    options = ("--chunk-size", 60, "--overlap", 0, "--lexical")
    result = succeed("build", corpus, "-o", path, "--model", WORDS, *options)
    words = open_index(path).lexical
    assert words is not None
    assert f"32 dimensions, {len(words.words)} words, in" in result.stderr
    return path


def test_build_keeps_the_words_of_every_chunk(hybrid: Path, index: Path) -> None:
    stored = open_index(hybrid, verify=True)
    assert stored.chunks is not None
    assert stored.lexical is not None
    assert stored.lexical.n_rows == len(stored.chunks)
    expected = [row for row in range(len(stored.chunks)) if "Apple" in stored.chunks.text(row)]
    found = stored.lexical.search(["apple"], 50).ids[0]
    assert sorted(found[found >= 0].tolist()) == expected
    assert open_index(index).lexical is None


def test_info_shows_the_words(hybrid: Path, index: Path, succeed: Run) -> None:
    shown = succeed("info", hybrid).stdout
    size = (hybrid / "lexical.parquet").stat().st_size
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("lexical l")] == [
        "yes"
    ]
    assert f"{size:,} bytes" in shown
    assert "lexical.parquet" not in succeed("info", index).stdout


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (("--pool", 9, "--weights", "0.5,2", "--rrf-k", 2),
         {"pool": 9, "weights": [0.5, 2], "rrf_k": 2}),
        (("--method", "none", "-k", 3), {"method": "none", "k": 3}),
    ],
)  # fmt: skip
def test_retrieve_gives_what_the_retriever_gives(
    hybrid: Path, questions: Path, tmp_path: Path, succeed: Run, arguments, options
) -> None:
    output = tmp_path / "out.jsonl"
    arguments = ["--k" if argument == "-k" else argument for argument in arguments]
    command = ("retrieve", hybrid, questions, "-o", output, *MODEL, "--hybrid", *arguments)
    succeed(*command, "--batch-size", 3)
    found = [json.loads(line) for line in output.read_text().splitlines()]
    retriever = Retriever.from_index(hybrid, WordEmbedder())
    expected = retriever.retrieve(QUESTIONS, hybrid=True, **options)
    assert [row["hits"] for row in found] == [list(c.hits) for q in expected for c in q]
    assert [row["score"] for row in found] == pytest.approx([c.score for q in expected for c in q])
    plain = retriever.retrieve(QUESTIONS, **{k: options[k] for k in options.keys() & {"method"}})
    assert expected != plain


def test_within_a_document(hybrid: Path, tmp_path: Path, succeed: Run) -> None:
    queries, output = tmp_path / "q.jsonl", tmp_path / "out.jsonl"
    rows = [{"query": QUERY, "doc": name} for name in ("fruit.md", "deep/water.txt")]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--hybrid", "--within-document", "doc", "--k", 3)
    succeed("retrieve", hybrid, queries, "-o", output, *MODEL, *options)
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert {(row["query"], row["document"]) for row in found} == {
        (0, "fruit.md"),
        (1, "deep/water.txt"),
    }


def test_explain_judges_the_fused_hits(hybrid: Path, succeed: Run) -> None:
    retriever = Retriever.from_index(hybrid, WordEmbedder())
    assert retriever.chunks is not None
    options = ("--hybrid", "--weights", "0,1", "--k", 2)
    shown = succeed("explain", hybrid, QUERY, *MODEL, *options).stdout
    (contexts,) = retriever.retrieve(QUERY, 2, "none", hybrid=True, weights=[0, 1])
    for context in contexts:
        chunk = retriever.chunks.chunk(context.hits[0])
        assert f"{context.rank}. {chunk.document} {chunk.start}.." in shown
        assert f"relevance {context.score:.3f}" in shown
    assert shown != succeed("explain", hybrid, QUERY, *MODEL, "--k", 2).stdout


BAD = [
    (("--pool", 9), "pool must come with --hybrid, got 9 alone"),
    (("--weights", "1,1"), "weights must come with --hybrid, got 1,1 alone"),
    (("--rrf-k", 60), "rrf-k must come with --hybrid, got 60.0 alone"),
    (("--hybrid", "--pool", 3), "pool must be >= k (5), got 3"),
    (("--hybrid", "--weights", "1;1"),
     "weights must be two numbers with a comma between them, got '1;1'"),
    (("--hybrid", "--weights", "1"),
     "weights must be two, of the hits by vectors and of those by words, got 1"),
    (("--hybrid", "--weights", "1,2,3"),
     "weights must be two, of the hits by vectors and of those by words, got 3"),
    (("--hybrid", "--weights=-1,1"), "weights[0] must be >= 0, got -1.0"),
    (("--hybrid", "--weights", "1,nan"), "weights[1] must be finite, got nan"),
    (("--hybrid", "--weights", "0,0"), "weights must not both be 0, got [0.0, 0.0]"),
    (("--hybrid", "--rrf-k", 0), "rrf_k must be > 0 and <= 1000000, got 0.0"),
]  # fmt: skip


@pytest.mark.parametrize("command", ["retrieve", "explain"])
@pytest.mark.parametrize(("arguments", "message"), BAD, ids=str)
def test_refused(hybrid: Path, refused: Refused, command, arguments, message) -> None:
    assert refused(command, hybrid, QUERY, *MODEL, *arguments) == message


def test_what_hybrid_retrieval_needs(
    hybrid: Path, index: Path, tmp_path: Path, refused: Refused
) -> None:
    for command in ("retrieve", "explain"):
        message = refused(command, index, QUERY, "--hybrid", *MODEL)
        assert message == f"hybrid must come with an index built with --lexical, got {index}"
    vectors, hits = tmp_path / "v.npy", tmp_path / "h.npy"
    np.save(vectors, np.ones((1, 32), np.float32))
    np.save(hits, np.zeros((1, 1), np.int64))
    message = refused("retrieve", hybrid, vectors, "--hybrid")
    assert message == "hybrid must come with queries in words, got query vectors alone"
    message = refused("retrieve", hybrid, QUERY, "--hybrid", "--hits", hits, *MODEL)
    assert message == "hybrid must not come with --hits, which are not searched for"
    message = refused("build", "-o", tmp_path / "own", "--embeddings", vectors, "--lexical")
    assert message == "lexical must come with SOURCE, the texts of the vectors, got none"
    assert not (tmp_path / "own").exists()


def test_own_vectors_with_texts(tmp_path: Path, succeed: Run) -> None:
    vectors, source = tmp_path / "v.npy", tmp_path / "chunks.jsonl"
    np.save(vectors, np.eye(3, 32, dtype=np.float32))
    source.write_text("".join(f'{{"id": "d", "text": "chunk {n}"}}\n' for n in ("one", "two", "x")))
    path = tmp_path / "own"
    succeed("build", source, "-o", path, "--embeddings", vectors, "--lexical")
    shown = succeed("retrieve", path, "chunk two", "--hybrid", "--weights", "0,1", "--k", 1, *MODEL)
    assert "chunk two" in shown.stdout.split("\n", 1)[1]


def test_without_bm25s(hybrid: Path, corpus: Path, tmp_path: Path, refused: Refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    for command in (
        ("build", corpus, "-o", tmp_path / "new", "--lexical", *MODEL),
        ("retrieve", hybrid, QUERY, "--hybrid", *MODEL),
        ("explain", hybrid, QUERY, "--hybrid", *MODEL),
    ):
        assert "bm25s must be installed for this" in refused(*command)
        assert "pip install 'scar_gpu[hybrid]'" in refused(*command)
    assert not (tmp_path / "new").exists()


def test_the_package_runs_as_a_module(hybrid: Path) -> None:
    command = [sys.executable, "-m", "scar_gpu.cli", "info", str(hybrid)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "lexical.parquet" in done.stdout
