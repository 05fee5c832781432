"""What each operation asks of its arguments, checked in Python; see `scar_gpu.checks`."""

import torch
from torch import Tensor

from scar_gpu.checks import (
    ID_DTYPES,
    ROW_DTYPES,
    check_at_least,
    check_bool,
    check_embeddings,
    check_float32,
    check_judgement,
    check_lists,
    check_offsets,
    check_rank_constant,
    check_scale,
    check_tensor,
    check_weights,
    fail,
)


def row_scale(embeddings: Tensor) -> None:
    """Check the arguments of the operation `row_scale`."""
    check_embeddings(embeddings)


def continuity(
    embeddings: Tensor, doc_offsets: Tensor, window: int, row_scale: Tensor | None
) -> None:
    """Check the arguments of the operation `continuity`."""
    check_embeddings(embeddings)
    check_offsets(doc_offsets, embeddings.device)
    check_at_least("window", window, 0)
    check_scale(row_scale, embeddings.shape[0], embeddings.device)


def neighbor_scores(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    relevance: Tensor | None,
) -> None:
    """Check the arguments of the operation `neighbor_scores`."""
    check_embeddings(embeddings)
    n_chunks, dim = embeddings.shape
    device = embeddings.device
    check_tensor("queries", queries, ROW_DTYPES, ("B", dim), device)
    n_queries = queries.shape[0]
    check_tensor("continuity", continuity, (torch.float32,), ("W", n_chunks), device)
    check_tensor("hits", hits, ID_DTYPES, (n_queries, "K"), device)
    check_scale(row_scale, n_chunks, device)
    if relevance is not None:
        check_tensor("relevance", relevance, (torch.float32,), (n_queries, hits.shape[1]), device)
    check_judgement(lam, gamma, contiguous)


def expand(
    hits: Tensor, relevance: Tensor, scores: Tensor, mask: Tensor, document_order: bool
) -> None:
    """Check the arguments of the operation `expand`."""
    check_tensor("hits", hits, ID_DTYPES, ("B", "K"))
    n_queries, k = hits.shape
    check_tensor("relevance", relevance, (torch.float32,), (n_queries, k), hits.device, "hits")
    check_tensor("scores", scores, (torch.float32,), (n_queries, k, "2W"), hits.device, "hits")
    check_tensor("mask", mask, (torch.bool,), tuple(scores.shape), hits.device, "hits")
    if scores.shape[2] % 2:
        fail(ValueError, "scores", "have an even last dimension", scores.shape[2])


def scar_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    relevance: Tensor | None,
    document_order: bool,
) -> None:
    """Check the arguments of the operation `scar_expand`."""
    neighbor_scores(
        queries, embeddings, continuity, hits, lam, gamma, contiguous, row_scale, relevance
    )


def window_expand(
    hits: Tensor, doc_offsets: Tensor, before: int, after: int, document_order: bool
) -> None:
    """Check the arguments of the operation `window_expand`."""
    check_tensor("hits", hits, ID_DTYPES, ("B", "K"))
    check_offsets(doc_offsets, hits.device, "hits")
    check_at_least("before", before, 0)
    check_at_least("after", after, 0)
    if hits.shape[1] * (before + after + 1) >= 2**31:
        got = f"{before} + {after} for K = {hits.shape[1]}"
        fail(ValueError, "before + after", "keep K * (before + after + 1) below 2^31", got)


def spans(ids: Tensor, doc_offsets: Tensor) -> None:
    """Check the arguments of the operation `spans`."""
    check_tensor("ids", ids, ID_DTYPES, ("B", "M"))
    check_offsets(doc_offsets, ids.device, "ids")


def search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
    min_scores: Tensor | None,
) -> None:
    """Check the arguments of the operation `search`."""
    check_embeddings(embeddings)
    n_chunks, dim = embeddings.shape
    check_tensor("queries", queries, ROW_DTYPES, ("B", dim), embeddings.device)
    check_at_least("k", k, 1)
    check_scale(row_scale, n_chunks, embeddings.device)
    if row_ranges is not None:
        shape = (queries.shape[0], 2)
        check_tensor("row_ranges", row_ranges, (torch.int64,), shape, embeddings.device)
    if min_scores is not None:
        of_queries = (queries.shape[0],)
        check_tensor("min_scores", min_scores, (torch.float32,), of_queries, embeddings.device)


