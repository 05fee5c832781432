"""Selection in `search` on the GPU: keys in total order, the best of many, and the certificate.

A key is an int64 that compares like (score, then smaller position): distinct for distinct
positions, so that every choice of the best is unique.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LOWEST = tl.constexpr(-(2**63))  # of NaN, of -inf, and of what is not there
HIGHEST = tl.constexpr(2**63 - 1)


def default_config(k: int, warp_size: int) -> dict[str, int]:
    """The k best and a block of candidates, two keys of each per thread."""
    best = max(32, triton.next_power_of_2(k))
    block = max(256, best)
    return {"BEST": best, "BLOCK": block, "num_warps": block // (2 * warp_size)}


@triton.jit
def pack(score, position):
    """The key of a score at a position in [0, 2^32)."""
    score = tl.where(score == 0, 0.0, score)  # -0.0 ties with 0.0
    bits = score.to(tl.int32, bitcast=True)
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    key = (ordered << 32) | (0xFFFFFFFF - position.to(tl.int64))
    return tl.where(score > -float("inf"), key, LOWEST)


@triton.jit
def score_of(key):
    """The score in a key; NaN in the lowest."""
    ordered = (key >> 32).to(tl.int32)
    return (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def position_of(key):
    """The position in a key."""
    return 0xFFFFFFFF - (key & 0xFFFFFFFF)


@triton.jit
def keep_best(best, keys, BEST: tl.constexpr):
    """The largest of `best` [BEST], ascending, and of `keys`; ascending."""
    if tl.max(keys, axis=0) > tl.min(best, axis=0):
        # One ascends and one descends, so that the larger of each pair are the best of both.
        best = tl.bitonic_merge(tl.maximum(best, tl.topk(keys, BEST)))
    return best


@triton.jit(do_not_specialize=["n_groups", "n_wanted"])
def _select_kernel(
    maxima_ptr, chosen_ptr, n_groups: tl.int64, n_wanted, BEST: tl.constexpr, BLOCK: tl.constexpr
):
    """The keys of the n_wanted groups of highest maximum, best first; the lowest when fewer.

    One program takes one query. Grid: (B,). Bytes per query: 4 * n_groups read, 8 * n_wanted
    written.
    """
    query = tl.program_id(0).to(tl.int64)
    maxima_ptr += query * n_groups
    best = tl.full([BEST], LOWEST, tl.int64)
    for first in tl.range(0, n_groups, BLOCK):
        groups = first + tl.arange(0, BLOCK)
        maxima = tl.load(maxima_ptr + groups, mask=groups < n_groups, other=-float("inf"))
        best = keep_best(best, pack(maxima, groups), BEST)
    rank = BEST - 1 - tl.arange(0, BEST)
    tl.store(chosen_ptr + query * n_wanted + rank, best, mask=rank < n_wanted)


@triton.jit(do_not_specialize=["k", "n_chosen"])
def _finish_kernel(
    keys_ptr, chosen_ptr, units_ptr, margins_ptr, floors_ptr, ids_ptr, scores_ptr,
    k: tl.int64, n_chosen: tl.int64,
    GROUP: tl.constexpr, BEST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The k best rows of the chosen groups, and whether a better one may be elsewhere.

    No row left out has a cosine above bound = the maximum of the best group left out + margin. So
    the result is proven when its k-th score lies above the bound, or at it with a smaller id than
    any row left out at the bound. floors[b] is then the highest key; otherwise a key that every
    row of the true result exceeds.

    One program takes one query. Grid: (B,). Bytes per query: 8 * n_chosen * GROUP read, 12 * k
    written.
    """
    query = tl.program_id(0).to(tl.int64)
    keys_ptr += query * n_chosen * GROUP
    chosen_ptr += query * (n_chosen + 1)
    best = tl.full([BEST], LOWEST, tl.int64)
    n_keys = (n_chosen * GROUP).to(tl.int32)
    for first in tl.range(0, n_keys, BLOCK):
        index = first + tl.arange(0, BLOCK)
        keys = tl.load(keys_ptr + index, mask=index < n_keys, other=LOWEST)
        best = keep_best(best, keys, BEST)

    rank = BEST - 1 - tl.arange(0, BEST)
    entry = query * k + rank
    is_hit = (rank < k) & (best != LOWEST)
    tl.store(ids_ptr + entry, position_of(best), mask=is_hit)
    tl.store(scores_ptr + entry, score_of(best), mask=is_hit)
    last = tl.sum(tl.where(rank == k - 1, best, 0), axis=0)
    left = tl.load(chosen_ptr + n_chosen)
    unit = tl.load(units_ptr + query)
    margin = tl.load(margins_ptr + query)
    bound = score_of(left) * unit + margin
    is_before = position_of(last) < position_of(left) * GROUP
    is_proven = (score_of(last) > bound) | ((score_of(last) == bound) & is_before)
    is_proven = is_proven | (left == LOWEST) | (unit != unit)  # nothing left out; no scores
    floor = tl.where(last == LOWEST, LOWEST, last - 1)
    tl.store(floors_ptr + query, tl.where(is_proven, HIGHEST, floor))


def launch_select(maxima: Tensor, n_wanted: int, warp_size: int) -> Tensor:
    """[B, n_wanted] keys of groups, best first."""
    n_queries, n_groups = maxima.shape
    chosen = maxima.new_empty((n_queries, n_wanted), dtype=torch.int64)
    _select_kernel[(n_queries,)](
        maxima, chosen, n_groups, n_wanted, **default_config(n_wanted, warp_size)
    )
    return chosen


def launch_finish(
    keys: Tensor,
    chosen: Tensor,
    units: Tensor,
    margins: Tensor,
    results: tuple[Tensor, Tensor],
    warp_size: int,
) -> Tensor:
    """Write ids and scores where there are results; floors [B]."""
    n_queries, n_chosen, group = keys.shape
    k = results[0].shape[1]
    floors = keys.new_empty(n_queries)
    _finish_kernel[(n_queries,)](
        keys, chosen, units, margins, floors, *results, k, n_chosen, GROUP=group,
        **default_config(k, warp_size),
    )  # fmt: skip
    return floors
