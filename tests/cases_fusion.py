"""Cases of rank_fusion: tiny ones by hand, most of which broke another system; and random ones."""

import random
from typing import Any, NamedTuple

import torch

from tests.corpora import seeded


class FusionCase(NamedTuple):
    name: str
    lists: list[list[int]]
    options: dict[str, Any]
    ids: list[int]
    scores: list[float]
    best: list[tuple[int, int]]  # (list, rank) of each result's best occurrence
    ranks: list[list[int]]


FUSION_CASES = [
    FusionCase(
        "two lists: sums of 1 / (60 + rank)",
        [[5, 7], [7, -1, 9]], {},
        [7, 5, 9], [1 / 62 + 1 / 61, 1 / 61, 1 / 63],
        [(1, 1), (0, 1), (1, 3)], [[2, 1], [1, 0], [0, 3]],
    ),
    FusionCase(
        "k = 2: third in both lists (2/5) beats first in one (1/3)",
        [[1, 2, 3], [4, 5, 3]], {"k": 2},
        [3, 1, 4, 2, 5], [2 / 5, 1 / 3, 1 / 3, 1 / 4, 1 / 4],
        [(0, 3), (0, 1), (1, 1), (0, 2), (1, 2)], [[3, 3], [1, 0], [0, 1], [2, 0], [0, 2]],
    ),
    FusionCase(
        "an id repeated in one list has one vote, at its best rank",
        [[8, 4, 8, 8]], {},
        [8, 4], [1 / 61, 1 / 62], [(0, 1), (0, 2)], [[1], [2]],
    ),
    FusionCase(
        "duplicates are added on request",
        [[4, 8, 8, 8]], {"duplicates": "sum", "k": 1},
        [8, 4], [1 / 3 + 1 / 4 + 1 / 5, 1 / 2], [(0, 2), (0, 1)], [[2], [1]],
    ),
    FusionCase(
        "weights scale contributions",
        [[1, 2], [2, 1]], {"weights": [3, 0.5], "k": 1},
        [1, 2], [3 / 2 + 0.5 / 3, 3 / 3 + 0.5 / 2], [(0, 1), (1, 1)], [[1, 2], [2, 1]],
    ),
    FusionCase(
        "a list of weight 0 adds nothing, not even its documents",
        [[1, 2], [3, 2]], {"weights": [1, 0]},
        [1, 2], [1 / 61, 1 / 62], [(0, 1), (0, 2)], [[1, 0], [2, 0]],
    ),
    FusionCase("every weight 0", [[1], [2]], {"weights": [0, 0]}, [], [], [], []),
    FusionCase(
        "a list of one document counts, an empty one is legal",
        [[9], []], {}, [9], [1 / 61], [(0, 1)], [[1, 0]],
    ),
    FusionCase("all lists are empty", [[], []], {"top_n": 2}, [], [], [], []),
    FusionCase("all padding", [[-1, -1], [-1]], {}, [], [], [], []),
    FusionCase(
        "equal sets of ranks tie exactly; then the best rank, then the earliest list",
        [[1, 2, 3], [3, 1, 2], [2, 3, 1]], {},
        [1, 3, 2], [1 / 61 + 1 / 62 + 1 / 63] * 3,
        [(0, 1), (1, 1), (2, 1)], [[1, 2, 3], [3, 1, 2], [2, 3, 1]],
    ),
    FusionCase(
        "equal scores: the better single rank comes first",
        [[1, 2, 3, 4], [5, 6, 3, 7]], {"contributions": [[6, 5, 3, 1], [6, 5, 3, 1]]},
        [1, 5, 3, 2, 6, 4, 7], [6, 6, 6, 5, 5, 1, 1],
        [(0, 1), (1, 1), (0, 3), (0, 2), (1, 2), (0, 4), (1, 4)],
        [[1, 0], [0, 1], [3, 3], [2, 0], [0, 2], [4, 0], [0, 4]],
    ),
    FusionCase(
        "equal ranks in one list: the smaller id comes first",
        [[9, 2, 7]], {"ranks": [[1, 1, 3]], "k": 1},
        [2, 9, 7], [1 / 2, 1 / 2, 1 / 4], [(0, 1), (0, 1), (0, 3)], [[1], [1], [3]],
    ),
    FusionCase(
        "ranks need not follow positions, and the best of a repeated id counts",
        [[4, 6, 4]], {"ranks": [[3, 2, 1]], "k": 1},
        [4, 6], [1 / 2, 1 / 3], [(0, 1), (0, 2)], [[1], [2]],
    ),
    FusionCase(
        "the rank of padding is not looked at",
        [[-1, 6]], {"ranks": [[99, 2]], "k": 1}, [6], [1 / 3], [(0, 2)], [[2]],
    ),
    FusionCase(
        "a row of contributions that is all 0 is a list of weight 0",
        [[1, 2], [3, 2]], {"contributions": [[0, 0], [0, 0.5]]},
        [2, 3], [0.5, 0.0], [(1, 2), (1, 1)], [[0, 2], [0, 1]],
    ),
    FusionCase(
        "ids 0 and 2**62", [[2**62, 0], [0]], {"k": 1},
        [0, 2**62], [1 / 3 + 1 / 2, 1 / 2], [(1, 1), (0, 1)], [[2, 1], [1, 0]],
    ),
    FusionCase(
        "first everywhere is 1 with weights of (k + 1) / L",
        [[3, 4], [3, 5]], {"weights": [61 / 2, 61 / 2], "top_n": 1},
        [3], [1.0], [(0, 1)], [[1, 1]],
    ),
    FusionCase(
        "top_n above the number of documents pads", [[3]], {"top_n": 4, "k": 1},
        [3], [1 / 2], [(0, 1)], [[1]],
    ),
]  # fmt: skip


