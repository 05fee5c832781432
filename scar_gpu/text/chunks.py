"""The chunk table: which characters of which document each row of an index stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scar_gpu.text.documents import Document, check_unique_ids
from scar_gpu.text.headings import heading_paths, headings
from scar_gpu.text.splitter import split_text

_PATH_SEPARATOR = " > "


class Chunk(NamedTuple):
    """One chunk: its document's id, its character range, and the titles it stands under."""

    document: str
    start: int
    end: int
    headings: tuple[str, ...]


class Passage(NamedTuple):
    """A stretch of one document's text."""

    document: str
    start: int
    end: int
    text: str


class LazyTexts(Sequence[str]):
    """Texts on disk: what a table asks of them so that none is read before it is needed.

    Attributes:
        lengths: [D] int64, characters of each document.
    """

    lengths: np.ndarray

    def between(self, first: int, behind: int) -> str:
        """The text from the first start to the last end of the chunks `first` to `behind`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """N chunks of D documents as columns; row i of an index is chunk i.

    Attributes:
        ids: [D] the documents' ids.
        texts: [D] their texts; those of a saved index are read when they are asked for.
        document: [N] int64, position in `ids`, ascending.
        start: [N] int64, first character.
        end: [N] int64, behind the last character.
        path: [N] int32, position in `paths`.
        paths: the distinct heading paths, outermost title first.

    Raises:
        ValueError: columns of different lengths, documents out of order, or a range outside
            its document.

    Example:
        >>> table = chunk_documents([Document("a", "one two three")], chunk_size=10, overlap=4)
        >>> table.text(1), table.passage(0, 2).text
        ('two three', 'one two three')
    """

    ids: tuple[str, ...]
    texts: Sequence[str]
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    path: np.ndarray
    paths: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        n = len(self.document)
        for name in ("start", "end", "path"):
            if len(getattr(self, name)) != n:
                got = len(getattr(self, name))
                raise ValueError(f"{name} must have one entry per chunk ({n}), got {got}")
        if len(self.texts) != len(self.ids):
            raise ValueError(
                f"texts must have one entry per document ({len(self.ids)}), got {len(self.texts)}"
            )
        if n == 0:
            return
        if np.any(np.diff(self.document) < 0) or self.document[0] < 0:
            raise ValueError("document must ascend from 0 or more, got a falling value")
        if self.document[-1] >= len(self.ids):
            raise ValueError(f"document must be < {len(self.ids)}, got {self.document[-1]}")
        if isinstance(self.texts, LazyTexts):
            lengths = self.texts.lengths
        else:
            lengths = np.array([len(text) for text in self.texts], dtype=np.int64)
        ok = (self.start >= 0) & (self.start <= self.end) & (self.end <= lengths[self.document])
        if not ok.all():
            row = int(np.argmin(ok))
            raise ValueError(
                f"chunk {row} must lie inside its document of {lengths[self.document[row]]} "
                f"characters, got {self.start[row]}..{self.end[row]}"
            )

    def __len__(self) -> int:
        """The number of chunks."""
        return len(self.document)

    @property
    def doc_offsets(self) -> np.ndarray:
        """[D + 1] int64: document d owns rows `doc_offsets[d]` to `doc_offsets[d + 1]`."""
        return np.searchsorted(self.document, np.arange(len(self.ids) + 1)).astype(np.int64)

    def chunk(self, row: int) -> Chunk:
        """Chunk `row` without its text."""
        return Chunk(
            self.ids[self.document[row]],
            int(self.start[row]),
            int(self.end[row]),
            self.paths[self.path[row]],
        )

    def text(self, row: int) -> str:
        """The text of chunk `row` as it stands in its document."""
        if isinstance(self.texts, LazyTexts):
            return self.texts.between(row, row + 1)
        text = self.texts[self.document[row]]
        return text[self.start[row] : self.end[row]]

    def embedding_text(self, row: int) -> str:
        """What is embedded for chunk `row`: its heading path, if any, a line end, its text."""
        path = self.paths[self.path[row]]
        return f"{_PATH_SEPARATOR.join(path)}\n{self.text(row)}" if path else self.text(row)

    def passage(self, first: int, behind: int, *, with_text: bool = True) -> Passage:
        """The text of rows `first` to `behind` (half-open), every character once.

        Neighbouring chunks overlap, and one may lie inside another: the passage ends at the
        furthest end of its rows, not at the end of the last one. Without `with_text` the text is
        not read and left empty.

        Raises:
            ValueError: an empty range, or rows of two documents.
        """
        if not 0 <= first < behind <= len(self):
            raise ValueError(f"rows must be a range inside [0, {len(self)}), got {first}..{behind}")
        document = self.document[first]
        if self.document[behind - 1] != document:
            raise ValueError(f"rows {first}..{behind} must lie in one document, got two")
        start = int(self.start[first:behind].min())
        end = int(self.end[first:behind].max())
        if not with_text:
            text = ""
        elif isinstance(self.texts, LazyTexts):
            text = self.texts.between(first, behind)
        else:
            text = self.texts[document][start:end]
        return Passage(self.ids[document], start, end, text)


def chunk_documents(
    documents: Iterable[Document], chunk_size: int = 600, overlap: int = 60
) -> ChunkTable:
    r"""Split documents into chunks and give each the heading path of its first character.

    Args:
        documents: any number; one without text has no chunks.
        chunk_size: most characters of a chunk, see `split_text`; headings move no boundary.
        overlap: most characters a chunk repeats of the one before it.

    Returns:
        The table; documents keep their order, chunks that of the text.

    Raises:
        ValueError: two documents of one id; chunk_size or overlap out of range.

    Example:
        >>> table = chunk_documents([Document("a", "Top\n===\n\nText.", format="rst")])
        >>> table.chunk(0)
        Chunk(document='a', start=0, end=14, headings=('Top',))
    """
    documents = list(documents)
    check_unique_ids(documents)
    numbers: list[int] = []
    ranges: list[tuple[int, int]] = []
    path_rows: list[int] = []
    paths: dict[tuple[str, ...], int] = {}
    for number, document in enumerate(documents):
        found = split_text(document.text, chunk_size, overlap)
        starts = [start for start, _ in found]
        for path in heading_paths(headings(document.text, document.format), starts):
            path_rows.append(paths.setdefault(path, len(paths)))
        numbers.extend([number] * len(found))
        ranges.extend(found)
    bounds = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    return ChunkTable(
        ids=tuple(document.id for document in documents),
        texts=tuple(document.text for document in documents),
        document=np.array(numbers, dtype=np.int64),
        start=bounds[:, 0].copy(),
        end=bounds[:, 1].copy(),
        path=np.array(path_rows, dtype=np.int32),
        paths=tuple(paths),
    )
