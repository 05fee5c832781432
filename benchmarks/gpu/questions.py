"""Inputs of any size on any device, and every operation as a function of them."""

from collections.abc import Callable

import torch
from torch import Tensor

import scar_gpu
from scar_gpu import Expansion, NeighborScores

Tensors = dict[str, Tensor]
# One row per query.
BATCHED = {
    "queries", "hits", "relevance", "scores", "mask", "ids", "row_ranges", "first", "second",
    "neighbor_relevance", "neighbor_continuity", "gold_ranges", "gold_weights",
}  # fmt: skip
CHUNKS_PER_DOC = 100
SEARCH_K = 10
# The grid of parameter_sweep, and the pieces of gold per query (fewer for fewer hits).
LAM_GRID, GAMMA_GRID = (0.0, 0.1, 0.3), tuple(round(0.1 * i, 1) for i in range(2, 12))
MOST_PIECES = 4


def expansion(ids: Tensor) -> Expansion:
    """With these rows, for `spans`, which reads nothing else."""
    return Expansion(ids, ids, ids, ids)


def sweep_tensors(t: Tensors) -> tuple[Tensor, ...]:
    """What `parameter_sweep` reads, in order."""
    around = ("relevance", "neighbor_relevance", "neighbor_continuity")
    return (t["hits"], *(t[name] for name in around), t["gold_ranges"], t["gold_weights"])


OPERATIONS: dict[str, Callable[[Tensors], object]] = {
    "row_scale": lambda t: scar_gpu.row_scale(t["embeddings"]),
    "continuity": lambda t: scar_gpu.continuity(
        t["embeddings"],
        t["doc_offsets"],
        window=len(t["continuity"]),
        row_scale=t["row_scale"],
    ),
    "neighbor_scores": lambda t: scar_gpu.neighbor_scores(
        t["queries"], t["embeddings"], t["continuity"], t["hits"], row_scale=t["row_scale"]
    ),
    "expand": lambda t: scar_gpu.expand(
        t["hits"], NeighborScores(t["relevance"], t["scores"], t["mask"])
    ),
    "scar_expand": lambda t: scar_gpu.scar_expand(
        t["queries"], t["embeddings"], t["continuity"], t["hits"], row_scale=t["row_scale"]
    ),
    "window_expand": lambda t: scar_gpu.window_expand(t["hits"], t["doc_offsets"]),
    "spans": lambda t: scar_gpu.spans(expansion(t["ids"]), t["doc_offsets"]),
    "search": lambda t: scar_gpu.search(
        t["queries"],
        t["embeddings"],
        SEARCH_K,
        row_scale=t["row_scale"],
        row_ranges=t.get("row_ranges"),
    ),
    "search_expand": lambda t: scar_gpu.search_expand(
        t["queries"],
        t["embeddings"],
        t["continuity"],
        SEARCH_K,
        row_scale=t["row_scale"],
        row_ranges=t.get("row_ranges"),
    ),
    "corpus_masks": lambda t: scar_gpu.corpus_masks(
        t["queries"], t["embeddings"], t["continuity"], row_scale=t["row_scale"]
    ),
    "rank_fusion": lambda t: scar_gpu.rank_fusion([t["first"], t["second"]]),
    "parameter_sweep": lambda t: scar_gpu.parameter_sweep(*sweep_tensors(t), LAM_GRID, GAMMA_GRID),
}
ON_ROWS = ("row_scale", "continuity")  # the rest takes a batch of queries


