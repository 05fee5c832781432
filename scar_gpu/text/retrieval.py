"""From query vectors to spans of rows: search or given hits, then their neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import numpy as np
import torch
from torch import Tensor

import scar_gpu
from scar_gpu import ChunkIndex
from scar_gpu.types import Expansion, Hits, Spans

Method = Literal["scar", "window", "none"]
Order = Literal["rank", "document"]


class Options(TypedDict, total=False):
    """The options of `Retriever`'s methods by name, see `Settings`."""

    k: int
    method: Method
    window: int | None
    lam: float
    gamma: float
    order: Order


@dataclass(frozen=True, slots=True)
class Settings:
    """How hits are found and which neighbours join them.

    Attributes:
        k: hits per query; contexts are fewer where hits are neighbours, and hold more chunks
            where neighbours are admitted. Hits that are given are all used.
        method: `"scar"` adds the neighbours that SCAR admits, `"window"` all of them, `"none"`
            none.
        window: how far a neighbour may be; default: the index's window.
        lam: SCAR's penalty for a neighbour unlike its hit, see `scar_gpu.neighbor_scores`.
        gamma: the share of its hit's relevance that a neighbour must exceed.
        order: `"rank"`: best hit first; `"document"`: reading order.

    Raises:
        ValueError: an unknown method.
    """

    k: int = 5
    method: Method = "scar"
    window: int | None = None
    lam: float = 0.1
    gamma: float = 0.8
    order: Order = "rank"

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(f"method must be scar, window or none, got {self.method!r}")


class Found(NamedTuple):
    """The hits of B queries, the rows around them, and the runs these make."""

    hits: Hits
    expansion: Expansion
    spans: Spans


def find(
    index: ChunkIndex,
    vectors: Tensor,
    hits: Tensor | None,
    settings: Settings,
    row_ranges: Tensor | None = None,
) -> Found:
    """Search, unless hits are given, and expand.

    Args:
        index: what to search.
        vectors: [B, D] queries.
        hits: [B, K] rows, best first, -1 for padding; None searches for `settings.k`.
        settings: see `Settings`.
        row_ranges: [B, 2] the half-open range of rows a query is restricted to in the search.

    Raises:
        TypeError, ValueError, IndexError: as the operations of `scar_gpu`.
    """
    reach = index.window if settings.window is None else settings.window
    lam, gamma, order = settings.lam, settings.gamma, settings.order
    if hits is not None and row_ranges is not None:
        raise ValueError("row_ranges must not be given with hits, which are not searched for")
    if hits is None:
        searched = index.search(vectors, settings.k, row_ranges=row_ranges)
        ids, relevance = searched
    else:
        ids, relevance = hits, None
    if settings.method == "scar":
        judged = index.neighbor_scores(
            vectors, ids, lam=lam, gamma=gamma, window=reach, relevance=relevance
        )
        expansion = scar_gpu.expand(ids, judged, order=order)
    else:
        # A window of 0 judges no neighbour and leaves the relevance of given hits.
        judged = index.neighbor_scores(vectors, ids, window=0, relevance=relevance)
        reach = 0 if settings.method == "none" else reach
        expansion = index.window_expand(ids, before=reach, after=reach, order=order)
    return Found(Hits(ids, judged.relevance), expansion, index.spans(expansion))


def as_tensor(name: str, values: Any, device: torch.device) -> Tensor:
    """A tensor or NumPy array on `device`, without a copy where it is there."""
    if isinstance(values, np.ndarray):
        from scar_gpu.index import _as_tensor

        values = _as_tensor(name, values)
    if not isinstance(values, Tensor):
        got = type(values).__name__
        raise TypeError(f"{name} must be a torch.Tensor or numpy.ndarray, got {got}")
    return values.to(device)
