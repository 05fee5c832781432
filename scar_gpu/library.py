"""The operator library: schema and fake of every operation, and its CUDA registration.

The dispatcher chooses the backend by device. The CPU kernels register themselves when the
extension `scar_gpu._C` is loaded; the Triton launchers are imported at the first CUDA call.
"""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from scar_gpu import operation_checks

LIBRARY = torch.library.Library("scar_gpu", "DEF")


@cache
def launcher(name: str) -> Callable[..., Any]:
    """`launch_<name>` of `scar_gpu.kernels.<name>`."""
    return getattr(importlib.import_module(f"scar_gpu.kernels.{name}"), f"launch_{name}")


def operation(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Define `schema`; the decorated function is its fake."""
    name = schema[: schema.index("(")]

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            getattr(operation_checks, name)(*arguments)
            return function(*arguments)

        return call

    def register(fake: Callable[..., Any]) -> Callable[..., Any]:
        LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
        torch.library.register_fake(f"scar_gpu::{name}", checked(fake), lib=LIBRARY)
        LIBRARY.impl(name, checked(lambda *arguments: launcher(name)(*arguments)), "CUDA")
        # Results are detached: autograd looks through these operations.
        LIBRARY.impl(name, torch.library.fallthrough_kernel, "Autograd")
        return fake

    return register


@operation("row_scale(Tensor embeddings) -> Tensor")
def _(embeddings: Tensor) -> Tensor:
    return _scores(embeddings, embeddings.shape[0])


@operation(
    "continuity(Tensor embeddings, Tensor doc_offsets, int window, Tensor? row_scale) -> Tensor"
)
def _(embeddings: Tensor, doc_offsets: Tensor, window: int, row_scale: Tensor | None) -> Tensor:
    return _scores(embeddings, window, embeddings.shape[0])


@operation(
    "neighbor_scores(Tensor queries, Tensor embeddings, Tensor continuity, Tensor hits, float lam, "
    "float gamma, bool contiguous, Tensor? row_scale, Tensor? relevance) "
    "-> (Tensor relevance, Tensor scores, Tensor mask)"
)
def _(
    queries: Tensor, embeddings: Tensor, continuity: Tensor, hits: Tensor, *_: Any
) -> tuple[Tensor, ...]:
    shape = (*hits.shape, 2 * continuity.shape[0])
    return (
        _scores(hits, *hits.shape),
        _scores(hits, *shape),
        hits.new_empty(shape, dtype=torch.bool),
    )


@operation(
    "expand(Tensor hits, Tensor relevance, Tensor scores, Tensor mask, bool document_order) "
    "-> (Tensor ids, Tensor scores, Tensor anchors, Tensor lengths)"
)
def _(hits: Tensor, relevance: Tensor, scores: Tensor, mask: Tensor, document_order: bool) -> Any:
    return _expansion(hits, hits.shape[1] * (scores.shape[2] + 1))


@operation(
    "scar_expand(Tensor queries, Tensor embeddings, Tensor continuity, Tensor hits, float lam, "
    "float gamma, bool contiguous, Tensor? row_scale, Tensor? relevance, bool document_order) "
    "-> (Tensor ids, Tensor scores, Tensor anchors, Tensor lengths)"
)
def _(queries: Tensor, embeddings: Tensor, continuity: Tensor, hits: Tensor, *_: Any) -> Any:
    return _expansion(hits, hits.shape[1] * (2 * continuity.shape[0] + 1))


@operation(
    "window_expand(Tensor hits, Tensor doc_offsets, int before, int after, bool document_order) "
    "-> (Tensor ids, Tensor scores, Tensor anchors, Tensor lengths)"
)
def _(hits: Tensor, doc_offsets: Tensor, before: int, after: int, document_order: bool) -> Any:
    return _expansion(hits, hits.shape[1] * (before + after + 1))


@operation(
    "spans(Tensor ids, Tensor doc_offsets) "
    "-> (Tensor start, Tensor end, Tensor first, Tensor lengths)"
)
def _(ids: Tensor, doc_offsets: Tensor) -> tuple[Tensor, ...]:
    return (
        ids.new_empty(ids.shape, dtype=torch.int64),
        ids.new_empty(ids.shape, dtype=torch.int64),
        ids.new_empty(ids.shape, dtype=torch.int32),
        ids.new_empty(ids.shape[0], dtype=torch.int32),
    )


@operation(
    "search(Tensor queries, Tensor embeddings, int k, Tensor? row_scale, Tensor? row_ranges, "
    "Tensor? min_scores) -> (Tensor ids, Tensor scores)"
)
def _(queries: Tensor, embeddings: Tensor, k: int, *_: Any) -> tuple[Tensor, ...]:
    shape = (queries.shape[0], k)
    return queries.new_empty(shape, dtype=torch.int64), _scores(queries, *shape)


@operation(
    "search_expand(Tensor queries, Tensor embeddings, Tensor continuity, int k, float lam, "
    "float gamma, bool contiguous, Tensor? row_scale, Tensor? row_ranges, Tensor? min_scores, "
    "bool document_order) "
    "-> (Tensor ids, Tensor scores, Tensor relevance, Tensor neighbor_scores, Tensor mask, "
    "Tensor expanded_ids, Tensor expanded_scores, Tensor anchors, Tensor lengths)"
)
def _(queries: Tensor, embeddings: Tensor, continuity: Tensor, k: int, *_: Any) -> Any:
    shape, n_neighbors = (queries.shape[0], k), 2 * continuity.shape[0]
    hits = queries.new_empty(shape, dtype=torch.int64)
    return (
        hits,
        _scores(queries, *shape),
        _scores(queries, *shape),
        _scores(queries, *shape, n_neighbors),
        queries.new_empty((*shape, n_neighbors), dtype=torch.bool),
        *_expansion(hits, k * (n_neighbors + 1)),
    )


@operation(
    "corpus_masks(Tensor queries, Tensor embeddings, Tensor continuity, float lam, float gamma, "
    "bool contiguous, Tensor? row_scale, bool return_relevance) -> (Tensor bits, Tensor relevance)"
)
def _(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    return_relevance: bool,
) -> tuple[Tensor, ...]:
    n_queries, n_chunks = queries.shape[0], embeddings.shape[0]
    shape = (n_queries, 2 * continuity.shape[0], (n_chunks + 31) // 32)
    bits = queries.new_empty(shape, dtype=torch.int32)
    return bits, _scores(queries, n_queries, n_chunks if return_relevance else 0)


@operation(
    "rank_fusion(Tensor[] rankings, Tensor[]? ranks, float k, float[]? weights, "
    "Tensor? contributions, int? top_n, bool sums_duplicates, bool has_details) -> Tensor[]"
)
def _(
    rankings: list[Tensor],
    ranks: Any,
    k: float,
    weights: Any,
    contributions: Any,
    top_n: int | None,
    sums_duplicates: bool,
    has_details: bool,
) -> list[Tensor]:
    first, n_queries = rankings[0], rankings[0].shape[0]
    width = sum(ids.shape[1] for ids in rankings) if top_n is None else top_n
    dtypes = (torch.int64, torch.float32)
    results = [first.new_empty((n_queries, width), dtype=dtype) for dtype in dtypes]
    results.append(first.new_empty(n_queries, dtype=torch.int32))
    if has_details:
        for shape in ((n_queries, width),) * 2 + ((n_queries, width, len(rankings)),):
            results.append(first.new_empty(shape, dtype=torch.int32))
    return results


@operation(
    "parameter_sweep(Tensor hits, Tensor relevance, Tensor neighbor_relevance, Tensor continuity, "
    "Tensor gold_ranges, Tensor gold_weights, float[] lam, float[] gamma, bool contiguous) "
    "-> (Tensor chunks, Tensor covered)"
)
def _(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: list[float],
    gamma: list[float],
    contiguous: bool,
) -> tuple[Tensor, ...]:
    n_queries, grid = hits.shape[0], (len(lam), len(gamma))
    chunks = hits.new_empty((n_queries, *grid), dtype=torch.int32)
    return chunks, _scores(hits, n_queries, gold_weights.shape[2], *grid)


def _scores(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.float32)


def _expansion(hits: Tensor, width: int) -> tuple[Tensor, ...]:
    shape = (hits.shape[0], width)
    return (
        hits.new_empty(shape, dtype=torch.int64),
        _scores(hits, *shape),
        hits.new_empty(shape, dtype=torch.int32),
        hits.new_empty(hits.shape[0], dtype=torch.int32),
    )
