"""The table of benchmarks/hybrid_recall.py on a collection small enough to count by hand."""

import json
from pathlib import Path

import pytest

from benchmarks import hybrid_recall
from scar_gpu.text import Retriever
from tests.text.test_hybrid_retriever import Deaf

pytest.importorskip("bm25s")


def write_lines(path: Path, rows: dict[str, str]) -> None:
    path.write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in rows.items()))


def test_counted_by_hand(tmp_path: Path) -> None:
    """Words find what the model is deaf to, vectors the first ten of twelve equal documents."""
    fillers = {f"f{i:02}": "apple" for i in range(12)}
    write_lines(tmp_path / "corpus.jsonl", fillers | {"x": "fault e1", "y": "fault e2"})
    write_lines(tmp_path / "queries.jsonl", {"1": "e1 apple", "2": "e2", "3": "nothing relevant"})
    judged = [("1", "x", 1), ("1", "f00", 2), ("1", "f11", 1), ("1", "f01", 0), ("2", "y", 1),
              ("3", "x", -1)]  # fmt: skip
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
    (tmp_path / "qrels.tsv").write_text("\n".join(lines) + "\n")
    collection = hybrid_recall.read_collection(tmp_path)
    assert collection.relevant == {"1": {"x", "f00", "f11"}, "2": {"y"}}
    retriever = Retriever.from_documents(collection.documents, Deaf(), lexical=True)
    found = hybrid_recall.recalls(collection, retriever)
    # By vectors the first question finds f00 and the second, zero to the model, nothing of its own.
    assert found["vectors"] == pytest.approx((1 / 3 + 0) / 2)
    # By words: x, then f00 to f08; y.
    assert found["words"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["words"] == found["fused"] == found["fused, vectors count twice"]
    assert hybrid_recall.markdown(found).splitlines()[2] == "| vectors | 0.167 |"