def search_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    k: int,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
    min_scores: Tensor | None,
    document_order: bool,
) -> None:
    """Check the arguments of the operation `search_expand`."""
    search(queries, embeddings, k, row_scale, row_ranges, min_scores)
    shape = ("W", embeddings.shape[0])
    check_tensor("continuity", continuity, (torch.float32,), shape, embeddings.device)
    if k * (2 * continuity.shape[0] + 1) >= 2**31:
        got = f"{k} for W = {continuity.shape[0]}"
        fail(ValueError, "k", "keep k * (2W + 1) below 2^31", got)
    check_judgement(lam, gamma, contiguous)


def corpus_masks(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    return_relevance: bool,
) -> None:
    """Check the arguments of the operation `corpus_masks`."""
    check_embeddings(embeddings)
    n_chunks, dim = embeddings.shape
    check_tensor("queries", queries, ROW_DTYPES, ("B", dim), embeddings.device)
    shape = ("W", n_chunks)
    check_tensor("continuity", continuity, (torch.float32,), shape, embeddings.device)
    check_scale(row_scale, n_chunks, embeddings.device)
    check_judgement(lam, gamma, contiguous)
    check_bool("return_relevance", return_relevance)


def rank_fusion(
    rankings: list[Tensor],
    ranks: list[Tensor] | None,
    k: float,
    weights: list[float] | None,
    contributions: Tensor | None,
    top_n: int | None,
    sums_duplicates: bool,
    has_details: bool,
) -> None:
    """Check the arguments of the operation `rank_fusion`."""
    check_lists("rankings", rankings, ID_DTYPES)
    n_lists = len(rankings)
    if ranks is not None:
        check_lists("ranks", ranks, ID_DTYPES, like=rankings)
    check_rank_constant("k", k)
    check_weights(weights, n_lists)
    if contributions is not None:
        shape = (n_lists, "R")
        check_tensor("contributions", contributions, (torch.float64,), shape)
        if not contributions.is_cpu:
            fail(ValueError, "contributions", "be on the CPU", contributions.device)
        longest = max(ids.shape[1] for ids in rankings)
        if ranks is None and contributions.shape[1] < longest:
            got = contributions.shape[1]
            fail(ValueError, "contributions", f"have a column for each of {longest} ranks", got)
    if top_n is not None:
        check_at_least("top_n", top_n, 1)
    check_bool("details", has_details)


def parameter_sweep(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: list[float],
    gamma: list[float],
    contiguous: bool,
) -> None:
    """Check the arguments of the operation `parameter_sweep`."""
    check_tensor("hits", hits, ID_DTYPES, ("B", "K"))
    (n_queries, k), device = hits.shape, hits.device
    floats = (torch.float32,)
    check_tensor("relevance", relevance, floats, (n_queries, k), device, "hits")
    check_tensor("continuity", continuity, floats, (n_queries, k, "2W"), device, "hits")
    n_neighbors = continuity.shape[2]
    if n_neighbors % 2:
        fail(ValueError, "continuity", "have an even last dimension", n_neighbors)
    shape = (n_queries, k, n_neighbors)
    check_tensor("neighbor_relevance", neighbor_relevance, floats, shape, device, "hits")
    check_tensor("gold_ranges", gold_ranges, (torch.int64,), (n_queries, "P", 2), device, "hits")
    shape_of_weights = (n_queries, gold_ranges.shape[1], "M")
    check_tensor("gold_weights", gold_weights, (torch.float64,), shape_of_weights, device, "hits")
    for name, values in (("lam", lam), ("gamma", gamma)):
        if len(values) == 0:
            fail(ValueError, name, "have at least one value", "none")
        for number, value in enumerate(values):
            check_float32(f"{name}[{number}]", value)
            if name == "lam" and value < 0:
                fail(ValueError, f"lam[{number}]", "be >= 0", value)
    check_bool("contiguous", contiguous)
