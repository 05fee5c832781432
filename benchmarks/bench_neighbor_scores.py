"""neighbor_scores against eager PyTorch: gather the rows, einsum, threshold."""

import torch
import torch_versions
from measure import interleaved

TARGETS = {"fp32": 9, "fp16": 12}


def test_neighbor_scores(corpus, size, report, benchmark):
    index, queries, hits = corpus.index, corpus.queries, corpus.hits

    def ours():
        return index.neighbor_scores(queries, hits)

    def eager():
        return torch_versions.neighbor_scores(
            queries, index.embeddings, index.continuity, hits, index.row_scale
        )

    result, expected = ours(), eager()
    torch.testing.assert_close(result.relevance, expected.relevance, atol=1e-6, rtol=0)
    torch.testing.assert_close(result.scores, expected.scores, atol=1e-6, rtol=0)
    far = (expected.scores - 0.8 * expected.relevance[..., None]).abs() > 1e-6
    assert torch.equal(result.mask[far], expected.mask[far])

    timings = interleaved(
        {"ours": ours, "eager": eager, "read": corpus.read_everything}, size.rounds
    )
    time = timings["ours"]
    rows_read = hits.numel() * (2 * size.window + 1)
    bytes_read = rows_read * size.dim * index.embeddings.element_size()
    work = f"neighbor_scores {corpus.name}"
    speedup = timings["eager"].median / time.median
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
    bandwidth = corpus.matrix_bytes / timings["read"].median
    share = bytes_read / time.median / bandwidth
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
