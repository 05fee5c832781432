"""Recall@10 of documents by vectors, by words, and by both fused, as a table.

    python benchmarks/hybrid_recall.py FOLDER [CHUNK_SIZE]

FOLDER holds a collection in BEIR's layout: `corpus.jsonl` and `queries.jsonl` with `_id` and
`text`, and `qrels.tsv` with a heading line and query, document, judgement. A document is found
where its best chunk is.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from scar_gpu.text import Document, Retriever
from scar_gpu.text.retrieval import Asked, find_hits
from scar_gpu.text.settings import Settings

AT = 10
POOL = 50
WAYS = {
    "vectors": {},
    "words": {"hybrid": True, "weights": (0, 1)},
    "fused": {"hybrid": True},
    "fused, vectors count twice": {"hybrid": True, "weights": (2, 1)},
}


class Collection(NamedTuple):
    """Documents, questions by id, and the relevant documents of each question that has any."""

    documents: list[Document]
    questions: dict[str, str]
    relevant: dict[str, set[str]]


def read_collection(folder: Path) -> Collection:
    """Read a collection; judgements of 0 and below mean not relevant."""
    corpus, questions = (
        {row["_id"]: row["text"] for row in map(json.loads, path.read_text().splitlines())}
        for path in (folder / "corpus.jsonl", folder / "queries.jsonl")
    )
    relevant = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        question, document, judgement = line.split()
        if int(judgement) > 0:
            relevant[question].add(document)
    asked = {name: questions[name] for name in relevant}
    return Collection([Document(*item) for item in corpus.items()], asked, dict(relevant))


def recalls(collection: Collection, retriever: Retriever) -> dict[str, float]:
    """Share of the relevant documents among the first ten, the mean over the questions."""
    texts = list(collection.questions.values())
    asked = Asked(retriever.encode_queries(texts), texts)
    table, found = retriever.chunks, {}
    for name, options in WAYS.items():
        settings = Settings(k=POOL, **options)
        hits, _ = find_hits(retriever.searching(), retriever.lexical, asked, settings)
        shares = []
        for question, rows in zip(collection.questions, hits.tolist(), strict=True):
            best = dict.fromkeys(table.ids[table.document[row]] for row in rows if row >= 0)
            relevant = collection.relevant[question]
            shares.append(len(relevant & set(list(best)[:AT])) / len(relevant))
        found[name] = sum(shares) / len(shares)
    return found


def markdown(found: dict[str, float]) -> str:
    """The table."""
    lines = [f"| hits by | recall@{AT} |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value:.3f} |" for name, value in found.items()])


if __name__ == "__main__":
    given = read_collection(Path(sys.argv[1]))
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    print(markdown(recalls(given, Retriever.from_documents(
        given.documents, chunk_size=size, lexical=True
    ))))  # fmt: skip
