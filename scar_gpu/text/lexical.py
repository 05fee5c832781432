"""Lexical search: BM25 over the chunk texts, as ranked lists of rows.

Needs `scar_gpu[hybrid]`, the bm25s package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from scar_gpu import checks
from scar_gpu.text.extras import import_extra
from scar_gpu.types import Hits

if TYPE_CHECKING:
    from scar_gpu.text.chunks import ChunkTable


class LexicalIndex:
    """BM25 scores of N texts, row for row with a `ChunkIndex`.

    Words of two characters or more, in lower case, without the English stop words of bm25s and
    without stemming.

    Attributes:
        words: in ascending order.
        starts: [words + 1] int64: word i owns entries starts[i] to starts[i + 1].
        rows: [entries] int32, the texts a word is in, ascending.
        scores: [entries] float32, what the word adds to the row's score.
        n_rows: N.

    Example:
        >>> lexical = LexicalIndex.build(["cats purr", "dogs bark", "cats and dogs"])
        >>> lexical.search(["which dogs bark"], 2).ids
        tensor([[1, 2]])
    """

    def __init__(
        self,
        words: Sequence[str],
        starts: np.ndarray,
        rows: np.ndarray,
        scores: np.ndarray,
        n_rows: int,
    ) -> None:
        self.words, self.starts, self.rows, self.scores = words, starts, rows, scores
        self.n_rows = n_rows
        self._numbers = {word: number for number, word in enumerate(words)}

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
        if not any(words):
            starts, rows, scores = (np.zeros(n, t) for n, t in ((1, "i8"), (0, "i4"), (0, "f4")))
            return cls([], starts, rows, scores, len(words))
        model.index(words, create_empty_token=False, show_progress=False)
        # bm25s numbers the words differently in every process: put them in order.
        ordered = sorted(model.vocab_dict)
        old = np.array([model.vocab_dict[word] for word in ordered])
        bounds = model.scores["indptr"].astype(np.int64)
        sizes = bounds[old + 1] - bounds[old]
        starts = np.append(0, sizes.cumsum())
        entries = np.arange(starts[-1]) + np.repeat(bounds[old] - starts[:-1], sizes)
        rows, scores = (model.scores[name][entries] for name in ("indices", "data"))
        return cls(ordered, starts, rows, scores, len(words))

    @classmethod
    def of_chunks(cls, chunks: ChunkTable) -> LexicalIndex:
        """Index the chunks of a table, each with its heading path, as it is embedded."""
        return cls.build([chunks.embedding_text(row) for row in range(len(chunks))])

    def search(self, queries: Sequence[str], k: int, *, row_ranges: Tensor | None = None) -> Hits:
        """Find the k rows of the highest BM25 score for each query.

        Ordered by score, then by smaller id, as `scar_gpu.search` does; a row that shares no word
        with the query is not a result.

        Args:
            queries: texts; an empty one finds nothing.
            k: results per query, >= 1.
            row_ranges: [B, 2] int64, half-open ranges of rows that each query is restricted to.

        Returns:
            Hits(ids [B, k] int64, scores [B, k] float32) on the CPU, padded with -1 and -inf.
            The scores are BM25, not cosines.

        Raises:
            TypeError: queries is one string, or a query is no string; row_ranges of another dtype.
            ValueError: k < 1; row_ranges of another shape.
            IndexError: row_ranges that leave the index, or end before they start.
            MemoryError: results larger than the machine's memory.
        """
        words = _words("queries", queries)
        checks.check_at_least("k", k, 1)
        checks.check_fits("k", k, torch.empty(len(words), 0), k, 12)
        if row_ranges is None:
            ranges = [[0, self.n_rows]] * len(words)
        else:
            checks.check_tensor("row_ranges", row_ranges, (torch.int64,), (len(words), 2))
            checks.check_ranges(row_ranges, self.n_rows)
            ranges = row_ranges.tolist()
        ids = np.full((len(words), k), -1, dtype=np.int64)
        scores = np.full((len(words), k), -np.inf, dtype=np.float32)
        for number, (query, (begin, end)) in enumerate(zip(words, ranges, strict=True)):
            known = [self._numbers[word] for word in query if word in self._numbers]
            if not known:
                continue
            found = self._scores(known)
            rows = begin + _best(found[begin:end], k)
            ids[number, : len(rows)] = rows
            scores[number, : len(rows)] = found[rows]
        return Hits(torch.from_numpy(ids), torch.from_numpy(scores))

    def _scores(self, words: Sequence[int]) -> np.ndarray:
        """The score of every row; a word that the query repeats counts as often."""
        found = np.zeros(self.n_rows, dtype=np.float32)
        for word in words:
            entries = slice(self.starts[word], self.starts[word + 1])
            # Faster than `found[rows] += scores`, which reads and writes in two passes.
            np.add.at(found, self.rows[entries], self.scores[entries])
        return found


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
    least = np.float32(0)
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
    rows = np.flatnonzero(scores >= least if least > 0 else scores > 0)
    return rows[np.argsort(-scores[rows], kind="stable")[:k]]
