"""continuity and row_scale, one pass over the matrix each, against reading it."""

import torch
from measure import interleaved

import scar_gpu
from scar_gpu import reference


def test_continuity(corpus, size, report, benchmark):
    index = corpus.index

    def ours():
        return scar_gpu.continuity(
            index.embeddings, index.doc_offsets, window=size.window, row_scale=index.row_scale
        )

    head = 3 * size.chunks_per_doc
    expected = reference.continuity(
        index.embeddings[:head],
        index.doc_offsets[:4],
        window=size.window,
        row_scale=index.row_scale[:head],
    )
    torch.testing.assert_close(
        ours()[:, :head].double(), expected, atol=1e-6, rtol=0, equal_nan=True
    )
    one_pass(corpus, size, report, benchmark, f"continuity {corpus.name}", ours, 0.6)


def test_row_scale(corpus, size, report, benchmark):
    embeddings = corpus.index.embeddings

    def ours():
        return scar_gpu.row_scale(embeddings)

    expected = reference.row_scale(embeddings[:1000])
    torch.testing.assert_close(ours()[:1000].double(), expected, atol=0, rtol=1e-7)
    one_pass(corpus, size, report, benchmark, f"row_scale {corpus.name}", ours, None)


def one_pass(corpus, size, report, benchmark, work, ours, target):
    """Time something that reads every row once."""
    timings = interleaved({"ours": ours, "read": corpus.read_everything}, size.rounds)
    share = timings["read"].over(timings["ours"])
    report.add(
        benchmark,
        work=work,
        against="read bandwidth",
        ratio=share,
        target=f">= {target:.2f}" if target else "",
        met=share >= target if target else None,
        timing=timings["ours"],
        bytes_read=corpus.matrix_bytes,
    )
    benchmark.pedantic(ours, rounds=size.rounds)
