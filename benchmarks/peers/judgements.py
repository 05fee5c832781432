"""SCAR's judgement at W = 1 as one would write it without this package.

Each function sets up and returns a function that gives (relevance [B, K], scores [B, K, 2],
mask [B, K, 2]) as tensors or arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch_versions
from torch import Tensor

import scar_gpu

LAM, GAMMA = 0.1, 0.8
OFFSETS = (-1, 0, 1)
Judge = Callable[[], tuple[Any, Any, Any]]


def numpy_loop(index: scar_gpu.ChunkIndex, queries: Tensor, hits: Tensor) -> Judge:
    """NumPy, one query at a time."""
    judge = _numpy_judge(index)
    rows, ids = queries.numpy(), hits.numpy()

    def run() -> tuple[Any, Any, Any]:
        parts = [judge(rows[b : b + 1], ids[b : b + 1]) for b in range(len(rows))]
        relevance, scores, mask = zip(*parts, strict=True)
        return np.concatenate(relevance), np.concatenate(scores), np.concatenate(mask)

    return run


def numpy_vectorised(index: scar_gpu.ChunkIndex, queries: Tensor, hits: Tensor) -> Judge:
    """NumPy, all queries at once: gather, then a batched matrix product."""
    judge = _numpy_judge(index)
    return lambda: judge(queries.numpy(), hits.numpy())


def _numpy_judge(index: scar_gpu.ChunkIndex) -> Callable[[np.ndarray, np.ndarray], Any]:
    embeddings, scale = index.embeddings.numpy(), index.row_scale.numpy()
    cohesion, n_chunks = index.continuity.numpy()[0], index.n_chunks

    def judge(queries: np.ndarray, hits: np.ndarray) -> Any:
        rows = hits[..., None] + np.array(OFFSETS)
        inside = rows.clip(0, n_chunks - 1)
        unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        gathered = embeddings[inside.reshape(len(hits), -1)].astype(np.float32)
        cosines = np.matmul(gathered, unit[:, :, None])[..., 0].reshape(rows.shape) * scale[inside]
        links = np.stack([cohesion[inside[..., 0]], cohesion[hits]], 2)
        links[((rows < 0) | (rows >= n_chunks))[..., [0, 2]]] = np.nan
        scores = cosines[..., [0, 2]] - np.float32(LAM) * (1 - links)
        scores[np.isnan(links)] = -np.inf
        relevance = cosines[..., 1]
        return relevance, scores, scores > np.float32(GAMMA) * relevance[..., None]

    return judge


def eager(index: scar_gpu.ChunkIndex, queries: Tensor, hits: Tensor) -> Judge:
    """Eager PyTorch: gather, then einsum, in float32."""
    return lambda: torch_versions.neighbor_scores(
        queries, index.embeddings, index.continuity, hits, index.row_scale
    )


def compiled(index: scar_gpu.ChunkIndex, queries: Tensor, hits: Tensor) -> Judge:
    """The eager function under torch.compile, for these shapes."""
    function = torch.compile(torch_versions.neighbor_scores, dynamic=False, fullgraph=True)
    return lambda: function(queries, index.embeddings, index.continuity, hits, index.row_scale)


JUDGES = {
    "eager gather + einsum": (None, eager),
    "torch.compile of the eager version": (None, compiled),
    "vectorised NumPy": (None, numpy_vectorised),
    "a NumPy loop over queries": (None, numpy_loop),
}
