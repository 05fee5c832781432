"""The definition of every operation: plain PyTorch in float64, written to be read.

Each function has the signature of its public namesake in `scar_gpu`. Relevances and scores are
float64 here (float32 there), so that the error of a fast backend can be measured; ids, anchors,
lengths and masks have the public dtypes. Ids outside [0, n_chunks) count as padding.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from scar_gpu import contributions as integers
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

INF = float("inf")


def row_scale(embeddings: Tensor) -> Tensor:
    """1 / |e_i| for every row, 0 for a zero row."""
    norms = embeddings.double().norm(dim=1)
    return torch.where(norms == 0, 0.0, 1 / norms)


def continuity(
    embeddings: Tensor, doc_offsets: Tensor, *, window: int = 1, row_scale: Tensor | None = None
) -> Tensor:
    """continuity[j - 1, i] = cos(e_i, e_{i+j}) in [-1, 1], NaN where i + j leaves the document."""
    rows = _scaled(embeddings, row_scale)
    n_chunks = rows.shape[0]
    document = _document_of_rows(doc_offsets, n_chunks)
    table = torch.full((window, n_chunks), torch.nan, dtype=torch.float64)
    for j in range(1, min(window, n_chunks) + 1):
        cosines = (rows[:-j] * rows[j:]).sum(1).clamp(-1, 1)
        table[j - 1, :-j] = torch.where(document[:-j] == document[j:], cosines, torch.nan)
    return table


def neighbor_scores(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    relevance: Tensor | None = None,
) -> NeighborScores:
    """S = cos(q, n) - lam * (1 - cos(c, n)), admitted where S > gamma * cos(q, c)."""
    window, n_chunks = continuity.shape
    is_hit = (hits >= 0) & (hits < n_chunks)
    if relevance is None:
        relevance = _cosines(queries, embeddings, hits, is_hit, row_scale)
    relevance = torch.where(is_hit, relevance.double(), -INF)

    scores, admitted = [], []
    for offset in [*range(-window, 0), *range(1, window + 1)]:
        neighbors = hits.long() + offset
        is_row = is_hit & (neighbors >= 0) & (neighbors < n_chunks)
        cohesion = torch.full(hits.shape, torch.nan, dtype=torch.float64)  # cos(c, n)
        left = torch.minimum(hits.long(), neighbors)
        cohesion[is_row] = continuity[abs(offset) - 1, left[is_row]].double()
        is_neighbor = is_row & ~cohesion.isnan()
        cosines = _cosines(queries, embeddings, neighbors, is_neighbor, row_scale)
        score = torch.where(is_neighbor, cosines - lam * (1 - cohesion), -INF)
        scores.append(score)
        admitted.append(is_neighbor & (score > gamma * relevance))

    if contiguous:  # walking away from the hit, a refusal stops the direction
        for step in range(1, window):
            admitted[window + step] &= admitted[window + step - 1]
            admitted[window - 1 - step] &= admitted[window - step]
    shape = (*hits.shape, 2 * window)
    if window == 0:
        return NeighborScores(
            relevance, torch.empty(shape, dtype=torch.float64), torch.empty(shape, dtype=torch.bool)
        )
    return NeighborScores(relevance, torch.stack(scores, 2), torch.stack(admitted, 2))


def expand(hits: Tensor, neighbor_scores: NeighborScores, *, order: str = "rank") -> Expansion:
    """The union of the hits and their admitted neighbours, each row once."""
    relevance, scores, mask = neighbor_scores
    window = scores.shape[2] // 2
    offsets = [*range(-window, 0), *range(1, window + 1)]
    entries = []
    for b in range(hits.shape[0]):
        owner: dict[int, int] = {}  # row -> position of the hit that brings it in
        score: dict[int, float] = {}
        ranked = [
            (k, row)
            for k, row in enumerate(hits[b].tolist())
            if row >= 0 and relevance[b, k] != -INF
        ]
        for k, row in ranked:
            if row not in owner:  # a repeated hit counts once, first position
                owner[row], score[row] = k, relevance[b, k].item()
        hit_rows = set(owner)
        for k, row in ranked:
            for j, offset in enumerate(offsets):
                neighbor, s = row + offset, scores[b, k, j].item()
                if not mask[b, k, j] or neighbor < 0 or not s > -INF or neighbor in hit_rows:
                    continue
                if neighbor not in owner or s > score[neighbor]:
                    owner[neighbor], score[neighbor] = k, s
        entries.append(_ordered(owner, score, order))
    return _expansion(entries, hits.shape[1] * (2 * window + 1), relevance.dtype)


def scar_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    relevance: Tensor | None = None,
    order: str = "rank",
) -> Expansion:
    """`neighbor_scores` followed by `expand`."""
    judged = neighbor_scores(
        queries,
        embeddings,
        continuity,
        hits,
        lam=lam,
        gamma=gamma,
        contiguous=contiguous,
        row_scale=row_scale,
        relevance=relevance,
    )
    return expand(hits, judged, order=order)


def window_expand(
    hits: Tensor, doc_offsets: Tensor, *, before: int = 1, after: int = 1, order: str = "rank"
) -> Expansion:
    """Every row within `before` / `after` rows of a hit in its document; scores are 0."""
    bounds = doc_offsets.tolist()
    n_chunks = bounds[-1]
    document = _document_of_rows(doc_offsets, n_chunks).tolist()
    entries = []
    for ranked in hits.tolist():
        owner: dict[int, int] = {}
        for k, row in enumerate(ranked):
            if not 0 <= row < n_chunks:
                continue
            first, end = bounds[document[row]], bounds[document[row] + 1]
            for reached in range(max(first, row - before), min(end, row + after + 1)):
                owner.setdefault(reached, k)
        entries.append(_ordered(owner, dict.fromkeys(owner, 0.0), order))
    return _expansion(entries, hits.shape[1] * (before + after + 1), torch.float64)


def spans(expansion: Expansion, doc_offsets: Tensor) -> Spans:
    """The maximal runs of the expansion's rows within one document, by first appearance."""
    n_queries, width = expansion.ids.shape
    n_chunks = int(doc_offsets[-1])
    document = _document_of_rows(doc_offsets, n_chunks).tolist()
    start = torch.full((n_queries, width), -1, dtype=torch.int64)
    end = start.clone()
    first = start.int()
    lengths = torch.zeros(n_queries, dtype=torch.int32)
    for b, ids in enumerate(expansion.ids.tolist()):
        position: dict[int, int] = {}
        for t, row in enumerate(ids):
            if 0 <= row < n_chunks:
                position.setdefault(row, t)
        runs: list[list[int]] = []  # [first position, start, end]
        for row in sorted(position):
            if runs and runs[-1][2] == row and document[row] == document[row - 1]:
                runs[-1] = [min(runs[-1][0], position[row]), runs[-1][1], row + 1]
            else:
                runs.append([position[row], row, row + 1])
        for t, (earliest, run_start, run_end) in enumerate(sorted(runs)):
            first[b, t], start[b, t], end[b, t] = earliest, run_start, run_end
        lengths[b] = len(runs)
    return Spans(start, end, first, lengths)


