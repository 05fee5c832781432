"""Bytes an operation must move, and bytes it moves, per call.

Useful bytes are those of the rows, ids, scores and results that the formula of an operation names,
each counted once. Moved bytes are what memory delivers for them in sectors of 32 bytes when hits
are spread at random and what several programs share (the queries, the bounds of documents) comes
from cache after the first time.
"""

from typing import NamedTuple

SECTOR = 32


class Traffic(NamedTuple):
    """Bytes per call."""

    useful: float
    moved: float

    @property
    def share(self) -> float:
        return self.useful / self.moved


def sectors(size: float) -> float:
    """Bytes of the sectors that hold `size` adjacent bytes."""
    return -(-size // SECTOR) * SECTOR


def row_scale(n_chunks: int, row_bytes: int) -> Traffic:
    """Every row read, one float written per row."""
    results = 4 * n_chunks
    return Traffic(n_chunks * row_bytes + results, n_chunks * sectors(row_bytes) + results)


def continuity(n_chunks: int, row_bytes: int, window: int) -> Traffic:
    """Every row and scale read once (its neighbours' second reading is from cache)."""
    rest = n_chunks * (4 + 8 + 4 * window)
    return Traffic(n_chunks * row_bytes + rest, n_chunks * sectors(row_bytes) + rest)


def neighbor_scores(
    n_queries: int, k: int, window: int, row_bytes: int, query_bytes: int, is_given: bool = False
) -> Traffic:
    """2W + 1 adjacent rows per hit (2W when the relevance is given), their scales, W pairs of
    continuities, one id; a query per K hits; 4 + 10W bytes of results.
    """
    rows = 2 * window + 1 - is_given
    dense = query_bytes / k + 8 + 4 * is_given + 4 + 10 * window
    useful = rows * (row_bytes + 4) + 8 * window + dense
    moved = sectors(rows * row_bytes) + sectors(4 * rows) + SECTOR * window + dense
    return Traffic(n_queries * k * useful, n_queries * k * moved)


def corpus_masks(
    n_queries: int, n_chunks: int, window: int, row_bytes: int, query_bytes: int
) -> Traffic:
    """Rows, scales and continuities once, a bit per decision; cosines written and read besides."""
    useful = n_chunks * (row_bytes + 4 + 4 * window) + n_queries * query_bytes
    useful += n_queries * n_chunks * window / 4
    return Traffic(useful, useful + n_queries * n_chunks * 8)


def search_expand(
    n_queries: int, n_chunks: int, k: int, window: int, row_bytes: int, query_bytes: int
) -> Traffic:
    """The three operations one after the other."""
    parts = (
        search(n_queries, n_chunks, k, row_bytes, query_bytes),
        neighbor_scores(n_queries, k, window, row_bytes, query_bytes),
        expand(n_queries, k, window),
    )
    return Traffic(sum(part.useful for part in parts), sum(part.moved for part in parts))


def expand(n_queries: int, k: int, window: int) -> Traffic:
    """Ids, relevances, scores and masks read, entries of 16 bytes and a length written."""
    size = n_queries * (k * (12 + 10 * window) + 16 * k * (2 * window + 1) + 4)
    return Traffic(size, size)


def window_expand(n_queries: int, k: int, before: int, after: int) -> Traffic:
    """Ids read, entries of 16 bytes and a length written."""
    size = n_queries * (8 * k + 16 * k * (before + after + 1) + 4)
    return Traffic(size, size)


def spans(n_queries: int, width: int) -> Traffic:
    """Ids read, 20 bytes per entry and a length written. Beyond one block the bounds of runs, 16
    bytes per entry, take memory of their own, written and read.
    """
    size = n_queries * (28 * width + 4)
    return Traffic(size, size + n_queries * 32 * width * (width > 512))


def search(n_queries: int, n_chunks: int, k: int, row_bytes: int, query_bytes: int) -> Traffic:
    """Rows and scales read once, queries read, results written. Moved besides: a maximum per
    group of 32 rows written and read, and k + 16 groups per query rescored.
    """
    useful = n_chunks * (row_bytes + 4) + n_queries * (query_bytes + 12 * k)
    groups = n_chunks / 4 + (k + 16) * 32 * (row_bytes + 20)
    return Traffic(useful, useful + n_queries * groups)


def rank_fusion(n_queries: int, n_entries: int) -> Traffic:
    """Ids read, 12 bytes per entry and a length written. Moved besides: the scratch memory of a
    query, 36 bytes per entry, written and read.
    """
    size = n_queries * (20 * n_entries + 4)
    return Traffic(size, size + n_queries * 72 * n_entries)


def parameter_sweep(
    n_queries: int, k: int, window: int, n_pieces: int, n_measures: int, grid: tuple[int, int]
) -> Traffic:
    """Ids, relevances, continuities and gold read, 4 bytes per figure written. Moved besides, as
    float32: which of R = K(2W + 1) candidates stands for which, and which piece holds it, written
    once and read for every lam; what is admitted, and the products, written and read.
    """
    n_lam, n_gamma = grid
    candidates = k * (2 * window + 1)
    gold = n_pieces * (16 + 8 * n_measures)
    figures = 4 * n_lam * n_gamma * (1 + n_measures)
    useful = n_queries * (k * (12 + 16 * window) + gold + figures)
    held = 4 * (candidates + n_pieces) * candidates * (1 + n_lam)
    products = 8 * (2 * candidates + n_pieces) * n_lam * n_gamma
    return Traffic(useful, useful + n_queries * (held + products))
