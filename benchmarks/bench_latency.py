"""Where the time of one small call goes: Python, the dispatcher and its results, the kernel.

In units of one `torch.mul` of a small tensor. "results" is the operation on no hits at all, which
dispatches and allocates the same number of tensors; the kernel is what the operation takes beyond
that, and Python what the public function takes beyond the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from corpus import Corpus
from measure import interleaved
from sizes import SMALL, TINY, Size

import scar_gpu

OPERATIONS = ("neighbor_scores", "scar_expand", "spans")


def calls_of(operation: str, n_queries: int) -> dict[str, Callable[[], Any]]:
    """The public function, the operation, and the operation on no hits."""
    shape = Size(
        n_chunks=SMALL.n_chunks, dim=SMALL.dim, n_queries=n_queries, k=SMALL.k,
        window=SMALL.window, rounds=0,
    )  # fmt: skip
    corpus = Corpus.random(shape, torch.float32, "fp32")
    index, queries, hits = corpus.index, corpus.queries, corpus.hits
    public = getattr(scar_gpu, operation)
    raw = getattr(torch.ops.scar_gpu, operation).default
    if operation == "spans":
        expansion = index.scar_expand(queries, hits)
        nothing = expansion.ids[:0]
        return {
            "public": lambda: public(expansion, index.doc_offsets),
            "operation": lambda: raw(expansion.ids, index.doc_offsets),
            "results": lambda: raw(nothing, index.doc_offsets),
        }
    tail: tuple[Any, ...] = (0.1, 0.8, False, index.row_scale, None)
    if operation == "scar_expand":
        tail += (False,)
    data = (index.embeddings, index.continuity)
    nothing = hits[:, :0]
    return {
        "public": lambda: public(queries, *data, hits, row_scale=index.row_scale),
        "operation": lambda: raw(queries, *data, hits, *tail),
        "results": lambda: raw(queries, *data, nothing, *tail),
    }


@pytest.mark.parametrize("n_queries", [1, 8, 32])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_latency(operation, n_queries, size, report, benchmark):
    vector = torch.randn(5)
    functions = calls_of(operation, n_queries)
    for part, other in zip(functions["public"](), functions["operation"](), strict=True):
        assert torch.equal(part, other)
    calls = 5 if size is TINY else 100
    timings = interleaved(
        {**functions, "mul": lambda: torch.mul(vector, vector)}, min(size.rounds * 20, 150), calls
    )
    unit = timings["mul"].median
    parts = {
        "the whole public call": timings["public"].median,
        "Python": timings["public"].median - timings["operation"].median,
        "dispatch and results": timings["results"].median,
        "kernel": timings["operation"].median - timings["results"].median,
    }
    for part, seconds in parts.items():
        report.add(
            benchmark,
            work=f"{operation} B={n_queries} K={SMALL.k}, in cache: {part}",
            against="one torch.mul",
            ratio=max(seconds, 0) / unit,
            timing=timings["public"],
        )
    benchmark.pedantic(functions["public"], rounds=2, iterations=calls)
