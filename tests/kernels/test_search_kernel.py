"""The GPU plan of search: whatever the filter's rounding, the result has the canonical scores."""

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import (
    ROW_DTYPES,
    random_corpus,
    random_queries,
    seeded,
    sign_corpus,
)

pytestmark = pytest.mark.usefixtures("run")  # defines the operations
GROUP, HIGHEST = 4, 2**63 - 1


def small_plan(monkeypatch, n_chosen, n_slices=2, n_queries=100):
    """The filter for a few rows: tiny groups and tiles. Returns the floors of every pass."""
    from scar_gpu.kernels import search, search_filter, search_select

    def tile(n_queries, dtype, warp_size):
        return {"BLOCK_Q": 16, "BLOCK_N": 16, "BLOCK_D": search_filter.tile_columns(dtype),
                "num_warps": 4, "num_stages": 2}  # fmt: skip

    plan = search.Plan(GROUP, n_chosen, n_slices, n_queries)
    monkeypatch.setattr(search, "default_config", lambda *_: plan)
    monkeypatch.setattr(search_filter, "default_config", tile)
    monkeypatch.setattr(
        search_select, "default_config", lambda k, _: {"BEST": 16, "BLOCK": 32, "num_warps": 1}
    )
    floors, finish = [], search.launch_finish

    def launch_finish(*args):
        floors.append(finish(*args))
        return floors[-1]

    monkeypatch.setattr(search, "launch_finish", launch_finish)
    return floors


def proven(floors):
    """Whether the result of each query needed no scan."""
    return (torch.cat(floors) == HIGHEST).tolist()


def scanned(run, monkeypatch, *args, **options):
    """The result without a filter."""
    with monkeypatch.context() as patch:
        small_plan(patch, 0)
        return run("search", *args, **options)


def near_ties(n, dim=64):
    """(queries, rows, scale) whose scores, exact in float32, differ by 2^-23 from row to row."""
    rows = torch.ones(n, dim)
    rows[:, 0] += torch.randperm(n, generator=seeded(1)) * 2.0**-17
    return torch.ones(2, dim), rows, torch.full((n,), dim**-0.5)


@only_on("triton")
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("k", [1, 6])
def test_filter_on_exact_scores_with_many_ties(run, monkeypatch, k, dtype):
    from scar_gpu import reference

    floors = small_plan(monkeypatch, 7)
    args = sign_corpus(3, 64, seed=7).embeddings, sign_corpus(75, 64).embeddings.to(dtype), k
    options = {"row_scale": torch.full((75,), 1 / 8)}
    for ranges in (None, torch.tensor([[0, 75], [9, 50], [30, 33]])):
        actual = run("search", *args, **options, row_ranges=ranges)
        exact = reference.search(*args, **options, row_ranges=ranges)
        assert_equal(actual.ids, exact.ids)
        assert_equal(actual.scores, exact.scores)
    assert any(proven(floors))


