"""search: exact cosine top-k in canonical scores, ties by the smaller id."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import only_on
from tests.cases import INF, SEARCH_CASES
from tests.closeness import assert_close, assert_equal, assert_same_bits, tolerance
from tests.corpora import (
    EXACT_DIMS,
    LAYOUTS,
    ROW_DTYPES,
    ROW_LAYOUTS,
    level_corpus,
    level_rows,
    random_corpus,
    random_queries,
    row_too_long_for_a_product,
    row_too_short_for_a_product,
    seeded,
    sign_corpus,
)
from tests.strategies import levels


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("case", SEARCH_CASES, ids=lambda case: case.name)
def test_hand_cases(operation, case, dtype):
    data = level_corpus(case.levels)
    ranges = case.row_ranges and torch.tensor(case.row_ranges)
    ids, scores = operation(
        "search", level_rows(case.queries), data.embeddings.to(dtype), case.k,
        row_scale=data.row_scale, row_ranges=ranges,
    )  # fmt: skip
    assert_equal(ids, torch.tensor(case.ids))
    assert_equal(scores, torch.tensor(case.scores))


def test_zeros_of_either_sign_tie(operation):
    """Row 0 has the score -4 * 0 = -0.0, row 1 the score 0.0."""
    rows = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    scale = torch.tensor([0.0, 0.5, 0.0])
    ids, scores = operation("search", torch.tensor([[2.0, 2.0]]), rows, 3, row_scale=scale)
    assert ids.tolist() == [[0, 1, 2]]
    assert_equal(scores, torch.zeros(1, 3))


def canonical(run, queries, embeddings, row_scale):
    """The relevance of every row, by neighbor_scores: [B, N]."""
    hits = torch.arange(len(embeddings)).expand(len(queries), -1)
    none = torch.empty(0, len(embeddings))
    return run("neighbor_scores", queries, embeddings, none, hits, row_scale=row_scale).relevance


def top(scores, k):
    """The k best of each row by score, then smaller id; NaN left out; padded."""
    best = scores.nan_to_num(nan=-INF, neginf=-INF)
    values, ids = best.sort(dim=1, descending=True, stable=True)
    pad = max(0, k - scores.shape[1])
    values = torch.nn.functional.pad(values[:, :k], (0, pad), value=-INF)
    ids = torch.nn.functional.pad(ids[:, :k], (0, pad), value=-1)
    return ids.masked_fill(values == -INF, -1), values


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_top_k_of_the_canonical_scores_on_a_grid(run, search_shape, dtype):
    """The ids and the scores are those of neighbor_scores, sorted: no tolerance."""
    from scar_gpu import reference

    b, k, n, dim = search_shape
    data = random_corpus(n, dim, dtype=dtype)
    queries = random_queries(data.embeddings, b)
    ids, scores = run("search", queries, data.embeddings, k, row_scale=data.row_scale)
    expected = top(canonical(run, queries, data.embeddings, data.row_scale), k)
    assert_equal(ids, expected[0])
    assert_equal(scores, expected[1])
    exact = reference.search(queries, data.embeddings, k, row_scale=data.row_scale)
    assert_close(scores, exact.scores, tolerance(dim, dtype))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_a_row_finds_itself_at_cosine_one(run, backend, dtype):
    """In half precision too: the sums are float32, whatever the rows are."""
    data = random_corpus(20 if backend == "triton" else 300, 384, dtype=dtype)
    ids, scores = run("search", data.embeddings, data.embeddings, 1, row_scale=data.row_scale)
    expected = torch.arange(len(ids))
    expected[3], expected[5] = 0, 4  # a zero row ties with all; row 5 repeats row 4
    assert_equal(ids[:, 0], expected)
    ones = torch.ones(len(ids)).index_fill(0, torch.tensor(3), 0)
    assert_close(scores[:, 0], ones, tolerance(384, dtype))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dim", EXACT_DIMS)
def test_exact_arithmetic_with_many_ties(run, backend, dim, dtype):
    from scar_gpu import reference

    b, n, k = (2, 33, 9) if backend == "triton" else (20, 1500, 40)
    rows = sign_corpus(n, dim).embeddings
    args = (sign_corpus(b, dim, seed=7).embeddings, rows.to(dtype), k)
    options = {"row_scale": torch.full((n,), dim**-0.5)}
    actual = run("search", *args, **options)
    exact = reference.search(*args, **options)
    assert_equal(actual.ids, exact.ids)
    assert_equal(actual.scores, exact.scores)
    ranges = torch.sort(torch.randint(0, n + 1, (b, 2), generator=seeded(3)), dim=1).values
    ranged = run("search", *args, **options, row_ranges=ranges)
    exact = reference.search(*args, **options, row_ranges=ranges)
    assert_equal(ranged.ids, exact.ids)
    assert_equal(ranged.scores, exact.scores)
    least = torch.tensor([0.0, 0.25])[torch.arange(b) % 2]
    cut = run("search", *args, **options, min_scores=least)
    exact = reference.search(*args, **options, min_scores=least)
    assert_equal(cut.ids, exact.ids)
    assert_equal(cut.scores, exact.scores)


@pytest.mark.parametrize("k", [1, 3, 17])
def test_prefixes_and_pages(run, k):
    """The first k of 2k are the result of k, so pages neither repeat nor skip a row."""
    data = sign_corpus(40, 64)
    queries = sign_corpus(3, 64, seed=7).embeddings
    both = run("search", queries, data.embeddings, 2 * k, row_scale=data.row_scale)
    page = run("search", queries, data.embeddings, k, row_scale=data.row_scale)
    assert_same_bits([tensor[:, :k].contiguous() for tensor in both], list(page))
    for row in both.ids.tolist():
        assert len(set(row)) == 2 * k


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_a_query_alone_and_any_range_give_the_same_bits(run, backend, dtype):
    n, dim = (40, 96) if backend == "triton" else (700, 384)
    data = random_corpus(n, dim, dtype=dtype)
    queries = random_queries(data.embeddings, 5)
    batch = run("search", queries, data.embeddings, n, row_scale=data.row_scale)
    alone = run("search", queries[2:3], data.embeddings, n, row_scale=data.row_scale)
    assert_same_bits(list(alone), [tensor[2:3] for tensor in batch])
    ranges = torch.tensor([[0, n], [7, 8], [n // 3, n // 2], [n - 9, n], [0, 1]])
    ranged = run("search", queries, data.embeddings, n, row_scale=data.row_scale, row_ranges=ranges)
    for q, (start, end) in enumerate(ranges.tolist()):
        inside = (batch.ids[q] >= start) & (batch.ids[q] < end)
        assert_same_bits(ranged.ids[q, : end - start], batch.ids[q][inside])
        assert_same_bits(ranged.scores[q, : end - start], batch.scores[q][inside])
        assert bool((ranged.ids[q, end - start :] == -1).all())


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout, dtype):
    data = random_corpus(40, 100, dtype=dtype)
    rows, scale = data.embeddings.to(device), data.row_scale.to(device)
    queries = random_queries(data.embeddings, 3).to(dtype).to(device)
    ranges = torch.tensor([[0, 40], [5, 30], [9, 9]], device=device)
    plain = run("search", queries, rows, 7, row_scale=scale, row_ranges=ranges)
    arrange = LAYOUTS[layout]
    dense = ROW_LAYOUTS.get(layout, lambda tensor: tensor)(rows)
    result = run(
        "search", arrange(queries), dense, 7, row_scale=arrange(scale), row_ranges=arrange(ranges)
    )
    assert_same_bits(result, plain)


@only_on("cpu")
def test_rows_too_short_for_a_product(run):
    """The last row has the best cosine, but a product in order makes it smaller than others'."""
    row, query = row_too_short_for_a_product(384)
    rows = torch.zeros(40, 384)
    rows[:, 0] = 1
    rows[-1] = row
    known = {"row_scale": run("row_scale", rows)}
    alone = canonical(run, query[None], rows, known["row_scale"])[0, -1]
    rows[:-1, 1] = torch.linspace(0.5, 0.99, 39) * alone * query.norm() / query[1]
    queries = query.repeat(20, 1)
    expected = top(canonical(run, queries, rows, known["row_scale"]), 1)
    assert expected[0].tolist() == [[39]] * 20
    ids, scores = run("search", queries, rows, 1, **known)
    assert_equal(ids, expected[0])
    assert_same_bits(scores, expected[1])


