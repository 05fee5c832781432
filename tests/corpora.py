"""Inputs: corpora with exact arithmetic, random corpora, and the layouts a caller may pass.

Level rows: level i is a row of 16 ones whose first i signs are flipped, so that
cos(level i, level j) = 1 - |i - j| / 8 exactly, the norm is 4 and every product is exact in
float32, float16 and bfloat16. Level None is the zero row; a level that is a float (NaN, infinity)
fills the row.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LEVEL_DIM = 16
ROW_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
EXACT_DIMS = (4, 64, 256)  # rows of +-1 have the norms 2, 8, 16; cosines are multiples of 1 / dim


class Corpus(NamedTuple):
    """The tensors of an index, made by the reference."""

    embeddings: Tensor
    doc_offsets: Tensor
    row_scale: Tensor
    continuity: Tensor


def level_rows(levels: Sequence[float | None], dtype: torch.dtype = torch.float32) -> Tensor:
    rows = torch.ones(len(levels), LEVEL_DIM, dtype=dtype)
    for row, level in zip(rows, levels, strict=True):
        if level is None or isinstance(level, float):
            row.fill_(level or 0)
        else:
            row[:level] = -1
    return rows


def offsets(*lengths: int) -> Tensor:
    """doc_offsets of documents with these numbers of chunks."""
    return torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0)


def corpus(embeddings: Tensor, doc_offsets: Tensor, window: int = 1) -> Corpus:
    from scar_gpu import reference

    scale = reference.row_scale(embeddings).float()
    table = reference.continuity(embeddings, doc_offsets, window=window, row_scale=scale)
    return Corpus(embeddings, doc_offsets, scale, table.float())


def level_corpus(*documents: Sequence[float | None], window: int = 1) -> Corpus:
    levels = [level for document in documents for level in document]
    return corpus(level_rows(levels), offsets(*map(len, documents)), window)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_offsets(n: int, generator: torch.Generator) -> Tensor:
    """Documents of 0 to 9 chunks, empty and one-chunk ones among them."""
    lengths, left = [0], n
    while left:
        lengths.append(min(left, int(torch.randint(0, 10, (), generator=generator))))
        left -= lengths[-1]
    return offsets(*lengths, 0)


def random_corpus(
    n: int, dim: int, *, window: int = 1, dtype: torch.dtype = torch.float32, seed: int = 0
) -> Corpus:
    """Rows like their neighbours, of many norms; a zero row and a repeated row if n > 5."""
    generator = seeded(seed)
    rows = torch.randn(n, dim, generator=generator)
    for i in range(1, n):
        rows[i] = 0.8 * rows[i - 1] + 0.6 * rows[i]
    rows *= 2.0 ** torch.randint(-3, 4, (n, 1), generator=generator)
    if n > 5:
        rows[3] = 0
        rows[5] = rows[4]
    return corpus(rows.to(dtype), random_offsets(n, generator), window)


def sign_corpus(n: int, dim: int, *, window: int = 1, seed: int = 0) -> Corpus:
    """Rows of +-1, each the one before with a quarter of the signs drawn anew: many exact ties."""
    generator = seeded(seed)
    rows = torch.randint(0, 2, (n, dim), generator=generator) * 2.0 - 1
    redrawn = torch.rand(n, dim, generator=generator) < 0.25
    for i in range(1, n):
        rows[i] = torch.where(redrawn[i], rows[i], rows[i - 1])
    return corpus(rows, random_offsets(n, generator), window)


def random_queries(embeddings: Tensor, count: int, *, seed: int = 1) -> Tensor:
    """float32 queries near rows of the matrix (anywhere when it has none), of norms up to 4."""
    generator = seeded(seed)
    n, dim = embeddings.shape
    noise = torch.randn(count, dim, generator=generator)
    if n == 0:
        return noise
    rows = embeddings[torch.randint(0, n, (count,), generator=generator)].float()
    rows /= rows.norm(dim=1, keepdim=True).clamp(min=1e-6)
    return 2.0 ** torch.randint(-2, 3, (count, 1), generator=generator) * (rows + noise / dim**0.5)


def random_hits(n: int, count: int, k: int, *, seed: int = 2) -> Tensor:
    """int64 hits with a tenth of them padding; repeats when k > n."""
    generator = seeded(seed)
    if n == 0 or k == 0:
        return torch.full((count, k), -1)
    rounds = -(-k // n)
    orders = [
        torch.cat([torch.randperm(n, generator=generator) for _ in range(rounds)])[:k]
        for _ in range(count)
    ]
    hits = torch.stack(orders) if orders else torch.empty(0, k, dtype=torch.int64)
    return hits.masked_fill(torch.rand(count, k, generator=generator) < 0.1, -1)


def random_question(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """The tensors of neighbor_scores over a random corpus, and its scale; shape: B, K, W, N, D."""
    b, k, window, n, dim = shape
    data = random_corpus(n, dim, window=window, dtype=dtype)
    args = (
        random_queries(data.embeddings, b),
        data.embeddings,
        data.continuity,
        random_hits(n, b, k),
    )
    return args, {"row_scale": data.row_scale}


def _wider(tensor: Tensor) -> Tensor:
    """The same values with a row stride of three elements more."""
    wide = tensor.new_zeros(*tensor.shape[:-1], tensor.shape[-1] + 3)
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


def _offset(tensor: Tensor) -> Tensor:
    """The same values one element into their storage, so that nothing is aligned."""
    storage = tensor.new_zeros(tensor.numel() + 1)
    storage[1:] = tensor.reshape(-1)
    return storage[1:].view(tensor.shape)


def _every_other_row(tensor: Tensor) -> Tensor:
    return tensor.repeat_interleave(2, dim=0)[::2]


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.movedim(-1, 0).contiguous().movedim(0, -1)


def _every_other_column(tensor: Tensor) -> Tensor:
    return tensor.repeat_interleave(2, dim=-1)[..., ::2]


# Layouts of a matrix whose last dimension is contiguous, and those any other tensor may have too.
ROW_LAYOUTS = {"wider": _wider, "offset": _offset, "every-other-row": _every_other_row}
LAYOUTS = ROW_LAYOUTS | {"transposed": _transposed, "every-other-column": _every_other_column}


def row_too_short_for_a_product(dim):
    """(row, query): the terms of their product are 1 and 1.5 times the least float32, in turn.

    In order, every second one is lost: 1 + 1.5 = 2.5 rounds to 2, 1 more is 3, 4.5 rounds to 4. In
    lanes of an even stride those of 1.5 meet each other, and gain as much as they lose here.
    """
    least = 2.0**-149
    row = torch.tensor([16 * least, 24 * least]).repeat(dim // 2)
    row[0] = 2.0**-127  # the length, without which there would be no scale
    query = torch.full((dim,), 2.0**-4)
    query[0] = 0
    return row, query


def row_too_long_for_a_product(dim):
    """(row, query) of a small cosine: in order, the sum of their product overflows halfway."""
    row, query = torch.zeros(dim), torch.zeros(dim)
    half = dim // 2
    row[:3], row[half : half + 3], row[5] = -3e38, 3e38, 3e38
    query[:3], query[half : half + 3], query[5] = 0.7, 0.7, 0.9
    return row, query
