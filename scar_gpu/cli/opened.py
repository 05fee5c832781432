"""An index opened for queries in words or for query vectors."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from scar_gpu.text import ChunkTable, Retriever


def open_with_model(
    path: Path,
    model: str | None = None,
    *,
    device: torch.device | None = None,
    prompt: str | None = None,
    needs_lexical: bool = False,
    memory_budget: int | None = None,
) -> Retriever:
    """Open an index to ask it questions in words.

    Args:
        path: the index.
        model: where its model is now; default: as recorded in it.
        device: for the index and the model.
        prompt: put before every question; default: as recorded.
        needs_lexical: for hybrid retrieval.
        memory_budget: bytes; a larger matrix stays on disk and is searched by tiles.

    Raises:
        IndexFormatError: no index, or a damaged one.
        ValueError: an index of own vectors and no model for them, or another model than the
            one that made it; one without lexical lists where they are needed.
    """
    from scar_gpu.storage import open_index
    from scar_gpu.text import Retriever
    from scar_gpu.text.extras import import_extra
    from scar_gpu.text.models import embedder_of, load_embedder

    stored = open_index(path)
    if needs_lexical:
        import_extra("bm25s", "hybrid")
        if stored.lexical is None:
            raise ValueError(f"hybrid must come with an index built with --lexical, got {path}")
    name = None if device is None else str(device)
    if stored.embedder is not None:
        embedder = embedder_of(stored.embedder, model, device=name, query_prompt=prompt)
    elif model is not None:
        # Own vectors: only their owner knows which model fits; the dimension is checked.
        embedder = load_embedder(model, device=name, query_prompt=prompt)
    else:
        raise ValueError(
            f"model must be given for questions in words to an index of own vectors, got {path} "
            "and no --model; query vectors need none"
        )
    return Retriever.from_stored(stored, embedder, device, memory_budget=memory_budget)


def open_without_model(
    path: Path, *, device: torch.device | None = None, memory_budget: int | None = None
) -> Retriever:
    """Open an index for query vectors."""
    from scar_gpu.text import Retriever

    return Retriever.from_index(path, device=device, memory_budget=memory_budget)


def table_with_text(retriever: Retriever) -> ChunkTable:
    """The chunks of an index with text.

    Raises:
        ValueError: an index without.
    """
    if retriever.chunks is None or not retriever.chunks.end.any():
        raise ValueError("index must hold text for this, got one of vectors alone")
    return retriever.chunks


def document_ranges(retriever: Retriever) -> dict[str, tuple[int, int]]:
    """The rows of each document, by its id.

    Raises:
        ValueError: an index whose documents have no ids.
    """
    if retriever.chunks is None:
        raise ValueError("within-document must be used with an index that knows its documents' ids")
    offsets = retriever.chunks.doc_offsets.tolist()
    return dict(zip(retriever.chunks.ids, pairwise(offsets), strict=True))
