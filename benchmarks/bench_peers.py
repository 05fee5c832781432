"""The operations against what users would pick instead: see benchmarks/peers.

A peer that is not installed is left out of the table; one of another version than pinned fails.
Each does the same work on the same data, set up outside the timing, and is checked to give the
same answer: sets of rows for windows and searches, scores for judgements, order up to ties for
fusions.
"""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from bench_rank_fusion import random_lists
from corpus import Corpus
from measure import in_turn, interleaved
from peers.fusions import FUSIONS
from peers.judgements import JUDGES
from peers.pins import is_installed
from peers.searches import SEARCHES
from peers.windows import WINDOWS
from sizes import PEERS_OF, TINY

import scar_gpu

pytestmark = pytest.mark.filterwarnings("ignore")  # what the other systems warn about


@pytest.fixture(scope="module")
def shape(size):
    return PEERS_OF[size]


@pytest.fixture(scope="module")
def small_corpus(shape):
    return Corpus.random(shape, torch.float32, "fp32")


def set_up(peers, *arguments):
    """The timed function of every peer that is installed."""
    return {
        name: prepare(*arguments)
        for name, (package, prepare, *_) in peers.items()
        if package is None or is_installed(package)
    }


def add_rows(report, benchmark, work, functions, ours, rounds):
    timings = interleaved({"ours": ours, **functions}, rounds)
    for name in functions:
        report.add(
            benchmark,
            work=work,
            against=name,
            ratio=timings[name].over(timings["ours"]),
            target="",
            met=None,
            timing=timings[name],
        )
    benchmark.pedantic(ours, rounds=2)


def test_windows(shape, report, benchmark):
    # No matrix is read, and the slowest peer searches its whole store for every hit.
    n_queries = max(4, shape.n_queries // 256)
    shape = dataclasses.replace(shape, n_chunks=shape.n_chunks // 10, n_queries=n_queries)
    corpus = Corpus.random(shape, torch.float32, "fp32")
    index, hits = corpus.index, corpus.hits

    def ours():
        return index.window_expand(hits, before=1, after=1).ids

    functions = set_up(WINDOWS, index, hits)
    expected = [set(ids) - {-1} for ids in ours().tolist()]
    for name, function in functions.items():
        assert function() == expected, name
    work = f"window_expand N={index.n_chunks} B={n_queries} K={shape.k}"
    add_rows(report, benchmark, work, functions, ours, rounds=3)


def test_judgements(small_corpus, shape, report, benchmark):
    index, queries, batches = small_corpus.index, small_corpus.queries, small_corpus.batches
    ours = in_turn([partial(index.neighbor_scores, queries, hits) for hits in batches])
    of_batches = [set_up(JUDGES, index, queries, hits) for hits in batches]
    functions = {name: in_turn([each[name] for each in of_batches]) for name in of_batches[0]}
    expected = ours()
    far = (expected.scores - 0.8 * expected.relevance[..., None]).abs() > 1e-5
    for name, function in functions.items():
        relevance, scores, mask = (torch.as_tensor(result) for result in function())
        torch.testing.assert_close(relevance, expected.relevance, atol=1e-6, rtol=0, msg=name)
        torch.testing.assert_close(scores, expected.scores, atol=1e-6, rtol=0, msg=name)
        assert torch.equal(mask[far], expected.mask[far]), name
    work = f"neighbor_scores N={index.n_chunks} B={shape.n_queries} K={shape.k}"
    add_rows(report, benchmark, work, functions, ours, shape.rounds)


def test_fusions(shape, report, benchmark):
    n_queries, k = (10, 5) if shape is TINY else (2000, 100)
    lists = random_lists(n_queries, 2, k)

    def ours():
        return scar_gpu.rank_fusion(lists)

    functions = set_up(FUSIONS, lists)
    for name, function in functions.items():
        *_, read, preset = FUSIONS[name]
        contributions, duplicates = preset([k, k])
        expected = scar_gpu.rank_fusion(lists, contributions=contributions, duplicates=duplicates)
        for b, order in enumerate(read(function())):
            scores = dict(zip(expected.ids[b].tolist(), expected.scores[b].tolist(), strict=True))
            theirs = np.array([scores[document] for document in order])
            assert len(set(order)) == len(order) == expected.lengths[b], name
            assert (np.diff(theirs) <= 1e-6 * theirs[:-1]).all(), name
    add_rows(report, benchmark, f"rank_fusion B={n_queries} L=2 K={k}", functions, ours, rounds=3)


def test_searches(small_corpus, shape, report, benchmark):
    index, k = small_corpus.index, shape.k
    queries = torch.nn.functional.normalize(small_corpus.queries[:256])

    def ours():
        return index.search(queries, k)

    functions = set_up(SEARCHES, index.embeddings, queries, k)
    expected = ours().ids.sort(1).values
    for name, function in functions.items():
        ids = torch.as_tensor(np.asarray(function()).astype(np.int64)).sort(1).values
        # near-ties at the k-th place may fall either way
        assert (ids == expected).float().mean() > 0.999, name
    work = f"search N={index.n_chunks} B={len(queries)} k={k}"
    add_rows(report, benchmark, work, functions, ours, min(shape.rounds, 3))
