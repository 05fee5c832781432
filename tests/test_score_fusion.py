"""score_fusion: weighted sums of normalised scores, against a dictionary per query."""

import math
import random
import re
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import bits, only_on
from tests.closeness import assert_same_bits
from tests.corpora import LAYOUTS, seeded

pytestmark = pytest.mark.usefixtures("device")
INF, NAN = math.inf, math.nan


def fuse(lists, scores, **options):
    """One query; (ids, scores) without the padding."""
    import scar_gpu

    ids = [torch.tensor([row], dtype=torch.int64) for row in lists]
    values = [torch.tensor([row], dtype=torch.float32) for row in scores]
    result = scar_gpu.score_fusion(ids, values, **options)
    length = int(result.lengths)
    assert result.ids[0, length:].tolist() == [-1] * (result.ids.shape[1] - length)
    assert result.scores[0, length:].tolist() == [-INF] * (result.ids.shape[1] - length)
    return result.ids[0, :length].tolist(), result.scores[0, :length].tolist()


def test_minmax():
    """(8 - 4) / 4 = 1 and (5 - 4) / 4 = 0.25; in the second list (3 - 1) / 2 = 1 and 0."""
    found = fuse([[7, 5, 6], [5, 7]], [[8, 5, 4], [3, 1]])
    assert found == ([5, 7, 6], [0.25 + 1, 1 + 0, 0.0])


def test_zscore():
    """Mean 2, deviation 1; then mean 5, deviation 2 / sqrt(2) = 1.414."""
    ids, scores = fuse([[1, 2], [2, 1, 3]], [[3, 1], [7, 5, 3]], normalize="zscore")
    away = 2 / math.sqrt(8 / 3)
    assert ids == [1, 2, 3]
    assert scores == pytest.approx([1 + 0, -1 + away, -away])


def test_none_with_weights():
    found = fuse([[1, 2], [2]], [[4, 2], [3]], normalize="none", weights=[0.5, 2])
    assert found == ([2, 1], [0.5 * 2 + 2 * 3, 0.5 * 4])


@pytest.mark.parametrize("score", [0.3, 0.1, -5.0, 0.0])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_one_item_and_equal_scores_are_never_nan(score, count):
    ids = [*range(count)]
    assert fuse([ids], [[score] * count]) == (ids, [1.0] * count)
    assert fuse([ids], [[score] * count], normalize="zscore") == (ids, [0.0] * count)


def test_padding_empty_lists_and_scores_that_are_no_numbers():
    found = fuse([[-1, 4, 5, 6, 7], []], [[9, 2, NAN, -INF, 1], []])
    assert found == ([4, 7], [1.0, 0.0])
    assert fuse([[], []], [[], []], top_n=2) == ([], [])
    assert fuse([[-1]], [[1.0]]) == ([], [])


def test_a_list_of_weight_0_is_ignored():
    assert fuse([[1, 2], [3]], [[4, 2], [3]], weights=[1, 0]) == ([1, 2], [1.0, 0.0])


def test_a_repeated_id_counts_once_at_its_highest_score():
    found = fuse([[3, 4, 3]], [[1, 2, 5]], normalize="none")
    assert found == ([3, 4], [5.0, 2.0])


def test_equal_sums_tie_in_any_order_of_addition():
    """0.1 + 0.2 + 0.3 differs from 0.3 + 0.2 + 0.1 in floating point."""
    lists = [[2, 1], [2, 1], [1, 2]]
    ids, scores = fuse(lists, [[0.1, 0.3], [0.2, 0.2], [0.1, 0.3]], normalize="none")
    assert ids == [1, 2]
    assert scores[0] == scores[1]


