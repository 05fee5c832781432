"""How a `Retriever` finds hits and which neighbours join them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from scar_gpu import checks

_POOL = 50
_RRF_K = 60.0

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
    hybrid: bool
    pool: int | None
    weights: Sequence[float] | None
    rrf_k: float


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
        hybrid: find hits by words as well as by vectors, see `scar_gpu.text.hybrid`. Their
            relevance is their cosine all the same.
        pool: hits of either kind that are fused; default: 50, or k if that is more.
        weights: of the hits by vectors and of those by words; default 1 and 1.
        rrf_k: the k of `scar_gpu.rank_fusion`.

    Raises:
        TypeError: a value of another type.
        ValueError: an unknown method; a value out of range; pool, weights or rrf_k without hybrid.
    """

    k: int = 5
    method: Method = "scar"
    window: int | None = None
    lam: float = 0.1
    gamma: float = 0.8
    order: Order = "rank"
    hybrid: bool = False
    pool: int | None = None
    weights: Sequence[float] | None = None
    rrf_k: float = _RRF_K

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(f"method must be scar, window or none, got {self.method!r}")
        checks.check_bool("hybrid", self.hybrid)
        if self.hybrid:
            self._check_hybrid()
            return
        rrf_k = None if self.rrf_k == _RRF_K else self.rrf_k
        for name, value in (("pool", self.pool), ("weights", self.weights), ("rrf_k", rrf_k)):
            if value is not None:
                raise ValueError(f"{name} must come with hybrid retrieval, got {value} without")

    @property
    def pool_size(self) -> int:
        """`pool`, or what it is by default."""
        return max(_POOL, self.k) if self.pool is None else self.pool

    def _check_hybrid(self) -> None:
        checks.check_at_least("k", self.k, 1)
        if self.pool is not None:
            checks.check_at_least("pool", self.pool, 1)
            if self.pool < self.k:
                checks.fail(ValueError, "pool", f"be >= k ({self.k})", self.pool)
        checks.check_rank_constant("rrf_k", self.rrf_k)
        if self.weights is None:
            return
        if isinstance(self.weights, str) or not isinstance(self.weights, Sequence):
            got = type(self.weights).__name__
            checks.fail(TypeError, "weights", "be a sequence of two floats", got)
        if len(self.weights) != 2:
            rule = "be two, of the hits by vectors and of those by words"
            checks.fail(ValueError, "weights", rule, len(self.weights))
        checks.check_weights(list(self.weights), 2)
        if not any(self.weights):
            checks.fail(ValueError, "weights", "not both be 0", list(self.weights))
