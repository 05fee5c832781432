"""The searches of a retriever: by tiles if the matrix exceeds a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from scar_gpu import ChunkIndex, large
from scar_gpu.tile_size import check_budget, default_budget
from scar_gpu.tiles import Progress
from scar_gpu.types import Hits, SearchExpansion


@dataclass(frozen=True, slots=True)
class Search:
    """Searches an index; by tiles, with the same results, if its matrix exceeds a budget.

    Attributes:
        index: what is searched.
        memory_budget: bytes. A larger matrix on the CPU is read from end to end once per search,
            tile by tile, in no more memory than this, see `scar_gpu.large`. Default: three
            quarters of the memory of what searches. One on a GPU is there in whole anyway.
        device: what searches tiles of an index on the CPU, such as a GPU that the matrix does not
            fit into; default: the index's own.
        progress: called after every tile with the rows searched so far, and all rows.

    Raises:
        TypeError: memory_budget is no int.
        ValueError: memory_budget < 1.
    """

    index: ChunkIndex
    memory_budget: int | None = None
    device: torch.device | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_budget(self.memory_budget)

    @property
    def is_tiled(self) -> bool:
        """Whether the matrix exceeds the budget."""
        return exceeds(self.index, self.memory_budget, self.device)

    def search(self, queries: Tensor, k: int, *, row_ranges: Tensor | None = None) -> Hits:
        """`ChunkIndex.search`."""
        if not self.is_tiled:
            return self.index.search(queries, k, row_ranges=row_ranges)
        return large.search(self.index, queries, k, row_ranges=row_ranges, **self._tiling())

    def search_expand(self, queries: Tensor, k: int, **options: Any) -> SearchExpansion:
        """`ChunkIndex.search_expand`."""
        if not self.is_tiled:
            return self.index.search_expand(queries, k, **options)
        return large.search_expand(self.index, queries, k, **options, **self._tiling())

    def _tiling(self) -> dict[str, Any]:
        device = self.device or self.index.embeddings.device
        budget = default_budget(device) if self.memory_budget is None else self.memory_budget
        return {"device": device, "memory_budget": budget, "progress": self.progress}


def exceeds(index: ChunkIndex, memory_budget: int | None, device: torch.device | None) -> bool:
    """Whether the matrix, on the CPU, exceeds the budget; see `Search`."""
    if memory_budget is None:
        memory_budget = default_budget(device or index.embeddings.device)
    return index.embeddings.is_cpu and index.embeddings.nbytes > memory_budget


def on_device(
    index: ChunkIndex, device: torch.device | str | None, memory_budget: int | None
) -> ChunkIndex:
    """The index on `device`, unless that is a GPU and the matrix exceeds the budget."""
    if device is None:
        return index
    place = torch.device(device)
    is_large = place.type == "cuda" and exceeds(index, memory_budget, place)
    return index if is_large else index.to(place)
