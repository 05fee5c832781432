"""Tiny cases of the operations that only move row numbers: expand, window_expand, spans."""

from typing import NamedTuple

from tests.cases import INF, NAN

REFUSED = 9.0  # the S of a neighbour whose mask is False: high, so that only the mask keeps it out


class ExpandCase(NamedTuple):
    name: str
    hits: list[int]
    relevance: list[float]
    window: int
    admitted: dict[tuple[int, int], float]  # (hit, offset): S, with mask True
    ids: list[int]  # order="rank", without the padding
    scores: list[float]
    anchors: list[int]


EXPAND_CASES = [
    ExpandCase(
        "hits c, a of a-b-c-d: b, c, d, then a",
        [2, 0], [0.875, 0.75], 1, {(0, -1): 0.5, (0, 1): 0.625, (1, 1): 0.25},
        [1, 2, 3, 0], [0.5, 0.875, 0.625, 0.75], [0, 0, 0, 1],
    ),
    ExpandCase(
        "a row that is a hit keeps its relevance, its anchor and its place",
        [2, 3], [0.5, 0.25], 1, {(0, -1): 0.375, (0, 1): 0.75, (1, -1): 0.875},
        [1, 2, 3], [0.375, 0.5, 0.25], [0, 0, 1],
    ),
    ExpandCase(
        "a neighbour of two hits goes to the higher S",
        [1, 3], [0.875, 0.75], 1, {(0, 1): 0.25, (1, -1): 0.5},
        [1, 2, 3], [0.875, 0.5, 0.75], [0, 1, 1],
    ),
    ExpandCase(
        "a neighbour of two hits with equal S goes to the better rank",
        [3, 1], [0.875, 0.75], 1, {(0, -1): 0.5, (1, 1): 0.5},
        [2, 3, 1], [0.5, 0.875, 0.75], [0, 0, 1],
    ),
    ExpandCase(
        "a neighbour refused by one hit and admitted by the other",
        [1, 3], [0.875, 0.75], 1, {(1, -1): 0.125},
        [1, 2, 3], [0.875, 0.125, 0.75], [0, 1, 1],
    ),
    ExpandCase(
        "a repeated hit counts once, at its first position",
        [4, 4, 2], [0.75, 0.75, 0.5], 1, {(0, 1): 0.25, (1, 1): 0.25},
        [4, 5, 2], [0.75, 0.25, 0.5], [0, 0, 2],
    ),
    ExpandCase(
        "padding between hits leaves no hole",
        [5, -1, 3], [0.75, -INF, 0.5], 1, {(0, 1): 0.25, (2, -1): 0.125},
        [5, 6, 2, 3], [0.75, 0.25, 0.125, 0.5], [0, 0, 2, 2],
    ),
    ExpandCase("all padding", [-1, -1], [-INF, -INF], 1, {}, [], [], []),
    ExpandCase(
        "an id whose relevance is minus infinity is padding",
        [7, 3], [-INF, 0.5], 1, {}, [3], [0.5], [1],
    ),
    ExpandCase(
        "hits of NaN relevance stay", [7, 3], [NAN, NAN], 1, {}, [7, 3], [NAN, NAN], [0, 1]
    ),
    ExpandCase(
        "an S of NaN or of minus infinity admits nothing",
        [3], [0.5], 2, {(0, -2): NAN, (0, -1): -INF, (0, 2): 0.25},
        [3, 5], [0.5, 0.25], [0, 0],
    ),
    ExpandCase(
        "there is no row before the first", [0], [0.5], 1, {(0, -1): 0.25}, [0], [0.5], [0]
    ),
    ExpandCase(
        "window 0: the hits without their repeats",
        [3, 3, 1], [0.5, 0.5, 0.25], 0, {}, [3, 1], [0.5, 0.25], [0, 2],
    ),
    ExpandCase(
        "window 2: reading order around the hit",
        [5], [0.5], 2, {(0, 1): 0.75, (0, 2): 0.25, (0, -2): 0.125},
        [3, 5, 6, 7], [0.125, 0.5, 0.75, 0.25], [0, 0, 0, 0],
    ),
    ExpandCase(
        "a hit between a hit and its neighbour keeps its own group",
        [1, 2], [0.5, 0.25], 2, {(0, 2): 0.125},
        [1, 3, 2], [0.5, 0.125, 0.25], [0, 0, 1],
    ),
    ExpandCase(
        "row numbers beyond 32 bits",
        [2**40, 7], [0.5, 0.25], 1, {(0, 1): 0.125, (1, 1): 0.125},
        [2**40, 2**40 + 1, 7, 8], [0.5, 0.125, 0.25, 0.125], [0, 0, 1, 1],
    ),
    ExpandCase(
        "negative relevance is a relevance",
        [3, 9], [-0.25, -0.5], 1, {(0, 1): -0.125}, [3, 4, 9], [-0.25, -0.125, -0.5], [0, 0, 1],
    ),
]  # fmt: skip