def search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    *,
    row_scale: Tensor | None = None,
    row_ranges: Tensor | None = None,
    min_scores: Tensor | None = None,
) -> Hits:
    """The k rows of highest cosine; equal scores by smaller id; NaN scores never returned."""
    n_queries, n_chunks = queries.shape[0], embeddings.shape[0]
    scores = _normalized(queries) @ _scaled(embeddings, row_scale).T
    scores[scores.isnan()] = -INF
    if row_ranges is not None:
        rows = torch.arange(n_chunks)
        outside = (rows < row_ranges[:, :1]) | (rows >= row_ranges[:, 1:])
        scores[outside] = -INF
    if min_scores is not None:
        scores[scores < min_scores[:, None]] = -INF
    best, order = scores.sort(dim=1, descending=True, stable=True)
    ids = torch.full((n_queries, k), -1, dtype=torch.int64)
    values = torch.full((n_queries, k), -INF, dtype=torch.float64)
    n = min(k, n_chunks)
    values[:, :n] = best[:, :n]
    ids[:, :n] = torch.where(best[:, :n] > -INF, order[:, :n], -1)
    return Hits(ids, values)


def search_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    k: int,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    row_ranges: Tensor | None = None,
    min_scores: Tensor | None = None,
    order: str = "rank",
) -> SearchExpansion:
    """`search` followed by `neighbor_scores` and `expand`."""
    hits = search(
        queries,
        embeddings,
        k,
        row_scale=row_scale,
        row_ranges=row_ranges,
        min_scores=min_scores,
    )
    judged = neighbor_scores(
        queries,
        embeddings,
        continuity,
        hits.ids,
        lam=lam,
        gamma=gamma,
        contiguous=contiguous,
        row_scale=row_scale,
        relevance=hits.scores,
    )
    return SearchExpansion(hits, judged, expand(hits.ids, judged, order=order))


