"""scar_expand against neighbor_scores alone at full size, and one small call of each."""

from functools import partial

import pytest
import torch
from corpus import Corpus
from measure import in_turn, interleaved
from sizes import SMALL, TINY

import scar_gpu


def test_scar_expand(corpus, size, report, benchmark):
    index, queries, batches = corpus.index, corpus.queries, corpus.batches
    ours = in_turn([partial(index.scar_expand, queries, hits) for hits in batches])
    scores = in_turn([partial(index.neighbor_scores, queries, hits) for hits in batches])
    for actual, expected in zip(ours(), scar_gpu.expand(corpus.hits, scores()), strict=True):
        assert torch.equal(actual, expected)

    timings = interleaved({"ours": ours, "scores": scores}, size.rounds)
    ratio = timings["ours"].over(timings["scores"])
    report.add(
        benchmark,
        work=f"scar_expand {corpus.name}",
        against="neighbor_scores alone",
        ratio=ratio,
        target="<= 1.25",
        met=ratio <= 1.25,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=size.rounds)


@pytest.mark.parametrize("operation", ["neighbor_scores", "scar_expand"])
def test_one_small_call(operation, size, report, benchmark):
    corpus = Corpus.random(SMALL, torch.float32, "fp32")
    index, queries, hits = corpus.index, corpus.queries, corpus.hits
    function = getattr(scar_gpu, operation)
    vector = torch.randn(5)

    def ours():
        return function(
            queries, index.embeddings, index.continuity, hits, row_scale=index.row_scale
        )

    calls = 5 if size is TINY else 200
    timings = interleaved(
        {"ours": ours, "mul": lambda: torch.mul(vector, vector)}, SMALL.rounds, calls
    )
    ratio = timings["ours"].over(timings["mul"])
    report.add(
        benchmark,
        work=f"{operation} B=1 K=5, in cache",
        against="one torch.mul",
        ratio=ratio,
        target="<= 6",
        met=ratio <= 6,
        timing=timings["ours"],
    )
    benchmark.pedantic(ours, rounds=2, iterations=calls)