@only_on("cpu")
def test_a_row_too_long_for_a_product(run):
    import scar_gpu

    row, query = row_too_long_for_a_product(64)
    rows = torch.zeros(40, 64)
    rows[:, 7] = 1
    rows[30] = row
    scale = run("row_scale", rows)
    assert 0 < float(scale[30]) < torch.finfo(torch.float32).tiny
    ids, scores = run("search", query.repeat(20, 1), rows, 1, row_scale=scale)
    assert ids.tolist() == [[30]] * 20
    assert_same_bits(scores, canonical(run, query[None], rows, scale)[:, 30:31].repeat(20, 1))
    for batch in (1, 20):
        table, asked = torch.ones(1, 40), query.repeat(batch, 1)
        bits = scar_gpu.corpus_masks(asked, rows, table, row_scale=scale, lam=0.0).bits
        assert scar_gpu.unpack_masks(bits, 40)[:, 1].nonzero().tolist() == [
            [b, 29] for b in range(batch)
        ]


def cut_off(hits, least):
    """The hits that reach the least score of their query, the others padding."""
    is_below = hits.scores < least[:, None]
    return [hits.ids.masked_fill(is_below, -1), hits.scores.masked_fill(is_below, -INF)]


def test_a_least_score_is_reached_by_equality(operation):
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]])
    queries = torch.tensor([[2.0, 0.0]]).repeat(5, 1)
    least = torch.tensor([1.0, 0.0, -1.0, 1.5, float("nan")])
    ids, scores = operation("search", queries, rows, 4, min_scores=least)
    expected = [[0, 3, -1, -1], [0, 3, 1, -1], [0, 3, 1, 2], [-1] * 4, [0, 3, 1, 2]]
    assert_equal(ids, torch.tensor(expected))
    levels = torch.tensor([1.0, 1.0, 0.0, -1.0]).repeat(5, 1)
    assert_equal(scores, levels.masked_fill(torch.tensor(expected) == -1, -INF))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_least_scores_on_a_grid(run, search_shape, dtype):
    """Scores that were found, those next to them, and what cuts off nothing or everything."""
    b, k, n, dim = search_shape
    data = random_corpus(n, dim, dtype=dtype)
    queries = random_queries(data.embeddings, b)
    queries[:1] = 0
    known = {"row_scale": data.row_scale}
    plain = run("search", queries, data.embeddings, k, **known)
    found = plain.scores[:, min(k, n) // 2]
    infinity = torch.full((b,), INF)
    odd = torch.tensor([float("nan"), INF, -INF, -0.0])[torch.arange(b) % 4]
    for least in (found, found.nextafter(infinity), found.nextafter(-infinity), odd):
        actual = run("search", queries, data.embeddings, k, **known, min_scores=least)
        assert_same_bits(list(actual), cut_off(plain, least))


def test_threads(run, threads, backend):
    data = random_corpus(*((30, 16) if backend == "triton" else (3000, 100)))
    queries = random_queries(data.embeddings, 9)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("search", queries, data.embeddings, 20, row_scale=data.row_scale))
    assert_same_bits(*results)


rows_with_nan = st.lists(levels | st.sampled_from([float("nan"), float("inf")]), max_size=12)


@given(rows=rows_with_nan, query=levels, k=st.integers(1, 15))
def test_order_and_padding(run, rows, query, k):
    """Best first, equal scores by the smaller id, no row of NaN, padding after the last."""
    data = level_corpus(rows)
    ids, scores = run("search", level_rows([query]), data.embeddings, k, row_scale=data.row_scale)
    finite = [i for i, level in enumerate(rows) if not isinstance(level, float)]
    length = min(k, len(finite))
    entries = list(zip((-scores[0, :length]).tolist(), ids[0, :length].tolist(), strict=True))
    assert entries == sorted(entries)
    assert set(ids[0, :length].tolist()) <= set(finite)
    assert len(set(ids[0, :length].tolist())) == length
    assert ids[0, length:].tolist() == [-1] * (k - length)
    assert scores[0, length:].tolist() == [-INF] * (k - length)
