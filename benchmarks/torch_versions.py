"""The operations in eager PyTorch, as one would write them without this package.

Baselines of the benchmarks: on any device, without waiting for it, in float32.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from scar_gpu.types import (
    Expansion,
    Hits,
    NeighborScores,
    ParameterSweep,
    SearchExpansion,
    Spans,
)

K_RRF = 60
FAR = 2**62  # a row number beyond all others


def row_scale(embeddings: Tensor) -> Tensor:
    """1 / |e_i|, 0 for a zero row."""
    norm = torch.linalg.vector_norm(embeddings, dim=1, dtype=torch.float64)
    return torch.where(norm == 0, 0.0, 1 / norm).float()


def continuity(embeddings: Tensor, doc_offsets: Tensor, window: int, row_scale: Tensor) -> Tensor:
    """Cosines of neighbouring rows, NaN across documents."""
    n_chunks = embeddings.shape[0]
    rows = torch.arange(n_chunks, device=embeddings.device)
    document = torch.searchsorted(doc_offsets, rows, right=True)
    table = torch.full((window, n_chunks), torch.nan, device=embeddings.device)
    for j in range(1, window + 1):
        dots = (embeddings[:-j].float() * embeddings[j:].float()).sum(1)
        cosines = (dots * row_scale[:-j] * row_scale[j:]).clamp(-1, 1)
        table[j - 1, :-j] = torch.where(document[:-j] == document[j:], cosines, torch.nan)
    return table


def neighbor_scores(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    row_scale: Tensor,
    lam: float = 0.1,
    gamma: float = 0.8,
) -> NeighborScores:
    """Gather the rows, einsum, threshold."""
    window, n_chunks = continuity.shape
    offsets = torch.arange(-window, window + 1, device=hits.device)
    rows = hits[..., None] + offsets  # [B, K, 2W + 1]
    is_inside = (rows >= 0) & (rows < n_chunks) & (hits >= 0)[..., None]
    inside = rows.clamp(0, n_chunks - 1)
    gathered = embeddings[inside].float()  # [B, K, 2W + 1, D]
    unit = torch.nn.functional.normalize(queries.float(), dim=1)
    cosines = torch.einsum("bd,bkod->bko", unit, gathered) * row_scale[inside]
    left = torch.minimum(rows, hits[..., None]).clamp(0, n_chunks - 1)
    cohesion = continuity[(offsets.abs() - 1).clamp(min=0), left]
    is_inside = is_inside & ~cohesion.isnan()
    scores = torch.where(is_inside, cosines - lam * (1 - cohesion), -torch.inf)
    scores = torch.cat([scores[..., :window], scores[..., window + 1 :]], 2)
    relevance = torch.where(hits >= 0, cosines[..., window], -torch.inf)
    return NeighborScores(relevance, scores, scores > gamma * relevance[..., None])


def expand(hits: Tensor, relevance: Tensor, scores: Tensor, mask: Tensor) -> Expansion:
    """Sort the candidates by row and priority, keep the first of each row."""
    n_queries, n_hits, window = hits.shape[0], hits.shape[1], scores.shape[2] // 2
    offsets = torch.arange(-window, window + 1, device=hits.device)

    def around(middle: Tensor, sides: Tensor) -> Tensor:
        return torch.cat([sides[..., :window], middle[..., None], sides[..., window:]], 2)

    is_hit = (hits >= 0) & (relevance != -torch.inf)
    rows = (hits[..., None] + offsets).flatten(1)
    is_kept = around(is_hit, mask & is_hit[..., None]).flatten(1) & (rows >= 0)
    values = around(relevance, scores).flatten(1)
    priority = around(torch.full_like(relevance, torch.inf), scores).flatten(1)
    anchors = torch.arange(n_hits, device=hits.device).repeat_interleave(2 * window + 1)
    order = priority.argsort(dim=1, descending=True, stable=True)
    return _unite(rows, values, anchors.expand(n_queries, -1), is_kept, order)


def scar_expand(
    queries: Tensor, embeddings: Tensor, continuity: Tensor, hits: Tensor, row_scale: Tensor
) -> Expansion:
    """The two above."""
    return expand(hits, *neighbor_scores(queries, embeddings, continuity, hits, row_scale))


def window_expand(hits: Tensor, doc_offsets: Tensor, before: int = 1, after: int = 1) -> Expansion:
    """The rows around every hit, the first of each row kept."""
    n_queries, n_hits = hits.shape
    width = before + after + 1
    offsets = torch.arange(-before, after + 1, device=hits.device)
    rows = hits[..., None] + offsets
    document = torch.searchsorted(doc_offsets, hits.clamp(min=0), right=True)
    is_kept = (rows >= doc_offsets[document - 1][..., None]) & (hits >= 0)[..., None]
    is_kept &= rows < doc_offsets[document.clamp(max=doc_offsets.shape[0] - 1)][..., None]
    anchors = torch.arange(n_hits, device=hits.device).repeat_interleave(width)
    zeros = torch.zeros(n_queries, n_hits * width, device=hits.device)
    return _unite(rows.flatten(1), zeros, anchors.expand(n_queries, -1), is_kept.flatten(1), None)


def _unite(
    rows: Tensor, values: Tensor, anchors: Tensor, is_kept: Tensor, order: Tensor | None
) -> Expansion:
    """Each row once, the first in `order`; compacted, in the order of the candidates."""
    rows = torch.where(is_kept, rows, FAR)
    if order is None:
        order = rows.argsort(dim=1, stable=True)
    else:
        order = order.gather(1, rows.gather(1, order).argsort(dim=1, stable=True))
    by_row = rows.gather(1, order)
    is_first = by_row != FAR
    is_first[:, 1:] &= by_row[:, 1:] != by_row[:, :-1]
    is_kept = torch.zeros_like(is_first).scatter(1, order, is_first)
    lengths = is_kept.sum(1)
    order = (~is_kept).byte().argsort(dim=1, stable=True)
    is_used = torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]
    return Expansion(
        torch.where(is_used, rows.gather(1, order), -1),
        torch.where(is_used, values.gather(1, order), -torch.inf),
        torch.where(is_used, anchors.gather(1, order), -1).int(),
        lengths.int(),
    )


def spans(ids: Tensor, doc_offsets: Tensor) -> Spans:
    """Sort the rows, number the runs, reduce over each run, sort the runs."""
    n_queries, width = ids.shape
    rows, position = ids.sort(dim=1, stable=True)
    document = torch.searchsorted(doc_offsets, rows, right=True)
    is_row = rows >= 0
    continues = torch.zeros_like(is_row)
    continues[:, 1:] = (rows[:, 1:] == rows[:, :-1]) | (
        (rows[:, 1:] == rows[:, :-1] + 1) & (document[:, 1:] == document[:, :-1])
    )
    is_start = is_row & ~(continues & torch.nn.functional.pad(is_row, (1, -1)))
    run = torch.where(is_row, is_start.cumsum(1) - 1, width)  # the last column takes the padding

    def reduced(values: Tensor, how: str, fill: int) -> Tensor:
        runs = values.new_full((n_queries, width + 1), fill)
        return runs.scatter_reduce(1, run, values, how)[:, :width]

    first = reduced(position, "amin", FAR)
    lengths = is_start.sum(1)
    first, order = first.sort(1)
    is_used = torch.arange(width, device=ids.device) < lengths[:, None]
    return Spans(
        torch.where(is_used, reduced(rows, "amin", FAR).gather(1, order), -1),
        torch.where(is_used, reduced(rows + 1, "amax", 0).gather(1, order), -1),
        torch.where(is_used, first, -1).int(),
        lengths.int(),
    )


def search(queries: Tensor, embeddings: Tensor, k: int, row_scale: Tensor) -> Hits:
    """All scores, then topk."""
    unit = torch.nn.functional.normalize(queries.float(), dim=1)
    scores, ids = ((unit.to(embeddings.dtype) @ embeddings.T) * row_scale).topk(k, 1)
    return Hits(ids, scores)


def search_expand(
    queries: Tensor, embeddings: Tensor, continuity: Tensor, k: int, row_scale: Tensor
) -> SearchExpansion:
    """Search, judge, unite."""
    hits = search(queries, embeddings, k, row_scale)
    judged = neighbor_scores(queries, embeddings, continuity, hits.ids, row_scale)
    return SearchExpansion(hits, judged, expand(hits.ids, *judged))


def corpus_masks(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    row_scale: Tensor,
    lam: float = 0.1,
    gamma: float = 0.8,
) -> Tensor:
    """All scores, each beside its neighbours' [B, 2W, N]; 32 decisions to a word."""
    unit = torch.nn.functional.normalize(queries.float(), dim=1)
    cosines = (unit.to(embeddings.dtype) @ embeddings.T) * row_scale
    decisions = []
    for step in range(1, continuity.shape[0] + 1):
        # What rolls in from the other end meets a continuity of NaN.
        cohesion = continuity[step - 1]
        left = cosines.roll(step, 1) - lam * (1 - cohesion.roll(step))
        right = cosines.roll(-step, 1) - lam * (1 - cohesion)
        decisions = [left, *decisions, right]
    mask = torch.stack(decisions, 1) > gamma * cosines[:, None]
    mask = torch.nn.functional.pad(mask, (0, -mask.shape[2] % 32)).int()
    lanes = torch.arange(32, dtype=torch.int32, device=mask.device)
    return (mask.unflatten(2, (-1, 32)) << lanes).sum(3, dtype=torch.int32)


