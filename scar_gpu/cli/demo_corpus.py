"""The corpus of the demo: the language reference that every CPython carries for `help()`."""

from __future__ import annotations

from pydoc_data.topics import topics

from scar_gpu.text import Document

QUESTIONS = (
    "How does the with statement deal with an exception raised in its body?",
    "What is the difference between __getattr__ and __getattribute__?",
    "When are the default values of function parameters evaluated?",
    "What happens to the remaining iterations when a for loop executes break or continue?",
    "How can a name in an enclosing function be rebound?",
    "How does Python choose the metaclass of a class?",
    "In which order are the else and finally clauses of a try statement executed?",
    "What does a class pattern check when a match statement runs?",
    "How do __slots__ change what attributes an instance can have?",
    "How is a chained comparison such as a < b < c evaluated?",
    "How do I align a value and choose the fill character in a format specification?",
    "Which operator binds more tightly, the power operator or unary minus?",
)

# A topic is left out when this share of its paragraphs stands in a longer topic too.
_REPEATED_SHARE = 0.75


def python_topics() -> list[Document]:
    """The topics as documents in reStructuredText, those that repeat a longer one left out.

    "with", for one, is a section of "compound": kept, it would be found twice.
    """
    kept: dict[str, set[str]] = {}
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        paragraphs = {p for p in topics[name].split("\n\n") if len(p) > 40}
        repeated = max((len(paragraphs & longer) for longer in kept.values()), default=0)
        if not paragraphs or repeated < _REPEATED_SHARE * len(paragraphs):
            kept[name] = paragraphs
    return [Document(name, topics[name], format="rst") for name in sorted(kept)]


def topic_count() -> int:
    """How many topics there are with the repeated ones."""
    return len(topics)
