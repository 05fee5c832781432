"""Exact cosine top-k on the GPU: a product as a filter, canonical scores for what it lets through.

1. `search_filter`: a matrix product that writes the maximum of each group of rows only.
2. `search_select`: the groups of highest maximum, a few more than k.
3. `search_scan`: canonical scores of their rows.
4. `search_select`: the k best of those, and whether that is proven to be the result.
5. `search_scan`: exits at once for proven queries, and searches all groups for the rest.

A result has the bits of `neighbor_scores` whatever the product's rounding, and nothing waits for
the device.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from scar_gpu.kernels import search_filter
from scar_gpu.kernels.dot import dot_config
from scar_gpu.kernels.launch import MAX_PROGRAMS, warp_size
from scar_gpu.kernels.search_filter import launch_filter
from scar_gpu.kernels.search_scan import Found, Inputs, launch_rescore, launch_scan
from scar_gpu.kernels.search_select import launch_finish, launch_select

SCRATCH_BYTES = 256 * 2**20
MAX_CHUNKS = 2**32  # a row is half of a key


class Plan(NamedTuple):
    """How a search is cut."""

    group: int  # adjacent rows that share one number of the filter
    n_chosen: int  # groups that are rescored; 0: no filter, every row is
    n_slices: int  # programs that scan the rows for one query
    n_queries: int  # per pass, within the scratch memory


def default_config(n_queries: int, n_chunks: int, query_bytes: int, k: int) -> Plan:
    """The plan for rows whose prepared query takes `query_bytes`.

    Groups are spared for near-ties: 16 more than k left no query of a model corpus unproven. The
    filter pays when it leaves out most rows, and when the selection fits into one program.
    """
    group = 32
    n_groups = triton.cdiv(n_chunks, group)
    n_chosen = k + max(16, k // 4)
    if n_chosen >= 256 or n_groups < 4 * n_chosen:
        n_chosen = 0
    # 512 programs read at full speed; lists of k entries must stay small beside the rows.
    n_slices = min(n_groups, max(8, 512 // n_queries), max(1, 2**20 // k))
    scratch = 8 * n_slices * (k + group)
    if n_chosen:
        scratch += 4 * n_groups + query_bytes + 8 * (n_chosen * (group + 1) + 1) + 16
    n_queries = min(n_queries, SCRATCH_BYTES // scratch, MAX_PROGRAMS // max(n_slices, n_chosen))
    return Plan(group, n_chosen, n_slices, max(1, n_queries))


def launch_search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
    min_scores: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """(ids, scores [B, k])."""
    n_queries, dim = queries.shape
    n_chunks, dtype = embeddings.shape[0], embeddings.dtype
    ids = queries.new_full((n_queries, k), -1, dtype=torch.int64)
    scores = queries.new_full((n_queries, k), -float("inf"), dtype=torch.float32)
    if n_queries == 0 or n_chunks == 0:
        return ids, scores
    if n_chunks > MAX_CHUNKS:
        raise ValueError(f"embeddings must have at most 2**32 rows, got {n_chunks}")
    row_scale = None if row_scale is None else row_scale.contiguous()
    row_ranges = None if row_ranges is None else row_ranges.contiguous()
    query_bytes = search_filter.query_bytes(dim, queries.dtype, dtype)
    plan = default_config(n_queries, n_chunks, query_bytes, k)
    config = {**dot_config(dim, dtype, warp_size()), "num_warps": 1}
    with torch.cuda.device_of(queries):
        for first in range(0, n_queries, plan.n_queries):
            part = slice(first, first + plan.n_queries)
            ranges = None if row_ranges is None else row_ranges[part]
            inputs = (queries[part], embeddings, row_scale, ranges)
            _search_pass(inputs, (ids[part], scores[part]), plan, config)
    if min_scores is not None:
        # The product takes as long whatever must be reached, so results are cut off afterwards.
        is_below = scores < min_scores[:, None]
        ids.masked_fill_(is_below, -1)
        scores.masked_fill_(is_below, -float("inf"))
    return ids, scores


def _search_pass(
    inputs: Inputs, results: tuple[Tensor, Tensor], plan: Plan, config: dict[str, int]
) -> None:
    """Write ids and scores of queries whose temporary tensors fit into the scratch memory."""
    found: Found = (None, None, None, None)
    if plan.n_chosen:
        maxima, units, margins = launch_filter(*inputs, plan.group)
        chosen = launch_select(maxima, plan.n_chosen + 1, warp_size())
        keys = launch_rescore(inputs, chosen, units, margins, plan.group, config)
        floors = launch_finish(keys, chosen, units, margins, results, warp_size())
        found = (maxima, units, margins, floors)
    launch_scan(inputs, found, results, plan.group, plan.n_slices, config)