def dictionary(lists, scores, weights, normalize):
    """id: score, in plain Python."""
    total = {}
    for ids, values, weight in zip(lists, scores, weights, strict=True):
        pairs = [(i, s) for i, s in zip(ids, values, strict=True) if i >= 0 and math.isfinite(s)]
        if not pairs or weight == 0:
            continue
        numbers = [s for _, s in pairs]
        low, high = min(numbers), max(numbers)
        mean = math.fsum(numbers) / len(numbers)
        deviation = math.sqrt(math.fsum((s - mean) ** 2 for s in numbers) / len(numbers))
        best = {}
        for i, s in pairs:
            if normalize == "minmax":
                s = 1.0 if low == high else (s - low) / (high - low)
            elif normalize == "zscore":
                s = 0.0 if low == high else (s - mean) / deviation
            best[i] = max(best.get(i, -INF), weight * s)
        for i, s in best.items():
            total[i] = total.get(i, 0.0) + s
    return total


@given(seed=st.integers(0, 10**6), normalize=st.sampled_from(["minmax", "zscore", "none"]))
def test_against_a_dictionary(seed, normalize):
    choose = random.Random(seed)
    lengths = [choose.randint(0, 6) for _ in range(choose.randint(1, 4))]
    lists = [[choose.randint(-1, 8) for _ in range(n)] for n in lengths]
    scores = [[choose.choice([choose.gauss(0, 10), 1.0, NAN]) for _ in range(n)] for n in lengths]
    scores = [torch.tensor(row, dtype=torch.float32).tolist() for row in scores]
    weights = [choose.choice([0, 0.5, 1, 3]) for _ in lengths]
    ids, values = fuse(lists, scores, weights=weights, normalize=normalize)
    expected = dictionary(lists, scores, weights, normalize)
    assert set(ids) == set(expected)
    size = max([1.0, *map(abs, expected.values())])
    assert values == pytest.approx([expected[i] for i in ids], abs=1e-6 * size)
    assert [(-v, i) for v, i in zip(values, ids, strict=True)] == sorted(
        (-v, i) for v, i in zip(values, ids, strict=True)
    )
    few = fuse(lists, scores, weights=weights, normalize=normalize, top_n=3)
    assert few == (ids[:3], values[:3])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_batches_and_devices(device, layout):
    import scar_gpu

    ids = [torch.randint(-1, 9, (4, n), generator=seeded(n)).to(device) for n in (5, 3)]
    scores = [torch.randn(4, n, generator=seeded(n)).to(device) for n in (5, 3)]
    before = [bits(tensor).clone() for tensor in (*ids, *scores)]
    plain = scar_gpu.score_fusion(ids, scores)
    assert [tensor.dtype for tensor in plain[:3]] == [torch.int64, torch.float32, torch.int32]
    assert all(tensor.device == device and tensor.is_contiguous() for tensor in plain[:3])
    assert plain[3:] == (None, None, None)
    arrange = LAYOUTS[layout]
    arranged = scar_gpu.score_fusion([*map(arrange, ids)], [*map(arrange, scores)])
    assert_same_bits(list(arranged[:3]), list(plain[:3]))
    for b in range(4):
        alone = scar_gpu.score_fusion([t[b : b + 1] for t in ids], [t[b : b + 1] for t in scores])
        assert_same_bits(list(alone[:3]), [tensor[b : b + 1] for tensor in plain[:3]])
    for tensor, old in zip((*ids, *scores), before, strict=True):
        assert torch.equal(bits(tensor), old)


@only_on("cpu", "cuda")
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(device, dynamic):
    import scar_gpu

    def function(ids, scores):
        return list(scar_gpu.score_fusion(ids, scores, weights=[1, 2], top_n=4)[:3])

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for n in (3, 6):
        ids = [torch.randint(-1, 9, (n, 5), generator=seeded(n)).to(device) for _ in range(2)]
        scores = [torch.randn(n, 5, generator=seeded(n)).to(device) for _ in range(2)]
        assert_same_bits(compiled(ids, scores), function(ids, scores))
    torch.compiler.reset()


