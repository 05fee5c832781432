"""scar_expand: neighbor_scores and expand in one call, bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import INF
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import (
    EXACT_DIMS,
    LAYOUTS,
    ROW_DTYPES,
    ROW_LAYOUTS,
    level_corpus,
    level_rows,
    random_hits,
    random_question,
    sign_corpus,
)
from tests.strategies import gammas, lams, orders, questions


def in_two_calls(run, args, options, order="rank"):
    neighbors = run("neighbor_scores", *args, **options)
    return run("expand", args[3], neighbors, order=order)


@pytest.mark.parametrize("order", ["rank", "document"])
def test_hand_case(operation, order):
    """Two documents of levels (2, 0, 3) and (1, 4); the query is level 0, lam = gamma = 1/2.

    Hit 4: 1 - 4/8 = 0.5; its neighbour 3: S = 7/8 - (1 - 5/8) / 2 = 0.6875 > 0.25, admitted.
    Hit 1: 1; neighbour 0: S = 6/8 - (1 - 6/8) / 2 = 0.625 > 0.5, admitted;
    neighbour 2: S = 5/8 - (1 - 5/8) / 2 = 0.4375, refused.
    """
    data = level_corpus([2, 0, 3], [1, 4])
    expansion = operation(
        "scar_expand", level_rows([0]), data.embeddings, data.continuity,
        torch.tensor([[4, -1, 1]]), lam=0.5, gamma=0.5, row_scale=data.row_scale, order=order,
    )  # fmt: skip
    rows = [(3, 0.6875, 0), (4, 0.5, 0), (0, 0.625, 2), (1, 1.0, 2)]
    ids, scores, anchors = zip(*(sorted(rows) if order == "document" else rows), strict=True)
    assert_equal(expansion.ids, torch.tensor([[*ids, *[-1] * 5]]))
    assert_equal(expansion.scores, torch.tensor([[*scores, *[-INF] * 5]]))
    assert_equal(expansion.anchors, torch.tensor([[*anchors, *[-1] * 5]]))
    assert_equal(expansion.lengths, torch.tensor([4]))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("order", ["rank", "document"])
def test_equals_the_two_calls(run, neighbor_shape, order, dtype):
    args, options = random_question(neighbor_shape, dtype)
    one = run("scar_expand", *args, **options, order=order)
    assert_same_bits(one, in_two_calls(run, args, options, order))


def test_defaults_are_those_of_the_two_calls(run):
    args, options = random_question((3, 4, 2, 30, 96))
    given_all = run(
        "scar_expand", *args, **options, lam=0.1, gamma=0.8, contiguous=False, order="rank"
    )
    assert_same_bits(run("scar_expand", *args, **options), given_all)


@given(
    question=questions(),
    lam=lams,
    gamma=gammas,
    contiguous=st.booleans(),
    order=orders,
    given_relevance=st.booleans(),
)
def test_equals_the_two_calls_with_any_option(
    run, question, lam, gamma, contiguous, order, given_relevance
):
    options = {
        "lam": lam,
        "gamma": gamma,
        "contiguous": contiguous,
        "row_scale": question.corpus.row_scale,
    }
    if given_relevance:
        relevance = run("neighbor_scores", *question.args, **options).relevance
        options["relevance"] = relevance / 2
    one = run("scar_expand", *question.args, **options, order=order)
    assert_same_bits(one, in_two_calls(run, question.args, options, order))


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("order", ["rank", "document"])
@pytest.mark.parametrize("dim", EXACT_DIMS)
def test_exact_arithmetic(run, backend, dim, order, contiguous):
    from scar_gpu import reference

    b, k = (2, 3) if backend == "triton" else (40, 7)
    data = sign_corpus(70, dim, window=2)
    queries = sign_corpus(b, dim, seed=7).embeddings
    args = (queries, data.embeddings, data.continuity, random_hits(70, b, k))
    options = {
        "lam": 0.125,
        "gamma": 0.75,
        "contiguous": contiguous,
        "row_scale": data.row_scale,
        "order": order,
    }
    exact = reference.scar_expand(*args, **options)
    for one, other in zip(run("scar_expand", *args, **options), exact, strict=True):
        assert_equal(one, other)


@given(question=questions(), lam=lams, gamma=gammas, order=orders)
def test_superset_of_the_hits_inside_the_window(run, question, lam, gamma, order):
    """The hits are in SCAR, SCAR is in Window; every row once."""
    hits, window = question.hits, question.window
    scar = run(
        "scar_expand", *question.args, lam=lam, gamma=gamma, order=order,
        row_scale=question.corpus.row_scale,
    )  # fmt: skip
    static = run("window_expand", hits, question.corpus.doc_offsets, before=window, after=window)
    for q, length in enumerate(scar.lengths.tolist()):
        rows = scar.ids[q, :length].tolist()
        assert len(set(rows)) == length
        assert {row for row in hits[q].tolist() if row >= 0} <= set(rows)
        assert set(rows) <= set(static.ids[q].tolist()) - {-1}


@given(question=questions(queries=st.none()), lam=lams, gamma=gammas)
def test_a_zero_query_expands_nothing(run, question, lam, gamma):
    """Its relevance is 0 everywhere and no S exceeds 0, whatever the rows repeat."""
    expansion = run(
        "scar_expand", *question.args, lam=lam, gamma=gamma, row_scale=question.corpus.row_scale
    )
    for q, length in enumerate(expansion.lengths.tolist()):
        hits = dict.fromkeys(row for row in question.hits[q].tolist() if row >= 0)
        assert expansion.ids[q, :length].tolist() == list(hits)
        assert bool((expansion.scores[q, :length] == 0).all())


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_a_row_alone_equals_the_row_in_a_batch(run, batch_shape, dtype):
    (queries, embeddings, table, hits), options = random_question(batch_shape, dtype)
    batch = run("scar_expand", queries, embeddings, table, hits, **options)
    for i in range(0, len(hits), max(1, len(hits) // 5)):
        row = slice(i, i + 1)
        alone = run("scar_expand", queries[row], embeddings, table, hits[row], **options)
        assert_same_bits(list(alone), [tensor[row] for tensor in batch])


def test_threads(run, threads, batch_shape):
    args, options = random_question(batch_shape)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("scar_expand", *args, **options))
    assert_same_bits(*results)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout, dtype):
    args, options = random_question((3, 3, 2, 40, 100), dtype)
    arranged = [LAYOUTS[layout](tensor.to(device)) for tensor in args]
    if layout not in ROW_LAYOUTS:
        arranged[1] = args[1]
    assert_same_bits(run("scar_expand", *arranged, **options), run("scar_expand", *args, **options))
