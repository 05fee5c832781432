"""One result from the results of shards."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import torch

from scar_gpu import checks
from scar_gpu.api.neighbors import expand
from scar_gpu.contributions import LARGEST_ID
from scar_gpu.types import Hits, NeighborScores, SearchExpansion

_INF = float("inf")


@overload
def merge_hits(
    shards: Sequence[Hits], *, row_offsets: Sequence[int], k: int | None = None, order: str = "rank"
) -> Hits: ...
@overload
def merge_hits(
    shards: Sequence[SearchExpansion],
    *,
    row_offsets: Sequence[int],
    k: int | None = None,
    order: str = "rank",
) -> SearchExpansion: ...
def merge_hits(
    shards: Sequence[Hits] | Sequence[SearchExpansion],
    *,
    row_offsets: Sequence[int],
    k: int | None = None,
    order: str = "rank",
) -> Hits | SearchExpansion:
    """Merge what a search found in the parts of a matrix into what it finds in the whole.

    Of an index cut into shards, every document whole in one of them, the merged result equals the
    one of the single index, neighbour scores and expansion included, bit for bit: scores do not
    depend on the matrix around a row, and the order is total: score descending, then smaller
    id. Plain PyTorch, on any device.

    Args:
        shards: one result per shard, all of `search` or all of `search_expand`, of the same
            queries, window and options.
        row_offsets: for each shard the number of its row 0 in the whole matrix, in [0, 2**62].
        k: results per query; default: the fewest that any shard was asked for. A shard that was
            asked for fewer than k may hide a result, so that is an error.
        order: "rank" or "document", as for `expand`; the order of a merged expansion.

    Returns:
        Hits, or a SearchExpansion with hits, neighbours and expansion of the whole matrix.

    Raises:
        TypeError: shards are not all Hits or all SearchExpansions, of tensors of the right
            dtypes; row_offsets are not ints.
        ValueError: no shards; a number of offsets other than of shards; an offset out of range;
            shapes or devices that differ; k < 1 or above what a shard was asked for; unknown order.

    Example:
        The second shard begins with row 2:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]])
        >>> query = torch.tensor([[1.0, 0.0]])
        >>> shards = [scar_gpu.search(query, part, 2) for part in (rows[:2], rows[2:])]
        >>> scar_gpu.merge_hits(shards, row_offsets=[0, 2])
        Hits(ids=tensor([[0, 2]]), scores=tensor([[1.0000, 0.8000]]))
    """
    checks.is_document_order(order)
    _check(shards, row_offsets, k)
    hits = [shard if isinstance(shard, Hits) else shard.hits for shard in shards]
    if k is None:
        k = min(found.ids.shape[1] for found in hits)
    ids = torch.cat(
        [
            torch.where(found.ids >= 0, found.ids + offset, -1)
            for found, offset in zip(hits, row_offsets, strict=True)
        ],
        dim=1,
    )
    scores = torch.cat([found.scores for found in hits], dim=1).detach()
    is_hit = (ids >= 0) & (scores > -_INF)
    scores = scores.masked_fill(~is_hit, -_INF)
    # By score, and among equal scores by id: both sorts keep the order of what is equal.
    by_id = ids.argsort(dim=1, stable=True)
    by_score = scores.gather(1, by_id).argsort(dim=1, descending=True, stable=True)
    place = by_id.gather(1, by_score)[:, :k]
    is_hit = is_hit.gather(1, place)
    merged = Hits(ids.gather(1, place).masked_fill(~is_hit, -1), scores.gather(1, place))
    if isinstance(shards[0], Hits):
        return merged

    judged = [shard.neighbors for shard in shards if isinstance(shard, SearchExpansion)]
    relevance = torch.cat([one.relevance for one in judged], dim=1).detach().gather(1, place)
    n_neighbors = judged[0].scores.shape[2]
    of_place = place[:, :, None].expand(-1, -1, n_neighbors)
    neighbor_scores = torch.cat([one.scores for one in judged], dim=1).detach().gather(1, of_place)
    mask = torch.cat([one.mask for one in judged], dim=1).gather(1, of_place)
    neighbors = NeighborScores(
        relevance.masked_fill(~is_hit, -_INF),
        neighbor_scores.masked_fill(~is_hit[:, :, None], -_INF),
        mask & is_hit[:, :, None],
    )
    return SearchExpansion(merged, neighbors, expand(merged.ids, neighbors, order=order))


def _check(shards: Any, row_offsets: Any, k: int | None) -> None:
    """Refuse what is not one result per shard, of one search."""
    if not isinstance(shards, list | tuple):
        checks.fail(TypeError, "shards", "be a sequence of results", type(shards).__name__)
    if len(shards) == 0:
        checks.fail(ValueError, "shards", "have at least one result", "none")
    if not isinstance(row_offsets, list | tuple | range):
        checks.fail(TypeError, "row_offsets", "be a sequence of ints", type(row_offsets).__name__)
    if len(row_offsets) != len(shards):
        rule = f"have one entry per shard ({len(shards)})"
        checks.fail(ValueError, "row_offsets", rule, len(row_offsets))
    if k is not None:
        checks.check_at_least("k", k, 1)
    kind = Hits if isinstance(shards[0], Hits) else SearchExpansion
    for number, (shard, offset) in enumerate(zip(shards, row_offsets, strict=True)):
        if isinstance(offset, bool) or not isinstance(offset, int | np.integer | torch.SymInt):
            checks.fail(TypeError, f"row_offsets[{number}]", "be an int", type(offset).__name__)
        if offset < 0:
            checks.fail(ValueError, f"row_offsets[{number}]", "be >= 0", offset)
        if offset > LARGEST_ID:  # so that no sum with a row wraps around
            checks.fail(ValueError, f"row_offsets[{number}]", f"be <= {LARGEST_ID}", offset)
        checks.check_result(f"shards[{number}]", shard, kind)
        n_hits = _check_shard(f"shards[{number}]", shard, shards[0])
        if k is not None and k > n_hits:
            rule = f"be at most {n_hits}, what shards[{number}] was asked for"
            checks.fail(ValueError, "k", rule, k)


def _check_shard(name: str, shard: Any, first: Any) -> int:
    """Check one result against the first; the number of hits per query it was asked for."""
    is_first, is_hits = shard is first, isinstance(shard, Hits)
    hits, like = (shard, first) if is_hits else (shard.hits, first.hits)
    checks.check_result(f"{name} hits", hits, Hits)

    def check(part: str, tensor: Any, dtype: torch.dtype, *shape: int | str) -> None:
        device = None if is_first and part == "ids" else like.ids.device
        checks.check_tensor(f"{name} {part}", tensor, (dtype,), shape, device, "shards[0]")

    check("ids", hits.ids, torch.int64, "B" if is_first else like.ids.shape[0], "K")
    batch, n_hits = hits.ids.shape
    check("scores", hits.scores, torch.float32, batch, n_hits)
    if not is_hits:
        judged = shard.neighbors
        checks.check_result(f"{name} neighbors", judged, NeighborScores)
        width = "2W" if is_first else first.neighbors.scores.shape[2]
        check("relevance", judged.relevance, torch.float32, batch, n_hits)
        check("neighbor scores", judged.scores, torch.float32, batch, n_hits, width)
        check("mask", judged.mask, torch.bool, *judged.scores.shape)
    return n_hits
