"""corpus_masks: the mask of neighbor_scores with every row as a hit, a bit each."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import only_on
from tests.cases import NEIGHBOR_CASES
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
    row_of_subnormal_ties,
    sign_corpus,
)
from tests.strategies import gammas, lams, levels


def judged(call, queries, data, **options):
    """neighbor_scores of every row: its mask is [B, N, 2W]."""
    rows = torch.arange(len(data.embeddings)).expand(len(queries), -1)
    return call("neighbor_scores", queries, data.embeddings, data.continuity, rows,
                row_scale=data.row_scale, **options)  # fmt: skip


def masks_of(call, queries, data, **options):
    return call("corpus_masks", queries, data.embeddings, data.continuity,
                row_scale=data.row_scale, **options)  # fmt: skip


def unpacked(masks, data):
    """[B, N, 2W], and nothing beyond the last row."""
    import scar_gpu

    n = len(data.embeddings)
    wide = scar_gpu.unpack_masks(masks.bits, 32 * masks.bits.shape[2])
    assert not bool(wide[:, :, n:].any())
    mask = scar_gpu.unpack_masks(masks.bits, n)
    assert torch.equal(mask, wide[:, :, :n])
    return mask.movedim(1, 2)


def test_hand_case(operation):
    """Documents of levels (2, 0, 3) and (1, 4); query level 0, lam = gamma = 1/2.

    With row 1 as the hit, 1: row 0 has S = 0.625 > 0.5, row 2 has 0.4375. Row 0, 6/8: row 1 has
    S = 1 - (1 - 6/8) / 2 > 0.375. Row 2, 5/8: row 1 has S = 1 - (1 - 5/8) / 2 > 0.3125. Row 3,
    7/8: row 4 has S = 4/8 - (1 - 5/8) / 2 = 0.3125, too little. Row 4, 4/8: row 3 has 0.6875.
    """
    data = level_corpus([2, 0, 3], [1, 4])
    bits, relevance = masks_of(operation, level_rows([0]), data, lam=0.5, gamma=0.5,
                               return_relevance=True)  # fmt: skip
    assert bits.dtype == torch.int32
    assert bits.tolist() == [[[0b10110], [0b00001]]]
    assert_equal(relevance, torch.tensor([[6 / 8, 1, 5 / 8, 7 / 8, 4 / 8]]))
    assert masks_of(operation, level_rows([0]), data).relevance is None


@pytest.mark.parametrize(
    "case",
    [case for case in NEIGHBOR_CASES if "relevance" not in case.options],
    ids=lambda case: case.name,
)
def test_the_hand_cases_of_neighbor_scores(operation, case):
    options = dict(case.options)
    data = level_corpus(*case.documents, window=options.pop("window", 1))
    masks = masks_of(operation, level_rows(case.queries), data, **options)
    mask = unpacked(masks, data)
    for q, hits in enumerate(case.hits):
        for k, hit in enumerate(hits):
            if hit >= 0:
                assert mask[q, hit].tolist() == case.mask[q][k]


def test_the_last_bit_of_a_word_is_its_sign(operation):
    """All rows alike: each admits both neighbours."""
    data = level_corpus([0] * 64)
    bits = masks_of(operation, level_rows([0]), data).bits
    assert bits.tolist() == [[[-2, -1], [-1, 2**31 - 1]]]


@pytest.mark.parametrize(
    ("dtype", "window", "contiguous"),
    [
        (torch.float32, 1, False),
        (torch.float32, 3, True),
        (torch.float16, 2, False),
        (torch.bfloat16, 0, False),
        (torch.bfloat16, 2, True),
    ],
    ids=str,
)
def test_agrees_with_neighbor_scores_on_a_grid(
    run, backend, search_shape, dtype, window, contiguous
):
    """On the CPU exactly; on a GPU except within rounding, and exactly with relevances."""
    b, _, n, dim = search_shape
    data = random_corpus(n, dim, window=window, dtype=dtype)
    queries = random_queries(data.embeddings, b)
    options = {"lam": 0.25, "gamma": 0.75, "contiguous": contiguous}
    expected = judged(run, queries, data, **options)
    masks = masks_of(run, queries, data, **options)
    known = masks_of(run, queries, data, **options, return_relevance=True)
    assert_same_bits(known.relevance, expected.relevance)
    assert torch.equal(unpacked(known, data), expected.mask)
    differs = unpacked(masks, data) != expected.mask
    if backend == "cpu":
        assert not bool(differs.any())
    else:
        assert not bool((differs & ~within_rounding(expected, 0.75, dim)).any())


def within_rounding(judged, gamma, dim):
    """Where the contract leaves a decision open; walking on with `contiguous` it passes it on."""
    margin = (judged.scores - gamma * judged.relevance[..., None]).abs()
    return (margin <= 4 * dim * 2.0**-24 * (1 + abs(gamma))).any(2, keepdim=True)


def ties_but_for_rounding(n, b, dim):
    """(rows, queries): pairs of rows with their halves exchanged, queries of two equal halves.

    With lam = 0 and gamma = 1 a row's S is its neighbour's threshold, summed in another order.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n // 2, dim, generator=generator)
    rows = torch.stack([rows, rows.roll(dim // 2, 1)], 1).flatten(0, 1)
    return rows, torch.randn(b, dim // 2, generator=generator).repeat(1, 2)


@only_on("cpu")
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_decisions_within_rounding_are_those_of_neighbor_scores(run, threads, dtype):
    """All of them are, and a matrix product alone gets some wrong."""
    import scar_gpu

    rows, queries = ties_but_for_rounding(5000, 130, 48)
    index = scar_gpu.ChunkIndex.build(rows, torch.arange(0, 5001, 2), dtype=dtype)
    hits = torch.arange(5000).expand(130, -1)
    expected = index.neighbor_scores(queries, hits, lam=0.0, gamma=1.0)
    inside = expected.scores > -torch.inf
    assert int((within_rounding(expected, 1.0, 48) & inside).sum()) == 130 * 5000
    product = (
        queries @ index.embeddings.float().T * index.row_scale / queries.norm(dim=1, keepdim=True)
    )
    naive = product.roll(-1, 1)[:, ::2] > product[:, ::2]
    assert not torch.equal(naive, expected.mask[:, ::2, 1])
    results = []
    for count in (1, 2):
        threads(count)
        for batch in (3, 9, 130):
            bits = index.corpus_masks(queries[:batch], lam=0.0, gamma=1.0).bits
            mask = scar_gpu.unpack_masks(bits, 5000).movedim(1, 2)
            assert torch.equal(mask, expected.mask[:batch])
            results.append(bits[:3])
    assert_same_bits(results[1:], results[:-1])


@only_on("triton")
def test_a_product_decides_what_is_not_within_rounding(run):
    import scar_gpu

    rows, queries = ties_but_for_rounding(40, 3, 48)
    offsets = torch.arange(0, 41, 2)
    scale = run("row_scale", rows)
    table = run("continuity", rows, offsets, row_scale=scale)
    args, hits = (queries, rows, table), torch.arange(40).expand(3, -1)
    options = {"lam": 0.0, "gamma": 1.0, "row_scale": scale}
    expected = run("neighbor_scores", *args, hits, **options)
    close = within_rounding(expected, 1.0, 48) & (expected.scores > -torch.inf)
    assert int(close.sum()) == 3 * 40

    mask = scar_gpu.unpack_masks(run("corpus_masks", *args, **options).bits, 40).movedim(1, 2)
    assert not bool(((mask != expected.mask) & ~close).any())
    exact = run("corpus_masks", *args, **options, return_relevance=True)
    assert torch.equal(scar_gpu.unpack_masks(exact.bits, 40).movedim(1, 2), expected.mask)


@only_on("triton")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_too_short_for_a_product_have_canonical_cosines(run, dtype):
    """Those below 2^-80; pairs of rows that tie but for rounding show it, at every length."""
    import scar_gpu
    from scar_gpu.kernels import corpus_masks

    powers = (-120, -100, -81, -79, 0, 60, 120)
    rows, queries = ties_but_for_rounding(6 * len(powers), 3, 48)
    rows = torch.nn.functional.normalize(rows, dim=1)
    rows *= 2.0 ** torch.tensor(powers).repeat_interleave(6)[:, None]
    # What of bfloat16 is subnormal the interpreter reads as zero.
    rows[rows.abs() < 2.0**-126] = 2.0**-126
    rows = rows.to(dtype)
    queries[1] *= 2.0**-100
    queries[2] *= 2.0**100
    scale = run("row_scale", rows)
    table = run("continuity", rows, torch.arange(0, len(rows) + 1, 2), row_scale=scale)
    hits = torch.arange(len(rows)).expand(3, -1)
    options = {"lam": 0.0, "gamma": 1.0, "row_scale": scale}
    expected = run("neighbor_scores", queries, rows, table, hits, **options)
    products = corpus_masks._products(queries, rows, scale)
    is_short = scale >= 2.0**80
    assert is_short.tolist() == [power < -80 for power in powers for _ in range(6)]
    assert_same_bits(products[:, is_short], expected.relevance[:, is_short])
    long = products[:, ~is_short] - expected.relevance[:, ~is_short]
    assert bool(long.any())
    assert float(long.abs().max()) <= 4 * 48 * 2.0**-24

    masks = run("corpus_masks", queries, rows, table, **options)
    mask = scar_gpu.unpack_masks(masks.bits, len(rows)).movedim(1, 2)
    assert torch.equal(mask[:, is_short], expected.mask[:, is_short])
    close = within_rounding(expected, 1.0, 48)
    assert not bool(((mask != expected.mask) & ~close).any())


@only_on("triton")
def test_short_rows_in_passes_over_many(run, monkeypatch):
    """Blocks that hold some, one or none, and more queries than programs share."""
    from scar_gpu.kernels import corpus_masks

    monkeypatch.setattr(corpus_masks, "SHORT_BLOCK", 8)
    monkeypatch.setattr(corpus_masks, "SHORT_SLICES", 2)
    rows = random_corpus(37, 40).embeddings + 0.25
    short = torch.tensor([0, 7, 17, 18, 36])
    rows[short] *= 2.0**-90
    queries = torch.cat([random_queries(rows, 4), torch.zeros(1, 40)])
    queries[3, 2] = torch.nan
    scale = run("row_scale", rows)
    hits = torch.arange(37).expand(5, -1)
    exact = run("neighbor_scores", queries, rows, torch.ones(0, 37), hits, row_scale=scale)
    products = corpus_masks._products(queries, rows, scale)
    assert_same_bits(products[:, short], exact.relevance[:, short])


@only_on("triton")
def test_passes_over_blocks_of_queries_and_rows(run, monkeypatch):
    """Stretches of one and two words, blocks of two queries: the halo crosses their ends."""
    from scar_gpu.kernels import corpus_masks

    data = random_corpus(100, 40, window=3)
    queries = random_queries(data.embeddings, 3)
    options = {"lam": 0.25, "gamma": 0.5}
    whole = masks_of(run, queries, data, **options)
    monkeypatch.setattr(corpus_masks, "MAX_QUERIES", 2)
    for scratch in (0, 8 * 70):
        monkeypatch.setattr(corpus_masks, "SCRATCH_BYTES", scratch)
        assert_same_bits(masks_of(run, queries, data, **options).bits, whole.bits)


@only_on("cpu")
def test_rows_too_short_for_a_product_are_judged_by_canonical_scores(run):
    """Just above the threshold, as neighbours; their products are below it by more than a bound."""
    import scar_gpu

    short = row_of_subnormal_ties()
    rows = torch.full((9000, len(short)), 1 / 16)
    rows[4::2000] = short
    scale = run("row_scale", rows)
    # S is the neighbour's cosine less 1 + 400 * 2^-24, whatever the parent; the threshold is 0.
    table = torch.zeros(1, len(rows))
    hits = torch.arange(len(rows))[None]
    options = {"lam": 1 + 400 * 2.0**-24, "gamma": 0.0, "row_scale": scale}
    expected = run("neighbor_scores", torch.ones(1, len(short)), rows, table, hits, **options).mask
    assert bool(expected[0, 3::2000, 1].all())
    assert bool(expected[0, 5::2000, 0].all())
    masks = run("corpus_masks", torch.ones(12, len(short)), rows, table, **options)
    mask = scar_gpu.unpack_masks(masks.bits, len(rows)).movedim(1, 2)
    assert torch.equal(mask, expected.expand_as(mask))


@only_on("cpu")
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_groups_of_queries(run, dtype):
    """2,500 queries are three products per tile; 5,000 are two blocks."""
    data = random_corpus(100, 40, dtype=dtype)
    queries = random_queries(data.embeddings, 5000)
    expected = judged(run, queries, data).mask
    for batch in (2500, 5000):
        assert torch.equal(unpacked(masks_of(run, queries[:batch], data), data), expected[:batch])


@only_on("cpu")
@pytest.mark.parametrize("batch", [2, 20, 300])
@pytest.mark.parametrize("window", [1, 5])
def test_tiles_and_documents_of_any_length(run, batch, window):
    """17,000 rows are several tiles for 300 queries; documents and the halo cross their ends."""
    n = 17_000
    data = random_corpus(n, 8, window=window)
    queries = random_queries(data.embeddings, batch)
    expected = judged(run, queries, data, contiguous=True)
    masks = masks_of(run, queries, data, contiguous=True)
    assert torch.equal(unpacked(masks, data), expected.mask)


@st.composite
def corpora(draw):
    documents = draw(st.lists(st.lists(levels, max_size=20), min_size=1, max_size=4))
    data = level_corpus(*documents, window=draw(st.integers(0, 3)))
    return level_rows(draw(st.lists(levels, min_size=1, max_size=12))), data


@given(question=corpora(), lam=lams, gamma=gammas, contiguous=st.booleans())
def test_equals_neighbor_scores_where_arithmetic_is_exact(run, question, lam, gamma, contiguous):
    """Their scores have the same bits in any order of summation."""
    queries, data = question
    options = {"lam": lam, "gamma": gamma, "contiguous": contiguous}
    expected = judged(run, queries, data, **options).mask
    for asked in (False, True):
        masks = masks_of(run, queries, data, **options, return_relevance=asked)
        assert torch.equal(unpacked(masks, data), expected)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dim", [*EXACT_DIMS, 1024])
def test_exact_arithmetic(run, backend, dim, dtype):
    from scar_gpu import reference

    b, n = (2, 35) if backend == "triton" else (20, 900)
    data = sign_corpus(n, dim, window=2)
    queries = sign_corpus(b, dim, seed=7).embeddings
    args = (queries, data.embeddings.to(dtype), data.continuity)
    options = {"lam": 0.125, "gamma": 0.75, "row_scale": torch.full((n,), dim**-0.5)}
    exact = reference.corpus_masks(*args, **options, return_relevance=True)
    assert_same_bits(run("corpus_masks", *args, **options).bits, exact.bits)
    known = run("corpus_masks", *args, **options, return_relevance=True)
    assert_same_bits(known.bits, exact.bits)
    assert_equal(known.relevance, exact.relevance)


@only_on("cpu")
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_a_lowered_matmul_precision_changes_nothing(run, precision):
    data = random_corpus(300, 64)
    queries = random_queries(data.embeddings, 40)
    expected = judged(run, queries, data).mask
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        masks = masks_of(run, queries, data)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(unpacked(masks, data), expected)


@only_on("cpu")
def test_odd_queries_and_rows_among_many(run):
    data = random_corpus(200, 24)
    data.embeddings[7], data.embeddings[9, 3] = torch.nan, torch.inf
    queries = random_queries(data.embeddings, 20)
    queries[:] = random_queries(random_corpus(200, 24).embeddings, 20)
    queries[3], queries[4, 0], queries[5, 1] = 0, torch.nan, torch.inf
    queries[6] *= 1e30
    expected = judged(run, queries, data).mask
    mask = unpacked(masks_of(run, queries, data), data)
    assert torch.equal(mask, expected)
    assert not bool(mask[3:6].any())
    assert bool(mask[6].any())


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, backend, device, layout, dtype):
    data = random_corpus(40, 100, window=2, dtype=dtype)
    queries = random_queries(data.embeddings, 3 if backend == "triton" else 12)
    plain = masks_of(run, queries, data)
    arrange = LAYOUTS[layout]
    rows = ROW_LAYOUTS.get(layout, lambda rows: rows)(data.embeddings.to(device))
    result = run(
        "corpus_masks", arrange(queries.to(device)), rows, arrange(data.continuity.to(device)),
        row_scale=arrange(data.row_scale.to(device)),
    )  # fmt: skip
    assert_same_bits(result.bits, plain.bits)


@pytest.mark.parametrize(
    ("bits", "n_chunks", "error", "message"),
    [
        ([1], 3, TypeError, "bits must be a torch.Tensor, got list"),
        (torch.zeros(2, 1), 3, TypeError, "bits must be int32, got torch.float32"),
        (torch.zeros(2, 1, dtype=torch.int32), 33, ValueError,
         "bits must have shape [..., 2], got [2, 1]"),
        (torch.zeros(2, dtype=torch.int32), -1, ValueError, "n_chunks must be >= 0, got -1"),
    ],
)  # fmt: skip
def test_unpacking_something_else(bits, n_chunks, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.unpack_masks(bits, n_chunks)
