"""Exact search, with the judgement of neighbours, against the bare matrix product and others.

Bare GEMM is `torch.mm` of the queries with tiles of rows into one buffer, in the fastest of several
tile sizes: what any exact search by matrix product costs at least, before anything is selected.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from corpus import Corpus
from measure import interleaved
from sizes import FULL, QUICK, TINY, Size
from torch import Tensor

import scar_gpu
from scar_gpu import large

TILES = (1024, 2048, 4096, 8192, 16384)
FAISS = "FAISS as it comes"
BLAS_FROM = 20  # queries from which FAISS multiplies matrices, if told so


# A batch so large that fewer rows cost as much as all do with the others.
LARGE_BATCH, LARGE_BATCH_ROWS = 4096, 100_000


def own_size(size: Size) -> Size:
    full = dataclasses.replace(FULL, n_chunks=500_000, rounds=5)
    quick = dataclasses.replace(QUICK, n_chunks=50_000, n_queries=1024)
    return {FULL: full, QUICK: quick}.get(size, TINY)


@pytest.fixture(scope="module", params=["fp32", "fp16"])
def corpus(request: pytest.FixtureRequest, size: Size) -> Corpus:
    dtype = {"fp32": torch.float32, "fp16": torch.float16}[request.param]
    return Corpus.random(own_size(size), dtype, request.param)


@pytest.fixture(scope="module")
def rows(corpus: Corpus) -> Tensor:
    """The matrix as float32 unit rows, for those who know nothing else."""
    return corpus.index.embeddings.float() * corpus.index.row_scale[:, None]


def batch_of(queries: Tensor, count: int) -> Tensor:
    """`count` of the queries; the tiny size has fewer."""
    return torch.nn.functional.normalize(queries[:count], dim=1)


def bare_gemm(queries: Tensor, rows: Tensor) -> Callable[[], None]:
    """The products with the fastest tile, not kept."""
    buffer = torch.empty(max(TILES) * len(queries))

    def multiply(tile: int) -> None:
        for part in rows.split(tile):
            torch.mm(part, queries.T, out=buffer[: len(part) * len(queries)].view(len(part), -1))

    times = interleaved({str(tile): lambda tile=tile: multiply(tile) for tile in TILES}, 2)
    fastest = int(min(times, key=lambda tile: times[tile].median))
    return lambda: multiply(fastest)


def tiles_and_topk(queries: Tensor, rows: Tensor, k: int) -> Callable[[], tuple[Tensor, Tensor]]:
    """What one writes in plain PyTorch."""

    def search() -> tuple[Tensor, Tensor]:
        scores, ids = [], []
        for first in range(0, len(rows), max(TILES)):
            part = queries @ rows[first : first + max(TILES)].T
            best = part.topk(min(k, part.shape[1]))
            scores.append(best.values)
            ids.append(best.indices + first)
        best = torch.cat(scores, 1).topk(k)
        return best.values, torch.cat(ids, 1).gather(1, best.indices)

    return search


@contextmanager
def blas_from(queries: int) -> Iterator[None]:
    """Let FAISS multiply matrices from so many queries on."""
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = queries
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def faiss_searches(
    index: scar_gpu.ChunkIndex, queries: Tensor, rows: Tensor, k: int
) -> dict[str, Callable[[], object]]:
    """IndexFlatIP with its BLAS path switched on, the same before our judgement, and as it comes.

    The wheel's own setting keeps it from BLAS up to far more queries than are asked here.
    """
    faiss = pytest.importorskip("faiss")
    flat = faiss.IndexFlatIP(rows.shape[1])
    flat.add(rows.numpy())
    asked = queries.numpy()

    def with_blas() -> np.ndarray:
        with blas_from(BLAS_FROM):
            return flat.search(asked, k)[1]

    return {
        "FAISS with BLAS": with_blas,
        "FAISS with BLAS, then neighbor_scores": lambda: index.neighbor_scores(
            queries, torch.from_numpy(with_blas())
        ),
        FAISS: lambda: flat.search(asked, k),
    }


TARGETS = {("fp32", 256, 10, "bare GEMM"): 1.10, ("fp32", 256, 10, "FAISS with BLAS"): 1.30}


@pytest.mark.parametrize(
    ("count", "k"), [(1, 10), (16, 10), (256, 10), (256, 100), (4096, 10)], ids=str
)
def test_search_expand(count, k, corpus, rows, size, report, benchmark):
    """In float32 beside everything; half precision beside the float32 product alone."""
    index, queries = corpus.index, batch_of(corpus.queries, count)
    if count == LARGE_BATCH:
        if corpus.name != "fp32":
            pytest.skip("one dtype for the largest batch")
        rows = rows[:LARGE_BATCH_ROWS]
        offsets = torch.unique(index.doc_offsets.clamp(max=len(rows)))
        index = scar_gpu.ChunkIndex.build(index.embeddings[:LARGE_BATCH_ROWS], offsets)

    def ours():
        return index.search_expand(queries, k)

    others = {
        "search": lambda: index.search(queries, k),
        "bare GEMM": bare_gemm(queries, rows),
        "tiles and topk": tiles_and_topk(queries, rows, k),
    }
    if corpus.name == "fp32":
        others |= faiss_searches(index, queries, rows, k)
    hits = ours().hits
    expected = others["tiles and topk"]()[0]
    torch.testing.assert_close(hits.scores, expected, atol=1e-5, rtol=0)
    assert scar_gpu.check_hits(hits.ids, index.n_chunks) is None

    rounds = own_size(size).rounds if count < LARGE_BATCH else 2
    slow = {name: others.pop(name) for name in (FAISS,) if name in others}
    timings = interleaved({"ours": ours, **others}, rounds)
    timings_of_slow = interleaved({"ours": ours, **slow}, 1) if slow else {}
    for name in (*others, *slow):
        target = TARGETS.get((corpus.name, count, k, name))
        run = timings_of_slow if name in slow else timings
        ratio = run["ours"].over(run[name])
        report.add(
            benchmark,
            work=f"search_expand {corpus.name} N={index.n_chunks} B={len(queries)} k={k}",
            against=f"our time over {name}",
            ratio=ratio,
            target="" if target is None else f"<= {target:.2f}",
            met=None if target is None else ratio <= target,
            timing=timings["ours"],
        )
    benchmark.pedantic(ours, rounds=1)


def test_corpus_masks(corpus, rows, size, report, benchmark):
    index, queries = corpus.index, batch_of(corpus.queries, 256)

    def ours():
        return index.corpus_masks(queries)

    n = min(index.n_chunks, 10_000)
    hits = torch.arange(n).expand(4, -1)
    mask = scar_gpu.unpack_masks(ours().bits[:4], index.n_chunks)[:, :, :n].movedim(1, 2)
    assert torch.equal(mask, index.neighbor_scores(queries[:4], hits).mask)
    timings = interleaved({"ours": ours, "gemm": bare_gemm(queries, rows)}, own_size(size).rounds)
    ratio = timings["ours"].over(timings["gemm"])
    report.add(
        benchmark,
        work=f"corpus_masks {corpus.name} N={index.n_chunks} B={len(queries)}",
        against="our time over bare GEMM",
        ratio=ratio,
        target="<= 1.15",
        met=ratio <= 1.15,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=1)


def test_half_precision(corpus, rows, size, report, benchmark):
    """The same search over rows of half the size, against that over float32."""
    if corpus.name == "fp32":
        pytest.skip("the yardstick itself")
    half = corpus.index
    full = scar_gpu.ChunkIndex.build(rows, half.doc_offsets)
    queries = batch_of(corpus.queries, 256)

    def ours():
        return half.search_expand(queries, 10)

    expected = full.search(queries, 10).scores  # whose rows are a rounding away
    torch.testing.assert_close(ours().hits.scores, expected, atol=1e-5, rtol=0)
    timings = interleaved(
        {"ours": ours, "full": lambda: full.search_expand(queries, 10)}, own_size(size).rounds
    )
    ratio = timings["ours"].over(timings["full"])
    report.add(
        benchmark,
        work=f"search_expand {corpus.name} N={half.n_chunks} B={len(queries)} k=10",
        against="our time over the same in fp32",
        ratio=ratio,
        target="<= 1.25",
        met=ratio <= 1.25,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=1)


def test_mapped(corpus, size, report, benchmark, tmp_path):
    """By tiles from a mapped index in the page cache, against the matrix in memory."""
    queries = batch_of(corpus.queries, 256)
    corpus.index.save(tmp_path / "index")
    mapped = scar_gpu.ChunkIndex.load(tmp_path / "index")

    def ours():
        return large.search_expand(mapped, queries, 10)

    def in_memory():
        return corpus.index.search_expand(queries, 10)

    assert torch.equal(ours().expansion.ids, in_memory().expansion.ids)
    timings = interleaved({"ours": ours, "memory": in_memory}, own_size(size).rounds)
    ratio = timings["memory"].over(timings["ours"])
    report.add(
        benchmark,
        work=f"large.search_expand {corpus.name} N={mapped.n_chunks} B={len(queries)} k=10, mapped",
        against="speed in memory",
        ratio=ratio,
        target=">= 0.80",
        met=ratio >= 0.8,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=1)
