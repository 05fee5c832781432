"""search_expand: search, neighbor_scores and expand in one call, bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import only_on
from tests.cases import INF, SEARCH_CASES
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import (
    EXACT_DIMS,
    LAYOUTS,
    ROW_DTYPES,
    ROW_LAYOUTS,
    level_corpus,
    level_rows,
    random_corpus,
    random_queries,
    seeded,
    sign_corpus,
)
from tests.strategies import gammas, lams, levels, orders


def in_three_calls(run, args, options, order="rank", **limits):
    queries, embeddings, table, k = args
    hits = run("search", queries, embeddings, k, row_scale=options.get("row_scale"), **limits)
    judged = run("neighbor_scores", queries, embeddings, table, hits.ids, **options)
    return hits, judged, run("expand", hits.ids, judged, order=order)


def random_search(n, dim, b, k, window, dtype=torch.float32):
    data = random_corpus(n, dim, window=window, dtype=dtype)
    args = (random_queries(data.embeddings, b), data.embeddings, data.continuity, k)
    return args, {"row_scale": data.row_scale}


@pytest.mark.parametrize("order", ["rank", "document"])
def test_hand_case(operation, order):
    """Two documents of levels (2, 0, 3) and (1, 4); the query is level 0, lam = gamma = 1/2.

    Row 1: 1; neighbour 0: S = 6/8 - (1 - 6/8) / 2 = 0.625 > 0.5, admitted;
    neighbour 2: S = 5/8 - (1 - 5/8) / 2 = 0.4375, refused.
    Row 3: 7/8; neighbour 4: S = 4/8 - (1 - 5/8) / 2 = 0.3125, refused.
    """
    data = level_corpus([2, 0, 3], [1, 4])
    hits, neighbors, expansion = operation(
        "search_expand", level_rows([0]), data.embeddings, data.continuity, 2, lam=0.5, gamma=0.5,
        row_scale=data.row_scale, order=order,
    )  # fmt: skip
    assert_equal(hits.ids, torch.tensor([[1, 3]]))
    assert_equal(hits.scores, torch.tensor([[1.0, 7 / 8]]))
    assert_equal(neighbors.relevance, hits.scores)
    assert_equal(neighbors.scores, torch.tensor([[[0.625, 0.4375], [-INF, 0.3125]]]))
    assert neighbors.mask.tolist() == [[[True, False], [False, False]]]
    assert_equal(expansion.ids, torch.tensor([[0, 1, 3, -1, -1, -1]]))
    assert_equal(expansion.scores, torch.tensor([[0.625, 1, 7 / 8, -INF, -INF, -INF]]))
    assert_equal(expansion.anchors, torch.tensor([[0, 0, 1, -1, -1, -1]]))
    assert_equal(expansion.lengths, torch.tensor([3]))


@pytest.mark.parametrize("case", SEARCH_CASES, ids=lambda case: case.name)
def test_finds_what_search_finds(operation, case):
    data = level_corpus(case.levels)
    ranges = case.row_ranges and torch.tensor(case.row_ranges)
    hits, neighbors, expansion = operation(
        "search_expand", level_rows(case.queries), data.embeddings, data.continuity, case.k,
        row_scale=data.row_scale, row_ranges=ranges,
    )  # fmt: skip
    assert_equal(hits.ids, torch.tensor(case.ids))
    assert_equal(hits.scores, torch.tensor(case.scores))
    is_padding = hits.ids < 0
    assert_equal(neighbors.relevance, hits.scores)
    assert bool((neighbors.scores[is_padding] == -INF).all())
    assert not bool(neighbors.mask[is_padding].any())
    for q, found in enumerate(case.ids):
        rows = set(expansion.ids[q, : expansion.lengths[q]].tolist())
        assert {row for row in found if row >= 0} <= rows


@pytest.mark.parametrize(
    ("dtype", "window"),
    [(torch.float32, 0), (torch.float32, 3), (torch.float16, 1), (torch.bfloat16, 2)],
    ids=str,
)
def test_equals_the_three_calls_on_a_grid(run, search_shape, dtype, window):
    b, k, n, dim = search_shape
    args, options = random_search(n, dim, b, k, window, dtype)
    one = run("search_expand", *args, **options)
    assert_same_bits(one, in_three_calls(run, args, options))


def test_defaults_are_those_of_the_three_calls(run):
    args, options = random_search(30, 96, 3, 4, 2)
    given_all = run(
        "search_expand", *args, **options, lam=0.1, gamma=0.8, contiguous=False, order="rank",
        row_ranges=None, min_scores=None,
    )  # fmt: skip
    assert_same_bits(run("search_expand", *args, **options), given_all)


@st.composite
def searches(draw):
    """Arguments over level rows: empty documents, zero rows and queries, any k and ranges."""
    documents = draw(st.lists(st.lists(levels, max_size=5), min_size=1, max_size=3))
    data = level_corpus(*documents, window=draw(st.integers(0, 3)))
    queries = level_rows(draw(st.lists(levels, min_size=1, max_size=3)))
    bounds = st.lists(st.integers(0, len(data.embeddings)), min_size=2, max_size=2).map(sorted)
    ranges = draw(st.none() | st.lists(bounds, min_size=len(queries), max_size=len(queries)))
    least = st.lists(
        st.sampled_from([-1.0, 0.0, 0.5]), min_size=len(queries), max_size=len(queries)
    )
    least = draw(st.none() | least)
    args = (queries, data.embeddings, data.continuity, draw(st.integers(1, 6)))
    limits = {
        "row_ranges": None if ranges is None else torch.tensor(ranges),
        "min_scores": None if least is None else torch.tensor(least),
    }
    return args, data.row_scale, limits


@given(question=searches(), lam=lams, gamma=gammas, contiguous=st.booleans(), order=orders)
def test_equals_the_three_calls_with_any_option(run, question, lam, gamma, contiguous, order):
    args, scale, limits = question
    options = {"lam": lam, "gamma": gamma, "contiguous": contiguous, "row_scale": scale}
    one = run("search_expand", *args, **options, **limits, order=order)
    assert_same_bits(one, in_three_calls(run, args, options, order, **limits))


def test_zeros_of_either_sign(run):
    """Row 0 has the relevance -4 * 0 = -0.0."""
    rows = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    args = (torch.tensor([[2.0, 2.0]]), rows, torch.tensor([[0.5, 0.25, torch.nan]]), 3)
    options = {"row_scale": torch.tensor([0.0, 0.5, 0.0])}
    one = run("search_expand", *args, **options)
    assert_same_bits(one, in_three_calls(run, args, options))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dim", [*EXACT_DIMS, 1024])
def test_exact_arithmetic_with_many_ties(run, backend, dim, dtype):
    from scar_gpu import reference

    b, n, k = (2, 21, 4) if backend == "triton" else (20, 900, 40)
    data = sign_corpus(n, dim, window=2)
    queries = sign_corpus(b, dim, seed=7).embeddings
    args = (queries, data.embeddings.to(dtype), data.continuity, k)
    options = {"lam": 0.125, "gamma": 0.75, "row_scale": torch.full((n,), dim**-0.5)}
    ranges = torch.sort(torch.randint(0, n + 1, (b, 2), generator=seeded(3)), dim=1).values
    for bounds in (None, ranges):
        actual = run("search_expand", *args, **options, row_ranges=bounds)
        exact = reference.search_expand(*args, **options, row_ranges=bounds)
        for one, other in zip(sum(actual, ()), sum(exact, ()), strict=True):
            assert_equal(one, other)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_a_row_alone_and_a_smaller_k_give_the_same_bits(run, backend, dtype):
    n, dim = (20, 96) if backend == "triton" else (700, 384)
    args, options = random_search(n, dim, 20 if backend == "cpu" else 3, 6, 2, dtype)
    batch = run("search_expand", *args, **options)
    alone = run("search_expand", args[0][2:3], *args[1:], **options)
    for one, other in zip(sum(alone, ()), sum(batch, ()), strict=True):
        assert_same_bits(one, other[2:3])
    fewer = run("search_expand", *args[:3], 4, **options)
    for one, other in zip(sum(fewer[:2], ()), sum(batch[:2], ()), strict=True):
        assert_same_bits(one, other[:, :4].contiguous())


@pytest.mark.parametrize("k", [1, 1000, 1024])
def test_large_k(run, backend, k):
    n, k = (20, min(k, 30)) if backend == "triton" else (1300, k)
    args, options = random_search(n, 16, 2, k, 1)
    assert_same_bits(run("search_expand", *args, **options), in_three_calls(run, args, options))


@only_on("cpu")
def test_threads_and_blocks_of_queries(run, threads):
    """5,000 queries are more than one block of the search."""
    args, options = random_search(400, 8, 5000, 3, 1)
    least = torch.linspace(-1, 1, 5000)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("search_expand", *args, **options, min_scores=least))
    assert_same_bits(*results)
    assert_same_bits(results[0], in_three_calls(run, args, options, min_scores=least))
    plain = run("search_expand", *args, **options).hits
    is_below = plain.scores < least[:, None]
    assert 0 < int(is_below.sum()) < is_below.numel()
    assert torch.equal(results[0].hits.ids, plain.ids.masked_fill(is_below, -1))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout, dtype):
    args, options = random_search(20, 100, 3, 4, 2, dtype)
    ranges = torch.tensor([[0, 20], [5, 10], [9, 9]])
    plain = run("search_expand", *args, **options, row_ranges=ranges)
    arrange = LAYOUTS[layout]
    queries, rows, table = (tensor.to(device) for tensor in args[:3])
    result = run(
        "search_expand", arrange(queries), ROW_LAYOUTS.get(layout, lambda rows: rows)(rows),
        arrange(table), 4, row_scale=arrange(options["row_scale"].to(device)),
        row_ranges=arrange(ranges.to(device)),
    )  # fmt: skip
    assert_same_bits(result, plain)
