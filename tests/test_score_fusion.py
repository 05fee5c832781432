"""score_fusion: weighted sums of normalised scores, against a dictionary per query."""

import math
import random
import re

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
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "message"), BAD)
def test_bad_input(wrong, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.score_fusion(**({"ids": [IDS], "scores": [SCORES]} | wrong))