def corpus_masks(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    return_relevance: bool = False,
) -> CorpusMasks:
    """The mask of `neighbor_scores` of all rows, that of row c at bit c % 32 of word c // 32."""
    n_chunks = embeddings.shape[0]
    rows = torch.arange(n_chunks).expand(queries.shape[0], -1)
    relevance, _, mask = neighbor_scores(
        queries,
        embeddings,
        continuity,
        rows,
        lam=lam,
        gamma=gamma,
        contiguous=contiguous,
        row_scale=row_scale,
    )
    padded = torch.nn.functional.pad(mask.movedim(2, 1), (0, -n_chunks % 32)).long()
    words = padded.unflatten(2, (-(-n_chunks // 32), 32)) << torch.arange(32)
    return CorpusMasks(words.sum(3).int(), relevance if return_relevance else None)


def rank_fusion(
    rankings: Sequence[Tensor] | Tensor,
    *,
    k: float = 60.0,
    weights: Sequence[float] | None = None,
    top_n: int | None = None,
    duplicates: str = "first",
    ranks: Sequence[Tensor] | Tensor | None = None,
    contributions: Tensor | None = None,
    details: bool = False,
) -> Fusion:
    """score(d) = sum of weight / (k + rank) in integers; the scores are exact: float32 as well."""
    if ranks is None:
        ranks = [torch.arange(1, ids.shape[1] + 1).expand_as(ids) for ids in rankings]
    if contributions is None:
        longest = max(ids.shape[1] for ids in rankings)
        table, used, scale = integers.of_weights(len(rankings), longest, k, weights)
    else:
        table, used, scale = integers.of_table(contributions)
    width = sum(ids.shape[1] for ids in rankings) if top_n is None else top_n
    n_queries = rankings[0].shape[0]
    fused_ids = torch.full((n_queries, width), -1, dtype=torch.int64)
    scores = torch.full((n_queries, width), -INF, dtype=torch.float32)
    lengths = torch.zeros(n_queries, dtype=torch.int32)
    best = torch.full((2, n_queries, width), -1, dtype=torch.int32)  # rank, list
    all_ranks = torch.zeros((n_queries, width, len(rankings)), dtype=torch.int32)
    for b in range(n_queries):
        found: dict[int, dict[int, list[int]]] = {}  # id -> list -> its ranks there
        for number, (ids, given) in enumerate(zip(rankings, ranks, strict=True)):
            for document, rank in zip(ids[b].tolist(), given[b].tolist(), strict=True):
                is_entry = 0 <= document <= integers.LARGEST_ID and 1 <= rank <= table.shape[1]
                if used[number] and is_entry:
                    found.setdefault(document, {}).setdefault(number, []).append(rank)
        entries = []
        for document, lists in found.items():
            counted = [
                (number, rank)
                for number, at in lists.items()
                for rank in (at if duplicates == "sum" else [min(at)])
            ]
            total = sum(int(table[number, rank - 1]) for number, rank in counted)
            entries.append((-total, min((rank, number) for number, rank in counted), document))
        entries = sorted(entries)[:width]
        lengths[b] = len(entries)
        for t, (total, best_rank_and_list, document) in enumerate(entries):
            fused_ids[b, t] = document
            scores[b, t] = torch.tensor(-total).float().double() * scale
            best[:, b, t] = torch.tensor(best_rank_and_list)
            for number, at in found[document].items():
                all_ranks[b, t, number] = min(at)
    if not details:
        return Fusion(fused_ids, scores, lengths)
    return Fusion(fused_ids, scores, lengths, best[1], best[0], all_ranks)


def parameter_sweep(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: Sequence[float],
    gamma: Sequence[float],
    *,
    contiguous: bool = False,
) -> ParameterSweep:
    """`expand` at every point of the grid; float32 arithmetic decides what is admitted."""
    n_queries, window = hits.shape[0], continuity.shape[2] // 2
    chunks = torch.zeros(n_queries, len(lam), len(gamma), dtype=torch.int32)
    covered = torch.zeros(n_queries, gold_weights.shape[2], *chunks.shape[1:], dtype=torch.float64)
    for i, one_lam in enumerate(lam):
        scores = torch.where(
            continuity.isnan(), -INF, neighbor_relevance - one_lam * (1 - continuity)
        )
        for j, one_gamma in enumerate(gamma):
            mask = scores > one_gamma * relevance[:, :, None]
            for step in range(1, window if contiguous else 1):
                mask[:, :, window + step] &= mask[:, :, window + step - 1]
                mask[:, :, window - 1 - step] &= mask[:, :, window - step]
            found = expand(hits, NeighborScores(relevance, scores, mask), order="document")
            chunks[:, i, j] = found.lengths
            for b in range(n_queries):
                ids = set(found.ids[b].tolist()) - {-1}
                for (first, end), weights in zip(
                    gold_ranges[b].tolist(), gold_weights[b], strict=True
                ):
                    if any(first <= row < end for row in ids):
                        covered[b, :, i, j] += weights
    return ParameterSweep(chunks, covered)


def _normalized(queries: Tensor) -> Tensor:
    """Queries of length 1; a zero query stays zero, a NaN or infinite one becomes NaN."""
    vectors = queries.double()
    norms = vectors.norm(dim=1, keepdim=True)
    unit = torch.where(norms == 0, 0.0, vectors / norms)
    return torch.where(norms.isfinite(), unit, torch.nan)


def _scaled(embeddings: Tensor, row_scale: Tensor | None) -> Tensor:
    rows = embeddings.double()
    return rows if row_scale is None else rows * row_scale.double()[:, None]


def _cosines(
    queries: Tensor, embeddings: Tensor, rows: Tensor, valid: Tensor, row_scale: Tensor | None
) -> Tensor:
    """cos(q_b, e_rows[b, k]) where valid, 0 elsewhere."""
    of_query = torch.arange(rows.shape[0])[:, None].expand(rows.shape)[valid]
    chosen = rows[valid].long()
    scale = None if row_scale is None else row_scale[chosen]
    cosines = torch.zeros(rows.shape, dtype=torch.float64)
    cosines[valid] = (_normalized(queries)[of_query] * _scaled(embeddings[chosen], scale)).sum(1)
    return cosines


def _document_of_rows(doc_offsets: Tensor, n_chunks: int) -> Tensor:
    return torch.searchsorted(doc_offsets, torch.arange(n_chunks), right=True) - 1


def _ordered(
    owner: dict[int, int], score: dict[int, float], order: str
) -> list[tuple[int, float, int]]:
    """(row, score, anchor) by hit and reading order, or by row number."""
    rows = sorted(owner, key=(lambda row: (owner[row], row)) if order == "rank" else None)
    return [(row, score[row], owner[row]) for row in rows]


def _expansion(
    entries: list[list[tuple[int, float, int]]], width: int, dtype: torch.dtype
) -> Expansion:
    ids = torch.full((len(entries), width), -1, dtype=torch.int64)
    scores = torch.full((len(entries), width), -INF, dtype=dtype)
    anchors = torch.full((len(entries), width), -1, dtype=torch.int32)
    for b, rows in enumerate(entries):
        for t, entry in enumerate(rows):
            ids[b, t], scores[b, t], anchors[b, t] = entry
    lengths = torch.tensor([len(rows) for rows in entries], dtype=torch.int32)
    return Expansion(ids, scores, anchors, lengths)