def parameter_sweep(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: Sequence[float],
    gamma: Sequence[float],
) -> ParameterSweep:
    """All points of the grid at once: sort each expansion, count its rows, look up the gold."""
    window = continuity.shape[2] // 2
    offsets = torch.arange(-window, window + 1, device=hits.device)
    grid = (len(lam), len(gamma))
    # [L, G, B, K, 2W]
    scores = torch.stack([neighbor_relevance - one * (1 - continuity) for one in lam])
    thresholds = torch.stack([one * relevance for one in gamma])[..., None]
    mask = (scores[:, None] > thresholds) & ~continuity.isnan()
    is_hit = (hits >= 0)[..., None].expand(*grid, -1, -1, 1)
    mask = torch.cat([mask[..., :window], is_hit, mask[..., window:]], 4) & is_hit
    rows = torch.where(mask, hits[..., None] + offsets, FAR).flatten(3).sort(3).values
    is_new = rows != FAR
    is_new[..., 1:] &= rows[..., 1:] != rows[..., :-1]
    first, end = (
        torch.searchsorted(rows, bound.expand(*grid, -1, -1).contiguous())
        for bound in gold_ranges.unbind(2)
    )
    covered = torch.einsum("lgbp,bpm->bmlg", (first < end).double(), gold_weights)
    return ParameterSweep(is_new.sum(3, dtype=torch.int32).movedim(2, 0), covered.float())


def rank_fusion(lists: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Sort by id, add up equal ids, sort by score: (ids, scores)."""
    ids = torch.cat(lists, 1)
    device = ids.device
    ranks = torch.cat([torch.arange(1, each.shape[1] + 1, device=device) for each in lists])
    contributions = (1 / (K_RRF + ranks.float())).expand(ids.shape)
    ids, order = ids.sort(1)
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    group = starts.cumsum(1) - 1
    sums = torch.zeros(ids.shape, device=device)
    sums.scatter_add_(1, group, contributions.gather(1, order))
    documents = torch.full_like(ids, -1).scatter_(1, group, ids)
    scores, order = sums.sort(1, descending=True)
    return documents.gather(1, order), scores
