"""Documents to an index: chunks, embeddings, tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypedDict

import torch

from scar_gpu import ChunkIndex
from scar_gpu.text.chunks import ChunkTable, chunk_documents
from scar_gpu.text.documents import Document
from scar_gpu.text.embedder import Embedder, count_truncated, encode_unique

_LOGGER = logging.getLogger(__name__)


class Indexing(TypedDict, total=False):
    """The options of `index_documents` by name."""

    chunk_size: int
    overlap: int
    window: int
    dtype: torch.dtype | None
    device: str | torch.device | None
    progress: Callable[[int, int], None] | None


def index_documents(
    documents: Iterable[Document],
    embedder: Embedder,
    *,
    chunk_size: int = 600,
    overlap: int = 60,
    window: int = 1,
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[ChunkIndex, ChunkTable]:
    """Chunk, embed and index documents: the work of `Retriever.from_documents`.

    Args:
        documents: at least one with text.
        embedder: what embeds the chunks.
        chunk_size: most characters of a chunk, see `split_text`.
        overlap: most characters a chunk repeats of the one before it.
        window: neighbours on each side that the index can judge.
        dtype: of the index's embeddings; default float32.
        device: of the index's tensors; default the CPU.
        progress: called with (texts embedded, texts) after each batch.

    Returns:
        The index and the table of its chunks, row for row. Each chunk is embedded with its
        heading path before its text; how many chunks the model truncates, if any, is logged as
        a warning.

    Raises:
        ValueError: no text, two documents of one id, or a value out of range.
    """
    chunks = chunk_documents(documents, chunk_size, overlap)
    if not len(chunks):
        raise ValueError(
            f"documents must hold some text, got {len(chunks.ids)} documents and no character"
        )
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
    return index, chunks
