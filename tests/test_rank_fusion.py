"""rank_fusion: bit for bit the definition, on every backend and in any order of evaluation."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import bits, only_on
from tests.cases_fusion import FUSION_CASES, LENGTHS, as_options, random_call, tensors
from tests.closeness import assert_same_bits
from tests.corpora import LAYOUTS, seeded
from tests.fusion_backend import install_triton_launcher

INF = math.inf
DTYPES = (torch.int64, torch.float32, torch.int32, torch.int32, torch.int32, torch.int32)


@pytest.fixture(scope="module", autouse=True)
def launcher(backend):
    """The Triton launcher under the CPU key, like those of the other operations."""
    import scar_gpu  # noqa: F401  (defines the operation)

    return install_triton_launcher() if backend == "triton" else None


@pytest.fixture(scope="module")
def fuse(device):
    """rank_fusion on the device; the promises of every call are checked; results on the CPU."""
    import scar_gpu

    def call(rankings, **options):
        rankings = [ids.to(device) for ids in rankings]
        if options.get("ranks") is not None:
            options["ranks"] = [ranks.to(device) for ranks in options["ranks"]]
        before = [bits(ids).clone() for ids in rankings]
        result = scar_gpu.rank_fusion(rankings, **options)
        present = [tensor for tensor in result if tensor is not None]
        assert len(present) == (6 if options.get("details") else 3)
        for tensor, dtype in zip(present, DTYPES, strict=False):
            assert tensor.dtype == dtype
            assert tensor.device == device
            assert tensor.is_contiguous()
        for ids, old in zip(rankings, before, strict=True):
            assert torch.equal(bits(ids), old), "an input changed"
        return scar_gpu.Fusion(*(t if t is None else t.cpu() for t in result))

    return call


@pytest.fixture(params=["public", "reference"])
def fuse_or_define(request, fuse):
    from scar_gpu import reference

    return fuse if request.param == "public" else reference.rank_fusion


@pytest.mark.parametrize("case", FUSION_CASES, ids=lambda case: case.name)
def test_hand_cases(fuse_or_define, case):
    width = case.options.get("top_n", sum(map(len, case.lists)))
    length, n_lists = len(case.ids), len(case.lists)
    small = all(i < 2**31 for ids in case.lists for i in ids)
    for dtype in (torch.int64, torch.int32) if small else (torch.int64,):
        result = fuse_or_define(
            tensors(case.lists, dtype), details=True, **as_options(case.options)
        )
        padding = width - length
        assert result.ids.tolist() == [case.ids + [-1] * padding]
        assert result.lengths.tolist() == [length]
        assert result.scores[0].tolist() == pytest.approx(case.scores + [-INF] * padding, rel=1e-6)
        best = [list(pair) for pair in zip(*case.best, strict=True)] or [[], []]
        assert result.best_list.tolist() == [best[0] + [-1] * padding]
        assert result.best_rank.tolist() == [best[1] + [-1] * padding]
        assert result.ranks.tolist() == [case.ranks + [[0] * n_lists] * padding]


def test_one_is_exactly_one(fuse):
    assert fuse(tensors([[3], [3]]), weights=[30.5, 30.5]).scores[0, 0].item() == 1.0


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_the_bits_are_those_of_the_definition(fuse, backend, lengths):
    """Every backend against the same integers: hence CPU and GPU agree to the bit."""
    from scar_gpu import reference

    for seed in range(3 if backend == "triton" else 60):
        rankings, options = random_call(seed, lengths)
        actual = fuse(rankings, **options)
        expected = reference.rank_fusion(rankings, **options)
        for one, other in zip(actual, expected, strict=True):
            if other is not None:
                assert_same_bits(one, other)


@only_on("cpu", "cuda")
@pytest.mark.parametrize("lengths", [[100, 100], [1024] * 16, [1500, 3], [40] * 60], ids=str)
def test_long_and_many_lists(fuse, lengths):
    from scar_gpu import reference

    generator = seeded(1)
    limit = max(lengths) * 3 // 2
    rankings = [torch.randint(-1, limit, (2, n), generator=generator) for n in lengths]
    for duplicates in ("first", "sum"):
        options = {"duplicates": duplicates, "details": True}
        actual = fuse(rankings, **options)
        assert_same_bits(list(actual), list(reference.rank_fusion(rankings, **options)))


@only_on("triton")
def test_several_blocks_and_passes(fuse, monkeypatch):
    from scar_gpu import reference
    from scar_gpu.kernels import launch, rank_fusion

    monkeypatch.setattr(rank_fusion, "default_config", lambda *_: {"BLOCK": 32, "num_warps": 1})
    monkeypatch.setattr(launch, "SCRATCH_BYTES", 5000)  # two or three queries
    rankings, options = random_call(4, [30, 20], n_queries=5)
    expected = reference.rank_fusion(rankings, **options)
    assert_same_bits(fuse(rankings, **options).ids, expected.ids)
    many, options = random_call(5, [3] * 17, n_queries=5)
    expected = reference.rank_fusion(many, **options)
    assert_same_bits(fuse(many, **options).ids, expected.ids)


calls = st.tuples(st.integers(0, 10**6), st.sampled_from(LENGTHS))


def contributions_of(options, n_lists, longest):
    """Contribution of (list, rank) as an exact fraction, or None for a list that is ignored."""
    if "contributions" in options:
        table = [[Fraction(c) for c in row] for row in options["contributions"].tolist()]
        return [row if any(row) else None for row in table]
    weights = options.get("weights", [1] * n_lists)
    k = Fraction(options.get("k", 60))
    return [
        [Fraction(w) / (k + rank) for rank in range(1, longest + 1)] if w else None for w in weights
    ]


@given(call=calls)
def test_scores_are_the_exact_sums_but_for_the_last_place(fuse, call):
    """Each contribution is off by 2**-45 of the largest weight at most, the score by a rounding."""
    seed, lengths = call
    rankings, options = random_call(seed, lengths)
    options.pop("ranks", None)
    table = contributions_of(options, len(lengths), max(lengths))
    largest = max([1e-300, *options.get("weights", [1])])
    if "contributions" in options:
        largest = max(1e-300, float(max(options["contributions"].flatten(), default=0)))
    fused = fuse(rankings, **options)
    for b in range(3):
        exact = {}
        for row, ids in zip(table, rankings, strict=True):
            seen = set()
            for position, document in enumerate(ids[b].tolist()):
                if row is None or document < 0:
                    continue
                if options.get("duplicates") == "sum" or document not in seen:
                    exact[document] = exact.get(document, 0) + row[position]
                seen.add(document)
        length = int(fused.lengths[b])
        assert length == min(len(exact), fused.ids.shape[1])
        scores = fused.scores[b, :length].tolist()
        for document, score in zip(fused.ids[b, :length].tolist(), scores, strict=True):
            true = float(exact[document])
            if true < 3e38:
                assert abs(score - true) <= true * 2**-24 + 20 * largest * 2**-45 + 1e-45
        assert scores == sorted(scores, reverse=True)
        assert len(set(fused.ids[b, :length].tolist())) == length
        assert fused.ids[b, length:].tolist() == [-1] * (fused.ids.shape[1] - length)


@given(seed=st.integers(0, 10**6), data=st.data())
def test_the_order_of_the_lists_changes_no_score(fuse, seed, data):
    rankings, options = random_call(seed, [5, 3, 6])
    for name in ("ranks", "contributions", "top_n"):
        options.pop(name, None)
    order = data.draw(st.permutations(range(3)))
    shuffled = dict(options)
    if "weights" in options:
        shuffled["weights"] = [options["weights"][i] for i in order]
    results = fuse(rankings, **options), fuse([rankings[i] for i in order], **shuffled)
    for b in range(3):
        one, other = (
            dict(zip(r.ids[b].tolist(), bits(r.scores[b]).tolist(), strict=True)) for r in results
        )
        assert one == other


@given(seed=st.integers(0, 10**6), n=st.integers(1, 20))
def test_top_n_is_a_prefix(fuse, seed, n):
    rankings, options = random_call(seed, [5, 3, 6])
    options = options | {"details": True, "top_n": 20}
    whole, some = fuse(rankings, **options), fuse(rankings, **(options | {"top_n": n}))
    assert_same_bits(some.lengths, whole.lengths.clamp(max=n))
    for name in ("ids", "scores", "best_list", "best_rank", "ranks"):
        assert_same_bits(getattr(some, name), getattr(whole, name)[:, :n].contiguous())


@given(seed=st.integers(0, 10**6))
def test_a_query_alone_equals_the_query_in_a_batch(fuse, seed):
    rankings, options = random_call(seed, [5, 3, 6])
    options["details"] = True
    batch = fuse(rankings, **options)
    ranks = options.pop("ranks", None)
    for b in range(3):
        if ranks is not None:
            options["ranks"] = [given[b : b + 1] for given in ranks]
        alone = fuse([ids[b : b + 1] for ids in rankings], **options)
        assert_same_bits(list(alone), [tensor[b : b + 1] for tensor in batch])


def test_positions_are_ranks(fuse):
    rankings, _ = random_call(7, [5, 3, 6])
    ranks = [torch.arange(1, ids.shape[1] + 1).expand_as(ids) for ids in rankings]
    plain = fuse(rankings, details=True)
    assert_same_bits(list(fuse(rankings, details=True, ranks=ranks)), list(plain))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(fuse, layout):
    rankings, _ = random_call(3, [5, 4])
    ranks = [torch.randint(1, 6, ids.shape, generator=seeded(1)) for ids in rankings]
    plain = fuse(rankings, ranks=ranks, details=True)
    arrange = LAYOUTS[layout]
    arranged = [arrange(ids) for ids in rankings], [arrange(given) for given in ranks]
    result = fuse(arranged[0], ranks=arranged[1], details=True)
    assert_same_bits(list(result), list(plain))


def test_a_stack_is_its_lists(device):
    import scar_gpu

    stack = torch.randint(-1, 9, (3, 2, 5), generator=seeded(2)).to(device)
    ranks = torch.randint(1, 6, (3, 2, 5), generator=seeded(3)).to(device)
    result = scar_gpu.rank_fusion(stack, ranks=ranks)
    assert_same_bits(list(result[:3]), list(scar_gpu.rank_fusion([*stack], ranks=[*ranks])[:3]))


def test_lists_of_both_widths(fuse):
    rankings, _ = random_call(9, [5, 4])  # ids below 12
    mixed = [rankings[0].clamp(max=11).int(), rankings[1].clamp(max=11)]
    assert_same_bits(fuse(mixed).ids, fuse([ids.long() for ids in mixed]).ids)


def test_threads(fuse, threads, backend):
    rankings, options = random_call(1, [6, 5], n_queries=2 if backend == "triton" else 3000)
    results = []
    for count in (1, 2):
        threads(count)
        results.append([t for t in fuse(rankings, **options) if t is not None])
    assert_same_bits(*results)


def test_competition_ranks():
    import scar_gpu

    scores = torch.tensor([[9.0, 7.0, 7.0, 5.0], [1.0, 1.0, 1.0, 1.0], [0.0, 3.0, -INF, 3.0]])
    expected = [[1, 2, 2, 4], [1, 1, 1, 1], [3, 1, 4, 1]]
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        ranks = scar_gpu.scores_to_ranks(scores.to(dtype))
        assert ranks.dtype == torch.int32
        assert ranks.tolist() == expected
    assert scar_gpu.scores_to_ranks(scores.expand(2, 3, 4)).tolist() == [expected] * 2
    nan = torch.tensor([[math.nan, 2.0, -INF]])
    assert scar_gpu.scores_to_ranks(nan).tolist() == [[2, 1, 2]]
    assert scar_gpu.scores_to_ranks(torch.zeros(2, 0)).shape == (2, 0)