def exact_sums(lists, scores, weights, normalize):
    """id: (sum, sum of sizes), of the formula in fractions; one occurrence per list and id."""
    total = {}
    for ids, values, weight in zip(lists, scores, weights, strict=True):
        numbers = [Fraction(value) for value in values]
        low, high = min(numbers), max(numbers)
        mean = sum(numbers) / len(numbers)
        variance = sum((s - mean) ** 2 for s in numbers) / len(numbers)
        for i, s in zip(ids, numbers, strict=True):
            if normalize == "minmax":
                s = Fraction(1) if low == high else (s - low) / (high - low)
            elif normalize == "zscore":
                size = math.sqrt((s - mean) ** 2 / variance) if variance else 0.0
                s = Fraction(size if s > mean else -size)
            total.setdefault(i, []).append(s * Fraction(weight))
    return {i: (sum(terms), sum(map(abs, terms))) for i, terms in total.items()}


EXTREME = (1.7e308, -1.7e308, 1e308, 3e200, -1e-200, 5e-324, -1.5e-323, 2.0, 1 + 2**-52, 0.0)


@pytest.mark.parametrize("normalize", ["minmax", "zscore", "none"])
def test_no_finite_number_is_too_large_or_too_small(normalize):
    """Products and spans beyond float64, and below it, against the formula in fractions."""
    import scar_gpu

    for seed in range(60):
        choose = random.Random(seed)
        some = choose.sample(EXTREME, choose.randint(1, 4))  # often all of one size
        lists = [choose.sample(range(6), choose.randint(1, 5)) for _ in range(3)]
        scores = [[choose.choice(some) for _ in ids] for ids in lists]
        weights = [choose.choice([1.7e308, 1e-300, 5e-324, 1.5, 1]) for _ in lists]
        result = scar_gpu.score_fusion(
            [torch.tensor([ids]) for ids in lists],
            [torch.tensor([values], dtype=torch.float64) for values in scores],
            weights=weights,
            normalize=normalize,
        )
        expected = exact_sums(lists, scores, weights, normalize)
        length = int(result.lengths)
        found = dict(
            zip(result.ids[0, :length].tolist(), result.scores[0, :length].tolist(), strict=True)
        )
        assert found.keys() == expected.keys()
        largest = max(size for _, size in expected.values())
        beyond = Fraction(torch.finfo(torch.float32).max)
        for i, (value, size) in expected.items():
            value = min(max(value, -beyond), beyond)
            # A few roundings in float64, one to 45 bits of the largest, one to float32.
            allowed = size * Fraction(2) ** -48 + largest * Fraction(2) ** -44
            allowed += abs(value) * Fraction(2) ** -24 + Fraction(2) ** -150
            assert abs(Fraction(found[i]) - value) <= allowed, (seed, i)


def test_the_order_is_right_where_every_score_is_beyond_float32():
    import scar_gpu

    scores = torch.tensor([[1e200, -1e200, 3e200]], dtype=torch.float64)
    result = scar_gpu.score_fusion(
        [torch.tensor([[1, 2, 3]])], [scores], normalize="none", weights=[1e200]
    )
    largest = torch.finfo(torch.float32).max
    assert result.ids.tolist() == [[3, 1, 2]]
    assert result.scores.tolist() == [[largest, largest, -largest]]


def test_neighbouring_numbers_have_z_scores():
    """The mean of 1 and the next number is neither of them."""
    import scar_gpu

    scores = torch.tensor([[1, 1 + 2**-52]], dtype=torch.float64)
    result = scar_gpu.score_fusion([torch.tensor([[1, 2]])], [scores], normalize="zscore")
    assert result.ids.tolist() == [[2, 1]]
    assert result.scores.tolist() == [[1.0, -1.0]]


def test_lists_keep_apart_where_contributions_round_up():
    """The last list's highest number next to the list before's lowest, of the largest size."""
    import scar_gpu

    size = 1 - 2**-53
    ids = [torch.tensor([[7, 7, 7]]), torch.tensor([[7, 7, 7]])]
    scores = [torch.tensor([[-size, -size, -size]]).double()] * 2
    scores[1] = torch.tensor([[size, size, -size]]).double()
    for _ in range(2):
        result = scar_gpu.score_fusion(ids, scores, normalize="none")
        assert result.scores[0, 0].item() == 0.0
        scores = scores[::-1]


