"""Exact search for the rows of highest cosine, and a check of any retriever's hits."""

import torch
from torch import Tensor

from scar_gpu import checks
from scar_gpu.types import Hits

_search = torch.ops.scar_gpu.search.default


def search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    *,
    row_scale: Tensor | None = None,
    row_ranges: Tensor | None = None,
) -> Hits:
    """Find the k rows of highest cosine, exactly.

    Ordered by score, then by smaller id; the first 3 of k = 10 are the result of k = 3. A row
    whose score is NaN is never returned: a NaN or infinite query yields padding only, a zero query
    rows 0..k-1.

    Args:
        queries: [B, D], any supported float dtype and strides; normalised inside.
        embeddings: [N, D], any supported float dtype, last dimension contiguous.
        k: results per query, >= 1; more than N pads.
        row_scale: [N] float32 from `row_scale`. **None means unit rows.**
        row_ranges: [B, 2] int64, half-open ranges of rows that each query is restricted to.

    Returns:
        Hits(ids [B, k] int64, scores [B, k] float32), padded with -1 and -inf.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; k < 1.
        IndexError: on the CPU, a range outside [0, N].

    Example:
        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> scar_gpu.search(torch.tensor([[0.0, 2.0]]), rows, 2)
        Hits(ids=tensor([[2, 1]]), scores=tensor([[1.0000, 0.8000]]))
    """
    if type(k) is not int:
        checks.check_at_least("k", k, 1)
    arguments = (queries, embeddings, k, row_scale, row_ranges)
    try:
        return Hits(*_search(*arguments))
    except Exception as error:
        raise checks.explain(error, checks.search, *arguments) from None


def check_hits(hits: Tensor, n_chunks: int) -> None:
    """Raise IndexError for the first id outside [-1, n_chunks); waits for the device.

    The operations refuse such ids on the CPU by themselves; on a GPU they treat them as padding,
    because looking would stall the stream.

    Args:
        hits: [B, K] int32 or int64.
        n_chunks: N, the number of rows.

    Returns:
        None.

    Raises:
        TypeError: hits is not an integer tensor.
        ValueError: hits is not two-dimensional; n_chunks < 0.
        IndexError: names row, column, value and limit.

    Example:
        >>> import torch, scar_gpu
        >>> scar_gpu.check_hits(torch.tensor([[0, 3]]), 3)
        Traceback (most recent call last):
        IndexError: hits[0, 1] must be -1 or in [0, 3), got 3
    """
    checks.check_tensor("hits", hits, checks.ID_DTYPES, ("B", "K"))
    checks.check_at_least("n_chunks", n_chunks, 0)
    outside = ((hits < -1) | (hits >= n_chunks)).nonzero()
    if outside.shape[0]:
        row, column = outside[0].tolist()
        checks.fail(
            IndexError,
            f"hits[{row}, {column}]",
            f"be -1 or in [0, {n_chunks})",
            int(hits[row, column]),
        )
