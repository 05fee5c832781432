"""Presets: the numbers that each system's formula gives for the first ranks."""

import re

import pytest
import torch

# name: (arguments, table of two lists of up to three entries, duplicates)
ROWS = {
    "cormack": ({}, [[1 / 61, 1 / 62, 1 / 63]] * 2, "first"),
    "ranx": ({"k": 10}, [[1 / 11, 1 / 12, 1 / 13]] * 2, "first"),
    "langchain": ({}, [[0.5 / 61, 0.5 / 62, 0.5 / 63]] * 2, "sum"),
    "llamaindex": ({}, [[1 / 60, 1 / 61, 1 / 62]] * 2, "sum"),
    "haystack": (
        {"weights": [3, 1]},
        [[0.75, 0.75 * 61 / 62, 0.75 * 61 / 63], [0.25, 0.25 * 61 / 62, 0.25 * 61 / 63]],
        "sum",
    ),
    "elasticsearch": ({"weights": [1, 2]}, [[1 / 61, 1 / 62, 1 / 63], [2 / 61, 2 / 62, 2 / 63]],
                      "sum"),
    "opensearch": ({"weights": [0.5, 1]},
                   [[0.00819672130, 0.00806451615, 0.00793650795],
                    [0.0163934426, 0.0161290323, 0.0158730159]], "first"),
    "milvus": ({}, [[1 / 61, 1 / 62, 1 / 63]] * 2, "sum"),
    "weaviate": ({"weights": [0.25, 0.75]},
                 [[0.25 / 60, 0.25 / 61, 0.25 / 62], [0.75 / 60, 0.75 / 61, 0.75 / 62]], "sum"),
    "qdrant": ({"weights": [1, 3]},
               [[1 / 2, 1 / 3, 1 / 4], [1 / (1 / 3 + 1), 1 / (2 / 3 + 1), 1 / (3 / 3 + 1)]], "sum"),
}  # fmt: skip


def test_every_preset_is_here():
    from scar_gpu import presets

    public = {
        name
        for name, value in vars(presets).items()
        if callable(value) and not name.startswith("_") and value.__module__ == presets.__name__
    }
    assert public == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_the_first_ranks(name):
    from scar_gpu import presets

    options, table, duplicates = ROWS[name]
    contributions, rule = getattr(presets, name)([3, 2], **options)
    assert rule == duplicates
    assert contributions.dtype == torch.float64
    single = name in ("elasticsearch", "milvus", "weaviate", "qdrant")
    expected = torch.tensor(table, dtype=torch.float64)
    torch.testing.assert_close(contributions, expected, rtol=2**-24 if single else 1e-15, atol=0)


@pytest.mark.parametrize("name", ROWS)
def test_into_rank_fusion(name):
    import scar_gpu
    from scar_gpu import presets

    rankings = [torch.tensor([[5, 7, 9]]), torch.tensor([[7, 5]]), torch.empty(1, 0).long()]
    contributions, rule = getattr(presets, name)([3, 2, 0])
    fused = scar_gpu.rank_fusion(rankings, contributions=contributions, duplicates=rule)
    assert fused.ids.tolist() == [[5, 7, 9, -1, -1]]
    first = (contributions[0, 0] + contributions[1, 1]).float().item()
    assert fused.scores[0, 0].item() == pytest.approx(first, rel=2**-23)


def test_qdrant_ignores_a_list_of_weight_0():
    from scar_gpu import presets

    contributions, _ = presets.qdrant([2, 2], weights=[1, 0])
    assert contributions[1].tolist() == [0.0, 0.0]


def test_the_original_gives_the_scores_of_the_formula():
    import scar_gpu
    from scar_gpu import presets

    rankings = [torch.randint(0, 60, (5, 40), generator=torch.Generator().manual_seed(i))
                for i in range(3)]  # fmt: skip
    contributions, rule = presets.cormack([40] * 3, k=20, weights=[1, 2, 0.5])
    one = scar_gpu.rank_fusion(rankings, contributions=contributions, duplicates=rule)
    other = scar_gpu.rank_fusion(rankings, k=20, weights=[1, 2, 0.5])
    torch.testing.assert_close(one.scores, other.scores, rtol=2**-23, atol=0)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("cormack", {"lengths": []}, "lengths must have at least one list, got none"),
        ("langchain", {"lengths": []}, "lengths must have at least one list, got none"),
        ("cormack", {"lengths": [2, -1]}, "lengths[1] must be >= 0, got -1"),
        ("milvus", {"lengths": [2], "k": 0}, "k must be > 0 and <= 1000000, got 0"),
        ("qdrant", {"lengths": [2], "k": 0.5}, "k must be >= 1, got 0.5"),
        ("weaviate", {"lengths": [2], "weights": [1, 2]},
         "weights must have one entry per list (1), got 2"),
        ("haystack", {"lengths": [2, 2], "weights": [0, 0]},
         "weights must not add up to 0, got [0, 0]"),
    ],
)  # fmt: skip
def test_bad_input(name, arguments, message):
    from scar_gpu import presets

    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        getattr(presets, name)(**arguments)
