"""Where the contexts go: JSON lines, Parquet, or the screen."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scar_gpu.cli.queries import Queries
from scar_gpu.text.extras import import_extra
from scar_gpu.text.json_lines import json_lines

if TYPE_CHECKING:
    from scar_gpu.text import Retriever

SUFFIXES = (".jsonl", ".parquet")

_WIDTH = 100  # piped output has no width of its own
_EXCERPT = 280  # characters of a context on the screen


class Writer(Protocol):
    """What takes the contexts of one batch after the other."""

    def write(self, batch: Queries, contexts: Any) -> None:
        """Write the contexts of a batch, a pyarrow table."""
        ...


def with_ids(contexts: Any, ids: list[Any]) -> Any:
    """A table of contexts with the queries' ids where their positions stand."""
    pyarrow = import_extra("pyarrow", "io")
    return contexts.set_column(0, "query", pyarrow.array(ids).take(contexts["query"]))


def open_writer(path: Path, suffix: str) -> AbstractContextManager[Writer]:
    """A writer to `path` in the format of `suffix`, to be closed at the end."""
    return closing(_JsonLines(path) if suffix == ".jsonl" else _Parquet(path))


class _JsonLines:
    """One JSON object per context and line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, batch: Queries, contexts: Any) -> None:
        self._file.write(json_lines(contexts))

    def close(self) -> None:
        self._file.close()


class _Parquet:
    """One row per context; a row group per batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None

    def write(self, batch: Queries, contexts: Any) -> None:
        pyarrow = import_extra("pyarrow", "io")
        parquet = import_extra("pyarrow.parquet", "io")
        if self._writer is None:
            # Dictionaries pay for what repeats; one of the texts is only thrown away again.
            repeated = [n for n in ("query", "document") if n in contexts.column_names]
            self._writer = parquet.ParquetWriter(
                self._path, contexts.schema, compression="zstd", use_dictionary=repeated
            )
        if contexts.schema != self._writer.schema:
            try:
                contexts = contexts.cast(self._writer.schema)
            except pyarrow.ArrowInvalid as error:
                raise ValueError(
                    f"query ids must all be whole numbers, as the first are, or all text, "
                    f"got: {error}"
                ) from error
        self._writer.write_table(contexts)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Screen:
    """A list to read: every context with its place, its section and how its first hit begins.

    Takes tables whose column `query` is the position in the batch.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._console = Console(highlight=False, width=None if Console().is_terminal else _WIDTH)
        self._is_first = True

    def write(self, batch: Queries, contexts: Any) -> None:
        by_query: dict[int, list[dict[str, Any]]] = {}
        for record in contexts.to_pylist():
            by_query.setdefault(record["query"], []).append(record)
        for i, query_id in enumerate(batch.ids):
            if not self._is_first:
                self._console.print()
            self._is_first = False
            title = f"query {query_id}" if batch.texts is None else batch.texts[i]
            self._console.print(Text(title, style="bold"))
            for record in by_query.get(i, []):
                self._print(record)
            if i not in by_query:
                self._console.print("  no context")

    def _print(self, record: dict[str, Any]) -> None:
        hits, neighbours = record["hits"], record["neighbours"]
        where = record.get("document", "")
        if "start" in record:
            where = f"{where} {record['start']}..{record['end']}"
        rows = f"hits {_joined(hits)}" + (
            f", neighbours {_joined(neighbours)}" if neighbours else ""
        )
        self._console.print()
        self._console.print(
            Text(f"{record['rank']:>3}  {record['score']:.3f}  {where}  ({rows})", style="cyan")
        )
        if record.get("headings"):
            self._console.print(
                Padding(Text(" > ".join(record["headings"])), (0, 0, 0, 5), expand=False)
            )
        if record.get("text"):
            self._console.print(Padding(Text(self._excerpt(record)), (0, 0, 0, 5), expand=False))

    def _excerpt(self, record: dict[str, Any]) -> str:
        """The context from its first hit on: what stands before may be a neighbour's."""
        chunks = self._retriever.chunks
        begin = 0
        if chunks is not None and record["hits"]:
            begin = int(chunks.start[record["hits"][0]]) - record["start"]
        text = " ".join(record["text"][begin:].split())
        cut = text if len(text) <= _EXCERPT else text[:_EXCERPT].rsplit(" ", 1)[0] + " ..."
        return ("... " if begin else "") + cut


def _joined(rows: list[int]) -> str:
    return " ".join(map(str, rows))
