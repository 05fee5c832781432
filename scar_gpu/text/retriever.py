"""Text in, contexts out: search, expand each hit, and assemble the text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import torch

from scar_gpu import ChunkIndex
from scar_gpu.text.chunks import ChunkTable, chunk_documents
from scar_gpu.text.context import Context, assemble
from scar_gpu.text.documents import Document
from scar_gpu.text.embedder import (
    Embedder,
    count_truncated,
    encode_queries,
    encode_unique,
)
from scar_gpu.text.sentence_transformer import SentenceTransformerEmbedder

_LOGGER = logging.getLogger(__name__)

Method = Literal["scar", "window", "none"]


class Retriever:
    r"""Answers text queries with contexts from an index of chunks.

    Args:
        index: the chunks' embeddings.
        chunks: the chunks' texts, row for row.
        embedder: the model that made the embeddings.

    Raises:
        ValueError: index, chunks and embedder do not belong together.

    Example:
        >>> documents = [Document("pets", "Cats purr.\n\nDogs bark.")]  # doctest: +SKIP
        >>> retriever = Retriever.from_documents(documents)  # doctest: +SKIP
        >>> retriever.retrieve("which animal barks?", k=1)[0][0].text  # doctest: +SKIP
        'Cats purr.\n\nDogs bark.'
    """

    def __init__(self, index: ChunkIndex, chunks: ChunkTable, embedder: Embedder) -> None:
        if index.n_chunks != len(chunks):
            raise ValueError(
                f"chunks must have one row per chunk of the index ({index.n_chunks}), "
                f"got {len(chunks)}"
            )
        if index.dim != embedder.dim:
            raise ValueError(
                f"embedder must make vectors of the index's dimension ({index.dim}), "
                f"got {embedder.dim} from {embedder.name}"
            )
        if index.doc_offsets.tolist() != chunks.doc_offsets.tolist():
            raise ValueError("chunks must have the documents of the index, got other boundaries")
        self.index = index
        self.chunks = chunks
        self.embedder = embedder

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedder: Embedder | None = None,
        *,
        chunk_size: int = 600,
        overlap: int = 60,
        window: int = 1,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Retriever:
        """Chunk, embed and index documents.

        Args:
            documents: at least one with text.
            embedder: default `SentenceTransformerEmbedder()`.
            chunk_size: most characters of a chunk, see `split_text`.
            overlap: most characters a chunk repeats of the one before it.
            window: neighbours on each side that the index can judge.
            dtype: of the index's embeddings; default float32.
            device: of the index's tensors; default the CPU.
            progress: called with (texts embedded, texts) after each batch.

        Returns:
            The retriever. Each chunk is embedded with its heading path before its text;
            how many chunks the model truncates, if any, is logged as a warning.

        Raises:
            ValueError: no text, two documents of one id, or a value out of range.
        """
        chunks = chunk_documents(documents, chunk_size, overlap)
        if not len(chunks):
            raise ValueError(
                f"documents must hold some text, got {len(chunks.ids)} documents and no character"
            )
        embedder = embedder or SentenceTransformerEmbedder()
        texts = [chunks.embedding_text(row) for row in range(len(chunks))]
        truncated = count_truncated(embedder, texts)
        if truncated:
            _LOGGER.warning(
                "%d of %d chunks are longer than %s reads; the rest of them is not searchable",
                truncated,
                len(texts),
                embedder.name,
            )
        embeddings = encode_unique(embedder, texts, progress=progress)
        index = ChunkIndex.build(
            embeddings, chunks.doc_offsets, window=window, dtype=dtype, device=device
        )
        return cls(index, chunks, embedder)

    def encode_queries(self, queries: str | Sequence[str]) -> torch.Tensor:
        """Embed queries: [B, D] float32 on the index's device.

        Raises:
            TypeError: a query is no string.
            ValueError: a query is empty or all white space.
        """
        texts = [queries] if isinstance(queries, str) else list(queries)
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"queries must be str, got {type(text).__name__} at position {i}")
            if not text.strip():
                raise ValueError(f"queries must not be empty, got {text!r} at position {i}")
        vectors = torch.from_numpy(encode_queries(self.embedder, texts))
        return vectors.to(self.index.embeddings.device)

    def retrieve(
        self,
        queries: str | Sequence[str],
        k: int = 5,
        method: Method = "scar",
        *,
        window: int | None = None,
        lam: float = 0.1,
        gamma: float = 0.8,
        order: Literal["rank", "document"] = "rank",
    ) -> list[list[Context]]:
        """Retrieve contexts.

        Args:
            queries: one text or several.
            k: hits per query; contexts are fewer where hits are neighbours, and hold more
                chunks where neighbours are admitted.
            method: `"scar"` adds the neighbours that SCAR admits, `"window"` all of them,
                `"none"` none.
            window: how far a neighbour may be; default: the index's window.
            lam: SCAR's penalty for a neighbour unlike its hit, see `scar_gpu.neighbor_scores`.
            gamma: the share of its hit's relevance that a neighbour must exceed.
            order: `"rank"`: best hit first; `"document"`: reading order.

        Returns:
            One list of contexts per query.

        Raises:
            TypeError: a query is no string.
            ValueError: an empty query, an unknown method, or a value out of range.
        """
        if method not in get_args(Method):
            raise ValueError(f"method must be scar, window or none, got {method!r}")
        vectors = self.encode_queries(queries)
        hits = self.index.search(vectors, k)
        reach = self.index.window if window is None else window
        if method == "scar":
            expansion = self.index.scar_expand(
                vectors,
                hits.ids,
                lam=lam,
                gamma=gamma,
                window=reach,
                relevance=hits.scores,
                order=order,
            )
        else:
            reach = 0 if method == "none" else reach
            expansion = self.index.window_expand(hits.ids, before=reach, after=reach, order=order)
        return assemble(hits, expansion, self.index.spans(expansion), self.chunks)
