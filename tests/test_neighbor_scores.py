"""neighbor_scores: S = cos(q, e_n) - lam * (1 - cos(e_c, e_n)) against gamma * relevance."""

import pytest
import torch
from hypothesis import given

from tests.backends import only_on
from tests.cases import NEIGHBOR_CASES
from tests.closeness import ROUNDING, assert_close, assert_equal, assert_same_bits, tolerance
from tests.corpora import (
    EXACT_DIMS,
    LAYOUTS,
    ROW_DTYPES,
    ROW_LAYOUTS,
    level_corpus,
    level_rows,
    offsets,
    random_corpus,
    random_hits,
    random_queries,
    random_question,
    sign_corpus,
)
from tests.strategies import gammas, lams, questions

LAM, GAMMA = 0.1, 0.8  # the defaults
# Queries of another dtype than the rows.
QUERY_DTYPE = dict(zip(ROW_DTYPES, (torch.bfloat16, torch.float32, torch.float16), strict=True))


@pytest.mark.parametrize("hits_dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("case", NEIGHBOR_CASES, ids=lambda case: case.name)
def test_hand_cases(operation, case, hits_dtype):
    options = dict(case.options)
    data = level_corpus(*case.documents, window=options.pop("window", 1))
    if "relevance" in options:
        options["relevance"] = torch.tensor(options["relevance"])
    relevance, scores, mask = operation(
        "neighbor_scores",
        level_rows(case.queries),
        data.embeddings,
        data.continuity,
        torch.tensor(case.hits, dtype=hits_dtype),
        row_scale=data.row_scale,
        **options,
    )
    assert_equal(relevance, torch.tensor(case.relevance))
    assert torch.equal(mask, torch.tensor(case.mask))
    if case.scores is not None:
        assert_equal(scores, torch.tensor(case.scores))


def assert_mask(mask, scores, threshold, margin):
    """The mask is scores > threshold where they are more than a margin apart: nearly everywhere."""
    near = (scores.double() - threshold.double()).abs() <= margin
    assert near.sum() <= 0.001 * near.numel()
    assert torch.equal(mask & ~near, (scores > threshold) & ~near)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_reference_on_a_grid(run, neighbor_shape, dtype):
    from scar_gpu import reference

    dim = neighbor_shape[-1]
    (queries, *rest), options = random_question(neighbor_shape, dtype)
    args = (queries.to(QUERY_DTYPE[dtype]), *rest)
    exact = reference.neighbor_scores(*args, **options)
    actual = run("neighbor_scores", *args, **options)
    assert_close(actual.relevance, exact.relevance, tolerance(dim, dtype))
    assert_close(actual.scores, exact.scores, tolerance(dim, dtype, LAM))
    # Against its own numbers: one rounding of the threshold. Against the reference: both errors.
    rounding = ROUNDING[torch.float32]
    threshold = GAMMA * actual.relevance.double()[..., None]
    assert_mask(actual.mask, actual.scores.double(), threshold, rounding)
    margin = tolerance(dim, dtype, LAM) + GAMMA * tolerance(dim, dtype) + rounding
    assert_mask(actual.mask, exact.scores, GAMMA * exact.relevance[..., None], margin)


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dim", EXACT_DIMS)
def test_exact_arithmetic(run, backend, dim, dtype, contiguous):
    """Cosines are multiples of 1 / dim, lam and gamma of 1 / 8: numbers and decisions are exact."""
    from scar_gpu import reference

    b, k = (3, 2) if backend == "triton" else (40, 7)
    data = sign_corpus(70, dim, window=3)
    queries = sign_corpus(b, dim, seed=7).embeddings
    hits = random_hits(70, b, k)
    args = (queries, data.embeddings.to(dtype), data.continuity, hits)
    options = {"lam": 0.125, "gamma": 0.75, "contiguous": contiguous, "row_scale": data.row_scale}
    exact = reference.neighbor_scores(*args, **options)
    actual = run("neighbor_scores", *args, **options)
    assert_equal(actual.relevance, exact.relevance)
    assert_equal(actual.scores, exact.scores)
    assert torch.equal(actual.mask, exact.mask)
    # Scaling a query by a power of two changes nothing.
    for exponent in (60, -60):
        scaled = run("neighbor_scores", queries * 2.0**exponent, *args[1:], **options)
        assert_same_bits(scaled, actual)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_without_a_scale_rows_count_as_unit(run, dtype):
    data = level_corpus([2, 0, 3])
    args = (level_rows([0]), data.continuity, torch.tensor([[1]]))
    unit = run("neighbor_scores", args[0], (data.embeddings / 4).to(dtype), *args[1:])
    scale = data.row_scale
    scaled = run("neighbor_scores", args[0], data.embeddings.to(dtype), *args[1:], row_scale=scale)
    assert_same_bits(unit, scaled)
    assert unit.relevance.item() == 1.0


@pytest.mark.parametrize("query_exponent", [120, 0, -100, -140])
@pytest.mark.parametrize("row_exponent", [120, 0, -120])
def test_norms_of_any_size(run, row_exponent, query_exponent):
    """Rows and queries whose products leave float32, or are subnormal, have the same cosines."""
    rows = level_rows([2, 0, 3]) * 2.0**row_exponent
    scale = run("row_scale", rows)
    table = run("continuity", rows, offsets(3), row_scale=scale)
    queries = level_rows([0]) * 2.0**query_exponent
    relevance, scores, _ = run(
        "neighbor_scores", queries, rows, table, torch.tensor([[1]]), lam=0.5, row_scale=scale
    )
    assert relevance.item() == 1.0
    assert scores.tolist() == [[[6 / 8 - 0.5 * 2 / 8, 5 / 8 - 0.5 * 3 / 8]]]


def test_contiguous_changes_the_mask_alone(run, backend):
    shape = (6, 4, 4, 40, 96) if backend == "triton" else (50, 6, 4, 200, 96)
    args, options = random_question(shape)
    options["gamma"] = 0.4
    window = shape[2]
    each = run("neighbor_scores", *args, **options)
    chain = run("neighbor_scores", *args, **options, contiguous=True)
    assert_same_bits(chain[:2], each[:2])
    left = each.mask[..., :window].flip(-1).int().cumprod(-1).flip(-1).bool()
    right = each.mask[..., window:].int().cumprod(-1).bool()
    assert torch.equal(chain.mask, torch.cat([left, right], -1))
    assert not torch.equal(chain.mask, each.mask)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_a_row_alone_equals_the_row_in_a_batch(run, batch_shape, dtype):
    (queries, embeddings, table, hits), options = random_question(batch_shape, dtype)
    batch = run("neighbor_scores", queries, embeddings, table, hits, **options)
    for i in range(0, len(hits), max(1, len(hits) // 5)):
        row = slice(i, i + 1)
        for columns in (slice(None), slice(-1, None)):
            alone = run(
                "neighbor_scores", queries[row], embeddings, table, hits[row, columns], **options
            )
            assert_same_bits(list(alone), [tensor[row, columns] for tensor in batch])


def test_threads(run, threads, batch_shape):
    args, options = random_question(batch_shape)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("neighbor_scores", *args, **options))
    assert_same_bits(*results)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout, dtype):
    """Strides and offsets of any input change no bit; only the rows must keep theirs dense."""
    args, options = random_question((3, 3, 2, 40, 100), dtype)
    args = tuple(tensor.to(device) for tensor in args)
    plain = run("neighbor_scores", *args, **options)
    arrange = LAYOUTS[layout]
    rows = ROW_LAYOUTS.get(layout, lambda tensor: tensor)(args[1])
    relevance = arrange(plain.relevance.to(device))
    scale = arrange(options["row_scale"].to(device))
    queries, table, hits = arrange(args[0]), arrange(args[2]), arrange(args[3])
    assert_same_bits(run("neighbor_scores", queries, rows, table, hits, row_scale=scale), plain)
    given = run("neighbor_scores", queries, rows, table, hits, row_scale=scale, relevance=relevance)
    assert_same_bits(given, plain)


def test_expanded_inputs(run):
    """Stride 0: one query and one list of hits for the whole batch."""
    args, options = random_question((1, 3, 1, 20, 96))
    one = run("neighbor_scores", *args, **options)
    queries, embeddings, table, hits = args
    many = run(
        "neighbor_scores", queries.expand(4, -1), embeddings, table, hits.expand(4, -1), **options
    )
    for i in range(4):
        assert_same_bits([tensor[i : i + 1] for tensor in many], list(one))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 3, 96, 384, 1000])
