"""Questions made from the text itself, for a corpus that nobody has labelled.

A proxy: its questions repeat words of the evidence, which those of people often do not, so
recall on probes is too high. What it is for is the order of settings.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from scar_gpu.evaluation.datasets import Dataset, Evidence, Question
from scar_gpu.evaluation.gold import gold_of
from scar_gpu.text.chunks import chunk_documents
from scar_gpu.text.documents import Document

N_PROBES = 1000
# Words of a question; a sentence pair has more.
_WORDS = 6
_SENTENCE = re.compile(r"\S[^.!?\n]*(?:\n(?!\s*\n)[^.!?\n]*)*[.!?]")
_SHORTEST, _LONGEST = 30, 400  # characters of a sentence
_WORD = re.compile(r"[^\W\d_]{4,}")


def make_probes(
    documents: Sequence[Document],
    name: str = "probes",
    *,
    n: int = N_PROBES,
    seed: int = 0,
    chunk_size: int = 600,
    overlap: int = 60,
) -> Dataset:
    """Make questions whose evidence is a pair of consecutive sentences.

    Half of the pairs lie in one chunk (atomic), half straddle a border of chunks (fragmented). A
    question is the pair's six rarest words in the order of the text; rare means in few chunks.

    Args:
        documents: the corpus.
        name: of the dataset.
        n: at most so many questions, half of each kind as far as there are.
        seed: which pairs are drawn.
        chunk_size: of the chunking in which the pairs straddle a border, see `split_text`.
        overlap: the same.

    Returns:
        The dataset.

    Raises:
        ValueError: n < 1, or no pair of sentences in the documents.

    Example:
        >>> make_probes(read_documents("docs")).questions[0].text  # doctest: +SKIP
        'disclosure recipient affiliates consent prior written'
    """
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n}")
    chunks = chunk_documents(documents, chunk_size, overlap)
    spread = Counter(word for row in range(len(chunks)) for word in set(_words(chunks.text(row))))
    drawn = [
        Question(f"{document.id}:{start}", question, document.id, ((unit,),))
        for document in documents
        for start, end in _pairs(document.text)
        if (question := _question(document.text[start:end], spread))
        and (unit := Evidence(document.id, start, end))
    ]
    if not drawn:
        raise ValueError(
            f"documents must hold two sentences in a row with {_WORDS} different words, got none "
            f"in {len(documents)} documents"
        )
    random.Random(seed).shuffle(drawn)
    kinds = gold_of(Dataset(name, tuple(documents), tuple(drawn)), chunks).kinds
    chosen: list[Question] = []
    for kind, most in (("fragmented", n // 2), ("atomic", math.ceil(n / 2))):
        some = [one for one, own in zip(drawn, kinds, strict=True) if own == kind]
        chosen += some[:most]
    place = {document.id: number for number, document in enumerate(documents)}
    chosen.sort(key=lambda one: (place[str(one.document)], one.alternatives[0][0].start))
    return Dataset(name, tuple(documents), tuple(chosen))


def _pairs(text: str) -> list[tuple[int, int]]:
    """Where two sentences of a usual length follow each other."""
    found = list(_SENTENCE.finditer(text))
    usual = [_SHORTEST <= one.end() - one.start() <= _LONGEST for one in found]
    return [
        (one.start(), other.end())
        for (one, other), fits in zip(pairwise(found), pairwise(usual), strict=True)
        if all(fits) and not text[one.end() : other.start()].strip()
    ]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _question(text: str, spread: Counter[str]) -> str:
    """The rarest words in the order of the text; empty where there are too few."""
    words = list(dict.fromkeys(_words(text)))
    if len(words) < _WORDS:
        return ""
    rarest = set(sorted(words, key=lambda word: (spread[word], word))[:_WORDS])
    return " ".join(word for word in words if word in rarest)