class WindowCase(NamedTuple):
    name: str
    lengths: list[int]
    hits: list[int]
    before: int
    after: int
    ids: list[int]
    anchors: list[int]


WINDOW_CASES = [
    WindowCase("hits c, a of a-b-c-d", [4], [2, 0], 1, 1, [1, 2, 3, 0], [0, 0, 0, 1]),
    WindowCase("before and after count per side", [10], [5], 2, 1, [3, 4, 5, 6], [0] * 4),
    WindowCase("only before", [10], [5], 2, 0, [3, 4, 5], [0] * 3),
    WindowCase("only after", [10], [5], 0, 2, [5, 6, 7], [0] * 3),
    WindowCase(
        "one-chunk documents, empty documents, first and last rows",
        [2, 0, 1, 0, 3], [2, 3, 1, 5], 1, 1, [2, 3, 4, 0, 1, 5], [0, 1, 1, 2, 2, 3],
    ),
    WindowCase(
        "a row reached by two hits goes to the better rank, a later hit included",
        [6], [2, 1, 5], 1, 1, [1, 2, 3, 0, 4, 5], [0, 0, 0, 1, 2, 2],
    ),
    WindowCase("before = after = 0 removes repeats", [9], [3, -1, 3, 0], 0, 0, [3, 0], [0, 3]),
    WindowCase("padding is not the row before row 0", [4], [-1, 3], 1, 1, [2, 3], [1, 1]),
    WindowCase("all padding", [4], [-1, -1], 1, 1, [], []),
    WindowCase("a window beyond the document", [3, 3], [4], 5, 9, [3, 4, 5], [0] * 3),
    WindowCase(
        "a hit with nothing left has no group", [5], [2, 3, 2, 4], 1, 1, [1, 2, 3, 4], [0, 0, 0, 1]
    ),
]  # fmt: skip


class SpansCase(NamedTuple):
    name: str
    lengths: list[int]
    ids: list[int]
    spans: list[tuple[int, int, int]]  # start, end, first


SPANS_CASES = [
    SpansCase("b, c, d, a is one span", [4], [1, 2, 3, 0, -1], [(0, 4, 0)]),
    SpansCase(
        "a span stands where its first row stands", [10], [7, 8, 2, 3, 1], [(7, 9, 0), (1, 4, 2)]
    ),
    SpansCase("never across documents", [2, 2], [1, 2], [(1, 2, 0), (2, 3, 1)]),
    SpansCase("empty documents between", [2, 0, 0, 2], [2, 1, 0], [(2, 3, 0), (0, 2, 1)]),
    SpansCase("rows apart in the expansion join", [9], [1, 5, 2], [(1, 3, 0), (5, 6, 1)]),
    SpansCase("a row that bridges two others", [9], [3, 1, 2], [(1, 4, 0)]),
    SpansCase("padding keeps its position", [9], [-1, 4, -1, 8], [(4, 5, 1), (8, 9, 3)]),
    SpansCase("repeated rows count once", [9], [5, 5, 4], [(4, 6, 0)]),
    SpansCase("all padding", [9], [-1, -1, -1], []),
    SpansCase("documents of one chunk", [1, 1, 1], [2, 1, 0], [(2, 3, 0), (1, 2, 1), (0, 1, 2)]),
    SpansCase("a whole document", [2, 3, 2], [4, 2, 3], [(2, 5, 0)]),
]  # fmt: skip
