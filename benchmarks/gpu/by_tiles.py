"""Searches of an index that stays on the CPU: the bits and the time of one on the device."""

import contextlib
from collections.abc import Callable, Iterator

import torch

import scar_gpu
from benchmarks.gpu.comparisons import require, same_bits
from benchmarks.gpu.questions import SEARCH_K, Tensors, batch, corpus
from scar_gpu import ChunkIndex, large, tiles

CPU = torch.device("cpu")
N_TILES, ROUNDS = 20, 5
Timed = Callable[..., float]  # of a call, and how often


class StoppedError(Exception):
    """Ends a search on the way."""


@contextlib.contextmanager
def tiles_of(rows: int) -> Iterator[None]:
    """Tiles of fewer rows than any budget would make worth while."""
    tile_rows, tiles.tile_rows = tiles.tile_rows, lambda *arguments: rows
    try:
        yield
    finally:
        tiles.tile_rows = tile_rows


def index_of(rows: Tensors) -> ChunkIndex:
    """The index on the device."""
    names = ("embeddings", "row_scale", "continuity", "doc_offsets")
    return ChunkIndex(*(rows[name] for name in names))


def check(device: torch.device, n_chunks: int, n_queries: int, dtype: torch.dtype) -> str:
    """The bits of the index on the device.

    Several times over, with tiles so small that copies and searches meet, and beside searches that
    are stopped on the way, so that their memory is given to the next ones.
    """
    rows = corpus(n_chunks, 384, dtype, device, window=2)
    index, queries = index_of(rows), batch(rows, n_queries, 1)["queries"]
    host = index.to(CPU)
    first = torch.arange(n_queries, device=device) % n_chunks
    ranges = torch.stack([first, (first + n_chunks // 2).clamp(max=n_chunks)], 1)
    found = index.search(queries, SEARCH_K, row_ranges=ranges)
    whole = index.search_expand(queries, SEARCH_K)
    ends: list[int] = []

    def stop(done: int, total: int) -> None:
        raise StoppedError

    with tiles_of(-(-n_chunks // N_TILES)):
        for _ in range(ROUNDS):
            result = large.search(host, queries, SEARCH_K, row_ranges=ranges, device=device)
            same_bits(result, found, "search by tiles")
            with contextlib.suppress(StoppedError):
                large.search(host, queries, SEARCH_K, device=device, progress=stop)
            judged = large.search_expand(
                host, queries, SEARCH_K, device=device, progress=lambda *at: ends.append(at[0])
            )
            same_bits(judged, whole, "search_expand by tiles")
        judged = large.search_expand(host, queries.cpu(), SEARCH_K, device=device)
        require(judged.hits.ids.is_cpu, "results must be where the queries are")
        same_bits(judged, whole, "search_expand by tiles of queries on the CPU")
    require(len(ends) == ROUNDS * N_TILES, f"{len(ends)} tiles instead of {ROUNDS * N_TILES}")
    same_bits(large.search_expand(host, queries, SEARCH_K), whole, "search_expand by large tiles")
    return f"{n_queries} queries, {n_chunks} rows, {N_TILES} tiles"


def seconds(t: Tensors, python_call: Timed) -> float:
    """Of search_expand by tiles of the usual size, with the copies from the host's memory."""
    host = index_of(t).to(CPU)
    call = lambda: large.search_expand(host, t["queries"], SEARCH_K)  # noqa: E731
    expected = scar_gpu.search_expand(
        t["queries"], t["embeddings"], t["continuity"], SEARCH_K, row_scale=t["row_scale"]
    )
    same_bits(call(), expected, "search_expand by tiles")
    return python_call(call, rounds=10)
