"""Shapes of the grids, and tiny cases computed by hand.

Rows and queries are levels (see corpora): cos(level i, level j) = 1 - |i - j| / 8. Each case stands
for one rule of the contract; the formula stands where the number is.
"""

from typing import NamedTuple

INF, NAN = float("inf"), float("nan")

# Shapes by backend: 0, 1, primes, powers of two, those plus one, more than a block.
SHAPES = {
    # B, K, W, N, D
    "neighbor_shape": {
        "full": [
            (0, 5, 1, 10, 3),
            (1, 0, 1, 10, 3),
            (3, 4, 2, 0, 8),
            (4, 3, 0, 17, 96),
            (1, 1, 1, 1, 1),
            (5, 7, 8, 31, 1),
            (5, 7, 2, 127, 3),
            (4, 8, 3, 128, 96),
            (3, 9, 4, 129, 384),
            (2, 5, 5, 257, 768),
            (7, 3, 6, 64, 1000),
            (2, 4, 7, 65, 1536),
            (3, 5, 8, 31, 384),
            (65, 10, 1, 1025, 384),
            (257, 2, 1, 300, 100),
            (2, 1000, 1, 2048, 64),
        ],
        "triton": [
            (0, 5, 1, 10, 3),
            (1, 0, 1, 10, 3),
            (2, 2, 2, 0, 8),
            (2, 3, 0, 17, 96),
            (1, 1, 1, 1, 1),
            (2, 2, 2, 31, 3),
            (1, 3, 4, 33, 384),
            (1, 2, 8, 31, 768),
            (2, 1, 3, 9, 1000),
            (1, 2, 1, 16, 1536),
            (17, 2, 1, 33, 96),
        ],
    },
    # B, K, W, N, D: batches whose rows are compared with the same rows alone
    "batch_shape": {
        "full": [(3, 2, 8, 40, 1), (33, 5, 2, 200, 384), (9, 7, 1, 50, 1000), (130, 3, 1, 64, 100)],
        "triton": [(3, 2, 2, 20, 3), (5, 2, 1, 20, 96)],
    },
    # B, K, W
    "expand_shape": {
        "full": [
            (0, 3, 1),
            (3, 0, 1),
            (1, 1, 0),
            (1, 1, 1),
            (5, 7, 2),
            (4, 8, 3),
            (17, 10, 1),
            (3, 9, 8),
            (257, 5, 1),
            (2, 33, 4),
            (2, 1000, 1),
            (1, 1025, 0),
        ],
        "triton": [
            (0, 3, 1),
            (3, 0, 1),
            (1, 1, 0),
            (1, 1, 1),
            (3, 4, 2),
            (2, 5, 3),
            (5, 10, 1),
            (1, 33, 1),
        ],
    },
    # N, D, W
    "table_shape": {
        "full": [
            (0, 8, 1),
            (1, 1, 1),
            (7, 3, 0),
            (31, 96, 8),
            (128, 384, 1),
            (129, 768, 2),
            (65, 1000, 3),
            (64, 1536, 4),
            (1025, 100, 1),
        ],
        "triton": [(0, 8, 1), (1, 1, 1), (7, 3, 0), (17, 96, 8), (16, 384, 1), (9, 1000, 2)],
    },
    # B, k, N, D
    "search_shape": {
        "full": [
            (0, 3, 10, 8),
            (2, 3, 0, 8),
            (1, 1, 1, 1),
            (3, 5, 127, 3),
            (5, 10, 128, 96),
            (4, 200, 129, 384),
            (2, 7, 257, 768),
            (3, 64, 300, 1000),
            (2, 33, 65, 1536),
            (65, 10, 1025, 64),
            (2, 10, 5000, 100),
        ],
        "triton": [
            (0, 3, 10, 8),
            (2, 3, 0, 8),
            (1, 1, 1, 1),
            (2, 5, 33, 3),
            (3, 10, 64, 96),
            (1, 40, 33, 1000),
        ],
    },
}


class NeighborCase(NamedTuple):
    name: str
    documents: list[list[float | None]]
    queries: list[float | None]
    hits: list[list[int]]
    options: dict[str, object]  # window, lam, gamma, contiguous, relevance
    relevance: list[list[float]]
    scores: list[list[list[float]]] | None  # None: the contract leaves the score open
    mask: list[list[list[bool]]]


