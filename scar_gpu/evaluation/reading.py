"""Reading a labelled corpus from a folder, with every label checked against its text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from scar_gpu.evaluation.datasets import Dataset, Evidence, Question
from scar_gpu.text.documents import Document, half_character

QUERIES_FILE = "queries.jsonl"
DOCS_FOLDER = "docs"
_FORMATS = {".md": "markdown", ".rst": "rst"}
_SHOWN = 40  # characters of a text in a message


def is_labelled(folder: str | Path) -> bool:
    """Whether the folder has questions, and so is one for `read_dataset`."""
    return (Path(folder) / QUERIES_FILE).is_file()


def read_dataset(folder: str | Path, *, skip_without_evidence: bool = False) -> Dataset:
    """Read a labelled corpus: `docs/` and `queries.jsonl`.

    A line of `queries.jsonl` is an object with `id`, `question`, `doc` (the path of a document
    below `docs/`; may be left out where a question is asked of the whole corpus) and `evidence`:
    a list of units `{"doc", "start", "end", "text"}`, or a list of such lists, each of which
    alone answers the question. Offsets count the characters of the file read as UTF-8, line ends
    as they are and a byte order mark included. `doc` and `text` of a unit may be left out; a text
    must be the document's own, character for character. Other fields are ignored.

    Args:
        folder: holds both.
        skip_without_evidence: leave such questions out instead of refusing them.

    Returns:
        The dataset, named after the folder.

    Raises:
        FileNotFoundError: the file or the folder is missing.
        ValueError: what is wrong, with file, line and field.

    Example:
        >>> read_dataset("my_corpus").questions[0].text  # doctest: +SKIP
        'Who signs?'
    """
    root = Path(folder)
    path = root / QUERIES_FILE
    folder_of_docs = root / DOCS_FOLDER
    for part, exists in ((path, path.is_file()), (folder_of_docs, folder_of_docs.is_dir())):
        if not exists:
            raise FileNotFoundError(
                f"dataset must have {QUERIES_FILE} and {DOCS_FOLDER}/, got {part}, which is missing"
            )
    documents = list(_documents(folder_of_docs))
    texts = {document.id: document.text for document in documents}
    questions: dict[str, Question] = {}
    for line in _lines(path):
        question = line.question(texts)
        if not question.alternatives:
            if skip_without_evidence:
                continue
            line.fail("evidence", "have at least one unit", "none")
        if question.id in questions:
            line.fail("id", "be unique", repr(question.id))
        questions[question.id] = question
    if not questions:
        raise ValueError(f"{path} must have at least one question with evidence, got none")
    name = root.resolve().name
    return Dataset(name, tuple(documents), tuple(questions.values()))


def _documents(folder: Path) -> Iterator[Document]:
    """Every file, whatever its suffix, named by its path below the folder."""
    found = False
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            found = True
            format = _FORMATS.get(path.suffix.lower(), "auto")
            yield Document(name.as_posix(), _read(path), format)
    if not found:
        raise ValueError(f"{folder} must hold at least one document, got none")


def _read(path: Path) -> str:
    """The text with every character that offsets count: line ends, a byte order mark."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"{path} must be UTF-8 text, got byte 0x{byte:02x} at offset {error.start}"
        ) from error


def _lines(path: Path) -> Iterator[_Line]:
    text = _read(path).removeprefix("\ufeff")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} line {number} must be JSON, got: {error}") from error
        if not isinstance(record, dict):
            got = type(record).__name__
            raise ValueError(f"{path} line {number} must be a JSON object, got {got}")
        yield _Line(f"{path} line {number}", record)


class _Line(NamedTuple):
    """One line of the file of questions."""

    where: str
    record: Mapping[str, Any]

    def fail(self, field: str, rule: str, got: object) -> NoReturn:
        raise ValueError(f"{field} of {self.where} must {rule}, got {got}")

    def question(self, texts: Mapping[str, str]) -> Question:
        """The question, checked; without evidence, its alternatives are empty."""
        record = self.record
        for field in ("id", "question"):
            value = record.get(field)
            if not isinstance(value, str) or not value.strip():
                self.fail(field, "be a text", repr(value))
            if found := half_character(value):
                self.fail(field, "be valid Unicode", found)
        document = record.get("doc")
        if document is not None:
            self._document("doc", document, texts)
        evidence = record.get("evidence")
        if not isinstance(evidence, list):
            self.fail("evidence", "be a list", type(evidence).__name__)
        if evidence and all(isinstance(units, list) for units in evidence):
            alternatives = tuple(
                self._units(f"evidence[{a}]", units, document, texts)
                for a, units in enumerate(evidence)
            )
            for a, units in enumerate(alternatives):
                if not units:
                    self.fail(f"evidence[{a}]", "have at least one unit", "none")
        else:
            units = self._units("evidence", evidence, document, texts)
            alternatives = (units,) if units else ()
        return Question(record["id"], record["question"], document, alternatives)

    def _document(self, field: str, document: Any, texts: Mapping[str, str]) -> str:
        if not isinstance(document, str) or document not in texts:
            self.fail(field, f"name one of the {len(texts)} documents", repr(document))
        return document

    def _units(
        self, field: str, units: list[Any], document: str | None, texts: Mapping[str, str]
    ) -> tuple[Evidence, ...]:
        return tuple(
            self._unit(f"{field}[{number}]", unit, document, texts)
            for number, unit in enumerate(units)
        )

    def _unit(
        self, field: str, unit: Any, document: str | None, texts: Mapping[str, str]
    ) -> Evidence:
        if not isinstance(unit, dict):
            self.fail(field, "be an object", type(unit).__name__)
        owner = self._document(f"{field}.doc", unit.get("doc", document), texts)
        if document is not None and owner != document:
            self.fail(f"{field}.doc", f"be the question's own, {document!r}", repr(owner))
        for name in ("start", "end"):
            value = unit.get(name)
            if not isinstance(value, int) or isinstance(value, bool):
                self.fail(f"{field}.{name}", "be an int", repr(value))
        start, end, length = unit["start"], unit["end"], len(texts[owner])
        if not 0 <= start < length:
            self.fail(f"{field}.start", f"be in [0, {length}), inside {owner!r}", start)
        if not start < end <= length:
            self.fail(f"{field}.end", f"be in ({start}, {length}], inside {owner!r}", end)
        text = unit.get("text")
        found = texts[owner][start:end]
        if text is not None and text != found:
            rule = f"be what {owner!r} has at {start}..{end}, {found[:_SHOWN]!r}"
            self.fail(f"{field}.text", rule, repr(text if text is None else str(text)[:_SHOWN]))
        return Evidence(owner, start, end)
