"""Searches over a matrix that need not fit into memory: tile by tile, the next one read ahead.

    index = ChunkIndex.load("my.index")  # the matrix stays on disk, mapped
    found = large.search_expand(index, queries, 10, progress=lambda done, rows: print(done / rows))

The results are those of `ChunkIndex.search` and `ChunkIndex.search_expand`, bit for bit. Those read
the matrix once per block of some thousand queries; here every row is read once, in order.
"""

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from scar_gpu import api, checks, operation_checks
from scar_gpu.index import ChunkIndex
from scar_gpu.types import Hits, SearchExpansion

TILE_BYTES = 128 * 2**20  # of rows: with the tile that is read ahead 256 MiB
_PAGE = 4096

Progress = Callable[[int, int], object]


class _Tile(NamedTuple):
    """A stretch of rows with what an operation on it needs."""

    rows: tuple[Tensor, Tensor, Tensor]  # embeddings, row_scale, continuity; halos included
    row_ranges: Tensor  # [B, 2] of rows within the stretch
    offset: int  # the number of its first row


def search(
    index: ChunkIndex,
    queries: Tensor,
    k: int,
    *,
    row_ranges: Tensor | None = None,
    tile_bytes: int = TILE_BYTES,
    progress: Progress | None = None,
) -> Hits:
    """Find the k best rows of an index larger than memory: `ChunkIndex.search`, tile by tile.

    Args:
        index: the index; of one that is mapped, a thread reads the next tile in the meantime.
        queries: [B, D], as for `ChunkIndex.search`, like the following.
        k: results per query, >= 1.
        row_ranges: [B, 2] int64, half-open ranges of rows that each query is restricted to.
        tile_bytes: size of a tile of rows; two are in memory at a time.
        progress: called after every tile with the rows searched so far, and all rows. Whatever it
            raises ends the search.

    Returns:
        Hits(ids [B, k] int64, scores [B, k] float32), those of `ChunkIndex.search`.

    Raises:
        TypeError, ValueError, IndexError: as `search`; tile_bytes < 1.

    Example:
        >>> import torch
        >>> from scar_gpu import ChunkIndex, large
        >>> index = ChunkIndex.build(torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
        >>> large.search(index, torch.tensor([[0.0, 2.0]]), 2, tile_bytes=8).ids
        tensor([[2, 1]])
    """
    checks.check_result("index", index, ChunkIndex)
    best: Hits | None = None
    for tile in _tiles(index, queries, k, 0, row_ranges, tile_bytes, progress):
        embeddings, scale, _ = tile.rows
        found = api.search(queries, embeddings, k, row_scale=scale, row_ranges=tile.row_ranges)
        before, offsets = ([], []) if best is None else ([best], [0])
        best = api.merge_hits([*before, found], row_offsets=[*offsets, tile.offset])
    return index.search(queries, k, row_ranges=row_ranges) if best is None else best


def search_expand(
    index: ChunkIndex,
    queries: Tensor,
    k: int,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_ranges: Tensor | None = None,
    order: str = "rank",
    window: int | None = None,
    tile_bytes: int = TILE_BYTES,
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
        order: "rank" or "document".
        window: up to the index's own.
        tile_bytes: size of a tile of rows; two are in memory at a time.
        progress: called after every tile with the rows searched so far, and all rows. Whatever it
            raises ends the search.

    Returns:
        SearchExpansion(hits, neighbors, expansion), that of `ChunkIndex.search_expand`.

    Raises:
        TypeError, ValueError, IndexError: as `search_expand`; tile_bytes < 1.

    Example:
        >>> import torch
        >>> from scar_gpu import ChunkIndex, large
        >>> index = ChunkIndex.build(torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]]))
        >>> found = large.search_expand(index, torch.tensor([[1.0, 0.0]]), 1, tile_bytes=8)
        >>> found.hits.ids, found.expansion.ids
        (tensor([[0]]), tensor([[ 0,  1, -1]]))
    """
    checks.check_result("index", index, ChunkIndex)
    halo = index.window if window is None else window
    best: SearchExpansion | None = None
    for tile in _tiles(index, queries, k, halo, row_ranges, tile_bytes, progress):
        embeddings, scale, table = tile.rows
        found = api.search_expand(
            queries,
            embeddings,
            table,
            k,
            lam=lam,
            gamma=gamma,
            contiguous=contiguous,
            row_scale=scale,
            row_ranges=tile.row_ranges,
            order=order,
        )
        before, offsets = ([], []) if best is None else ([best], [0])
        best = api.merge_hits([*before, found], row_offsets=[*offsets, tile.offset], order=order)
    if best is not None:
        return best
    return index.search_expand(
        queries,
        k,
        lam=lam,
        gamma=gamma,
        contiguous=contiguous,
        row_ranges=row_ranges,
        order=order,
        window=window,
    )


def _tiles(
    index: ChunkIndex,
    queries: Tensor,
    k: int,
    window: int,
    row_ranges: Tensor | None,
    tile_bytes: int,
    progress: Progress | None,
) -> Iterator[_Tile]:
    """The tiles that some query may return a row of, in order, the next one read ahead."""
    checks.check_at_least("tile_bytes", tile_bytes, 1)
    operation_checks.search(queries, index.embeddings, k, index.row_scale, row_ranges)
    table = index._table(window)
    n_chunks = index.n_chunks
    if row_ranges is not None:
        checks.check_ranges(row_ranges, n_chunks)
    size = max(1, tile_bytes // max(1, index.dim * index.embeddings.itemsize))
    starts = [
        start
        for start in range(0, n_chunks, size)
        if row_ranges is None
        or bool(((row_ranges[:, 0] < start + size) & (row_ranges[:, 1] > start)).any())
    ]
    with ThreadPoolExecutor(1) as reader:
        for number, start in enumerate(starts):
            end = min(start + size, n_chunks)
            ahead = starts[number + 1 : number + 2]
            reading = [
                reader.submit(_read, index.embeddings[next_start : next_start + size])
                for next_start in ahead
            ]
            low, high = max(0, start - window), min(n_chunks, end + window)
            within = torch.tensor([[start, end]], device=queries.device)
            if row_ranges is not None:
                within = row_ranges
            within = (within.clamp(start, end) - low).expand(queries.shape[0], 2).contiguous()
            rows = (index.embeddings[low:high], index.row_scale[low:high], table[:, low:high])
            yield _Tile(rows, within, low)
            for task in reading:
                task.result()
            if progress is not None:
                progress(end, n_chunks)


def _read(rows: Tensor) -> None:
    """Touch every page of the rows, so that they are in memory, and in this process's tables."""
    if rows.is_cpu and rows.numel():
        extent = ((rows.shape[0] - 1) * rows.stride(0) + rows.shape[1]) * rows.itemsize
        memory = memoryview((ctypes.c_char * extent).from_address(rows.data_ptr()))
        np.frombuffer(memory, np.uint8)[::_PAGE].max()
