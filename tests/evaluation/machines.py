"""A corpus of short sentences in several documents, with atomic and fragmented questions."""

from __future__ import annotations

from typing import Any

from tests.evaluation.conftest import unit


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
