"""Batches of queries answered, and what there is to say about them in the end."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scar_gpu.cli.given_hits import GivenHits
from scar_gpu.cli.messages import note, progress
from scar_gpu.cli.opened import document_ranges
from scar_gpu.cli.queries import Queries

if TYPE_CHECKING:
    from scar_gpu.text import Retriever


class Answers:
    """Answers batches of queries from one index, and counts."""

    def __init__(
        self,
        retriever: Retriever,
        given: GivenHits | None,
        *,
        with_text: bool,
        options: dict[str, Any],
    ) -> None:
        self._retriever = retriever
        self._given = given
        self._options = options
        chunks = retriever.chunks
        # Own vectors may have named documents and no text.
        self._is_text = chunks is not None and bool(chunks.end.any())
        self._with_text = with_text and self._is_text
        self._ranges: dict[str, tuple[int, int]] | None = None
        self.n_queries = self._n_contexts = self._n_answered = self._n_truncated = 0

    def table(self, batch: Queries) -> Any:
        """The contexts of a batch as a pyarrow table; `query` is the position in the batch."""
        vectors: Any = batch.vectors
        dim = self._retriever.index.dim
        if batch.texts is not None:
            from scar_gpu.text.embedder import count_truncated_queries

            vectors = self._retriever.encode_queries(batch.texts, first=self.n_queries)
            self._n_truncated += count_truncated_queries(self._retriever.embedder, batch.texts)
        elif vectors.shape[1] != dim:
            raise ValueError(
                f"query vectors must have the index's {dim} dimensions, got {vectors.shape[1]}"
            )
        hits = None
        if self._given is not None:
            hits = self._given.take(len(batch), self._retriever.index.n_chunks)
        is_tiled = hits is None and self._retriever.searching().is_tiled
        with progress("rows searched") if is_tiled else nullcontext() as show:
            found = self._retriever.retrieve_table(
                vectors,
                hits,
                texts=batch.texts,
                row_ranges=self._row_ranges(batch),
                with_text=self._with_text,
                progress=show,
                **self._options,
            )
        if not self._is_text:
            found = found.drop_columns(
                [name for name in ("start", "end", "headings") if name in found.column_names]
            )
        self.n_queries += len(batch)
        self._n_contexts += len(found)
        self._n_answered += len(found["query"].unique())
        return found

    def _row_ranges(self, batch: Queries) -> Any:
        if batch.within is None:
            return None
        import torch

        if self._ranges is None:
            self._ranges = document_ranges(self._retriever)
        unknown = [name for name in batch.within if name not in self._ranges]
        if unknown:
            known = ", ".join(repr(name) for name in list(self._ranges)[:5])
            raise ValueError(
                f"within-document must name documents of the index ({known}, ...), "
                f"got {unknown[0]!r} in query {self.n_queries + batch.within.index(unknown[0])}"
            )
        ranges = [self._ranges[name] for name in batch.within]
        return torch.tensor(ranges, dtype=torch.int64).reshape(-1, 2)

    def report(self, output: Path | None, seconds: float) -> None:
        """Say on standard error what was done and what was left out."""
        if self._n_truncated:
            note(
                f"{self._n_truncated:,} of {self.n_queries:,} queries are longer than "
                f"{self._retriever.embedder.name} reads; the rest of each had no influence"
            )
        if self._n_answered < self.n_queries:
            note(f"{self.n_queries - self._n_answered:,} queries have no context")
        if output is not None:
            note(
                f"{output}: {self._n_contexts:,} contexts for {self.n_queries:,} queries "
                f"in {seconds:.1f} s"
            )
