"""A random chunk matrix with its queries and hits, and the ceiling of the machine's memory."""

from dataclasses import dataclass

import torch
from sizes import Size
from torch import Tensor

import scar_gpu

ROWS_AT_ONCE = 100_000
BATCHES = 4  # of hits that take turns, see `measure.in_turn`


@dataclass
class Corpus:
    """One workload; rows are random unit vectors rounded to the dtype."""

    name: str
    index: scar_gpu.ChunkIndex
    queries: Tensor
    batches: list[Tensor]  # of hits, each for all queries

    @property
    def hits(self) -> Tensor:
        """The first batch."""
        return self.batches[0]

    @classmethod
    def random(cls, size: Size, dtype: torch.dtype, name: str) -> "Corpus":
        generator = torch.Generator().manual_seed(0)
        rows = torch.empty(size.n_chunks, size.dim, dtype=dtype)
        for part in rows.split(ROWS_AT_ONCE):
            values = torch.randn(part.shape, generator=generator)
            part.copy_(torch.nn.functional.normalize(values, dim=1))
        n_docs = -(-size.n_chunks // size.chunks_per_doc)
        offsets = (torch.arange(n_docs + 1) * size.chunks_per_doc).clamp(max=size.n_chunks)
        queries = torch.randn(size.n_queries, size.dim, generator=generator)
        batches = [
            torch.randint(size.n_chunks, (size.n_queries, size.k), generator=generator)
            for _ in range(BATCHES)
        ]
        index = scar_gpu.ChunkIndex.build(rows, offsets, window=size.window)
        return cls(name, index, queries, batches)

    @property
    def matrix_bytes(self) -> int:
        return self.index.embeddings.nbytes

    def read_everything(self) -> Tensor:
        """Read the whole matrix once, the way PyTorch reads fastest: a maximum of integers."""
        return self.index.embeddings.view(torch.int32).max()
