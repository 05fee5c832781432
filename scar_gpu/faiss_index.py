"""Search in a FAISS index, and one from a `ChunkIndex`; faiss is imported at the first call.

Not before, since it must come after torch: both bring an OpenMP runtime.
"""

import importlib
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from scar_gpu import checks
from scar_gpu.types import Hits

# Rows handed to FAISS together, in bytes of float32.
_BLOCK_BYTES = 64 * 2**20


def faiss_search(index: Any, queries: Tensor, k: int, *, normalize: bool = True) -> Hits:
    """Find the k nearest rows in any FAISS index of unit vectors: IVF, HNSW, on CPU or GPU.

    Inner products are taken as they are, squared L2 distances d turned into
    (|q|^2 + 1 - d) / 2: cosines, where the index holds unit vectors and the queries have length 1.
    Ordered by score, then by smaller id; which of several equal rows come in at the k-th place is
    up to FAISS. Where the queries and the index are on the same GPU, nothing passes through the
    host.

    Args:
        index: a `faiss.Index` with METRIC_INNER_PRODUCT or METRIC_L2 over unit vectors.
        queries: [B, D] float32, float16 or bfloat16, any strides.
        k: results per query, >= 1; more than the index holds pads.
        normalize: scale the queries to length 1; a zero query stays zero.

    Returns:
        Hits(ids [B, k] int64, scores [B, k] float32) on the queries' device, padded with -1 and
        -inf. A NaN or infinite query finds nothing.

    Raises:
        ImportError: faiss is not installed.
        TypeError: queries has a wrong dtype; index is not a float index of FAISS.
        ValueError: queries has another dimension than the index; k < 1; another metric.
        MemoryError: on the CPU, results larger than the machine's memory.

    Example:
        >>> import faiss, numpy as np, torch, scar_gpu
        >>> index = faiss.IndexFlatL2(2)
        >>> index.add(np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32))
        >>> scar_gpu.faiss_search(index, torch.tensor([[0.0, 2.0]]), 2)
        Hits(ids=tensor([[2, 1]]), scores=tensor([[1.0000, 0.8000]]))
    """
    faiss = _import_faiss()
    if not isinstance(index, faiss.Index):
        checks.fail(TypeError, "index", "be a faiss.Index", type(index).__name__)
    metrics = (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2)
    if index.metric_type not in metrics:
        rule = "have METRIC_INNER_PRODUCT or METRIC_L2"
        checks.fail(ValueError, "index", rule, f"metric {index.metric_type}")
    checks.check_tensor("queries", queries, checks.ROW_DTYPES, ("B", index.d))
    checks.check_at_least("k", k, 1)
    checks.check_fits("k", k, queries, k, 12)
    checks.check_bool("normalize", normalize)

    vectors = queries.detach().float()
    norms = vectors.double().norm(dim=1, keepdim=True)
    # FAISS may answer anything for what is not a number.
    is_number = norms.isfinite()
    vectors = torch.where(is_number, vectors, 0.0)
    if normalize:
        vectors = torch.where(norms > 0, vectors / norms, 0.0).float()
    ids, scores = _search(faiss, index, vectors.contiguous(), k)
    if index.metric_type == faiss.METRIC_L2:
        scores = (vectors.double().square().sum(1, keepdim=True) + 1 - scores.double()) / 2
    is_hit = is_number & (ids >= 0) & ~scores.isnan()
    ids = torch.where(is_hit, ids, -1)
    scores = torch.where(is_hit, scores, -torch.inf).float()
    # By id first, then stably by score; padding, of score -inf, comes last in any case.
    ids, order = ids.sort(dim=1)
    scores, by_score = scores.gather(1, order).sort(dim=1, descending=True, stable=True)
    return Hits(ids.gather(1, by_score), scores)


def to_faiss(
    embeddings: Tensor, row_scale: Tensor, description: str = "Flat", *, inner_product: bool = True
) -> Any:
    """Build a FAISS index on the CPU over the rows at unit length.

    Args:
        embeddings: [N, D] chunk matrix.
        row_scale: [N] float32 from `row_scale`.
        description: what `faiss.index_factory` understands: "Flat", "IVF4096,Flat", "HNSW32".
            Trained on the rows where it needs training.
        inner_product: METRIC_INNER_PRODUCT, else METRIC_L2, where no row may be zero.

    Returns:
        The index; its ids are the row numbers.

    Raises:
        ImportError: faiss is not installed.
        ValueError: METRIC_L2 and a zero row, which is at no distance that means a cosine of 0.
        RuntimeError: FAISS does not understand the description, or has too few rows to train.

    Example:
        >>> import torch, scar_gpu
        >>> from scar_gpu.faiss_index import to_faiss
        >>> rows = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
        >>> to_faiss(rows, scar_gpu.row_scale(rows)).ntotal
        2
    """
    faiss = _import_faiss()
    n_chunks, dim = embeddings.shape
    metric = faiss.METRIC_INNER_PRODUCT if inner_product else faiss.METRIC_L2
    if not inner_product and bool((row_scale == 0).any()):
        row = int((row_scale == 0).nonzero()[0])
        checks.fail(ValueError, f"embeddings[{row}]", "not be zero in an index of L2 distances", 0)
    index = faiss.index_factory(dim, description, metric)

    def unit_rows(rows: slice | Tensor) -> Any:
        block = embeddings[rows].detach().float() * row_scale[rows, None]
        return block.cpu().contiguous().numpy()

    if not index.is_trained:
        # As many rows as FAISS would draw from more, spread evenly, so that it is repeatable.
        count = min(n_chunks, max(1, _BLOCK_BYTES // (4 * max(dim, 1))))
        chosen = torch.arange(count, device=embeddings.device) * n_chunks // max(count, 1)
        index.train(unit_rows(chosen))
    step = max(1, _BLOCK_BYTES // (4 * max(dim, 1)))
    for first in range(0, n_chunks, step):
        index.add(unit_rows(slice(first, first + step)))
    return index


def _search(faiss: ModuleType, index: Any, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(ids, distances [B, k]) on the device of the vectors [B, D] float32."""
    if (
        vectors.is_cuda
        and hasattr(index, "getResources")
        and index.getDevice() == vectors.get_device()
    ):
        ids = vectors.new_empty((len(vectors), k), dtype=torch.int64)
        scores = vectors.new_empty((len(vectors), k))
        resources = index.getResources()
        stream = torch.cuda.current_stream(vectors.device)
        before = resources.getDefaultStream(index.getDevice())
        resources.setDefaultStream(
            index.getDevice(), faiss.cast_integer_to_cudastream_t(stream.cuda_stream)
        )
        try:
            index.search_c(
                len(vectors),
                faiss.cast_integer_to_float_ptr(vectors.data_ptr()),
                k,
                faiss.cast_integer_to_float_ptr(scores.data_ptr()),
                faiss.cast_integer_to_idx_t_ptr(ids.data_ptr()),
            )
        finally:
            resources.setDefaultStream(index.getDevice(), before)
        return ids, scores
    distances, labels = index.search(vectors.cpu().numpy(), k)
    return torch.from_numpy(labels).to(vectors.device), torch.from_numpy(distances).to(
        vectors.device
    )


def _import_faiss() -> ModuleType:
    try:
        return importlib.import_module("faiss")
    except ModuleNotFoundError as error:
        if error.name != "faiss":
            raise
        raise ImportError(
            "faiss must be installed for this, got no such package: pip install 'scar_gpu[faiss]'"
        ) from error
