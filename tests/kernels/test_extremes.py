"""Queries and rows near the ends of their number formats."""

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_close, tolerance
from tests.corpora import random_corpus, random_question

pytestmark = pytest.mark.usefixtures("run")  # defines the operations
DIM = 96
SHAPE = (2, 3, 1, 20, DIM)


def assert_scores_right(run, queries, args, options):
    from scar_gpu import reference

    exact = reference.neighbor_scores(queries, *args, **options)
    actual = run("neighbor_scores", queries, *args, **options)
    assert bool((exact.relevance.abs() > 1e-3).any())
    assert_close(actual.relevance, exact.relevance, tolerance(DIM, args[0].dtype))
    assert_close(actual.scores, exact.scores, tolerance(DIM, args[0].dtype, 0.1))


@only_on("triton", "cuda")
@pytest.mark.parametrize("size", [1e-35, 1e-30, 1e-20, 1e20, 1e30, 8e37])
def test_sizes_of_a_float32_query(run, size):
    (queries, *args), options = random_question(SHAPE)
    queries = queries / queries.abs().amax(1, keepdim=True) * size
    assert_scores_right(run, queries, args, options)


@only_on("triton", "cuda")
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float32, 1e-40), (torch.float16, 2e-7), (torch.float16, 6e4), (torch.bfloat16, 3e38)],
    ids=str,
)
def test_queries_of_subnormal_and_largest_numbers(run, dtype, size):
    """What such a query lost to rounding is lost to the reference as well."""
    (queries, *args), options = random_question(SHAPE)
    queries = (queries / queries.abs().amax(1, keepdim=True) * size).to(dtype)
    assert_scores_right(run, queries, args, options)


@only_on("triton", "cuda")
def test_one_large_entry_among_small_ones(run):
    (queries, *args), options = random_question(SHAPE)
    queries[0, 5], queries[1] = 3e38, 0
    queries[1, 7] = 1e-45
    assert_scores_right(run, queries, args, options)


@only_on("triton", "cuda")
@pytest.mark.parametrize("size", [1e-30, 1e-10, 1e10, 1e30, 1e37])
def test_sizes_of_rows(run, size):
    """The largest squares leave float32 by far; row_scale and continuity must not notice."""
    from scar_gpu import reference

    data = random_corpus(12, DIM)
    rows = data.embeddings / data.embeddings.abs().max() * size
    exact = reference.row_scale(rows)
    scale = run("row_scale", rows)
    relative = torch.where(exact == 0, 1.0, scale.double() / exact)
    assert_close(relative, torch.ones(12), 2.0**-23)
    table = run("continuity", rows, data.doc_offsets, window=2, row_scale=scale)
    exact = reference.continuity(rows, data.doc_offsets, window=2, row_scale=scale)
    assert_close(table, exact, tolerance(DIM, torch.float32))
    (queries, _, _, hits), _ = random_question((2, 3, 1, 12, DIM))
    assert_scores_right(run, queries, (rows, table, hits), {"row_scale": scale})


@only_on("triton", "cuda")
def test_scale_of_rows_at_the_ends_of_float32(run):
    from scar_gpu import reference

    rows = torch.zeros(4, 3)
    rows[0], rows[1, 0], rows[2, 1] = 3e38, 3e38, 1e-38
    scale = run("row_scale", rows)
    exact = reference.row_scale(rows)
    # 1 / 5e38 is subnormal: its steps are 2^-149
    assert_close(scale[:2], exact[:2], 2.0**-149)
    assert torch.equal(scale[2:], exact[2:].float())
