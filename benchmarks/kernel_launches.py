"""One launch of each operation, of any shape: what is compiled, and the bytes that it moves."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from benchmarks import traffic
from benchmarks.traffic import Traffic
from scar_gpu.kernels.continuity import launch_continuity
from scar_gpu.kernels.corpus_masks import launch_corpus_masks
from scar_gpu.kernels.expand import launch_expand
from scar_gpu.kernels.neighbor_scores import launch_neighbor_scores
from scar_gpu.kernels.rank_fusion import launch_rank_fusion
from scar_gpu.kernels.row_scale import launch_row_scale
from scar_gpu.kernels.scar_expand import launch_scar_expand
from scar_gpu.kernels.search import launch_search
from scar_gpu.kernels.spans import launch_spans
from scar_gpu.kernels.window_expand import launch_window_expand

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
N_CHUNKS, N_QUERIES = 1000, 16


class Case(NamedTuple):
    """One call of a launcher, on tensors that are never read."""

    operation: str
    label: str
    launch: Callable[[], object]
    traffic: Traffic
    wide_rows: bool = False  # rows are whole numbers of the widest loads and must be read so


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_wide(dim: int, dtype: torch.dtype) -> bool:
    return dim * dtype.itemsize % 16 == 0


def row_scale(dim: int, dtype: torch.dtype, n_chunks: int = N_CHUNKS) -> Case:
    return Case(
        "row_scale",
        f"D={dim} {name(dtype)}",
        lambda: launch_row_scale(torch.empty(n_chunks, dim, dtype=dtype)),
        traffic.row_scale(n_chunks, dim * dtype.itemsize),
        is_wide(dim, dtype),
    )


def continuity(
    dim: int, dtype: torch.dtype, window: int = 1, n_chunks: int = N_CHUNKS, is_scaled: bool = True
) -> Case:
    return Case(
        "continuity",
        f"D={dim} {name(dtype)} W={window}" + " unit rows" * (not is_scaled),
        lambda: launch_continuity(
            torch.empty(n_chunks, dim, dtype=dtype),
            torch.empty(100, dtype=torch.int64),
            window,
            torch.empty(n_chunks) if is_scaled else None,
        ),
        traffic.continuity(n_chunks, dim * dtype.itemsize, window),
        is_wide(dim, dtype),
    )


def neighbor_scores(
    dim: int,
    dtype: torch.dtype,
    window: int = 1,
    k: int = 10,
    *,
    n_queries: int = N_QUERIES,
    n_chunks: int = N_CHUNKS,
    query_dtype: torch.dtype = F32,
    hits_dtype: torch.dtype = torch.int64,
    contiguous: bool = False,
    is_scaled: bool = True,
    is_given: bool = False,
) -> Case:
    changes = [
        f"{name(query_dtype)} queries" * (query_dtype != F32),
        f"{name(hits_dtype)} hits" * (hits_dtype != torch.int64),
        "contiguous" * contiguous,
        "unit rows" * (not is_scaled),
        "relevance given" * is_given,
    ]
    return Case(
        "neighbor_scores",
        " ".join([f"D={dim} {name(dtype)} W={window} K={k}", *filter(None, changes)]),
        lambda: launch_neighbor_scores(
            torch.empty(n_queries, dim, dtype=query_dtype),
            torch.empty(n_chunks, dim, dtype=dtype),
            torch.empty(window, n_chunks),
            torch.empty(n_queries, k, dtype=hits_dtype),
            0.1,
            0.8,
            contiguous,
            torch.empty(n_chunks) if is_scaled else None,
            torch.empty(n_queries, k) if is_given else None,
        ),
        traffic.neighbor_scores(
            n_queries, k, window, dim * dtype.itemsize, dim * query_dtype.itemsize, is_given
        ),
        is_wide(dim, dtype),
    )


def expand(k: int, window: int, order: str = "rank", n_queries: int = N_QUERIES) -> Case:
    return Case(
        "expand",
        f"K={k} W={window} {order}",
        lambda: launch_expand(
            torch.empty(n_queries, k, dtype=torch.int64),
            torch.empty(n_queries, k),
            torch.empty(n_queries, k, 2 * window),
            torch.empty(n_queries, k, 2 * window, dtype=torch.bool),
            order == "document",
        ),
        traffic.expand(n_queries, k, window),
    )


def scar_expand(dim: int, dtype: torch.dtype, k: int, order: str = "rank") -> Case:
    row, query = dim * dtype.itemsize, dim * 4
    scores = traffic.neighbor_scores(N_QUERIES, k, 1, row, query)
    union = traffic.expand(N_QUERIES, k, 1)
    return Case(
        "scar_expand",
        f"D={dim} {name(dtype)} K={k} {order}",
        lambda: launch_scar_expand(
            torch.empty(N_QUERIES, dim),
            torch.empty(N_CHUNKS, dim, dtype=dtype),
            torch.empty(1, N_CHUNKS),
            torch.empty(N_QUERIES, k, dtype=torch.int64),
            0.1,
            0.8,
            False,
            torch.empty(N_CHUNKS),
            None,
            order == "document",
        ),
        traffic.Traffic(scores.useful + union.useful, scores.moved + union.moved),
    )


def window_expand(k: int, before: int, after: int, order: str = "rank") -> Case:
    return Case(
        "window_expand",
        f"K={k} -{before} +{after} {order}",
        lambda: launch_window_expand(
            torch.empty(N_QUERIES, k, dtype=torch.int64),
            torch.empty(100, dtype=torch.int64),
            before,
            after,
            order == "document",
        ),
        traffic.window_expand(N_QUERIES, k, before, after),
    )


def spans(width: int, n_queries: int = N_QUERIES) -> Case:
    return Case(
        "spans",
        f"M={width}",
        lambda: launch_spans(
            torch.empty(n_queries, width, dtype=torch.int64), torch.empty(100, dtype=torch.int64)
        ),
        traffic.spans(n_queries, width),
    )


def search(
    dim: int,
    dtype: torch.dtype,
    k: int,
    n_queries: int,
    *,
    n_chunks: int = 100_000,
    query_dtype: torch.dtype = F32,
    is_scaled: bool = True,
    is_ranged: bool = False,
) -> Case:
    changes = [
        f"{name(query_dtype)} queries" * (query_dtype != F32),
        "unit rows" * (not is_scaled),
        "ranges" * is_ranged,
    ]
    return Case(
        "search",
        " ".join([f"D={dim} {name(dtype)} k={k} B={n_queries}", *filter(None, changes)]),
        lambda: launch_search(
            torch.empty(n_queries, dim, dtype=query_dtype),
            torch.empty(n_chunks, dim, dtype=dtype),
            k,
            torch.empty(n_chunks) if is_scaled else None,
            torch.empty(n_queries, 2, dtype=torch.int64) if is_ranged else None,
            None,
        ),
        traffic.search(n_queries, n_chunks, k, dim * dtype.itemsize, dim * query_dtype.itemsize),
    )


def rank_fusion(
    n_lists: int,
    k: int,
    *,
    ids_dtype: torch.dtype = torch.int64,
    top_n: int | None = None,
    sums: bool = False,
    details: bool = False,
    has_ranks: bool = False,
) -> Case:
    changes = [
        f"{name(ids_dtype)} ids" * (ids_dtype != torch.int64),
        f"top {top_n}" * (top_n is not None),
        "sums" * sums,
        "details" * details,
        "ranks given" * has_ranks,
    ]
    return Case(
        "rank_fusion",
        " ".join([f"L={n_lists} K={k}", *filter(None, changes)]),
        lambda: launch_rank_fusion(
            [torch.empty(N_QUERIES, k, dtype=ids_dtype)] * n_lists,
            [torch.empty(N_QUERIES, k, dtype=torch.int32)] * n_lists if has_ranks else None,
            60.0,
            None,
            None,
            top_n,
            sums,
            details,
        ),
        traffic.rank_fusion(N_QUERIES, n_lists * k),
    )


def corpus_masks(
    dim: int,
    dtype: torch.dtype,
    window: int = 1,
    *,
    n_queries: int = N_QUERIES,
    n_chunks: int = N_CHUNKS,
    contiguous: bool = False,
    is_scaled: bool = True,
    is_known: bool = False,
) -> Case:
    changes = ["contiguous" * contiguous, "unit rows" * (not is_scaled), "relevance" * is_known]
    return Case(
        "corpus_masks",
        " ".join([f"D={dim} {name(dtype)} W={window}", *filter(None, changes)]),
        lambda: launch_corpus_masks(
            torch.empty(n_queries, dim),
            torch.empty(n_chunks, dim, dtype=dtype),
            torch.empty(window, n_chunks),
            0.1,
            0.8,
            contiguous,
            torch.empty(n_chunks) if is_scaled else None,
            is_known,
        ),
        traffic.corpus_masks(n_queries, n_chunks, window, dim * dtype.itemsize, dim * 4),
    )
