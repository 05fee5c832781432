"""Made-up corpora: short sentences about machines with questions, and prose without."""

from __future__ import annotations

import random
from typing import Any

from tests.evaluation.conftest import unit

COLOURS, ENDS = ("blue", "cold", "warm"), ("ling", "mark")
WORDS = [colour + letter + end for colour in COLOURS for letter in "abcdefgh" for end in ENDS]


def machines(n_documents: int = 6, n_questions: int = 5) -> tuple[dict[str, str], list[Any]]:
    """Documents and lines of questions; chunks of 50 characters hold one sentence each."""
    docs, lines = {}, []
    for d in range(n_documents):
        sentences = [f"Machine {i} makes part {(i * 7 + d) % 12} of wood.\n\n" for i in range(12)]
        docs[f"{d}.txt"] = text = "".join(sentences)
        for number in range(n_questions):
            start = text.index(f"Machine {2 * number} ")
            length = 60 if number % 3 == 2 else 20
            question = f"part {(14 * number + d) % 12} of machine {2 * number}"
            lines.append({
                "id": f"{d}-{number}", "doc": f"{d}.txt", "question": question,
                "evidence": [unit(start, start + length)],
            })  # fmt: skip
    return docs, lines


def prose(seed: int, n_sentences: int) -> str:
    """Sentences of seven words each."""
    generator = random.Random(seed)
    sentences = [" ".join(generator.sample(WORDS, 7)) for _ in range(n_sentences)]
    return " ".join(f"{sentence.capitalize()}." for sentence in sentences)