@only_on("triton")
@pytest.mark.parametrize("query_dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_filter_and_scan_agree_for_all_dtypes(run, monkeypatch, query_dtype, dtype):
    data = random_corpus(70, 100, dtype=dtype)
    args = random_queries(data.embeddings, 2).to(query_dtype), data.embeddings, 4
    options = {"row_scale": data.row_scale}
    expected = scanned(run, monkeypatch, *args, **options)
    floors = small_plan(monkeypatch, 9)
    assert_same_bits(run("search", *args, **options), expected)
    assert proven(floors) == [True, True]


@only_on("triton")
@pytest.mark.parametrize("n_chosen", [4, 15])
def test_near_duplicates_beyond_the_spare_groups(run, monkeypatch, n_chosen):
    """With more near-ties than groups chosen the scan decides; nothing when all are chosen."""
    queries, rows, scale = near_ties(48)
    rows[:] = rows[torch.arange(48) // 2 * 2]  # and every row twice
    expected = scanned(run, monkeypatch, queries, rows, 3, row_scale=scale)
    floors = small_plan(monkeypatch, n_chosen)
    assert_same_bits(run("search", queries, rows, 3, row_scale=scale), expected)
    assert proven(floors) == [n_chosen > 48 // GROUP] * 2


@only_on("triton")
@pytest.mark.parametrize("is_planted", [False, True], ids=["bound", "no bound"])
def test_a_perturbed_filter_changes_nothing_within_the_bound(run, monkeypatch, is_planted):
    """The groups of the true result are lowered by almost the bound, and are not chosen.

    Without a bound the certificate would not notice.
    """
    from scar_gpu.kernels import search, search_filter

    queries, rows, scale = near_ties(64)
    expected = scanned(run, monkeypatch, queries, rows, 3, row_scale=scale)
    error, launch_filter = search_filter.product_error(64), search.launch_filter
    floors = small_plan(monkeypatch, 5)

    def perturbed(*args):
        maxima, units, margins = launch_filter(*args)
        groups = (expected.ids // GROUP).unique()
        maxima[:, groups] -= 0.99 * error / units[:, None]
        return maxima, units, margins

    monkeypatch.setattr(search, "launch_filter", perturbed)
    if is_planted:
        monkeypatch.setattr(search_filter, "product_error", lambda dim: 0.0)
    actual = run("search", queries, rows, 3, row_scale=scale)
    assert proven(floors) == [is_planted] * 2
    assert torch.equal(actual.ids, expected.ids) != is_planted


@only_on("triton")
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_products_stay_within_their_margin(monkeypatch, dtype):
    """Of queries large, small and subnormal, whose rounding to the rows' dtype differs."""
    from scar_gpu import reference
    from scar_gpu.kernels import search_filter

    small_plan(monkeypatch, 1)
    data = random_corpus(30, 100, dtype=dtype)
    queries = random_queries(data.embeddings, 4)
    queries *= torch.tensor([1.0, 1e30, 1e-30, 1e-40])[:, None]
    maxima, units, margins = search_filter.launch_filter(
        queries, data.embeddings, data.row_scale, None, GROUP
    )
    hits = torch.arange(30).expand(4, -1)
    none = torch.empty(0, 30)
    exact = reference.neighbor_scores(queries, data.embeddings, none, hits,
                                      row_scale=data.row_scale).relevance  # fmt: skip
    exact = torch.nn.functional.pad(exact, (0, 2), value=-torch.inf).view(4, -1, GROUP).amax(2)
    difference = (maxima.double() * units[:, None] - exact).abs()
    is_within = difference <= margins[:, None]
    assert bool((is_within | ~(units < torch.inf)[:, None]).all())
    assert bool(is_within[:3].all())
    assert bool((margins[:2] < 2e-3).all())


@only_on("triton")
def test_no_way_to_cut_the_work_changes_a_bit(run, monkeypatch):
    data = random_corpus(90, 64)
    args = random_queries(data.embeddings, 3), data.embeddings, 5
    options = {"row_scale": data.row_scale,
               "row_ranges": torch.tensor([[0, 90], [3, 77], [41, 60]])}  # fmt: skip
    expected = scanned(run, monkeypatch, *args, **options)
    for plan in ((6, 1, 100), (9, 3, 2), (0, 5, 1), (12, 2, 1)):
        with monkeypatch.context() as patch:
            small_plan(patch, *plan)
            assert_same_bits(run("search", *args, **options), expected)
    alone = run("search", args[0][1:2], *args[1:], row_scale=data.row_scale,
                row_ranges=options["row_ranges"][1:2])  # fmt: skip
    assert_same_bits(list(alone), [tensor[1:2] for tensor in expected])


@only_on("triton")
def test_scores_are_those_of_neighbor_scores(run, monkeypatch):
    small_plan(monkeypatch, 9)
    data = random_corpus(70, 100, dtype=torch.float16)
    queries = random_queries(data.embeddings, 2)
    found = run("search", queries, data.embeddings, 6, row_scale=data.row_scale)
    table = torch.empty(0, 70)
    judged = run("neighbor_scores", queries, data.embeddings, table, found.ids,
                 row_scale=data.row_scale)  # fmt: skip
    assert_same_bits(found.scores, judged.relevance)


@only_on("triton")
@pytest.mark.parametrize("n_chosen", [0, 3])
def test_more_results_than_a_block_of_the_list(run, monkeypatch, n_chosen):
    data = random_corpus(60, 16)
    queries = random_queries(data.embeddings, 1)
    whole = scanned(run, monkeypatch, queries, data.embeddings, 90, row_scale=data.row_scale)
    assert sorted(whole.ids[0].tolist()) == [-1] * 30 + list(range(60))
    small_plan(monkeypatch, n_chosen)
    for k in (11, 16) if n_chosen else (11, 33, 60):
        part = run("search", queries, data.embeddings, k, row_scale=data.row_scale)
        assert_same_bits(list(part), [tensor[:, :k].contiguous() for tensor in whole])


@only_on("triton")
def test_odd_queries_and_rows_pass_the_filter(run, monkeypatch):
    data = random_corpus(64, 32)
    rows, scale = data.embeddings, data.row_scale
    rows[1], rows[9, 3], rows[17, 5] = torch.nan, torch.inf, -torch.nan
    rows[21], scale[21] = 1e-30, 1e30 / 32**0.5  # its products would prove nothing
    queries = random_queries(data.embeddings.nan_to_num(), 5)
    queries[1], queries[2, 0], queries[3, 1] = 0, torch.nan, torch.inf
    expected = scanned(run, monkeypatch, queries, rows, 5, row_scale=scale)
    assert expected.ids[1].tolist() == [0, 2, 3, 4, 5]
    assert expected.ids[2:4].tolist() == [[-1] * 5] * 2
    small_plan(monkeypatch, 8)
    assert_same_bits(run("search", queries, rows, 5, row_scale=scale), expected)


@only_on("triton")
def test_a_zero_query_is_proven_by_its_ids(run, monkeypatch):
    data = random_corpus(64, 32)
    floors = small_plan(monkeypatch, 3)
    found = run("search", torch.zeros(1, 32), data.embeddings, 7, row_scale=data.row_scale)
    assert found.ids.tolist() == [list(range(7))]
    assert proven(floors) == [True]


@only_on("triton")
def test_ranges_are_clamped_to_the_rows(run, monkeypatch):
    data = random_corpus(64, 32)
    queries = random_queries(data.embeddings, 5)
    call = ("search", queries, data.embeddings, 4)
    far = torch.tensor([[-9, 11], [60, 2**40], [-(2**40), 2**40], [30, 20], [70, 90]])
    near = torch.tensor([[0, 11], [60, 64], [0, 64], [0, 0], [0, 0]])
    for n_chosen in (0, 6):
        with monkeypatch.context() as patch:
            small_plan(patch, n_chosen)
            options = {"row_scale": data.row_scale}
            found = run(*call, **options, row_ranges=far)
            assert_same_bits(found, run(*call, **options, row_ranges=near))
            assert found.ids[3:].tolist() == [[-1] * 4] * 2


@only_on("triton")
def test_rows_that_are_not_unit_vectors_are_noticed(run, monkeypatch):
    """Their products may be further from their scores than the bound, so nothing is proven."""
    rows = random_corpus(64, 64).embeddings * 1e4
    queries = random_queries(rows, 2)
    expected = scanned(run, monkeypatch, queries, rows, 4)
    floors = small_plan(monkeypatch, 6)
    assert_same_bits(run("search", queries, rows, 4), expected)
    assert proven(floors) == [False, False]


@only_on("triton", "cpu")
@pytest.mark.parametrize("k", [1, 10, 100, 204, 205, 1024, 10**6])
@pytest.mark.parametrize("n_chunks", [1, 1000, 10**6, 10**8])
@pytest.mark.parametrize("n_queries", [1, 1000, 10**6])
def test_a_pass_fits_into_the_byte_budget(n_queries, n_chunks, k):
    from scar_gpu.kernels import search

    plan = search.default_config(n_queries, n_chunks, 1536, k)
    groups = -(-n_chunks // plan.group)
    size = 8 * plan.n_slices * (k + plan.group)
    if plan.n_chosen:
        size += 1536 + 4 * groups + 8 * plan.n_chosen * (plan.group + 1)
        assert plan.n_chosen >= k + 16
    assert plan.n_queries * size <= 256 * 2**20
    assert 1 <= plan.n_queries <= n_queries
    assert 1 <= plan.n_slices <= groups
    assert (plan.n_chosen > 0) == (k <= 204 and n_chunks >= 128 * (k + max(16, k // 4)))


@only_on("cpu")
@pytest.mark.parametrize(
    ("target", "instruction"),
    [("sm_80", "mma.sync"), ("sm_90", "wgmma.mma_async"), ("sm_100", "tcgen05.mma"),
     ("gfx942", "v_mfma_f32")],
)  # fmt: skip
def test_half_precision_products_run_on_tensor_cores(target, instruction):
    from benchmarks.ahead_of_time import compile_only
    from scar_gpu.kernels.search_filter import launch_filter

    for n_queries, dtype in ((1, torch.float16), (1000, torch.bfloat16)):
        with compile_only(target) as launches:
            launch_filter(torch.empty(n_queries, 384), torch.empty(1000, 384, dtype=dtype),
                          torch.empty(1000), None, 32)  # fmt: skip
        code = launches[-1].compiled.asm
        assert instruction in code["amdgcn" if target.startswith("gfx") else "ptx"]
