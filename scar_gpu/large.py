"""Searches over a matrix that need not fit into memory: tile by tile, the next one read ahead.

    index = ChunkIndex.load("my.index")  # the matrix stays on disk, mapped
    found = large.search_expand(index, queries, 10, progress=lambda done, rows: print(done / rows))

The results are those of `ChunkIndex.search` and `ChunkIndex.search_expand`, bit for bit. Those read
the matrix once per block of some thousand queries; here every row is read once, in order. With
queries on a GPU, or `device="cuda"`, the index stays where it is, on the CPU, and the GPU searches
one tile while the next is copied to it: then the bits are those of the index on that GPU.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import torch
from torch import Tensor

from scar_gpu import api
from scar_gpu.index import ChunkIndex
from scar_gpu.tiles import Asked, Progress, Tile, ask, tiles
from scar_gpu.types import Hits, SearchExpansion

_Result = TypeVar("_Result", Hits, SearchExpansion)


def search(
    index: ChunkIndex,
    queries: Tensor,
    k: int,
    *,
    row_ranges: Tensor | None = None,
    min_scores: Tensor | None = None,
    device: torch.device | str | None = None,
    memory_budget: int | None = None,
    progress: Progress | None = None,
) -> Hits:
    """Find the k best rows of an index larger than memory: `ChunkIndex.search`, tile by tile.

    Args:
        index: the index; of one that is mapped, a thread reads the next tile in the meantime.
        queries: [B, D], as for `ChunkIndex.search`, like the following.
        k: results per query, >= 1.
        row_ranges: [B, 2] int64, half-open ranges of rows that each query is restricted to; tiles
            outside all of them are not read, so a GPU is waited for to see where they lie.
        min_scores: [B] float32, a least score for each query.
        device: where the tiles are searched; default: the queries' own. A CUDA device takes an
            index on the CPU; queries elsewhere are copied there, and the results back.
        memory_budget: bytes that the search may take where it runs: for two tiles with their
            row_scale and continuity, what searching one and merging its result takes on the way,
            and the result. Not the index itself: pages of its file that lie in memory beyond two
            tiles belong to the system, which takes them back at need. For a CUDA device two more
            tiles lie in the host's pinned memory. Default: tiles of 128 MiB; a budget has tiles of
            up to 512 MiB.
        progress: called after every tile with the rows searched so far, and all rows; on a GPU,
            given to it so far. Never for an index without rows. Whatever it raises ends the search.

    Returns:
        Hits(ids [B, k] int64, scores [B, k] float32), those of `ChunkIndex.search` on the device
        that searched, on the device of the queries.

    Raises:
        TypeError, ValueError, IndexError: as `search`; a memory_budget too small for these
            queries, with the least that is enough; a device that cannot search this index.

    Example:
        >>> import torch
        >>> from scar_gpu import ChunkIndex, large
        >>> index = ChunkIndex.build(torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
        >>> large.search(index, torch.tensor([[0.0, 2.0]]), 2).ids
        tensor([[2, 1]])
    """
    asked = ask(index, queries, k, 0, row_ranges, min_scores, device, memory_budget, progress)

    def find(tile: Tile, min_scores: Tensor | None) -> Hits:
        rows = tile.rows
        return api.search(
            asked.queries,
            rows.embeddings,
            k,
            row_scale=rows.row_scale,
            row_ranges=tile.row_ranges,
            min_scores=min_scores,
        )

    return _on(queries.device, _by_tiles(asked, find, "rank"))


def search_expand(
    index: ChunkIndex,
    queries: Tensor,
    k: int,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_ranges: Tensor | None = None,
    min_scores: Tensor | None = None,
    order: str = "rank",
    window: int | None = None,
    device: torch.device | str | None = None,
    memory_budget: int | None = None,
    progress: Progress | None = None,
) -> SearchExpansion:
    """Find and judge in an index larger than memory: `ChunkIndex.search_expand`, tile by tile.

    Neighbours are judged while their tile is in memory, across its ends too.

    Args:
        index: as for `search` above.
        queries: [B, D], as for `ChunkIndex.search_expand`, like the following.
        k: results per query, >= 1.
        lam: weight of the continuity penalty, >= 0.
        gamma: share of the hit's relevance that a neighbour must exceed.
        contiguous: let a direction stop at its first refusal.
        row_ranges: [B, 2] int64, half-open ranges of rows that each query's hits come from.
        min_scores: [B] float32, a least score for each query's hits.
        order: "rank" or "document".
        window: up to the index's own.
        device: as for `search` above, like the following.
        memory_budget: bytes that the search may take.
        progress: called after every tile.

    Returns:
        SearchExpansion(hits, neighbors, expansion), that of `ChunkIndex.search_expand` on the
        device that searched, on the device of the queries.

    Raises:
        TypeError, ValueError, IndexError: as `search_expand`, and as `search` above.

    Example:
        >>> import torch
        >>> from scar_gpu import ChunkIndex, large
        >>> index = ChunkIndex.build(torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]]))
        >>> found = large.search_expand(index, torch.tensor([[1.0, 0.0]]), 1)
        >>> found.hits.ids, found.expansion.ids
        (tensor([[0]]), tensor([[ 0,  1, -1]]))
    """
    asked = ask(index, queries, k, window, row_ranges, min_scores, device, memory_budget, progress)

    def find(tile: Tile, min_scores: Tensor | None) -> SearchExpansion:
        rows = tile.rows
        return api.search_expand(
            asked.queries,
            rows.embeddings,
            rows.continuity,
            k,
            lam=lam,
            gamma=gamma,
            contiguous=contiguous,
            row_scale=rows.row_scale,
            row_ranges=tile.row_ranges,
            min_scores=min_scores,
            order=order,
        )

    return _on(queries.device, _by_tiles(asked, find, order))


def _by_tiles(asked: Asked, find: Callable[[Tile, Tensor | None], _Result], order: str) -> _Result:
    """The merged results of all tiles."""
    with closing(tiles(asked)) as parts:
        tile = next(parts)
        first = find(tile, asked.min_scores)
        best = api.merge_hits([first], row_offsets=[tile.offset], order=order)
        for tile in parts:
            # What is below the k-th score so far would not be kept.
            kth = (best.hits if isinstance(best, SearchExpansion) else best).scores[:, -1]
            least = kth if asked.min_scores is None else torch.fmax(kth, asked.min_scores)
            found = find(tile, least)
            best = api.merge_hits([best, found], row_offsets=[0, tile.offset], order=order)
    return best


def _on(device: torch.device, result: Any) -> Any:
    """The result on another device."""
    parts = [part.to(device) if isinstance(part, Tensor) else _on(device, part) for part in result]
    return type(result)(*parts)
