"""merge_hits: what the shards of an index found, merged, is what the whole index finds."""

import re

import numpy as np
import pytest
import torch

from tests.backends import move
from tests.cases import INF
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import random_corpus, random_queries, seeded, sign_corpus


def sharded(run, data, n_shards, queries, k, options, ranges=None):
    """(results of search_expand, row offsets) of shards that keep documents whole."""
    ends = data.doc_offsets
    cuts = torch.linspace(0, len(ends) - 1, n_shards + 1).long()
    results, offsets = [], []
    for low, high in zip(ends[cuts[:-1]].tolist(), ends[cuts[1:]].tolist(), strict=True):
        part = None if ranges is None else (ranges - low).clamp(0, high - low)
        scale = data.row_scale[low:high]
        table = data.continuity[:, low:high]
        results.append(run("search_expand", queries, data.embeddings[low:high], table, k,
                           row_scale=scale, row_ranges=part, **options))  # fmt: skip
        offsets.append(low)
    return results, offsets


def merge(device, shards, **options):
    import scar_gpu

    shards = [move(shard, device) for shard in shards]
    return move(scar_gpu.merge_hits(shards, **options), torch.device("cpu"))


@pytest.mark.parametrize("n_shards", [1, 2, 5])
@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("order", ["rank", "document"])
def test_equals_the_single_index(run, backend, device, n_shards, window, order):
    """Also with shards of fewer rows than k, of none, with ranges, and queries of NaN."""
    n, b, k = (25, 2, 4) if backend == "triton" else (70, 9, 12)
    data = random_corpus(n, 24, window=window)
    queries = random_queries(data.embeddings, b)
    queries[1, 3] = torch.nan
    options = {"lam": 0.25, "gamma": 0.5, "order": order}
    ranges = torch.sort(torch.randint(0, n + 1, (b, 2), generator=seeded(3)), dim=1).values
    for bounds in (None, ranges):
        shards, offsets = sharded(run, data, n_shards, queries, k, options, bounds)
        single = run("search_expand", queries, *data[:1], data.continuity, k,
                     row_scale=data.row_scale, row_ranges=bounds, **options)  # fmt: skip
        merged = merge(device, shards, row_offsets=offsets, order=order)
        assert_same_bits(merged, single)
        hits = merge(device, [shard.hits for shard in shards], row_offsets=offsets)
        assert_same_bits(hits, single.hits)
        backwards = merge(device, shards[::-1], row_offsets=offsets[::-1], order=order)
        assert_same_bits(backwards, single)


def test_results_are_detached(run, device):
    data = random_corpus(20, 24)
    found = run("search_expand", random_queries(data.embeddings, 2), data.embeddings,
                data.continuity, 3, row_scale=data.row_scale)  # fmt: skip
    expected = merge(device, [found], row_offsets=[0])
    for tensor in (found.hits.scores, found.neighbors.relevance, found.neighbors.scores):
        tensor.requires_grad_()
    merged = merge(device, [found], row_offsets=[0])
    assert_same_bits(merged, expected)
    for result in merged:
        assert not any(tensor.requires_grad for tensor in result)


@pytest.mark.parametrize("dim", [4, 64])
def test_ties_between_shards_go_to_the_smaller_row(run, backend, device, dim):
    n, k = (30, 5) if backend == "triton" else (300, 40)
    data = sign_corpus(n, dim)
    queries = sign_corpus(2, dim, seed=7).embeddings
    shards, offsets = sharded(run, data, 4, queries, k, {})
    single = run("search_expand", queries, data.embeddings, data.continuity, k,
                 row_scale=data.row_scale)  # fmt: skip
    assert len(single.hits.scores.unique()) < single.hits.scores.numel()
    assert_same_bits(merge(device, shards, row_offsets=offsets), single)


def test_by_hand(device):
    """Scores 1/2 in both shards, rows 0 and 10; the second shard has one result only."""
    import scar_gpu

    first = scar_gpu.Hits(torch.tensor([[1, 0]]), torch.tensor([[0.75, 0.5]]))
    second = scar_gpu.Hits(torch.tensor([[0, -1]]), torch.tensor([[0.5, -INF]]))
    hits = merge(device, [second, first], row_offsets=[10, 0])
    assert_equal(hits.ids, torch.tensor([[1, 0]]))
    hits = merge(device, [first, second], row_offsets=(5, 0))
    assert_equal(hits.ids, torch.tensor([[6, 0]]))
    assert_equal(hits.scores, torch.tensor([[0.75, 0.5]]))
    hits = merge(device, [second, first], row_offsets=[0, 0], k=1)
    assert_equal(hits.ids, torch.tensor([[1]]))
    hits = merge(device, [second], row_offsets=[7])
    assert_equal(hits.ids, torch.tensor([[7, -1]]))


def test_zeros_of_either_sign_tie(device):
    import scar_gpu

    first = scar_gpu.Hits(torch.tensor([[0]]), torch.tensor([[-0.0]]))
    second = scar_gpu.Hits(torch.tensor([[0]]), torch.tensor([[0.0]]))
    assert merge(device, [second, first], row_offsets=[1, 0]).ids.tolist() == [[0]]


def test_k_is_the_fewest_that_a_shard_was_asked_for(run, device):
    data = random_corpus(40, 24)
    queries = random_queries(data.embeddings, 2)
    parts = data.embeddings[:25], data.embeddings[25:]
    scales = data.row_scale[:25], data.row_scale[25:]
    shards = [
        run("search", queries, rows, k, row_scale=scale)
        for rows, scale, k in zip(parts, scales, (6, 3), strict=True)
    ]
    single = run("search", queries, data.embeddings, 3, row_scale=data.row_scale)
    assert_same_bits(merge(device, shards, row_offsets=[0, 25]), single)


