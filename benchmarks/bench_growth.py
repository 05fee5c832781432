"""How the cost grows with the number of rows, queries, hits, columns, the window and threads.

Every curve varies one size and holds the others; its row gives the exponent of a straight line
through the points on logarithmic axes: 1 is linear, -1 is a perfect speedup by threads. Costs are
kept relative to the first point. Curves of peak memory are in bench_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from bench_rank_fusion import random_lists
from corpus import Corpus
from measure import in_turn, interleaved
from sizes import FULL, QUICK, TINY, Size

import scar_gpu
from scar_gpu import reference
from scar_gpu.text.vector_retriever import VectorRetriever

BASE = {
    FULL: {"N": 200_000, "B": 4096, "K": 10, "D": 384, "W": 1},
    QUICK: {"N": 50_000, "B": 512, "K": 10, "D": 384, "W": 1},
    TINY: {"N": 500, "B": 8, "K": 3, "D": 16, "W": 1},
}
STEPS = {
    "N": [1, 2, 4, 8],
    "B": [1, 4, 16, 64],
    "K": [1, 2, 4, 8],
    "D": [1, 2, 4],
    "W": [1, 2, 4, 8],
}
SEARCH_QUERIES = 256
Case = tuple[str, str]


def expansion(case: dict[str, int]) -> Callable[[], object]:
    """`scar_expand` at the sizes of `case`."""
    corpus = Corpus.random(shape(case), torch.float32, "fp32")
    index, queries, hits = corpus.index, corpus.queries, corpus.hits
    expected = reference.scar_expand(
        queries[:2], index.embeddings, index.continuity, hits[:2], row_scale=index.row_scale
    )
    assert torch.equal(index.scar_expand(queries[:2], hits[:2]).ids, expected.ids)
    return in_turn([partial(index.scar_expand, queries, hits) for hits in corpus.batches])


def search(case: dict[str, int]) -> Callable[[], object]:
    """`search` at the sizes of `case`."""
    corpus = Corpus.random(shape(case), torch.float32, "fp32")
    index, queries, k = corpus.index, corpus.queries, case["K"]
    expected = reference.search(queries[:2], index.embeddings, k, row_scale=index.row_scale)
    assert torch.equal(index.search(queries[:2], k).ids, expected.ids)
    return lambda: index.search(queries, k)


def fusion(case: dict[str, int]) -> Callable[[], object]:
    """`rank_fusion` of two lists of 10 K."""
    lists = random_lists(case["B"], 2, 10 * case["K"])
    expected = reference.rank_fusion([ids[:2] for ids in lists])
    assert torch.equal(scar_gpu.rank_fusion(lists).ids[:2], expected.ids)
    return lambda: scar_gpu.rank_fusion(lists)


def shape(case: dict[str, int]) -> Size:
    return Size(
        n_chunks=case["N"], dim=case["D"], n_queries=case["B"], k=case["K"], window=case["W"],
        rounds=0,
    )  # fmt: skip


CURVES = {
    "scar_expand": (expansion, "BKDW"),
    "search": (search, "NBDK"),
    "rank_fusion": (fusion, "BK"),
}


@pytest.mark.parametrize(
    ("operation", "variable"),
    [(name, variable) for name, (_, variables) in CURVES.items() for variable in variables],
)
def test_growth(operation, variable, size, report, benchmark):
    prepare = CURVES[operation][0]
    base = dict(BASE[size])
    if operation == "search":
        base["B"] = min(base["B"], SEARCH_QUERIES)
    if variable in "BN":  # the base is the largest
        base[variable] = max(1, base[variable] // STEPS[variable][-1])
    sizes = [base[variable] * step for step in STEPS[variable]]
    functions = {str(n): prepare({**base, variable: n}) for n in sizes}
    timings = interleaved(functions, min(size.rounds, 5))
    costs = [timings[str(n)].over(timings[str(sizes[0])]) for n in sizes]
    held = " ".join(f"{name}={value}" for name, value in base.items() if name != variable)
    report.add_curve(
        benchmark, work=f"{operation}, {held}", variable=variable, sizes=sizes, costs=costs
    )
    benchmark.pedantic(functions[str(sizes[0])], rounds=2)


@pytest.mark.parametrize("operation", ["scar_expand", "search"])
def test_threads(operation, size, report, benchmark):
    case = dict(BASE[size])
    if operation == "search":
        case["B"] = min(case["B"], SEARCH_QUERIES)
    function = CURVES[operation][0](case)
    most = torch.get_num_threads()
    counts = sorted({1, *(2**i for i in range(1, 8) if 2**i <= most), most})

    def with_threads(n: int) -> Callable[[], object]:
        def run() -> object:
            torch.set_num_threads(n)
            try:
                return function()
            finally:
                torch.set_num_threads(most)

        return run

    if len(counts) == 1:
        pytest.skip("one core: nothing to compare")
    functions = {str(n): with_threads(n) for n in counts}
    timings = interleaved(functions, min(size.rounds, 5))
    costs = [timings[str(n)].over(timings["1"]) for n in counts]
    report.add_curve(benchmark, work=operation, variable="threads", sizes=counts, costs=costs)
    benchmark.pedantic(function, rounds=2)


RETRIEVE_SIZES = {
    FULL: [10_000, 50_000, 200_000, 1_000_000, 2_000_000],
    QUICK: [10_000, 50_000, 200_000],
    TINY: [200, 400],
}


def test_retrieve_from_vectors(size, report, benchmark):
    """Search, expansion and the table of contexts, without text, per query."""
    functions = {}
    for n in RETRIEVE_SIZES[size]:
        case = {**BASE[size], "N": n, "B": min(size.n_queries, SEARCH_QUERIES)}
        corpus = Corpus.random(shape(case), torch.float16, "fp16")
        retriever = VectorRetriever(corpus.index)
        functions[str(n)] = partial(
            retriever.retrieve_table, corpus.queries, k=case["K"], with_text=False
        )
        found = retriever.retrieve_table(corpus.queries, k=case["K"], with_text=False)
        assert found.num_rows >= len(corpus.queries)
    sizes = RETRIEVE_SIZES[size]
    timings = interleaved(functions, min(size.rounds, 3))
    costs = [timings[str(n)].over(timings[str(sizes[0])]) for n in sizes]
    report.add_curve(benchmark, work="retrieve", variable="N", sizes=sizes, costs=costs)
    benchmark.pedantic(functions[str(sizes[0])], rounds=2)
