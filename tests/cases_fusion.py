"""Tiny cases of rank_fusion, computed by hand; most broke another system once."""

from typing import Any, NamedTuple


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