def test_compiles_without_a_graph_break(run, device):
    import scar_gpu

    data = random_corpus(30, 24)
    queries = random_queries(data.embeddings, 2)
    shards, offsets = sharded(run, data, 2, queries, 4, {})
    shards = [move(shard, device) for shard in shards]

    def merged(results):
        return scar_gpu.merge_hits(results, row_offsets=offsets)

    torch.compiler.reset()
    compiled = torch.compile(merged, fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(shards), merged(shards))
    torch.compiler.reset()


def hits_of(batch, k, dtype=torch.int64):
    import scar_gpu

    return scar_gpu.Hits(torch.zeros(batch, k, dtype=dtype), torch.zeros(batch, k))


def expansion_of(batch, k, **parts):
    """A result of `search_expand` with W = 1, with some parts replaced."""
    import scar_gpu

    rows = torch.eye(2)
    found = scar_gpu.search_expand(
        rows[:1].expand(batch, 2), rows, scar_gpu.continuity(rows, torch.tensor([0, 2])), k
    )
    results = {name: parts.pop(name) for name in ("hits", "neighbors") if name in parts}
    return found._replace(**({"neighbors": found.neighbors._replace(**parts)} | results))


def test_row_offsets_of_numpy(run):
    import scar_gpu

    sizes = np.cumsum([0, 3])
    rows = torch.eye(6)
    shards = [run("search", rows[:2], part, 2) for part in (rows[:3], rows[3:])]
    merged = scar_gpu.merge_hits(shards, row_offsets=list(sizes))
    assert_same_bits(merged, scar_gpu.merge_hits(shards, row_offsets=[0, 3]))


@pytest.mark.parametrize(
    ("shards", "options", "error", "message"),
    [
        (lambda: None, {}, TypeError, "shards must be a sequence of results, got NoneType"),
        (lambda: [], {}, ValueError, "shards must have at least one result, got none"),
        (lambda: [hits_of(2, 3)], {}, ValueError,
         "row_offsets must have one entry per shard (1), got 2"),
        (lambda: [hits_of(2, 3)] * 2, {"row_offsets": None}, TypeError,
         "row_offsets must be a sequence of ints, got NoneType"),
        (lambda: [hits_of(2, 3)] * 2, {"row_offsets": [0, 1.5]}, TypeError,
         "row_offsets[1] must be an int, got float"),
        (lambda: [hits_of(2, 3)] * 2, {"row_offsets": [0, -4]}, ValueError,
         "row_offsets[1] must be >= 0, got -4"),
        (lambda: [hits_of(2, 3)] * 2, {"row_offsets": [0, 2**62 + 1]}, ValueError,
         f"row_offsets[1] must be <= {2**62}, got {2**62 + 1}"),
        (lambda: [hits_of(2, 3)] * 2, {"row_offsets": [0, np.bool_(True)]}, TypeError,
         f"row_offsets[1] must be an int, got {type(np.bool_(True)).__name__}"),
        (lambda: [hits_of(2, 3), 7], {}, TypeError, "shards[1] must be a Hits, got int"),
        (lambda: [7, 7], {}, TypeError, "shards[0] must be a SearchExpansion, got int"),
        (lambda: [hits_of(2, 3), hits_of(1, 3)], {}, ValueError,
         "shards[1] ids must have shape [2, K], got [1, 3]"),
        (lambda: [hits_of(2, 3, torch.int32)] * 2, {}, TypeError,
         "shards[0] ids must be int64, got torch.int32"),
        (lambda: [hits_of(2, 3)._replace(ids=None)] * 2, {}, TypeError,
         "shards[0] ids must be a torch.Tensor, got NoneType"),
        (lambda: [hits_of(2, 3)._replace(ids=torch.tensor(0))] * 2, {}, ValueError,
         "shards[0] ids must have shape [B, K], got []"),
        (lambda: [hits_of(2, 3), hits_of(2, 3)._replace(scores=None)], {}, TypeError,
         "shards[1] scores must be a torch.Tensor, got NoneType"),
        (lambda: [expansion_of(2, 3, hits=None)] * 2, {}, TypeError,
         "shards[0] hits must be a Hits, got NoneType"),
        (lambda: [expansion_of(2, 3, neighbors=None)] * 2, {}, TypeError,
         "shards[0] neighbors must be a NeighborScores, got NoneType"),
        (lambda: [expansion_of(2, 3, scores=torch.zeros(2, 3))] * 2, {}, ValueError,
         "shards[0] neighbor scores must have shape [2, 3, 2W], got [2, 3]"),
        (lambda: [expansion_of(2, 3), expansion_of(2, 3, scores=torch.zeros(2, 3, 4))], {},
         ValueError, "shards[1] neighbor scores must have shape [2, 3, 2], got [2, 3, 4]"),
        (lambda: [expansion_of(2, 3, mask=torch.ones(2, 3, 4, dtype=torch.bool))] * 2, {},
         ValueError, "shards[0] mask must have shape [2, 3, 2], got [2, 3, 4]"),
        (lambda: [hits_of(2, 3)] * 2, {"k": 0}, ValueError, "k must be >= 1, got 0"),
        (lambda: [hits_of(2, 3), hits_of(2, 2)], {"k": 3}, ValueError,
         "k must be at most 2, what shards[1] was asked for, got 3"),
        (lambda: [hits_of(2, 3)] * 2, {"order": "page"}, ValueError,
         "order must be 'rank' or 'document', got 'page'"),
    ],
)  # fmt: skip
def test_bad_arguments(shards, options, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.merge_hits(shards(), **({"row_offsets": [0, 5]} | options))
