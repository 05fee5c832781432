"""Lexical search: BM25 over the chunk texts, as ranked lists of rows.

Needs `scar_gpu[hybrid]`, the bm25s package.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scar_gpu import checks
from scar_gpu.text.extras import import_extra
from scar_gpu.types import Hits


class LexicalIndex:
    """BM25 scores of N texts, row for row with a `ChunkIndex`.

    Words of two characters or more, in lower case, without the English stop words of bm25s and
    without stemming.

    Example:
        >>> lexical = LexicalIndex.build(["cats purr", "dogs bark", "cats and dogs"])
        >>> lexical.search(["which dogs bark"], 2).ids
        tensor([[1, 2]])
    """

    def __init__(self, model: Any, n_rows: int) -> None:
        self._model = model
        self.n_rows = n_rows

    @classmethod
    def build(cls, texts: Sequence[str]) -> LexicalIndex:
        """Index texts.

        Args:
            texts: one per row.

        Returns:
            The index.

        Raises:
            ImportError: bm25s is not installed.
            TypeError: texts is one string, or a text is no string.
        """
        model = import_extra("bm25s", "hybrid").BM25()
        words = _words("texts", texts)
        if any(words):
            model.index(words, show_progress=False)
        return cls(model, len(words))

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Find the k rows of the highest BM25 score for each query.

        Ordered by score, then by smaller id, as `scar_gpu.search` does; a row that shares no word
        with the query is not a result.

        Args:
            queries: texts; an empty one finds nothing.
            k: results per query, >= 1.

        Returns:
            Hits(ids [B, k] int64, scores [B, k] float32) on the CPU, padded with -1 and -inf.
            The scores are BM25, not cosines.

        Raises:
            TypeError: queries is one string, or a query is no string.
            ValueError: k < 1.
        """
        words = _words("queries", queries)
        checks.check_at_least("k", k, 1)
        ids = torch.full((len(words), k), -1, dtype=torch.int64)
        scores = torch.full((len(words), k), -torch.inf)
        vocabulary = getattr(self._model, "vocab_dict", {})
        for number, query in enumerate(words):
            known = [word for word in query if word in vocabulary]
            if not known:
                continue
            found = self._model.get_scores(known)
            rows = _best(found, k)
            ids[number, : len(rows)] = torch.from_numpy(rows)
            scores[number, : len(rows)] = torch.from_numpy(found[rows])
        return Hits(ids, scores)

    def save(self, path: str | Path) -> None:
        """Write the index into the directory `path`, which is made where it does not exist.

        Raises:
            ValueError: there is nothing to save: no text holds a word.
        """
        if not hasattr(self._model, "scores"):
            raise ValueError(f"texts must hold some word to be saved, got {self.n_rows} without")
        self._model.save(str(path), show_progress=False)

    @classmethod
    def load(cls, path: str | Path, *, mmap: bool = True) -> LexicalIndex:
        """Read an index back.

        Args:
            path: the directory `save` wrote.
            mmap: leave the scores on disk until they are needed.

        Returns:
            The index.

        Raises:
            ImportError: bm25s is not installed.
            FileNotFoundError: there is no such index.
        """
        model = import_extra("bm25s", "hybrid").BM25.load(
            str(path), mmap=mmap, show_progress=False, verbosity=0
        )
        return cls(model, int(model.scores["num_docs"]))


def _words(name: str, texts: Sequence[str]) -> list[list[str]]:
    if isinstance(texts, str):
        checks.fail(TypeError, name, "be a sequence of str", "one str")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            checks.fail(TypeError, f"{name}[{number}]", "be a str", type(text).__name__)
    bm25s = import_extra("bm25s", "hybrid")
    return bm25s.tokenize(texts, stopwords="english", return_ids=False, show_progress=False)


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """Rows of the k highest positive scores; equal ones, at the last place too, by smaller row."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        least = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= least]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]