NEIGHBOR_CASES = [
    NeighborCase(
        "one neighbour admitted, one refused",
        [[2, 0, 3]], [0], [[1]], {"lam": 0.5, "gamma": 0.5},
        [[1.0]],
        [[[6 / 8 - 0.5 * (1 - 6 / 8), 5 / 8 - 0.5 * (1 - 5 / 8)]]],  # 0.625 and 0.4375
        [[[True, False]]],  # threshold 0.5 * 1
    ),
    NeighborCase(
        "a score equal to its threshold is refused",
        [[2, 0, 3]], [0], [[1]], {"lam": 0.5, "gamma": 0.625},
        [[1.0]], [[[0.625, 0.4375]]], [[[False, False]]],
    ),
    NeighborCase(
        "the penalty is the distance to the hit, not to the query",
        [[0, 4]], [0], [[1]], {"lam": 1.0, "gamma": 0.75},
        [[4 / 8]],
        [[[8 / 8 - 1.0 * (1 - 4 / 8), -INF]]],
        [[[True, False]]],  # 0.5 > 0.375
    ),
    NeighborCase(
        "documents end the neighbourhood: first, last, only chunk, empty documents",
        [[0, 0], [], [0], [], [0, 0]], [0], [[0, 1, 2, 3, 4]], {"lam": 0.5, "gamma": 0.5},
        [[1.0] * 5],
        [[[-INF, 1], [1, -INF], [-INF, -INF], [-INF, 1], [1, -INF]]],
        [[[False, True], [True, False], [False, False], [False, True], [True, False]]],
    ),
    NeighborCase(
        "padding is minus infinity and never the last row",
        [[4, 0, 0]], [0], [[-1, 1, -1]], {"lam": 0.0, "gamma": 0.25},
        [[-INF, 1.0, -INF]],
        [[[-INF, -INF], [4 / 8, 1.0], [-INF, -INF]]],
        [[[False, False], [True, True], [False, False]]],
    ),
    NeighborCase(
        "offsets run -2, -1, 1, 2 and the table of offset j is row j - 1",
        [[4, 2, 0, 1, 3]], [0], [[2]], {"window": 2, "lam": 1.0, "gamma": 0.25},
        [[1.0]],
        [[[0.5 - 0.5, 0.75 - 0.25, 0.875 - 0.125, 0.625 - 0.375]]],
        [[[False, True, True, False]]],  # 0, 0.5, 0.75, 0.25 against 0.25
    ),
    NeighborCase(
        "each offset is judged on its own",
        [[0, 6, 0, 6, 0]], [0], [[2]], {"window": 2, "lam": 0.0, "gamma": 0.5},
        [[1.0]], [[[1.0, 0.25, 0.25, 1.0]]], [[[True, False, False, True]]],
    ),
    NeighborCase(
        "contiguous: a direction stops at its first refusal, scores stay",
        [[0, 6, 0, 1, 6, 0]], [0], [[2]],
        {"window": 3, "lam": 0.0, "gamma": 0.5, "contiguous": True},
        [[1.0]],
        [[[-INF, 1.0, 0.25, 0.875, 0.25, 1.0]]],
        [[[False, False, False, True, False, False]]],
    ),
    NeighborCase(
        "a zero query has relevance 0 and admits nothing, duplicates included",
        [[0, 0, 1]], [None], [[1]], {"lam": 0.5, "gamma": 0.5},
        [[0.0]], [[[0.0 - 0.5 * (1 - 1), 0.0 - 0.5 * (1 - 7 / 8)]]], [[[False, False]]],
    ),
    NeighborCase(
        "a zero row has cosine 0 with the query and with its neighbours",
        [[0, None, 0]], [0], [[0, 1]], {"lam": 0.25, "gamma": 0.5},
        [[1.0, 0.0]],
        [[[-INF, 0 - 0.25 * (1 - 0)], [1 - 0.25 * (1 - 0), 1 - 0.25 * (1 - 0)]]],
        [[[False, False], [True, True]]],
    ),
    NeighborCase(
        "below zero the threshold lies above the relevance: a twin is refused",
        [[12, 12]], [0], [[0]], {"lam": 0.5, "gamma": 0.5},
        [[-4 / 8]], [[[-INF, -0.5]]], [[[False, False]]],  # -0.5 > 0.5 * -0.5 is false
    ),
    NeighborCase(
        "a given relevance is returned and sets the threshold",
        [[2, 0, 3]], [0], [[1]], {"lam": 0.5, "gamma": 0.5, "relevance": [[0.75]]},
        [[0.75]], [[[0.625, 0.4375]]], [[[True, True]]],  # threshold 0.375
    ),
    NeighborCase(
        "a given relevance of NaN admits nothing",
        [[2, 0, 3]], [0], [[1]], {"lam": 0.5, "gamma": 0.5, "relevance": [[NAN]]},
        [[NAN]], [[[0.625, 0.4375]]], [[[False, False]]],
    ),
    NeighborCase(
        "a NaN query and an infinite one have NaN relevance and admit nothing",
        [[0, 0, 0]], [NAN, INF, -INF], [[1, -1]] * 3, {"lam": 0.5, "gamma": 0.5},
        [[NAN, -INF]] * 3, None, [[[False, False], [False, False]]] * 3,
    ),
    NeighborCase(
        "a NaN row spoils its own scores only: continuity NaN bounds the neighbourhood",
        [[0, NAN, 0, 0]], [0], [[2]], {"lam": 0.5, "gamma": 0.5},
        [[1.0]], [[[-INF, 1.0]]], [[[False, True]]],
    ),
    NeighborCase(
        "gamma 0 and below are thresholds like any other",
        [[8, 0, 9]], [0, 0], [[1], [1]], {"lam": 0.0, "gamma": -0.125},
        [[1.0], [1.0]], [[[0.0, -0.125]]] * 2, [[[True, False]]] * 2,
    ),
    NeighborCase(
        "repeated hits are judged each time",
        [[2, 0, 3]], [0], [[1, 1]], {"lam": 0.5, "gamma": 0.5},
        [[1.0, 1.0]], [[[0.625, 0.4375]] * 2], [[[True, False]] * 2],
    ),
]  # fmt: skip


