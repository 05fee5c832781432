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
}  # fmt: skip
CHUNKS_PER_DOC = 100
SEARCH_K = 10


def expansion(ids: Tensor) -> Expansion:
    """With these rows, for `spans`, which reads nothing else."""
    return Expansion(ids, ids, ids, ids)


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
    "rank_fusion": lambda t: scar_gpu.rank_fusion([t["first"], t["second"]]),
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
    return tensors


def part(tensors: Tensors, chosen: slice) -> Tensors:
    """Some of the queries."""
    return {
        name: tensor[chosen].contiguous() if name in BATCHED else tensor
        for name, tensor in tensors.items()
    }


def outputs(result: object) -> list[Tensor]:
    """The tensors of a result."""
    return [result] if isinstance(result, Tensor) else [t for t in result if t is not None]
