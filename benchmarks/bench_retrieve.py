"""Retrieval from a stored index to files: query vectors and hits given, contexts written.

One row per format: queries per second from vectors to a closed file, and the share of that time
spent in the operations themselves.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from measure import interleaved
from sizes import FULL, QUICK, TINY, Size
from text_corpus import TextCorpus

from scar_gpu.storage import save_index
from scar_gpu.text import Retriever, json_lines
from scar_gpu.text.retrieval import Asked, as_tensor, find
from scar_gpu.text.settings import Settings

K = 5
BATCH = 2048
TARGETS = {
    ("parquet", True): 12_000,
    ("jsonl", True): 8_000,
    ("parquet", False): 60_000,
    ("jsonl", False): None,
}


def own_size(size: Size) -> Size:
    full = dataclasses.replace(FULL, n_chunks=100_000, n_queries=4 * BATCH, rounds=7)
    quick = dataclasses.replace(full, n_chunks=20_000, n_queries=BATCH, rounds=3)
    return {FULL: full, QUICK: quick}.get(size, dataclasses.replace(TINY, chunks_per_doc=20))


@pytest.fixture(scope="module")
def corpus(size: Size) -> TextCorpus:
    return TextCorpus.random(own_size(size), K)


@pytest.fixture(scope="module")
def retriever(corpus: TextCorpus, tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    path = tmp_path_factory.mktemp("index") / "index"
    save_index(path, corpus.index, chunks=corpus.chunks)
    return Retriever.from_index(path)


def batches(corpus: TextCorpus) -> list[tuple[np.ndarray, np.ndarray]]:
    starts = range(0, len(corpus.queries), BATCH)
    return [(corpus.queries[s : s + BATCH], corpus.hits[s : s + BATCH]) for s in starts]


def to_parquet(retriever: Retriever, corpus: TextCorpus, path: Path, with_text: bool) -> None:
    writer = None
    for vectors, hits in batches(corpus):
        table = retriever.retrieve_table(vectors, hits, with_text=with_text)
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(
                path, table.schema, use_dictionary=["document", "headings"]
            )
        writer.write_table(table)
    writer.close()


def to_jsonl(retriever: Retriever, corpus: TextCorpus, path: Path, with_text: bool) -> None:
    with path.open("wb") as file:
        for vectors, hits in batches(corpus):
            table = retriever.retrieve_table(vectors, hits, with_text=with_text)
            file.write(json_lines(table))


WRITERS: dict[str, Callable[..., None]] = {"parquet": to_parquet, "jsonl": to_jsonl}


def check(retriever: Retriever, corpus: TextCorpus, path: Path, kind: str, text: bool) -> None:
    """The file holds what the objects say, for the first batch's first queries."""
    n = min(len(corpus.queries), 50)
    found = retriever.retrieve_vectors(corpus.queries[:n], corpus.hits[:n], with_text=text)
    expected = [dataclasses.asdict(context) for contexts in found for context in contexts]
    if kind == "parquet":
        rows = pyarrow.parquet.read_table(path).slice(0, len(expected)).to_pylist()
    else:
        with path.open() as file:
            rows = [json.loads(line) for line, _ in zip(file, expected, strict=False)]
    for row, context in zip(rows, expected, strict=True):
        for name in row.keys() - {"query"}:
            wanted = context[name]
            assert row[name] == (list(wanted) if isinstance(wanted, tuple) else wanted)


@pytest.mark.parametrize(("kind", "with_text"), TARGETS)
def test_retrieve(kind, with_text, size, corpus, retriever, report, benchmark, tmp_path):
    path = tmp_path / f"contexts.{kind}"
    device = retriever.index.embeddings.device

    def ours():
        WRITERS[kind](retriever, corpus, path, with_text)

    def operations():
        for vectors, hits in batches(corpus):
            asked = Asked(
                as_tensor("vectors", vectors, device), hits=as_tensor("hits", hits, device)
            )
            find(retriever.searching(), None, asked, Settings())

    ours()
    check(retriever, corpus, path, kind, with_text)
    timings = interleaved({"ours": ours, "operations": operations}, own_size(size).rounds)
    rate = len(corpus.queries) / timings["ours"].median
    share = timings["operations"].over(timings["ours"])
    target = TARGETS[kind, with_text]
    report.add(
        benchmark,
        work=f"retrieve to {kind}, {'text' if with_text else 'no text'}",
        against=f"queries/s; {share:.0%} in operations",
        ratio=rate,
        target="" if target is None else f">= {target}",
        met=None if target is None else rate >= target,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=own_size(size).rounds)
