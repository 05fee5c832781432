"""Query vectors in, contexts out: as objects, or as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from torch import Tensor

from scar_gpu import ChunkIndex
from scar_gpu.text.chunks import ChunkTable
from scar_gpu.text.context import Context, assemble
from scar_gpu.text.context_table import ContextTables
from scar_gpu.text.lexical import LexicalIndex
from scar_gpu.text.retrieval import Asked, Found, as_tensor, find
from scar_gpu.text.searching import Progress, Search
from scar_gpu.text.settings import Options, Settings
from scar_gpu.tile_size import check_budget

if TYPE_CHECKING:
    from scar_gpu.storage import StoredIndex


class VectorRetriever:
    """Answers query vectors from an index of chunks; `Retriever` adds queries in words.

    Args:
        index: the chunks' embeddings.
        chunks: the chunks' texts, row for row; None answers with row numbers alone.
        lexical: the chunks' words, row for row, for hybrid retrieval.
        memory_budget: bytes; a matrix that exceeds them is searched by tiles, with the same
            results, see `scar_gpu.text.searching.Search`. Default: three quarters of the
            memory.
        device: what searches those tiles; default: the index's own.

    Raises:
        TypeError: memory_budget is no int.
        ValueError: index, chunks and lexical do not belong together; memory_budget < 1.

    Example:
        See `Retriever`.
    """

    def __init__(
        self,
        index: ChunkIndex,
        chunks: ChunkTable | None = None,
        lexical: LexicalIndex | None = None,
        *,
        memory_budget: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        check_budget(memory_budget)
        if chunks is not None:
            if index.n_chunks != len(chunks):
                raise ValueError(
                    f"chunks must have one row per chunk of the index ({index.n_chunks}), "
                    f"got {len(chunks)}"
                )
            if not np.array_equal(index.doc_offsets.cpu().numpy(), chunks.doc_offsets):
                raise ValueError(
                    "chunks must have the documents of the index, got other boundaries"
                )
        if lexical is not None and lexical.n_rows != index.n_chunks:
            raise ValueError(
                f"lexical must have one row per chunk of the index ({index.n_chunks}), "
                f"got {lexical.n_rows}"
            )
        self.index = index
        self.chunks = chunks
        self.memory_budget = memory_budget
        self._search_device = None if device is None else torch.device(device)
        self._lexical = lexical
        self._stored: StoredIndex | None = None
        self._tables = ContextTables(chunks)

    @property
    def lexical(self) -> LexicalIndex | None:
        """The words of the chunks, None where hybrid retrieval is not possible.

        Those of a saved index are read when they are first asked for.
        """
        if self._lexical is None and self._stored is not None:
            self._lexical = self._stored.lexical
        return self._lexical

    def searching(self, progress: Progress | None = None) -> Search:
        """How the index is searched: `is_tiled` says whether by tiles, and `progress` after each.

        Args:
            progress: called after every tile with the rows searched so far, and all rows.
        """
        return Search(self.index, self.memory_budget, self._search_device, progress)

    def retrieve_vectors(
        self,
        vectors: Tensor | np.ndarray,
        hits: Tensor | np.ndarray | None = None,
        *,
        texts: Sequence[str] | None = None,
        row_ranges: Tensor | np.ndarray | None = None,
        with_text: bool = True,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> list[list[Context]]:
        """Retrieve contexts for query vectors, and for hits of another retriever.

        Args:
            vectors: [B, D] queries.
            hits: [B, K] int32 or int64 rows of the index, best first, padded with -1; None
                searches.
            texts: [B] the queries in words, for hybrid retrieval.
            row_ranges: [B, 2] int64, the half-open range of rows that each search is restricted
                to.
            with_text: False reads no text and leaves it empty.
            progress: of a search by tiles, called after each with the rows searched so far, and
                all rows.
            options: as for `retrieve`.

        Returns:
            One list of contexts per query.

        Raises:
            TypeError, IndexError: as the operations of `scar_gpu`.
            ValueError: the same, and text asked of an index without.
        """
        search = self.searching(progress)
        found = self._find(search, vectors, hits, texts, row_ranges, with_text, options)
        return assemble(*found, self.chunks, with_text=with_text)

    def retrieve_table(
        self,
        vectors: Tensor | np.ndarray,
        hits: Tensor | np.ndarray | None = None,
        *,
        texts: Sequence[str] | None = None,
        row_ranges: Tensor | np.ndarray | None = None,
        with_text: bool = True,
        query_ids: Sequence[Any] | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """The same as a `pyarrow.Table`, one row per context and several times as fast.

        Args:
            vectors: as for `retrieve_vectors`.
            hits: the same.
            texts: the same.
            row_ranges: the same.
            with_text: False reads no text; the table has no such column.
            query_ids: [B] what the column `query` holds; default: 0, 1, ...
            progress: as for `retrieve_vectors`.
            options: as for `retrieve`.

        Returns:
            The table of `ContextTables.table`; `scar_gpu.text.json_lines` writes it as JSON.

        Raises:
            As `retrieve_vectors`; ImportError: pyarrow is missing, `scar_gpu[io]` brings it.
        """
        search = self.searching(progress)
        found = self._find(search, vectors, hits, texts, row_ranges, with_text, options)
        return self._tables.table(found, with_text=with_text, query_ids=query_ids)

    def _find(
        self,
        search: Search,
        vectors: Any,
        hits: Any,
        texts: Sequence[str] | None,
        row_ranges: Any,
        with_text: bool,
        options: Options,
    ) -> Found:
        device = self.index.embeddings.device
        if with_text and self.chunks is None:
            raise ValueError("with_text must be False for an index without text, got True")
        settings = Settings(**options)
        asked = Asked(
            as_tensor("vectors", vectors, device),
            texts,
            None if hits is None else as_tensor("hits", hits, device),
            None if row_ranges is None else as_tensor("row_ranges", row_ranges, device),
        )
        return find(search, self.lexical if settings.hybrid else None, asked, settings)