def corpus(
    n: int, dim: int, dtype: torch.dtype, device: torch.device, *, window: int = 1, seed: int = 0
) -> Tensors:
    """Rows of which eight in a row have a topic in common, in documents of 100."""
    generator = torch.Generator(device).manual_seed(seed)
    embeddings = torch.empty(n, dim, dtype=dtype, device=device)
    for part in embeddings.split(2**16):
        topics = torch.randn(-(-len(part) // 8), dim, generator=generator, device=device)
        noise = torch.randn(part.shape, generator=generator, device=device)
        part.copy_(topics.repeat_interleave(8, 0)[: len(part)] + noise)
    ends = [*range(0, n, CHUNKS_PER_DOC), n]
    doc_offsets = torch.tensor(ends, device=device)
    scale = scar_gpu.row_scale(embeddings)
    table = scar_gpu.continuity(embeddings, doc_offsets, window=window, row_scale=scale)
    return {
        "embeddings": embeddings,
        "doc_offsets": doc_offsets,
        "row_scale": scale,
        "continuity": table,
    }


def batch(rows: Tensors, n_queries: int, k: int, *, length: int = 20, seed: int = 1) -> Tensors:
    """`rows` with queries near some of them, hits of which a tenth is padding, and what the later
    operations read; rankings of `length`, half of whose ids are in both.
    """
    embeddings = rows["embeddings"]
    device, (n, dim) = embeddings.device, embeddings.shape
    generator = torch.Generator(device).manual_seed(seed)
    near = torch.randint(n, (n_queries,), generator=generator, device=device)
    queries = embeddings[near].float()
    queries += torch.randn(n_queries, dim, generator=generator, device=device)
    hits = torch.randint(n, (n_queries, k), generator=generator, device=device)
    padding = torch.rand(hits.shape, generator=generator, device=device) < 0.1
    hits = hits.masked_fill(padding, -1)
    first, second = (
        torch.rand(n_queries, 2 * length, generator=generator, device=device)
        .argsort(1)[:, :length]
        .contiguous()
        for _ in range(2)
    )
    tensors = rows | {"queries": queries, "hits": hits, "first": first, "second": second}
    judged = OPERATIONS["neighbor_scores"](tensors)
    tensors |= dict(zip(("relevance", "scores", "mask"), judged, strict=True))
    tensors["ids"] = OPERATIONS["window_expand"](tensors).ids
    anchors = torch.cat([near[:, None], hits], 1)[:, :MOST_PIECES]
    return tensors | _around(tensors) | _gold(anchors, generator)


def _around(t: Tensors) -> Tensors:
    """Relevances [B, K, 2W] of the neighbours of hits, and their continuities with the hit."""
    hits, table = t["hits"], t["continuity"]
    without_penalty = scar_gpu.neighbor_scores(
        t["queries"], t["embeddings"], table, hits, lam=0.0, row_scale=t["row_scale"]
    ).scores
    steps = torch.arange(1, len(table) + 1, device=hits.device)
    offsets = torch.cat([-steps.flip(0), steps])
    is_neighbor = without_penalty > -torch.inf
    left = torch.where(is_neighbor, hits[..., None] + offsets.clamp(max=0), 0)
    continuity = torch.where(is_neighbor, table[offsets.abs() - 1, left], torch.nan)
    return {"neighbor_relevance": without_penalty, "neighbor_continuity": continuity}


def _gold(anchors: Tensor, generator: torch.Generator) -> Tensors:
    """A piece of up to two rows at each of the rows `anchors` [B, P], or beside it."""
    device, shape = anchors.device, anchors.shape
    shift, length = (
        torch.randint(low, high, shape, generator=generator, device=device)
        for low, high in ((-1, 2), (1, 3))
    )
    first = (anchors + shift).clamp(min=0)
    weights = torch.rand(*shape, 2, generator=generator, device=device, dtype=torch.float64)
    return {"gold_ranges": torch.stack([first, first + length], 2), "gold_weights": weights}


def part(tensors: Tensors, chosen: slice) -> Tensors:
    """Some of the queries."""
    return {
        name: tensor[chosen].contiguous() if name in BATCHED else tensor
        for name, tensor in tensors.items()
    }


def outputs(result: object) -> list[Tensor]:
    """The tensors of a result, those of results within it as well."""
    if isinstance(result, Tensor):
        return [result]
    return [tensor for one in result if one is not None for tensor in outputs(one)]
