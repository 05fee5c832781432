"""Compile the kernels that an index will need before the first request arrives."""

from collections.abc import Iterable

import torch

import scar_gpu


def warmup(
    index: "scar_gpu.ChunkIndex",
    batch_sizes: Iterable[int],
    ks: Iterable[int],
    *,
    query_dtype: torch.dtype = torch.float32,
    hits_dtype: torch.dtype = torch.int64,
    contiguous: bool = False,
    order: str = "rank",
) -> None:
    """Run every operation once per size, on padding, so that no later call waits for a compiler.

    A kernel is compiled per dimension, dtypes, window, option, and block of candidates: sizes that
    share a block cost nothing more. Padding reads no row, but results of the real sizes are
    allocated, which fills PyTorch's memory pool as well. On a CPU there is nothing to compile.

    Args:
        index: the ChunkIndex that will be asked; its tensors and device are used.
        batch_sizes: numbers of queries per call.
        ks: numbers of hits per query.
        query_dtype: dtype of the queries to come.
        hits_dtype: dtype of the hits to come.
        contiguous: as for `neighbor_scores`.
        order: as for `expand`; call again for the other one.
    """
    device, dim = index.embeddings.device, index.embeddings.shape[1]
    window = index.continuity.shape[0]
    ks = tuple(ks)
    for n_queries in batch_sizes:
        queries = torch.zeros(n_queries, dim, dtype=query_dtype, device=device)
        for k in ks:
            hits = torch.full((n_queries, k), -1, dtype=hits_dtype, device=device)
            expansion = scar_gpu.scar_expand(
                queries,
                index.embeddings,
                index.continuity,
                hits,
                contiguous=contiguous,
                row_scale=index.row_scale,
                order=order,
            )
            scar_gpu.spans(expansion, index.doc_offsets)
            scar_gpu.window_expand(
                hits, index.doc_offsets, before=window, after=window, order=order
            )
