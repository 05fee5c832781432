"""Queries and rows near the ends of their number formats."""

import itertools

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_close, tolerance
from tests.corpora import ROW_DTYPES, random_corpus, random_question

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


@only_on("triton", "cuda")
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float32, 4e-39), *itertools.product(ROW_DTYPES[::2], (1e-37, 1e-20, 1e20, 8e37))],
    ids=str,
)
def test_lengths_at_both_ends(run, size, dtype):
    """Rows of one length, in queries of every length: the result's error is that of length 1.

    But for rows so short that their products are subnormal, which are rounded to 2^-149.
    """
    from scar_gpu import reference

    rows = torch.nn.functional.normalize(random_corpus(9, DIM).embeddings + 0.5, dim=1)
    rows = (rows.double() * size).to(dtype)
    offsets = torch.tensor([0, 9])
    scale = run("row_scale", rows)
    table = run("continuity", rows, offsets, window=2, row_scale=scale)
    exact = reference.continuity(rows, offsets, window=2, row_scale=scale)
    assert_close(table, exact, tolerance(DIM, dtype))
    queries = torch.nn.functional.normalize(torch.randn(5, DIM), dim=1).double()
    queries[:, ::2] += rows.double()[:5, ::2] / size
    queries = (queries * torch.tensor([[1e-40], [1e-30], [1.0], [1e30], [1e38]])).float()
    hits = torch.tensor([[4, 0], [8, 2], [1, 6], [7, 5], [3, 3]])
    options = {"row_scale": scale}
    exact = reference.neighbor_scores(queries, rows, table, hits, **options)
    actual = run("neighbor_scores", queries, rows, table, hits, **options)
    allowed = tolerance(DIM, dtype, 0.1) + DIM**0.5 * 2.0**-149 * float(scale.max()) * 4
    assert_close(actual.relevance, exact.relevance, allowed)
    assert_close(actual.scores, exact.scores, allowed)
    assert allowed < 2e-5
    found = run("search", queries, rows, 9, **options)
    exact = reference.search(queries, rows, 9, **options)
    assert_close(found.scores, exact.scores, allowed)


@only_on("triton", "cuda")
def test_the_longest_queries_and_rows_together(run):
    """Their products leave float32 unless the query is scaled first."""
    rows = torch.full((2, DIM), 8e37 / DIM**0.5)
    scale = run("row_scale", rows)
    queries = torch.full((1, DIM), 3.4e38)
    judged = run(
        "neighbor_scores", queries, rows, torch.ones(1, 2), torch.tensor([[0]]), row_scale=scale
    )
    assert_close(judged.relevance, torch.ones(1, 1), tolerance(DIM, torch.float32))
