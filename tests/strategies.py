"""Hypothesis strategies: small questions over level rows, where float32 arithmetic is exact."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.corpora import LEVEL_DIM, Corpus, level_corpus, level_rows

levels = st.none() | st.integers(0, LEVEL_DIM)
lams = st.floats(0, 2, width=32)
gammas = st.floats(-1, 2, width=32)
orders = st.sampled_from(["rank", "document"])


class Question(NamedTuple):
    corpus: Corpus
    queries: Tensor
    hits: Tensor
    window: int

    @property
    def args(self) -> tuple[Tensor, ...]:
        """The positional arguments of neighbor_scores and scar_expand."""
        return (self.queries, self.corpus.embeddings, self.corpus.continuity, self.hits)


@st.composite
def questions(draw: st.DrawFn, queries: st.SearchStrategy = levels) -> Question:
    """Up to three documents, queries and hits; empty documents, padding and repeats among them."""
    documents = draw(st.lists(st.lists(levels, max_size=5), min_size=1, max_size=3))
    window = draw(st.integers(0, 3))
    data = level_corpus(*documents, window=window)
    n_chunks = len(data.embeddings)
    n_hits = draw(st.integers(0, 3))
    rows = st.lists(st.integers(-1, n_chunks - 1), min_size=n_hits, max_size=n_hits)
    batch = draw(st.lists(st.tuples(queries, rows), min_size=1, max_size=3))
    hits = torch.tensor([row for _, row in batch], dtype=torch.int64).view(len(batch), n_hits)
    return Question(data, level_rows([level for level, _ in batch]), hits, window)


@st.composite
def documents_and_rows(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Lengths of documents and, for each query, rows of them (or -1); repeats among them."""
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    count = draw(st.integers(0, 6))
    rows = st.lists(st.integers(-1, sum(lengths) - 1), min_size=count, max_size=count)
    return lengths, draw(st.lists(rows, min_size=1, max_size=3))