@only_on("cpu")
def test_an_id_out_of_range_is_refused_on_the_cpu():
    import scar_gpu

    for bad in (-5, 2**62 + 1):
        ids = torch.tensor([[1, 2], [-1, bad]])
        message = rf"^ids\[1\]\[1, 1\] must be -1 or in \[0, {2**62 + 1}\), got {bad}$"
        with pytest.raises(IndexError, match=message):
            scar_gpu.score_fusion([ids.clamp(0, 9), ids], [torch.ones(2, 2)] * 2, weights=[1, 0])
    torch.compiler.reset()
    compiled = torch.compile(scar_gpu.score_fusion, fullgraph=True, backend="aot_eager")
    with pytest.raises(RuntimeError, match=r"ids\[0\] must be -1 or in"):
        compiled([torch.tensor([[1, -5]])], [torch.ones(1, 2)])
    torch.compiler.reset()


@only_on("cuda")
def test_an_id_out_of_range_is_padding_on_a_gpu(device):
    import scar_gpu

    ids = torch.tensor([[-5, 4, 2**62 + 1]], device=device)
    result = scar_gpu.score_fusion([ids], [torch.ones(1, 3, device=device)])
    assert result.ids.tolist() == [[4, -1, -1]]


def test_the_largest_id():
    assert fuse([[2**62, 0]], [[2, 1]]) == ([2**62, 0], [1.0, 0.0])


IDS, SCORES = torch.tensor([[1, 2]]), torch.tensor([[0.5, 0.25]])
BAD = [
    ({"ids": []}, ValueError, "ids must have at least one list, got none"),
    ({"ids": [IDS.float()]}, TypeError, "ids[0] must be int32 or int64, got torch.float32"),
    ({"scores": [IDS]}, TypeError,
     "scores[0] must be bfloat16, float16, float32 or float64, got torch.int64"),
    ({"scores": [SCORES, SCORES]}, ValueError, "scores must have one tensor per list (1), got 2"),
    ({"scores": [SCORES[:, :1]]}, ValueError, "scores[0] must have shape [1, 2], got [1, 1]"),
    ({"scores": [SCORES.to("meta")]}, ValueError, "scores[0] must be on cpu like ids[0], got meta"),
    ({"weights": [-2]}, ValueError, "weights[0] must be >= 0, got -2"),
    ({"weights": [1, 1]}, ValueError, "weights must have one entry per list (1), got 2"),
    ({"normalize": "max"}, ValueError,
     "normalize must be 'minmax', 'zscore' or 'none', got 'max'"),
    ({"top_n": 0}, ValueError, "top_n must be >= 1, got 0"),
    ({"top_n": 2**31}, ValueError, f"top_n must be below 2^31, got {2**31}"),
    ({"top_n": True}, TypeError, "top_n must be an int, got bool"),
    ({"weights": [True]}, TypeError, "weights[0] must be a float, got bool"),
    ({"ids": [IDS] * (2**17 + 1)}, ValueError, f"ids must have at most {2**17} lists, "
     f"got {2**17 + 1}"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "message"), BAD, ids=lambda value: str(value)[:60])
def test_bad_input(wrong, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.score_fusion(**({"ids": [IDS], "scores": [SCORES]} | wrong))


@pytest.mark.parametrize("shape", [(1, 0), (0, 2)], ids=["no-entries", "no-queries"])
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [row for row in BAD if row[0].keys() & {"weights", "normalize", "top_n"}],
    ids=lambda value: str(value)[:60],
)
def test_bad_input_with_empty_lists(shape, wrong, error, message):
    import scar_gpu

    ids, scores = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.score_fusion([ids], [scores], **wrong)