class SearchCase(NamedTuple):
    name: str
    levels: list[float | None]
    queries: list[float | None]
    k: int
    row_ranges: list[list[int]] | None
    ids: list[list[int]]
    scores: list[list[float]]


SEARCH_CASES = [
    SearchCase(
        "ties go to the smaller id",
        [3, 1, 2, 1, 3, 1], [0], 4, None, [[1, 3, 5, 2]], [[7 / 8, 7 / 8, 7 / 8, 6 / 8]],
    ),
    SearchCase(
        "a tie at the k-th place keeps the smaller ids",
        [1] * 9, [0, 1], 3, None, [[0, 1, 2]] * 2, [[7 / 8] * 3, [1.0] * 3],
    ),
    SearchCase("k above the number of rows pads", [1, 0], [0], 4, None, [[1, 0, -1, -1]],
               [[1.0, 7 / 8, -INF, -INF]]),
    SearchCase("no rows", [], [0], 2, None, [[-1, -1]], [[-INF, -INF]]),
    SearchCase("a zero query finds rows 0 to k - 1", [5, None, 12, 0], [None], 3, None,
               [[0, 1, 2]], [[0.0] * 3]),
    SearchCase("NaN and infinite queries find nothing", [0, 1, 2], [NAN, -NAN, INF, -INF], 2, None,
               [[-1, -1]] * 4, [[-INF, -INF]] * 4),
    SearchCase("a row of NaN, of either sign, or of infinity is never returned",
               [NAN, 0, -NAN, 9, INF, -INF], [0], 5, None, [[1, 3, -1, -1, -1]],
               [[1.0, -1 / 8, -INF, -INF, -INF]]),
    SearchCase("a zero row has cosine 0: below the alike, above the opposed", [10, None, 4], [0],
               3, None, [[2, 1, 0]], [[4 / 8, 0.0, -2 / 8]]),
    SearchCase("all cosines negative", [16, 9, 12], [0], 2, None, [[1, 2]], [[-1 / 8, -4 / 8]]),
    SearchCase("row ranges are half-open, one per query; an empty one finds nothing",
               [0, 1, 2, 3, 4], [0, 0, 4, 0], 2, [[0, 5], [1, 3], [0, 4], [2, 2]],
               [[0, 1], [1, 2], [3, 2], [-1, -1]],
               [[1.0, 7 / 8], [7 / 8, 6 / 8], [7 / 8, 6 / 8], [-INF, -INF]]),
    SearchCase("a row range shorter than k pads", [0, 1, 2, 3], [3], 3, [[1, 2]], [[1, -1, -1]],
               [[6 / 8, -INF, -INF]]),
    SearchCase("a row range holds the zero query too", [0, 1, 2, 3], [None], 3, [[2, 4]],
               [[2, 3, -1]], [[0.0, 0.0, -INF]]),
]  # fmt: skip
