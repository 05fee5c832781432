"""A dataset chunked, embedded and indexed: what every method answers the same questions from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from scar_gpu import ChunkIndex
from scar_gpu.evaluation.datasets import Dataset
from scar_gpu.evaluation.gold import Gold, gold_of, row_ranges_of
from scar_gpu.evaluation.metrics import Sizes, sizes_of
from scar_gpu.text.chunks import ChunkTable, chunk_documents
from scar_gpu.text.embedder import Embedder, encode_queries, encode_unique
from scar_gpu.text.embedding_cache import CachedEmbedder
from scar_gpu.text.lexical import LexicalIndex

Scope = Literal["document", "corpus"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Settings:
    """How a dataset is chunked, embedded and searched.

    Attributes:
        chunk_size, overlap: see `scar_gpu.text.split_text`.
        headings: put the heading path before the text that is embedded.
        window: the furthest neighbour any method may judge.
        scope: `"document"`: search the document a question is asked about; `"corpus"`: all.

    Raises:
        ValueError: an unknown scope, or window < 0.
    """

    chunk_size: int = 600
    overlap: int = 60
    headings: bool = True
    window: int = 2
    scope: Scope = "document"

    def __post_init__(self) -> None:
        if self.scope not in get_args(Scope):
            raise ValueError(f"scope must be document or corpus, got {self.scope!r}")
        if self.window < 0:
            raise ValueError(f"window must be >= 0, got {self.window}")


@dataclass(frozen=True, eq=False)
class Trial:
    """The questions of a dataset over one index.

    Attributes:
        dataset, settings: as given.
        chunks: the rows' texts.
        index: the rows' vectors.
        queries: [Q, D] the questions' vectors.
        gold: the evidence in rows.
        sizes: of the rows.
        row_ranges: [Q, 2] the rows each question is answered from; None for all.
        model: the embedder's name.
        lexical_lists: what `lexical_hits` has found, by depth.
    """

    dataset: Dataset
    settings: Settings
    chunks: ChunkTable
    index: ChunkIndex
    queries: Tensor
    gold: Gold
    sizes: Sizes
    row_ranges: Tensor | None
    model: str
    lexical_lists: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def questions(self) -> list[str]:
        """The questions' texts."""
        return [question.text for question in self.dataset.questions]

    @cached_property
    def available(self) -> Tensor:
        """How many rows each question may be answered from: [Q] int64."""
        if self.row_ranges is None:
            return torch.full((len(self.queries),), self.index.n_chunks)
        return self.row_ranges[:, 1] - self.row_ranges[:, 0]

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The words of the texts that are embedded, as `build --lexical` keeps them."""
        if self.settings.headings:
            return LexicalIndex.of_chunks(self.chunks)
        return LexicalIndex.build([self.chunks.text(row) for row in range(len(self.chunks))])

    def lexical_hits(self, depth: int) -> Tensor:
        """The best rows by BM25 of those a question may be answered from: [Q, depth]."""
        if depth not in self.lexical_lists:
            found = self.lexical.search(self.questions, depth, row_ranges=self.row_ranges)
            self.lexical_lists[depth] = found.ids
        return self.lexical_lists[depth]

    def of(self, positions: list[int]) -> Trial:
        """The same corpus with some of the questions, by their positions."""
        if positions == list(range(len(self.queries))):
            return self  # with what it has found already
        some = torch.tensor(positions, dtype=torch.int64)
        chosen = replace(
            self,
            dataset=replace(
                self.dataset, questions=tuple(self.dataset.questions[q] for q in positions)
            ),
            queries=self.queries[some],
            gold=Gold(
                self.gold.ranges[some],
                self.gold.weights[some],
                tuple(self.gold.kinds[q] for q in positions),
            ),
            row_ranges=None if self.row_ranges is None else self.row_ranges[some],
        )
        chosen.lexical_lists.update({k: ids[some] for k, ids in self.lexical_lists.items()})
        if "lexical" in self.__dict__:
            chosen.__dict__["lexical"] = self.lexical
        return chosen


def prepare(
    dataset: Dataset,
    embedder: Embedder,
    settings: Settings = Settings(),
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Trial:
    """Chunk, embed and index a dataset.

    Args:
        dataset: documents and questions.
        embedder: what embeds both.
        settings: see `Settings`.
        cache: a folder that keeps vectors by model and text, so that the next run embeds nothing.
        progress: called with (chunks embedded, chunks).

    Returns:
        The trial.

    Raises:
        ValueError: documents without text; a question that names no document, for the scope
            `"document"`.

    Example:
        >>> trial = prepare(read_dataset("my_corpus"), embedder)  # doctest: +SKIP
        >>> TopK(5).select(trial)  # doctest: +SKIP
    """
    chunks = chunk_documents(dataset.documents, settings.chunk_size, settings.overlap)
    if not len(chunks):
        raise ValueError(f"documents of {dataset.name} must hold some text, got none")
    is_within = settings.scope == "document"
    row_ranges = row_ranges_of(dataset.questions, chunks) if is_within else None
    gold = gold_of(dataset, chunks)
    rows = range(len(chunks))
    texts = [chunks.embedding_text(r) if settings.headings else chunks.text(r) for r in rows]
    passages = embedder if cache is None else CachedEmbedder(embedder, cache)
    vectors = encode_unique(passages, texts, batch_size=128, progress=progress)
    asked: Embedder = _Questions(embedder)
    if cache is not None:
        asked = CachedEmbedder(asked, cache, "questions")
    queries = encode_unique(asked, [question.text for question in dataset.questions])
    return Trial(
        dataset,
        settings,
        chunks,
        ChunkIndex.build(vectors, chunks.doc_offsets, window=settings.window),
        torch.from_numpy(queries),
        gold,
        sizes_of(chunks),
        row_ranges,
        embedder.name,
    )


class _Questions:
    """An embedder of questions in the form of one of passages, so that they can be cached."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name, self.dim = embedder.name, embedder.dim
        self.content_hash = embedder.content_hash
        self.passage_prompt = getattr(embedder, "query_prompt", "")

    def encode(self, texts: list[str]) -> np.ndarray:
        return encode_queries(self._embedder, texts)
