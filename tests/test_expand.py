"""expand: the union of the hits and their admitted neighbours, each row once."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import INF, NAN
from tests.cases_expansion import EXPAND_CASES, REFUSED
from tests.closeness import assert_equal, assert_expansion, assert_same_bits
from tests.corpora import LAYOUTS, random_hits, seeded
from tests.strategies import orders


def scored(relevance, scores, mask):
    import scar_gpu

    return scar_gpu.NeighborScores(relevance, scores, mask)


@pytest.mark.parametrize("order", ["rank", "document"])
@pytest.mark.parametrize("case", EXPAND_CASES, ids=lambda case: case.name)
def test_hand_cases(operation, case, order):
    k, window = len(case.hits), case.window
    scores = torch.full((1, k, 2 * window), REFUSED)
    mask = torch.zeros(1, k, 2 * window, dtype=torch.bool)
    for (hit, offset), score in case.admitted.items():
        column = offset + window - (offset > 0)
        scores[0, hit, column], mask[0, hit, column] = score, True
    neighbors = scored(torch.tensor([case.relevance]), scores, mask)
    rows = list(zip(case.ids, case.scores, case.anchors, strict=True))
    if order == "document":
        rows.sort(key=lambda row: row[0])
    ids, values, anchors = zip(*rows, strict=True) if rows else ((), (), ())
    narrow = torch.int32 if max(case.hits) < 2**31 else torch.int64
    for dtype in {torch.int64, narrow}:
        expansion = operation(
            "expand", torch.tensor([case.hits], dtype=dtype), neighbors, order=order
        )
        assert_expansion(expansion, ids, values, anchors, k * (2 * window + 1))


def random_neighbors(b, k, window, seed=0):
    """Hits among few rows, so that groups overlap; what a row admits depends on the row alone.

    Scores are eighths, so that many are equal; NaN and minus infinity are among them.
    """
    generator = seeded(seed)
    n = max(1, 2 * k)
    hits = random_hits(n, b, k, seed=seed)
    if k > 2:
        hits[:, k // 2] = hits[:, 0]  # a repeat
    relevance = torch.randint(-8, 9, (n,), generator=generator) / 8
    scores = torch.randint(-8, 9, (n, 2 * window), generator=generator) / 8
    mask = torch.rand(n, 2 * window, generator=generator) < 0.6
    odd = torch.rand(n, 2 * window, generator=generator)
    scores[odd < 0.05] = NAN
    scores[odd > 0.95] = -INF
    refused = torch.rand(n, generator=generator) < 0.1
    relevance[refused], scores[refused], mask[refused] = -INF, -INF, False
    padding = hits < 0
    safe = hits.clamp(min=0)
    return hits, scored(
        relevance[safe].masked_fill(padding, -INF),
        scores[safe].masked_fill(padding[..., None], -INF),
        mask[safe] & ~padding[..., None],
    )


@pytest.mark.parametrize("hits_dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("order", ["rank", "document"])
def test_reference_on_a_grid(run, expand_shape, order, hits_dtype):
    from scar_gpu import reference

    hits, neighbors = random_neighbors(*expand_shape)
    hits = hits.to(hits_dtype)
    actual = run("expand", hits, neighbors, order=order)
    exact = reference.expand(hits, neighbors, order=order)
    b, k, window = expand_shape
    assert actual.ids.shape == (b, k * (2 * window + 1))
    for one, other in zip(actual, exact, strict=True):
        assert_equal(one, other)


def test_order_defaults_to_rank(run):
    hits, neighbors = random_neighbors(2, 4, 1)
    assert_same_bits(run("expand", hits, neighbors), run("expand", hits, neighbors, order="rank"))


sizes = st.tuples(st.integers(1, 3), st.integers(0, 6), st.integers(0, 3))


@given(size=sizes, seed=st.integers(0, 10**6))
def test_the_set_is_the_hits_and_their_admitted_neighbours(run, size, seed):
    hits, neighbors = random_neighbors(*size, seed=seed)
    ids, scores, anchors, lengths = run("expand", hits, neighbors)
    window = size[2]
    for q in range(len(hits)):
        expected = {}  # row: the (score, -anchor) it may have
        for anchor, row in enumerate(hits[q].tolist()):
            if row < 0 or neighbors.relevance[q, anchor] == -INF:
                continue
            for column, offset in enumerate([*range(-window, 0), *range(1, window + 1)]):
                score = neighbors.scores[q, anchor, column].item()
                if neighbors.mask[q, anchor, column] and score > -INF and row + offset >= 0:
                    options = expected.setdefault(row + offset, [])
                    options.append((score, -anchor))
        best = {row: max(options) for row, options in expected.items()}
        for anchor, row in reversed(list(enumerate(hits[q].tolist()))):
            if row >= 0 and neighbors.relevance[q, anchor] > -INF:
                best[row] = (neighbors.relevance[q, anchor].item(), -anchor)
        length = int(lengths[q])
        got = {
            row: (score, -anchor)
            for row, score, anchor in zip(
                ids[q, :length].tolist(),
                scores[q, :length].tolist(),
                anchors[q, :length].tolist(),
                strict=True,
            )
        }
        assert length == len(got)
        assert got == best


@given(size=sizes, seed=st.integers(0, 10**6))
def test_rank_order_is_by_anchor_then_row_and_document_order_its_permutation(run, size, seed):
    hits, neighbors = random_neighbors(*size, seed=seed)
    by_rank = run("expand", hits, neighbors, order="rank")
    by_row = run("expand", hits, neighbors, order="document")
    assert_equal(by_rank.lengths, by_row.lengths)
    for q, length in enumerate(by_rank.lengths.tolist()):
        entries = [
            list(zip(*(t[q, :length].tolist() for t in (e.ids, e.scores, e.anchors)), strict=True))
            for e in (by_rank, by_row)
        ]
        assert entries[0] == sorted(entries[0], key=lambda entry: (entry[2], entry[0]))
        assert entries[1] == sorted(entries[0])
        for expansion in (by_rank, by_row):
            assert bool((expansion.ids[q, length:] == -1).all())
            assert bool((expansion.anchors[q, length:] == -1).all())
            assert bool((expansion.scores[q, length:] == -INF).all())


@given(order=orders, seed=st.integers(0, 10**6))
def test_a_row_alone_equals_the_row_in_a_batch(run, order, seed):
    hits, neighbors = random_neighbors(4, 5, 2, seed=seed)
    batch = run("expand", hits, neighbors, order=order)
    for i in range(4):
        alone = scored(*(tensor[i : i + 1] for tensor in neighbors))
        result = run("expand", hits[i : i + 1], alone, order=order)
        assert_same_bits(list(result), [tensor[i : i + 1] for tensor in batch])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout):
    hits, neighbors = random_neighbors(3, 4, 2)
    arranged = [LAYOUTS[layout](tensor.to(device)) for tensor in (hits, *neighbors)]
    result = run("expand", arranged[0], scored(*arranged[1:]))
    assert_same_bits(result, run("expand", hits, neighbors))


def test_threads(run, threads, backend):
    hits, neighbors = random_neighbors(4 if backend == "triton" else 600, 7, 1)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("expand", hits, neighbors))
    assert_same_bits(*results)
