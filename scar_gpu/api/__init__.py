"""The public operations on raw tensors.

B queries, K hits per query, N chunks of D dimensions, W rows of window on either side. Embeddings
and queries may be float32, float16 or bfloat16; ids int32 or int64; -1 is padding. Results have
static shapes, are never views of an input, and carry no gradient. On the CPU an id outside
[-1, N) raises IndexError; on a GPU it counts as padding (`check_hits` looks on request).
"""

from scar_gpu.api.fusion import rank_fusion, scores_to_ranks
from scar_gpu.api.masks import corpus_masks, unpack_masks
from scar_gpu.api.merging import merge_hits
from scar_gpu.api.neighbors import expand, neighbor_scores, scar_expand
from scar_gpu.api.rows import continuity, row_scale
from scar_gpu.api.score_fusion import score_fusion
from scar_gpu.api.search import check_hits, search, search_expand
from scar_gpu.api.sweep import parameter_sweep
from scar_gpu.api.windows import spans, window_expand

__all__ = [
    "check_hits",
    "continuity",
    "corpus_masks",
    "expand",
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
