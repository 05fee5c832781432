"""Chunks with text for the benchmarks of retrieval: overlapping, some characters not ASCII."""

from dataclasses import dataclass

import numpy as np
import torch
from sizes import Size

from scar_gpu import ChunkIndex
from scar_gpu.text import ChunkTable

CHUNK = 600
STEP = 540


@dataclass(frozen=True)
class TextCorpus:
    """An index with its chunk table, query vectors, and hits near them."""

    index: ChunkIndex
    chunks: ChunkTable
    queries: np.ndarray
    hits: np.ndarray

    @classmethod
    def random(cls, size: Size, k: int) -> "TextCorpus":
        """Documents of random words around random topics; most neighbours are on topic."""
        generator = np.random.default_rng(0)
        per_document = size.chunks_per_doc
        n_docs = size.n_chunks // per_document
        alphabet = np.array(list("etaoinshrdlucmé"))
        words = ["".join(generator.choice(alphabet, n)) for n in generator.integers(2, 10, 3000)]
        length = STEP * (per_document - 1) + CHUNK
        texts = tuple(
            " ".join(words[i] for i in generator.integers(0, len(words), length // 3))[:length]
            for _ in range(n_docs)
        )
        start = np.tile(np.arange(per_document) * STEP, n_docs)
        chunks = ChunkTable(
            ids=tuple(f"document-{i}" for i in range(n_docs)),
            texts=texts,
            document=np.repeat(np.arange(n_docs), per_document),
            start=start,
            end=start + CHUNK,
            path=generator.integers(0, 3, n_docs * per_document).astype(np.int32),
            paths=((), ("1. Model",), ("1. Model", "1.1 Segments")),
        )
        # Topics as long as a few chunks, so that some neighbours are admitted and some refused.
        topics = generator.standard_normal((len(chunks) // 4 + 1, size.dim), dtype=np.float32)
        noise = generator.standard_normal((len(chunks), size.dim), dtype=np.float32)
        rows = np.repeat(topics, 4, axis=0)[: len(chunks)] + noise / 2
        hits = generator.integers(0, len(chunks), (size.n_queries, k))
        queries = rows[hits[:, 0]] + generator.standard_normal(
            (size.n_queries, size.dim), dtype=np.float32
        )
        index = ChunkIndex.build(torch.from_numpy(rows), chunks.doc_offsets, window=size.window)
        return cls(index, chunks, queries, hits)