def test_a_relevance_is_one_number(run, dim, dtype):
    """With lam = 0 the S of a neighbour is its relevance as a hit, bit for bit."""
    n = 12
    data = random_corpus(n, dim, dtype=dtype)
    queries = random_queries(data.embeddings, 1)
    hits = torch.arange(n)[None]
    relevance, scores, _ = run(
        "neighbor_scores", queries, data.embeddings, data.continuity, hits, lam=0.0,
        row_scale=data.row_scale,
    )  # fmt: skip
    same_document = ~data.continuity[0, :-1].isnan()
    assert bool(same_document.any())
    assert_equal(scores[0, :-1, 1][same_document], relevance[0, 1:][same_document])
    assert_equal(scores[0, 1:, 0][same_document], relevance[0, :-1][same_document])


@given(question=questions(), gamma=gammas, step=lams, lam=lams)
def test_a_larger_gamma_admits_no_more_where_relevance_is_not_negative(
    run, question, gamma, step, lam
):
    scale = question.corpus.row_scale
    small = run("neighbor_scores", *question.args, lam=lam, gamma=gamma, row_scale=scale)
    large = run("neighbor_scores", *question.args, lam=lam, gamma=gamma + step, row_scale=scale)
    more = large.mask & ~small.mask & (small.relevance >= 0)[..., None]
    assert not bool(more.any())


@given(question=questions(), gamma=gammas, step=lams, lam=lams)
def test_a_larger_lam_admits_no_more(run, question, gamma, step, lam):
    scale = question.corpus.row_scale
    small = run("neighbor_scores", *question.args, lam=lam, gamma=gamma, row_scale=scale)
    large = run("neighbor_scores", *question.args, lam=lam + step, gamma=gamma, row_scale=scale)
    assert not bool((large.mask & ~small.mask).any())


@only_on("triton", "cuda")
def test_ids_outside_the_matrix_are_padding(run):
    """Nothing on these backends may look at an id before the kernel does."""
    args, options = random_question((2, 4, 2, 20, 96))
    bad = torch.tensor([[20, 3, -2, 2**31 - 1], [4, 2**40, -(2**40), 19]])
    padded = torch.tensor([[-1, 3, -1, -1], [4, -1, -1, 19]])
    refused = run("neighbor_scores", *args[:3], bad, **options)
    assert_same_bits(refused, run("neighbor_scores", *args[:3], padded, **options))
