"""Labelled corpora: documents, questions, and the characters that answer each question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from scar_gpu.text.documents import Document


class Evidence(NamedTuple):
    """One unit of evidence: a half-open range of characters of one document."""

    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what answers it.

    Attributes:
        id: unique in its dataset.
        text: the question.
        document: the document it is asked about; None where it is asked of the whole corpus.
        alternatives: complete sets of evidence; any one of them answers the question.
    """

    id: str
    text: str
    document: str | None
    alternatives: tuple[tuple[Evidence, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Documents and questions.

    Attributes:
        name: for tables.
        documents: the corpus, documents without questions included.
        questions: at least one.
    """

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]

    def documents_without_questions(self) -> tuple[str, ...]:
        """The ids of documents that no question has evidence in, or is asked about."""
        asked = {question.document for question in self.questions}
        for question in self.questions:
            asked.update(unit.document for units in question.alternatives for unit in units)
        return tuple(document.id for document in self.documents if document.id not in asked)


def sample_ids(ids: Iterable[str], n: int) -> set[str]:
    """Those n whose SHA-256 is smallest: the same every time, whatever else there is."""
    return set(sorted(ids, key=lambda name: sha256(name.encode()).hexdigest())[:n])


def sampled_name(name: str, n: int) -> str:
    """What a sample of so many documents is called."""
    return f"{name}, {n} documents"


def sample_documents(dataset: Dataset, n_documents: int) -> Dataset:
    """The same few documents every time, with their questions.

    Args:
        dataset: what to choose from.
        n_documents: how many documents that have questions, >= 1; they keep their order.

    Returns:
        The dataset of the documents whose ids have the smallest SHA-256, or `dataset` itself when
        it has no more.

    Raises:
        ValueError: n_documents < 1, or a question that names no document.
    """
    if n_documents < 1:
        raise ValueError(f"n_documents must be >= 1, got {n_documents}")
    asked = set()
    for question in dataset.questions:
        if question.document is None:
            raise ValueError(f"questions must name their document, got {question.id!r}")
        asked.add(question.document)
    if len(asked) <= n_documents:
        return dataset
    chosen = sample_ids(asked, n_documents)
    return Dataset(
        sampled_name(dataset.name, n_documents),
        tuple(document for document in dataset.documents if document.id in chosen),
        tuple(question for question in dataset.questions if question.document in chosen),
    )
