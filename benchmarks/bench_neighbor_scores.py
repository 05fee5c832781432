"""neighbor_scores against eager PyTorch: gather the rows, einsum, threshold."""

from functools import partial

import torch
from measure import in_turn, interleaved
from peers.judgements import eager

TARGETS = {"fp32": 9, "fp16": 12}


def test_neighbor_scores(corpus, size, report, benchmark):
    index, queries = corpus.index, corpus.queries
    ours = in_turn([partial(index.neighbor_scores, queries, hits) for hits in corpus.batches])
    with_torch = in_turn([eager(index, queries, hits) for hits in corpus.batches])
    result = ours()
    relevance, scores, mask = with_torch()
    torch.testing.assert_close(result.relevance, relevance, atol=1e-6, rtol=0)
    torch.testing.assert_close(result.scores, scores, atol=1e-6, rtol=0)
    far = (scores - 0.8 * relevance[..., None]).abs() > 1e-6
    assert torch.equal(result.mask[far], mask[far])

    timings = interleaved(
        {"ours": ours, "eager": with_torch, "read": corpus.read_everything},
        3 * size.rounds,  # seconds, so that no moment decides
    )
    time = timings["ours"]
    rows_read = corpus.hits.numel() * (2 * size.window + 1)
    bytes_read = rows_read * size.dim * index.embeddings.element_size()
    work = f"neighbor_scores {corpus.name}"
    speedup = timings["eager"].over(time)
    report.add(
        benchmark,
        work=work,
        against="eager gather + einsum",
        ratio=speedup,
        target=f">= {TARGETS[corpus.name]}",
        met=speedup >= TARGETS[corpus.name],
        timing=time,
        bytes_read=bytes_read,
    )
    share = bytes_read / corpus.matrix_bytes * timings["read"].over(time)
    report.add(
        benchmark,
        work=work,
        against="read bandwidth",
        ratio=share,
        target=">= 0.40",
        met=share >= 0.4,
        timing=time,
    )
    benchmark.pedantic(ours, rounds=size.rounds)
