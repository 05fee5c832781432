"""SCAR's decision for every chunk of the corpus, and how to read it."""

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.types import CorpusMasks

_corpus_masks = torch.ops.scar_gpu.corpus_masks.default


def corpus_masks(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    *,
    lam: float = 0.1,
    gamma: float = 0.8,
    contiguous: bool = False,
    row_scale: Tensor | None = None,
    return_relevance: bool = False,
) -> CorpusMasks:
    """Decide for every chunk of the corpus which neighbours it would bring in as a hit.

    The mask of `neighbor_scores` with all N rows as hits, a bit each: for evaluation with any
    retriever and any k. No [B, N] matrix is held unless the relevances are asked for. On the CPU
    the bits are those of `neighbor_scores`; on a GPU they may differ where S and its threshold are
    closer than 4 * D * 2^-24 * (1 + |gamma|), and do not when relevances are returned.

    Args:
        queries: [B, D], any supported float dtype and strides; normalised inside.
        embeddings: [N, D], any supported float dtype, last dimension contiguous.
        continuity: [W, N] float32, from `continuity`; its height is the window.
        lam: weight of the continuity penalty, >= 0.
        gamma: share of the hit's relevance that a neighbour must exceed.
        contiguous: let a direction stop at its first refusal.
        row_scale: [N] float32 from `row_scale`. **None means unit rows.**
        return_relevance: also return cos(query, row) of all rows, which takes several times as
            long, since a returned relevance is summed in the fixed order of all operations.

    Returns:
        CorpusMasks(bits [B, 2W, ceil(N / 32)] int32, relevance [B, N] float32 or None): bit c % 32
        of word c // 32 is the decision with row c as the hit; bits beyond row N - 1 are 0.
        `unpack_masks` makes them bools.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; lam negative; lam or gamma not finite.

    Source:
        SCAR, arXiv 2606.16661.

    Example:
        Rows 0 and 1 bring in each other, at offset 1 and at offset -1; row 2 brings in row 1:

        >>> import torch, scar_gpu
        >>> rows = torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]])
        >>> table = scar_gpu.continuity(rows, torch.tensor([0, 3]))
        >>> masks = scar_gpu.corpus_masks(rows[:1], rows, table)
        >>> masks.bits
        tensor([[[6],
                 [1]]], dtype=torch.int32)
        >>> scar_gpu.unpack_masks(masks.bits, 3)
        tensor([[[False,  True,  True],
                 [ True, False, False]]])
    """
    if type(lam) is not float or type(gamma) is not float or type(contiguous) is not bool:
        checks.check_judgement(lam, gamma, contiguous)
    if type(return_relevance) is not bool:
        checks.check_bool("return_relevance", return_relevance)
    arguments = (
        queries,
        embeddings,
        continuity,
        lam,
        gamma,
        contiguous,
        row_scale,
        return_relevance,
    )
    try:
        bits, relevance = _corpus_masks(*arguments)
    except Exception as error:
        raise checks.explain(error, operation_checks.corpus_masks, *arguments) from None
    return CorpusMasks(bits, relevance if return_relevance else None)


def unpack_masks(bits: Tensor, n_chunks: int) -> Tensor:
    """Make bools of the bits of `corpus_masks`.

    Args:
        bits: [..., ceil(N / 32)] int32, bit c % 32 of word c // 32 for row c; a few queries of a
            large corpus at a time, since a bit takes four bytes on the way.
        n_chunks: N, the number of rows.

    Returns:
        [..., N] bool.

    Raises:
        TypeError: bits is not an int32 tensor; n_chunks is not an int.
        ValueError: a number of words other than ceil(N / 32); n_chunks < 0.

    Example:
        >>> import torch, scar_gpu
        >>> scar_gpu.unpack_masks(torch.tensor([5], dtype=torch.int32), 4)
        tensor([ True, False,  True, False])
    """
    checks.check_at_least("n_chunks", n_chunks, 0)
    rank = bits.dim() if isinstance(bits, Tensor) else 1
    shape: tuple[int | str, ...] = (*["..."] * (rank - 1), (n_chunks + 31) // 32)
    checks.check_tensor("bits", bits, (torch.int32,), shape)
    lanes = torch.arange(32, dtype=torch.int32, device=bits.device)
    unpacked = (bits[..., None] >> lanes & 1).bool()
    return unpacked.flatten(-2)[..., :n_chunks].contiguous()
