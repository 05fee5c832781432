"""The operations without arithmetic: window_expand and spans, in units of scar_expand."""

from functools import partial

import pytest
from measure import in_turn, interleaved

import scar_gpu
from scar_gpu import reference


@pytest.mark.parametrize("operation", ["window_expand", "spans", "expand"])
def test_rows_only(operation, corpus, size, report, benchmark):
    index, queries, hits = corpus.index, corpus.queries, corpus.hits
    judged = index.neighbor_scores(queries, hits)
    expansion = scar_gpu.expand(hits, judged)
    arguments = {
        "window_expand": (hits, index.doc_offsets),
        "spans": (expansion, index.doc_offsets),
        "expand": (hits, judged),
    }[operation]

    def ours():
        return getattr(scar_gpu, operation)(*arguments)

    some = slice(0, 50)
    few = {
        "window_expand": (hits[some], index.doc_offsets),
        "spans": (scar_gpu.Expansion(*(part[some] for part in expansion)), index.doc_offsets),
        "expand": (hits[some], scar_gpu.NeighborScores(*(part[some] for part in judged))),
    }[operation]
    for actual, expected in zip(ours(), getattr(reference, operation)(*few), strict=True):
        assert (actual[some] == expected).all()

    scar = in_turn([partial(index.scar_expand, queries, each) for each in corpus.batches])
    timings = interleaved({"ours": ours, "scar": scar}, size.rounds)
    report.add(
        benchmark,
        work=f"{operation} {corpus.name}",
        against="scar_expand",
        ratio=timings["ours"].over(timings["scar"]),
        target="",
        met=None,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=size.rounds)
