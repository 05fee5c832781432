"""Batched retrieval kernels: neighbour expansion, windows, spans and exact search.

Every operation works on whole batches of queries over one matrix of chunk embeddings, on the CPU
and on GPUs; the device of the tensors decides. See `scar_gpu.reference` for the definitions.

On the CPU an operation may be called in a forked process, whatever its parent has called. PyTorch's
own may wait there forever for threads that only the parent has, unless `torch.set_num_threads(1)`
comes first, as it does in the workers of a DataLoader; it also spares each call of an operation
the start of a thread.
"""

import importlib

from scar_gpu import library as library

try:
    importlib.import_module("scar_gpu._C")
except ImportError as error:
    raise ImportError(
        f"the CPU kernels scar_gpu._C could not be loaded ({error}); build them with "
        "`pip install --no-build-isolation .` in the source tree, with torch installed before"
    ) from error

from scar_gpu import presets as presets
from scar_gpu.api import (
    check_hits,
    continuity,
    corpus_masks,
    expand,
    merge_hits,
    neighbor_scores,
    parameter_sweep,
    rank_fusion,
    row_scale,
    scar_expand,
    score_fusion,
    scores_to_ranks,
    search,
    search_expand,
    spans,
    unpack_masks,
    window_expand,
)
from scar_gpu.faiss_index import faiss_search
from scar_gpu.index import ChunkIndex
from scar_gpu.types import (
    CorpusMasks,
    Expansion,
    Fusion,
    Hits,
    NeighborScores,
    ParameterSweep,
    SearchExpansion,
    Spans,
)

__version__ = "0.1.0"

__all__ = [
    "ChunkIndex",
    "CorpusMasks",
    "Expansion",
    "Fusion",
    "Hits",
    "NeighborScores",
    "ParameterSweep",
    "SearchExpansion",
    "Spans",
    "check_hits",
    "continuity",
    "corpus_masks",
    "expand",
    "faiss_search",
    "merge_hits",
    "neighbor_scores",
    "parameter_sweep",
    "rank_fusion",
    "row_scale",
    "scar_expand",
    "score_fusion",
    "scores_to_ranks",
    "search",
    "search_expand",
    "spans",
    "unpack_masks",
    "window_expand",
]
