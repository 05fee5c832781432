"""How many rows a tile of a search may have within a budget of memory."""

import numpy as np
import torch

from scar_gpu import checks
from scar_gpu.index import ChunkIndex
from scar_gpu.staging import ALIGNMENT, N_BUFFERS

# Without a budget. At the end of a tile threads wait for each other and results are merged, so
# larger ones are faster; but the first one is waited for, and a GPU's tiles take as much pinned
# memory again.
TILE_BYTES, MOST_TILE_BYTES = 128 * 2**20, 512 * 2**20
# A smaller tile costs more to begin with than to search.
LEAST_TILE_BYTES = 4 * 2**20
_MIB = 2**20


def tile_rows(
    index: ChunkIndex,
    n_queries: int,
    k: int,
    window: int,
    device: torch.device,
    memory_budget: int | None,
) -> int:
    """Rows of a tile, so that a search on `device` takes at most `memory_budget` bytes.

    Raises:
        TypeError: memory_budget is no int.
        ValueError: memory_budget < 1, or too small for these queries; the least is named.
    """
    row_bytes = index.dim * index.embeddings.itemsize + 4 * (1 + window)
    # Three tensors that begin where the widest loads can; rows on both sides of a tile.
    beside = 3 * ALIGNMENT + 2 * window * row_bytes
    size = TILE_BYTES
    if memory_budget is not None:
        check_budget(memory_budget)
        fixed = _search_bytes(index, n_queries, k, window, device)
        one = beside + row_bytes
        least = min(max(LEAST_TILE_BYTES, one), beside + index.n_chunks * row_bytes)
        size = min(MOST_TILE_BYTES, (int(memory_budget) - fixed) // N_BUFFERS)
        if size < least:
            rule = f"be >= {fixed + N_BUFFERS * least} for {n_queries} queries and k = {k}"
            checks.fail(ValueError, "memory_budget", rule, memory_budget)
    return max(1, (size - beside) // row_bytes)


def _search_bytes(
    index: ChunkIndex, n_queries: int, k: int, window: int, device: torch.device
) -> int:
    """An upper bound of what the search of a tile and the merging of its result allocate.

    On the CPU these are the buffers of csrc/searcher.cpp, search_filter.cpp and
    neighbor_scores.cpp.
    """
    n_found = min(k, index.n_chunks)
    # The result so far, that of a tile and both merged, with what merging takes on the way.
    results = n_queries * k * (192 + 192 * window) + 64 * n_queries
    if device.type != "cpu":
        from scar_gpu.kernels.search import SCRATCH_BYTES

        return results + SCRATCH_BYTES + _MIB
    threads = torch.get_num_threads()
    query = 4 * (index.dim + 32)
    block = max(1, min(n_queries, 4096, 64 * _MIB // (query + 16 * k + 64)))
    # Lists of k that have grown by doubling, one for each part of the rows.
    listed = block * (32 * n_found + 64)
    lists = listed + min(threads * listed, max(128 * _MIB, listed))
    products = min(4 * 16384 * min(1024, block), 4 * _MIB, 64 * _MIB // threads)
    is_half = index.embeddings.itemsize < 4
    filters = threads * (products * (2 if is_half else 1) + _MIB)
    judged = min(32 * _MIB, n_queries * (query + 64 * n_found))
    return results + block * query + lists + filters + judged + 4 * _MIB


def check_budget(memory_budget: int | None) -> None:
    """Refuse what is no number of bytes."""
    if memory_budget is None:
        return
    if isinstance(memory_budget, bool) or not isinstance(memory_budget, (int, np.integer)):
        checks.fail(TypeError, "memory_budget", "be an int", type(memory_budget).__name__)
    if memory_budget < 1:
        checks.fail(ValueError, "memory_budget", "be >= 1", memory_budget)


def default_budget(device: torch.device) -> int:
    """Three quarters of the memory that the device has, or that a container may use."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // 4 * 3
    return checks.MEMORY // 4 * 3
