"""Exact search by other libraries over unit rows, each set up as its documentation advises.

Each function returns a function that gives ids [B, k] of the rows of highest inner product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Search = Callable[[], Any]
TILE = 16_384


def torch_tiles(rows: Tensor, queries: Tensor, k: int) -> Search:
    """PyTorch: a matrix product per tile, topk of each, topk of those."""

    def search() -> Tensor:
        found = []
        for first in range(0, rows.shape[0], TILE):
            scores, ids = (queries @ rows[first : first + TILE].T).topk(k)
            found.append((scores, ids + first))
        scores, order = torch.cat([scores for scores, _ in found], 1).topk(k)
        return torch.cat([ids for _, ids in found], 1).gather(1, order)

    return search


def faiss_flat(rows: Tensor, queries: Tensor, k: int) -> Search:
    """faiss-cpu, IndexFlatIP, as the wheel is set up."""
    return _faiss(rows, queries, k, None)


def faiss_blas(rows: Tensor, queries: Tensor, k: int) -> Search:
    """The same, told to use its BLAS for 20 queries or more."""
    return _faiss(rows, queries, k, 20)


def _faiss(rows: Tensor, queries: Tensor, k: int, threshold: int | None) -> Search:
    import faiss

    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows.numpy())
    vectors = queries.numpy()

    def search() -> np.ndarray:
        before = faiss.cvar.distance_compute_blas_threshold
        if threshold is not None:
            faiss.cvar.distance_compute_blas_threshold = threshold
        try:
            return index.search(vectors, k)[1]
        finally:
            faiss.cvar.distance_compute_blas_threshold = before

    return search


def scikit_learn(rows: Tensor, queries: Tensor, k: int) -> Search:
    """scikit-learn, NearestNeighbors by brute force; for unit rows distance orders like cosine."""
    from sklearn.neighbors import NearestNeighbors

    neighbors = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="euclidean")
    neighbors.fit(rows.numpy())
    vectors = queries.numpy()
    return lambda: neighbors.kneighbors(vectors, return_distance=False)


def usearch_exact(rows: Tensor, queries: Tensor, k: int) -> Search:
    """usearch, exact search by inner product."""
    from usearch.index import MetricKind, search

    matrix, vectors = rows.numpy(), queries.numpy()
    return lambda: search(matrix, vectors, k, MetricKind.IP, exact=True).keys


def numkong_packed(rows: Tensor, queries: Tensor, k: int) -> Search:
    """numkong: products with a packed matrix, then PyTorch's topk."""
    import numkong

    packed, vectors = numkong.dots_pack(rows.numpy()), queries.numpy()

    def search() -> Tensor:
        products = np.asarray(numkong.dots_packed(vectors, packed))
        return torch.from_numpy(products).topk(k).indices

    return search


SEARCHES = {
    "torch tiles + topk": (None, torch_tiles),
    "faiss-cpu flat, BLAS on": ("faiss-cpu", faiss_blas),
    "faiss-cpu flat": ("faiss-cpu", faiss_flat),
    "scikit-learn brute force": ("scikit-learn", scikit_learn),
    "usearch exact": ("usearch", usearch_exact),
    "numkong dots + topk": ("numkong", numkong_packed),
}
