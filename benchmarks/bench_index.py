"""An index on disk: what opening a mapped one costs, what saving costs."""

import dataclasses
import os

import pytest
import torch
from corpus import Corpus
from measure import interleaved
from sizes import QUICK

from scar_gpu import ChunkIndex

LIMIT_SECONDS = 0.050


@pytest.fixture(scope="module")
def size(size):
    return dataclasses.replace(size, n_chunks=50_000) if size is QUICK else size


@pytest.fixture(scope="module")
def folder(size, tmp_path_factory):
    corpus = Corpus.random(size, torch.float32, "fp32")
    path = tmp_path_factory.mktemp("index") / "index"
    corpus.index.save(path)
    return path


def test_load_mapped(folder, size, report, benchmark):
    def ours():
        return ChunkIndex.load(folder)

    assert ours().n_chunks == size.n_chunks
    timing = interleaved({"ours": ours}, size.rounds)["ours"]
    matrix = (folder / "tensors.safetensors").stat().st_size
    report.add(
        benchmark,
        work=f"load, {matrix / 1e9:.2f} GB mapped",
        against="milliseconds",
        ratio=timing.median * 1000,
        target=f"<= {LIMIT_SECONDS * 1000:.0f}",
        met=timing.median <= LIMIT_SECONDS,
        timing=timing,
    )
    benchmark.pedantic(ours, rounds=size.rounds)


def test_save(folder, size, report, benchmark, tmp_path):
    """Against a plain write of as many bytes, put on disk."""
    index = ChunkIndex.load(folder, mmap=False)
    data = memoryview(index.embeddings.numpy()).cast("B")
    rounds = min(size.rounds, 3)

    def ours():
        index.save(tmp_path / "index", overwrite=True)

    def plain():
        with (tmp_path / "plain").open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    timings = interleaved({"ours": ours, "plain": plain}, rounds)
    report.add(
        benchmark,
        work=f"save, {data.nbytes / 1e9:.2f} GB",
        against="one write and fsync",
        ratio=timings["ours"].over(timings["plain"]),
        target="",
        met=None,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=1)