def as_options(options):
    """The options of a hand case as arguments."""
    changed = dict(options)
    if "contributions" in options:
        changed["contributions"] = torch.tensor(options["contributions"], dtype=torch.float64)
    if "ranks" in options:
        changed["ranks"] = [torch.tensor([ranks]) for ranks in options["ranks"]]
    return changed


def tensors(lists, dtype=torch.int64):
    return [torch.tensor([ids], dtype=dtype) for ids in lists]


LENGTHS = ([0], [1], [0, 0], [7], [5, 3], [1, 0, 6], [4, 4, 4, 4], [9, 2, 3, 1, 8], [2] * 17)


def random_call(seed, lengths, n_queries=3):
    """Random lists with repeats and padding, and random options."""
    choose, generator = random.Random(seed), seeded(seed)
    limit = choose.choice([3, 12, 2**62])
    rankings = [torch.randint(-1, limit, (n_queries, n), generator=generator) for n in lengths]
    longest, n_lists = max(lengths), len(lengths)
    options = {"details": choose.random() < 0.6}
    way = choose.random()
    if way < 0.4:
        scales = [0, 1, 0.5, 2.5, 1e-9, 1e30, 5e-324, 1e308]
        options["weights"] = [choose.choice(scales) for _ in lengths]
        options["k"] = choose.choice([1e-300, 0.5, 2, 60, 1e6])
    elif way < 0.7:
        table = torch.rand(n_lists, longest + 1, generator=generator, dtype=torch.float64)
        options["contributions"] = table * choose.choice([0, 1, 1e-300, 1e-5, 1e300])
    if choose.random() < 0.5:
        options["duplicates"] = "sum"
    if choose.random() < 0.4 and longest:
        options["ranks"] = [
            torch.randint(1, longest + 1, ids.shape, generator=generator) for ids in rankings
        ]
    if choose.random() < 0.5:
        options["top_n"] = choose.choice([1, 3, 100])
    return rankings, options
