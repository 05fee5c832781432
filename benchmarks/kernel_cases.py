"""The launches whose machine code is looked at: every kernel in every default configuration."""

import torch

from benchmarks.kernel_launches import (
    BF16,
    F16,
    F32,
    continuity,
    corpus_masks,
    expand,
    neighbor_scores,
    rank_fusion,
    row_scale,
    scar_expand,
    search,
    spans,
    window_expand,
)

TABLE_ROWS = [(96, F16), (384, F32), (384, F16), (768, BF16), (1000, F16), (1024, F32), (1024, F16),
              (1536, F32), (3072, F32), (3072, BF16)]  # fmt: skip
# Blocks of 32, 64, ... 1,024 entries, and more than one block.
HITS = (10, 20, 40, 80, 170, 341, 1000)
# The same for two lists: blocks of 32 to 512 entries, and four blocks of 512.
RANKS = (10, 32, 64, 100, 200, 1024)

REPORTED = [
    *(row_scale(dim, dtype) for dim, dtype in TABLE_ROWS),
    *(continuity(dim, dtype) for dim, dtype in TABLE_ROWS),
    *(neighbor_scores(dim, dtype) for dim, dtype in TABLE_ROWS),
    neighbor_scores(384, F16, window=2),
    neighbor_scores(3072, F32, window=2),
    *(expand(k, 1, order) for k in HITS for order in ("rank", "document")),
    *(window_expand(k, 1, 1, order) for k in HITS for order in ("rank", "document")),
    *(spans(3 * k) for k in HITS),
    *(search(dim, dtype, 10, 1000) for dim, dtype in ((384, F32), (384, F16), (768, BF16))),
    search(384, F16, 100, 16),
    search(384, F16, 1000, 16),
    *(corpus_masks(dim, dtype) for dim, dtype in ((384, F32), (384, F16), (768, BF16))),
    *(rank_fusion(2, k) for k in RANKS),
    *(rank_fusion(2, k, details=True) for k in RANKS),
    rank_fusion(16, 128),
]

# Variants that a caller can ask for, and sizes of 1, which the compiler turns into constants.
VARIANTS = [
    row_scale(1, F16, n_chunks=1),
    row_scale(3, BF16),
    row_scale(8, F16, n_chunks=1),
    continuity(1, F32, n_chunks=1),
    continuity(3, F16, window=3),
    continuity(384, F16, is_scaled=False),
    neighbor_scores(1, F32, k=1, n_queries=1, n_chunks=1),
    neighbor_scores(8, F16, k=1, n_queries=1, n_chunks=1, query_dtype=F16),
    neighbor_scores(3, BF16),
    neighbor_scores(4, F32, window=0),
    neighbor_scores(384, F16, window=8),
    neighbor_scores(384, F16, query_dtype=F16),
    neighbor_scores(384, BF16, query_dtype=BF16, hits_dtype=torch.int32),
    neighbor_scores(384, F32, contiguous=True),
    neighbor_scores(384, F32, is_scaled=False),
    neighbor_scores(384, F32, is_given=True),
    neighbor_scores(16384, F32),
    expand(1, 0, n_queries=1),
    expand(1, 1, "document", n_queries=1),
    expand(60, 8),
    scar_expand(384, F16, 10, "document"),
    window_expand(1, 0, 0),
    window_expand(50, 3, 2, "document"),
    spans(1, n_queries=1),
    corpus_masks(1, F32, n_queries=1, n_chunks=1),
    corpus_masks(1000, F16, window=8, contiguous=True, is_scaled=False),
    corpus_masks(384, BF16, is_known=True),
    search(1, F32, 1, 1, n_chunks=1),
    search(8, F16, 1, 1, query_dtype=F16, is_ranged=True),
    search(1000, BF16, 204, 100, query_dtype=BF16, is_scaled=False, is_ranged=True),
    rank_fusion(1, 1, top_n=1),
    rank_fusion(3, 5, ids_dtype=torch.int32, has_ranks=True),
    rank_fusion(2, 100, sums=True),
    rank_fusion(16, 128, sums=True, details=True, has_ranks=True),
    rank_fusion(17, 100, top_n=10),  # lists are copied together first
]
