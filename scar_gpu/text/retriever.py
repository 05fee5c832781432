"""Text in, contexts out: search, expand each hit, and assemble the text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor

from scar_gpu import ChunkIndex
from scar_gpu.text.chunks import ChunkTable
from scar_gpu.text.context import Context
from scar_gpu.text.documents import Document, half_character
from scar_gpu.text.embedder import Embedder, encode_queries
from scar_gpu.text.extras import import_extra
from scar_gpu.text.indexing import Indexing, index_documents
from scar_gpu.text.lexical import LexicalIndex
from scar_gpu.text.models import check_embedder, embedder_of, embedder_record
from scar_gpu.text.retrieval import check_lexical
from scar_gpu.text.searching import on_device
from scar_gpu.text.sentence_transformer import SentenceTransformerEmbedder
from scar_gpu.text.settings import Method, Options, Order, Settings
from scar_gpu.text.vector_retriever import VectorRetriever
from scar_gpu.tile_size import check_budget

if TYPE_CHECKING:
    from scar_gpu.storage import StoredIndex


class Retriever(VectorRetriever):
    r"""Answers text queries, or vectors, with contexts from an index of chunks.

    Args:
        index: the chunks' embeddings.
        chunks: the chunks' texts, row for row; None answers with row numbers alone.
        embedder: the model that made the embeddings; None takes vectors alone.
        lexical: the chunks' words, row for row, for hybrid retrieval.
        memory_budget, device: as for `VectorRetriever`.

    Raises:
        TypeError: memory_budget is no int.
        ValueError: index, chunks, embedder and lexical do not belong together; memory_budget < 1.

    Example:
        >>> documents = [Document("pets", "Cats purr.\n\nDogs bark.")]  # doctest: +SKIP
        >>> retriever = Retriever.from_documents(documents)  # doctest: +SKIP
        >>> retriever.retrieve("which animal barks?", k=1)[0][0].text  # doctest: +SKIP
        'Cats purr.\n\nDogs bark.'
    """

    def __init__(
        self,
        index: ChunkIndex,
        chunks: ChunkTable | None = None,
        embedder: Embedder | None = None,
        lexical: LexicalIndex | None = None,
        *,
        memory_budget: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(index, chunks, lexical, memory_budget=memory_budget, device=device)
        if embedder is not None and index.dim != embedder.dim:
            raise ValueError(
                f"embedder must make vectors of the index's dimension ({index.dim}), "
                f"got {embedder.dim} from {embedder.name}"
            )
        self._embedder = embedder
        self._device: str | None = None

    @property
    def embedder(self) -> Embedder:
        """What embeds queries: as given, else the model that the saved index names.

        Raises:
            ValueError: there is none.
        """
        if self._embedder is None:
            record = None if self._stored is None else self._stored.embedder
            if record is None:
                raise ValueError("embedder must be given for queries in words, got none")
            self._embedder = embedder_of(record, device=self._device)
        return self._embedder

    @classmethod
    def from_index(
        cls,
        path: str | os.PathLike[str],
        embedder: Embedder | None = None,
        device: torch.device | str | None = None,
        *,
        memory_budget: int | None = None,
    ) -> Retriever:
        """Open a saved index: its matrix stays on disk, its texts until they are needed.

        Args:
            path: the folder, see `scar_gpu.storage.open_index`.
            embedder: the model that made the index; default: the one its manifest names, loaded
                at the first query in words.
            device: of the index's tensors and of that model; default: the CPU, and the model's
                own choice. A matrix that exceeds the budget stays on disk, and the device
                searches it tile by tile.
            memory_budget: bytes, see `scar_gpu.text.searching.Search`; default: three
                quarters of the memory of the device.

        Raises:
            scar_gpu.storage.IndexFormatError: no index, or a damaged one.
            TypeError: memory_budget is no int.
            ValueError: another model than the one that made the index; both are named;
                memory_budget < 1.
        """
        from scar_gpu.storage import open_index

        return cls.from_stored(open_index(path), embedder, device, memory_budget=memory_budget)

    @classmethod
    def from_stored(
        cls,
        stored: StoredIndex,
        embedder: Embedder | None = None,
        device: torch.device | str | None = None,
        *,
        memory_budget: int | None = None,
    ) -> Retriever:
        """The same for an index that `scar_gpu.storage.open_index` has opened.

        Args:
            stored: the index.
            embedder: as for `from_index`.
            device: the same; default: where the index is, and the model's own choice.
            memory_budget: the same.

        Raises:
            As `from_index`.
        """
        if embedder is not None and stored.embedder is not None:
            check_embedder(stored.embedder, embedder)
        check_budget(memory_budget)
        index = on_device(stored.index, device, memory_budget)
        retriever = cls(index, stored.chunks, embedder, memory_budget=memory_budget, device=device)
        retriever._stored = stored
        retriever._device = None if device is None else str(device)
        return retriever

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write index, texts, words and the model's name to a folder, whole or not at all.

        Raises:
            OSError: the path is taken, or the disk full, see `scar_gpu.storage.save_index`.
        """
        from scar_gpu.storage import save_index

        record = None if self._stored is None else self._stored.embedder
        if self._embedder is not None:
            record = embedder_record(self._embedder)
        save_index(
            path,
            self.index,
            chunks=self.chunks,
            lexical=self.lexical,
            embedder=record,
            overwrite=overwrite,
        )

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedder: Embedder | None = None,
        *,
        lexical: bool = False,
        **indexing: Unpack[Indexing],
    ) -> Retriever:
        """Chunk, embed and index documents.

        Args:
            documents: at least one with text.
            embedder: default `SentenceTransformerEmbedder()`.
            lexical: index the words too, for hybrid retrieval; needs `scar_gpu[hybrid]`.
            indexing: chunk_size, overlap, window, dtype, device, progress; see
                `scar_gpu.text.indexing.index_documents`.

        Returns:
            The retriever.

        Raises:
            ImportError: bm25s is missing; `scar_gpu[hybrid]` brings it.
            ValueError: no text, two documents of one id, or a value out of range.
        """
        if lexical:
            import_extra("bm25s", "hybrid")  # before the documents are embedded
        embedder = embedder or SentenceTransformerEmbedder()
        index, chunks = index_documents(documents, embedder, **indexing)
        words = LexicalIndex.of_chunks(chunks) if lexical else None
        return cls(index, chunks, embedder, words)

    def encode_queries(self, queries: str | Sequence[str], *, first: int = 0) -> Tensor:
        """Embed queries: [B, D] float32 on the index's device.

        Args:
            queries: one text or several.
            first: the position of the first among all queries, for messages.

        Raises:
            TypeError: a query is no string.
            ValueError: a query is empty or all white space, or holds half a surrogate pair.
        """
        texts = [queries] if isinstance(queries, str) else list(queries)
        for i, text in enumerate(texts, first):
            if not isinstance(text, str):
                raise TypeError(f"queries must be str, got {type(text).__name__} at position {i}")
            if not text.strip():
                raise ValueError(f"queries must not be empty, got {text!r} at position {i}")
            if found := half_character(text):
                raise ValueError(f"queries must be valid Unicode, got {found} of position {i}")
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
        order: Order = "rank",
        hybrid: bool = False,
        pool: int | None = None,
        weights: Sequence[float] | None = None,
        rrf_k: float = 60.0,
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
            hybrid: find hits by their words (BM25) as well as by their vectors, and fuse both by
                reciprocal rank. A hit's score, and what its neighbours are judged by, is its
                cosine all the same.
            pool: hits of either kind that are fused; default: 50, or k if that is more.
            weights: of the hits by vectors and of those by words; default 1 and 1.
            rrf_k: the k of `scar_gpu.rank_fusion`.

        Returns:
            One list of contexts per query.

        Raises:
            TypeError: a query is no string.
            ValueError: an empty query, an unknown method, or a value out of range; hybrid asked
                of an index without lexical lists.
            ImportError: hybrid without bm25s; `scar_gpu[hybrid]` brings it.
        """
        options = Options(
            k=k,
            method=method,
            window=window,
            lam=lam,
            gamma=gamma,
            order=order,
            hybrid=hybrid,
            pool=pool,
            weights=weights,
            rrf_k=rrf_k,
        )
        self._check(options)
        texts = [queries] if isinstance(queries, str) else list(queries)
        return self.retrieve_vectors(self.encode_queries(texts), texts=texts, **options)

    def retrieve_batches(
        self, queries: Iterable[str], batch_size: int = 256, **options: Unpack[Options]
    ) -> Iterator[list[Context]]:
        """Retrieve contexts for any number of queries, one batch of them in memory at a time.

        Args:
            queries: texts, from a list, a file, a generator; read as they are needed.
            batch_size: how many are embedded and searched for together.
            options: as for `retrieve`.

        Yields:
            One list of contexts per query, in order.

        Raises:
            TypeError, ValueError: as `retrieve`, when the batch is reached; the position of a
                bad query counts from the first of all.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {batch_size}")
        if isinstance(queries, str):
            raise TypeError("queries must be an iterable of str, got one str")
        self._check(options)
        return self._batches(iter(queries), batch_size, options)

    def _check(self, options: Options) -> None:
        """Refuse what can be refused before the model is loaded."""
        if Settings(**options).hybrid:
            check_lexical(self.lexical)

    def _batches(
        self, queries: Iterator[str], batch_size: int, options: Options
    ) -> Iterator[list[Context]]:
        done = 0
        while batch := list(islice(queries, batch_size)):
            vectors = self.encode_queries(batch, first=done)
            yield from self.retrieve_vectors(vectors, texts=batch, **options)
            done += len(batch)
