"""What an index computes once from its rows: `row_scale` and `continuity`."""

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks

_row_scale = torch.ops.scar_gpu.row_scale.default
_continuity = torch.ops.scar_gpu.continuity.default


def row_scale(embeddings: Tensor) -> Tensor:
    """Compute 1 / |e_i| of every stored row, the factor that turns dot products into cosines.

    The norm is taken in float64 of the row as stored, so a half-precision matrix loses nothing to
    normalisation.

    Args:
        embeddings: [N, D] float32, float16 or bfloat16, last dimension contiguous.

    Returns:
        [N] float32; 0 for a zero row, whose cosine with anything is then 0.

    Raises:
        TypeError: embeddings is not a tensor of a supported dtype.
        ValueError: embeddings has another rank, or a strided last dimension.

    Example:
        |(3, 4)| = 5:

        >>> import torch, scar_gpu
        >>> scar_gpu.row_scale(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([0.2000, 0.0000])
    """
    try:
        return _row_scale(embeddings)
    except Exception as error:
        raise checks.explain(error, operation_checks.row_scale, embeddings) from None


def continuity(
    embeddings: Tensor, doc_offsets: Tensor, *, window: int = 1, row_scale: Tensor | None = None
) -> Tensor:
    """Compute the cosine of every chunk with the `window` chunks after it in its document.

    continuity[j - 1, i] = cos(e_i, e_{i+j}), clamped to [-1, 1]. Computed once per index, it is
    both SCAR's penalty and its test for the end of a document.

    Args:
        embeddings: [N, D] float32, float16 or bfloat16; chunks of one document are consecutive.
        doc_offsets: [num_docs + 1] int64, non-decreasing from 0 to N: document d owns rows
            doc_offsets[d] up to, not including, doc_offsets[d + 1]. Empty documents are legal.
        window: W >= 0, the largest distance.
        row_scale: [N] float32 from `row_scale`. **None means that the rows have unit length
            already**; rows that do not then give dot products, not cosines.

    Returns:
        [W, N] float32, NaN where i + j lies outside the document of i.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; window < 0; on the CPU, doc_offsets that do not rise
            from 0 to N.

    Example:
        Two documents of two and one chunks, cos((1, 0), (0.6, 0.8)) = 0.6:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> scar_gpu.continuity(rows, torch.tensor([0, 2, 3]))
        tensor([[0.6000,    nan,    nan]])
    """
    if type(window) is not int:
        checks.check_at_least("window", window, 0)
    arguments = (embeddings, doc_offsets, window, row_scale)
    try:
        return _continuity(*arguments)
    except Exception as error:
        raise checks.explain(error, operation_checks.continuity, *arguments) from None
