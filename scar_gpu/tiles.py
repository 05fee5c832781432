"""The tiles of an index that a search goes through, the next one read ahead."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.index import ChunkIndex
from scar_gpu.staging import N_BUFFERS, Copies, InPlace, Rows, Source, Staged
from scar_gpu.tile_size import tile_rows

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search asks for, with the queries where they are searched for."""

    index: ChunkIndex
    queries: Tensor
    k: int
    window: int
    row_ranges: Tensor | None
    min_scores: Tensor | None
    memory_budget: int | None
    progress: Progress | None


class Tile(NamedTuple):
    """A stretch of rows with what an operation on it needs."""

    rows: Rows  # halos included
    row_ranges: Tensor  # [B, 2] of rows within the stretch
    offset: int  # the number of its first row


def ask(
    index: ChunkIndex,
    queries: Tensor,
    k: int,
    window: int | None,
    row_ranges: Tensor | None,
    min_scores: Tensor | None,
    device: torch.device | str | None,
    memory_budget: int | None,
    progress: Progress | None,
) -> Asked:
    """Check the arguments and bring the queries to the device that searches."""
    checks.check_result("index", index, ChunkIndex)
    if progress is not None and not callable(progress):
        checks.fail(TypeError, "progress", "be callable", type(progress).__name__)
    window = index._table(window).shape[0]
    own = index.embeddings.device
    place = own
    if device is not None:
        place = torch.device(device)
    elif isinstance(queries, Tensor) and own.type == "cpu":
        place = queries.device
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    if place != own and (own.type, place.type) != ("cpu", "cuda"):
        other = " or a CUDA device" if own.type == "cpu" else ""
        checks.fail(ValueError, "device", f"be {own} like the index{other}", place)
    if device is not None and isinstance(queries, Tensor):
        queries = queries.to(place)
        row_ranges = row_ranges.to(place) if isinstance(row_ranges, Tensor) else row_ranges
        min_scores = min_scores.to(place) if isinstance(min_scores, Tensor) else min_scores
    like = index.embeddings.new_empty((0, index.dim), device=place)
    operation_checks.search(queries, like, k, None, row_ranges, min_scores)
    return Asked(index, queries, k, window, row_ranges, min_scores, memory_budget, progress)


def tiles(asked: Asked) -> Generator[Tile, None, None]:
    """The tiles that some query may return a row of, or an empty one; the next one read ahead."""
    index, queries, window = asked.index, asked.queries, asked.window
    n_chunks, device = index.n_chunks, queries.device
    size = tile_rows(index, len(queries), asked.k, window, device, asked.memory_budget)
    spans = _spans(n_chunks, size, asked.row_ranges)
    halos = [(max(0, start - window), min(n_chunks, end + window)) for start, end in spans]
    rows = Rows(index.embeddings, index.row_scale, index._table(window))
    source = _source(rows, max(high - low for low, high in halos), device)
    reader = ThreadPoolExecutor(1)
    # A tile is given to the reader when it is taken from here.
    ahead = (reader.submit(source.read, number, *halo) for number, halo in enumerate(halos))
    try:
        reading = deque(islice(ahead, N_BUFFERS))
        for number, ((start, end), (low, _)) in enumerate(zip(spans, halos, strict=True)):
            tile = source.take(reading.popleft().result())
            yield Tile(tile, _within(asked, start, end, low), low)
            source.done(number)
            reading.extend(islice(ahead, 1))
            if asked.progress is not None and n_chunks:
                asked.progress(end, n_chunks)
    finally:
        reader.shutdown(cancel_futures=True)


def _source(rows: Rows, most: int, device: torch.device) -> Source:
    """The index where it is, or by way of copies to another device."""
    if rows.embeddings.device == device:
        return InPlace(rows)
    return Staged(rows, most, Copies(device))


def _spans(n_chunks: int, size: int, row_ranges: Tensor | None) -> list[tuple[int, int]]:
    """The tiles [start, end) that a query may return a row of; an empty one where there is none."""
    spans = [(start, min(start + size, n_chunks)) for start in range(0, n_chunks, size)]
    if row_ranges is not None:
        bounds = row_ranges.cpu()
        checks.check_ranges(bounds, n_chunks)
        first, last = bounds[bounds[:, 0] < bounds[:, 1]].unbind(1)
        spans = [
            (start, end) for start, end in spans if bool(((first < end) & (last > start)).any())
        ]
    return spans or [(n_chunks, n_chunks)]


def _within(asked: Asked, start: int, end: int, low: int) -> Tensor:
    """The rows of tile [start, end) that each query may return, [B, 2], counted from `low`."""
    if asked.row_ranges is not None:
        return asked.row_ranges.clamp(start, end) - low
    bounds = asked.queries.new_empty((len(asked.queries), 2), dtype=torch.int64)
    bounds[:, 0] = start - low
    bounds[:, 1] = end - low
    return bounds
