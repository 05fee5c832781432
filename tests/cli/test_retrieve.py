"""`scar-gpu retrieve`: the same records through every way in and out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scar_gpu.text import Retriever
from tests.cli.conftest import MODEL, QUESTIONS, Refused, Run
from tests.text.word_embedder import WordEmbedder


class Limited(WordEmbedder):
    """Reads 20 characters of a passage and 5 of a query."""

    def count_truncated(self, texts: list[str]) -> int:
        return sum(len(text) > 20 for text in texts)

    def count_truncated_queries(self, texts: list[str]) -> int:
        return sum(len(text) > 5 for text in texts)


def records_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(index: Path, queries: list[str], **options: Any) -> list[dict[str, Any]]:
    """What the Python interface retrieves, as records."""
    answers = Retriever.from_index(index, WordEmbedder()).retrieve(queries, **options)
    return [
        {
            "query": number,
            **{name: getattr(context, name) for name in ("document", "start", "end", "text")},
            **{name: getattr(context, name) for name in ("rank", "score")},
            **{name: list(getattr(context, name)) for name in ("hits", "neighbours", "headings")},
        }
        for number, contexts in enumerate(answers)
        for context in contexts
    ]


# The same records


@pytest.mark.parametrize("batch_size", [1, 3, 1024])
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_records_are_those_of_the_retriever(
    index: Path, questions: Path, tmp_path: Path, succeed: Run, suffix: str, batch_size: int
) -> None:
    output = tmp_path / f"out{suffix}"
    result = succeed("retrieve", index, questions, "-o", output, *MODEL, "--batch-size", batch_size)
    records = records_of(output)
    wanted = expected(index, QUESTIONS)
    assert [list(record) for record in records] == [list(record) for record in wanted]
    for record, known in zip(records, wanted, strict=True):
        assert record.pop("score") == pytest.approx(known.pop("score"), abs=1e-6)
        assert record == known
    assert any(record["neighbours"] for record in records)
    assert any(record["headings"] == ["Fruit"] for record in records)
    assert f"{output}: {len(records)} contexts for 4 queries in" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "index", output.name, "q.txt"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--method", "none", "--k", 2), {"method": "none", "k": 2}),
        (("--method", "window", "--k", 1), {"method": "window", "k": 1}),
        (("--gamma", "0.99", "--k", 3), {"gamma": 0.99, "k": 3}),
        (("--lam", "99"), {"lam": 99}),
        (("--window", 0), {"window": 0}),
        (("--order", "document"), {"order": "document"}),
    ],
)
def test_options_reach_the_retriever(
    index: Path,
    questions: Path,
    tmp_path: Path,
    succeed: Run,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    output = tmp_path / "out.jsonl"
    succeed("retrieve", index, questions, "-o", output, *MODEL, *arguments)
    wanted = expected(index, QUESTIONS, **options)
    assert wanted != expected(index, QUESTIONS)
    assert [r["hits"] for r in records_of(output)] == [r["hits"] for r in wanted]
    assert [r["neighbours"] for r in records_of(output)] == [r["neighbours"] for r in wanted]


def test_query_vectors_and_given_hits(
    index: Path, questions: Path, tmp_path: Path, succeed: Run
) -> None:
    texts, vectors, hits, given = (
        tmp_path / name for name in ("t.jsonl", "v.npy", "h.npy", "g.jsonl")
    )
    np.save(vectors, WordEmbedder().encode(QUESTIONS).astype(np.float64))
    succeed("retrieve", index, questions, "-o", texts, *MODEL)
    # No model is needed, or named.
    succeed("retrieve", index, vectors, "-o", given)
    assert records_of(given) == records_of(texts)
    retriever = Retriever.from_index(index, WordEmbedder())
    found = retriever.index.search(retriever.encode_queries(QUESTIONS), 5).ids.numpy()
    np.save(hits, found)
    succeed("retrieve", index, vectors, "-o", given, "--overwrite", "--hits", hits)
    assert records_of(given) == records_of(texts)
    np.save(hits, np.array([[0], [1], [2], [-1]]))
    result = succeed(
        "retrieve", index, vectors, "-o", given, "--overwrite", "--hits", hits, "--method", "none"
    )
    assert [(r["query"], r["hits"]) for r in records_of(given)] == [(0, [0]), (1, [1]), (2, [2])]
    assert "1 queries have no context" in result.stderr
    pq.write_table(pa.table({"hits": [[0, 5], [1], [2], []]}), tmp_path / "h.parquet")
    options = ("--hits", tmp_path / "h.parquet", "--k", 1, "--method", "none", "--overwrite")
    succeed("retrieve", index, vectors, "-o", given, *options)
    assert [(r["query"], r["hits"]) for r in records_of(given)] == [(0, [0]), (1, [1]), (2, [2])]


def test_without_text_there_are_places_only(
    index: Path, questions: Path, tmp_path: Path, succeed: Run
) -> None:
    for name in ("out.jsonl", "out.parquet"):
        succeed("retrieve", index, questions, "-o", tmp_path / name, *MODEL, "--no-text")
        wanted = expected(index, QUESTIONS)
        records = records_of(tmp_path / name)
        assert [set(record) for record in records] == [set(r) - {"text"} for r in wanted]
        assert [r["start"] for r in records] == [r["start"] for r in wanted]


def test_ids_of_queries_and_their_documents(
    index: Path, tmp_path: Path, succeed: Run, refused: Refused
) -> None:
    path = tmp_path / "q.jsonl"
    rows = [
        {"id": f"q{i}", "question": "cold apple water", "in": name}
        for i, name in enumerate(["fruit.md", "deep/water.txt", "fruit.md"])
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "out.parquet"
    succeed("retrieve", index, path, "-o", output, *MODEL, "--within-document", "in")
    records = records_of(output)
    found = {(record["query"], record["document"]) for record in records}
    assert found == {(row["id"], row["in"]) for row in rows}
    path.write_text(json.dumps(rows[0] | {"in": "gone.md"}) + "\n")
    message = refused("retrieve", index, path, *MODEL, "--within-document", "in")
    assert "('deep/water.txt', 'fruit.md', ...), got 'gone.md' in query 0" in message
    message = refused("retrieve", index, path, *MODEL, "--within-document", "id2")
    assert "within-document must be a column of" in message
    assert "(id, question, in), got 'id2'" in message
    assert "must be a column of a query file" in refused(
        "retrieve", index, "why", *MODEL, "--within-document", "in"
    )


def test_ids_may_be_numbers_or_repeat(
    index: Path, tmp_path: Path, succeed: Run, refused: Refused
) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        "".join(json.dumps({"id": i, "query": q}) + "\n" for i, q in ((7, "fruit"), (7, "river")))
    )
    output = tmp_path / "out.parquet"
    result = succeed("retrieve", index, path, "-o", output, *MODEL, "--k", 1)
    assert [record["query"] for record in records_of(output)] == [7, 7]
    assert "no context" not in result.stderr
    shown = succeed("retrieve", index, path, *MODEL, "--k", 1).stdout
    assert re.findall("^(?:fruit|river)$|fruit.md|water.txt", shown, re.MULTILINE) == [
        "fruit", "fruit.md", "river", "water.txt",
    ]  # fmt: skip
    with path.open("a") as file:
        file.write('{"id": "seven", "query": "water"}\n')
    options = ("--batch-size", 2, "--overwrite", *MODEL)
    message = refused("retrieve", index, path, "-o", output, *options)
    assert "query ids must all be whole numbers, as the first are, or all text" in message
    assert [record["query"] for record in records_of(output)] == [7, 7]


def test_an_index_of_vectors_alone(tmp_path: Path, succeed: Run, refused: Refused) -> None:
    matrix = np.eye(4, dtype=np.float32)
    np.save(tmp_path / "m.npy", matrix)
    (tmp_path / "ids.txt").write_text("a\na\nb\nb\n")
    output = tmp_path / "out.jsonl"
    succeed("build", "--embeddings", tmp_path / "m.npy", "-o", tmp_path / "plain")
    succeed("retrieve", tmp_path / "plain", tmp_path / "m.npy", "-o", output, "--k", 1)
    assert [set(r) for r in records_of(output)] == [
        {"query", "rank", "score", "hits", "neighbours"}
    ] * 4
    assert [r["hits"] for r in records_of(output)] == [[0], [1], [2], [3]]
    succeed("retrieve", tmp_path / "plain", tmp_path / "m.npy", "--k", 1)
    named = tmp_path / "named"
    succeed("build", "--embeddings", tmp_path / "m.npy", "-o", named, "--doc-ids",
            tmp_path / "ids.txt")  # fmt: skip
    succeed("retrieve", named, tmp_path / "m.npy", "-o", output, "--k", 1, "--overwrite")
    assert [r["document"] for r in records_of(output)] == ["a", "a", "b", "b"]
    assert "text" not in records_of(output)[0]
    message = refused("retrieve", named, "a question")
    assert "model must be given for questions in words to an index of own vectors" in message


# The screen


def test_a_question_is_answered_on_the_screen(index: Path, succeed: Run) -> None:
    lines = succeed("retrieve", index, QUESTIONS[0], *MODEL, "--k", 1).stdout.splitlines()
    assert lines[0] == QUESTIONS[0]
    (context,) = expected(index, QUESTIONS[:1], k=1)
    where = f"fruit.md {context['start']}..{context['end']}"
    assert any(where in line and f"{context['score']:.3f}" in line for line in lines)
    assert "     Fruit" in lines
    assert "Apple tree number 3 grows red fruit." in " ".join(lines)
    assert max(map(len, lines)) <= 100


def test_text_is_taken_as_text(index: Path, questions: Path, succeed: Run) -> None:
    assert succeed("retrieve", index, questions, *MODEL).stdout.splitlines()[0] == QUESTIONS[0]
    forced = succeed("retrieve", index, questions, *MODEL, "--text").stdout
    assert "".join(forced.splitlines()[:3]).startswith(str(questions)[:90])


def test_truncated_queries_are_reported(index: Path, questions: Path, succeed: Run) -> None:
    result = succeed("retrieve", index, questions, "--model", f"{__name__}:Limited")
    assert "3 of 4 queries are longer than words reads" in result.stderr
