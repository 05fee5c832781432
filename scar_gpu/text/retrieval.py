"""From query vectors to spans of rows: search or given hits, then their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import scar_gpu
from scar_gpu import ChunkIndex
from scar_gpu.text.extras import import_extra
from scar_gpu.text.hybrid import hybrid_search
from scar_gpu.text.lexical import LexicalIndex
from scar_gpu.text.searching import Search
from scar_gpu.text.settings import Settings
from scar_gpu.types import Expansion, Hits, Spans


class Found(NamedTuple):
    """The hits of B queries, the rows around them, and the runs these make."""

    hits: Hits
    expansion: Expansion
    spans: Spans


class Asked(NamedTuple):
    """What B queries ask for.

    Attributes:
        vectors: [B, D] the queries.
        texts: [B] the queries in words; needed for hybrid retrieval alone.
        hits: [B, K] rows, best first, -1 for padding; None searches.
        row_ranges: [B, 2] the half-open range of rows a query is restricted to in the search.
    """

    vectors: Tensor
    texts: Sequence[str] | None = None
    hits: Tensor | None = None
    row_ranges: Tensor | None = None


def check_lexical(lexical: LexicalIndex | None) -> LexicalIndex:
    """The lexical lists that hybrid retrieval needs.

    Raises:
        ValueError: there are none.
        ImportError: bm25s is missing; `scar_gpu[hybrid]` brings it.
    """
    if lexical is None:
        raise ValueError("hybrid must be asked of an index with lexical lists, got one without")
    import_extra("bm25s", "hybrid")
    return lexical


def find_hits(
    search: Search, lexical: LexicalIndex | None, asked: Asked, settings: Settings
) -> tuple[Tensor, Tensor | None]:
    """The hits [B, K] that are given or searched for, and their relevance where it is known.

    The score of a fusion is no relevance, so that of hybrid hits is still to be computed.

    Raises:
        TypeError, ValueError, IndexError: as the operations of `scar_gpu`; hybrid retrieval
            without words on either side.
    """
    vectors, texts, hits, row_ranges = asked
    if hits is not None:
        if row_ranges is not None:
            raise ValueError("row_ranges must not be given with hits, which are not searched for")
        if settings.hybrid:
            raise ValueError("hybrid must not be asked for with hits, which are not searched for")
        return hits, None
    k = _k(settings, search.index)
    if not settings.hybrid:
        return search.search(vectors, k, row_ranges=row_ranges)
    if texts is None:
        raise ValueError("hybrid must be asked for with queries in words, got vectors alone")
    fused = hybrid_search(
        search.index,
        check_lexical(lexical),
        vectors,
        texts,
        k,
        pool=settings.pool_size,
        weights=settings.weights,
        rrf_k=settings.rrf_k,
        row_ranges=row_ranges,
        search=search.search,
    )
    return fused.ids, None


def find(search: Search, lexical: LexicalIndex | None, asked: Asked, settings: Settings) -> Found:
    """Search, unless hits are given, and expand.

    Args:
        search: of the index.
        lexical: the words of its rows, for hybrid retrieval.
        asked: see `Asked`.
        settings: see `Settings`.

    Raises:
        As `find_hits`.
    """
    index = search.index
    reach = index.window if settings.window is None else settings.window
    lam, gamma, order = settings.lam, settings.gamma, settings.order
    vectors = asked.vectors
    if settings.method == "scar" and asked.hits is None and not settings.hybrid:
        found = search.search_expand(
            vectors,
            _k(settings, index),
            lam=lam,
            gamma=gamma,
            row_ranges=asked.row_ranges,
            order=order,
            window=reach,
        )
        return Found(found.hits, found.expansion, index.spans(found.expansion))
    ids, relevance = find_hits(search, lexical, asked, settings)
    if settings.method == "scar":
        judged = index.neighbor_scores(
            vectors, ids, lam=lam, gamma=gamma, window=reach, relevance=relevance
        )
        expansion = scar_gpu.expand(ids, judged, order=order)
    else:
        # A window of 0 judges no neighbour and leaves the relevance of hits that came without.
        judged = index.neighbor_scores(vectors, ids, window=0, relevance=relevance)
        reach = 0 if settings.method == "none" else reach
        expansion = index.window_expand(ids, before=reach, after=reach, order=order)
    return Found(Hits(ids, judged.relevance), expansion, index.spans(expansion))


def _k(settings: Settings, index: ChunkIndex) -> int:
    """The hits to ask for: more than there are rows would be padding, which no context shows."""
    k = settings.k
    return min(k, max(index.n_chunks, 1)) if type(k) is int else k


def as_tensor(name: str, values: Any, device: torch.device) -> Tensor:
    """A tensor or NumPy array on `device`, without a copy where it is there."""
    if isinstance(values, np.ndarray):
        from scar_gpu.index import _as_tensor

        values = _as_tensor(name, values)
    if not isinstance(values, Tensor):
        got = type(values).__name__
        raise TypeError(f"{name} must be a torch.Tensor or numpy.ndarray, got {got}")
    return values.to(device)
