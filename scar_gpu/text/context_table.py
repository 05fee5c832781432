"""Contexts as columns: the records of `scar_gpu.text.Context` without an object per record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from scar_gpu.text.chunks import ChunkTable
from scar_gpu.text.extras import import_extra
from scar_gpu.text.retrieval import Found
from scar_gpu.text.text_bytes import MemoryBytes, TextBytes, sums
from scar_gpu.types import Expansion, Hits, Spans


class _Runs(NamedTuple):
    """S spans of all queries, one behind the other, and the R rows inside them."""

    query: np.ndarray  # [S]
    offsets: np.ndarray  # [S + 1] into rows
    rows: np.ndarray  # [R]
    anchors: np.ndarray  # [R]
    is_hit: np.ndarray  # [R] bool


@dataclass(frozen=True, slots=True)
class _Columns:
    """What a table takes from the chunks, once per retriever."""

    ids: Any
    paths: Any
    texts: TextBytes


class ContextTables:
    """Makes tables of contexts: `query`, then the fields of `Context`, one row per context.

    Args:
        chunks: the table whose rows the results are; without it, or without text, tables have
            the fields that remain.

    Example:
        >>> ContextTables(chunks).table(found)  # doctest: +SKIP
    """

    def __init__(self, chunks: ChunkTable | None) -> None:
        self._chunks = chunks
        self._known: _Columns | None = None

    def table(
        self, found: Found, *, with_text: bool = True, query_ids: Sequence[Any] | None = None
    ) -> Any:
        """Assemble the contexts of a batch.

        Args:
            found: the results for B queries, on any device.
            with_text: False leaves out `text`, and then no text is read.
            query_ids: [B] what `query` holds; default: 0, 1, ...

        Returns:
            A `pyarrow.Table`: query; document, start, end, text where the chunks are known;
            rank, score, hits, neighbours, and headings where the chunks are known.

        Raises:
            ValueError: text is asked for and there is none.
            ImportError: pyarrow is missing; `scar_gpu[io]` brings it.
        """
        pa = import_extra("pyarrow", "io")
        found = Found(
            Hits(*(tensor.cpu() for tensor in found.hits)),
            Expansion(*(tensor.cpu() for tensor in found.expansion)),
            Spans(*(tensor.cpu() for tensor in found.spans)),
        )
        runs = _runs(found)
        n_spans = len(runs.query)
        columns: dict[str, Any] = {"query": pa.array(runs.query)}
        if query_ids is not None:
            columns["query"] = pa.array(query_ids).take(columns["query"])
        headings = None
        if self._chunks is not None:
            chunks, known = self._chunks, self._columns(pa)
            first = runs.rows[runs.offsets[:-1]]
            columns["document"] = known.ids.take(pa.array(chunks.document[first]))
            columns["start"] = _reduce(np.minimum, chunks.start[runs.rows], runs.offsets)
            columns["end"] = _reduce(np.maximum, chunks.end[runs.rows], runs.offsets)
            headings = known.paths.take(pa.array(chunks.path[first]))
            if with_text:
                columns["text"] = _text(pa, known.texts, runs)
        elif with_text:
            raise ValueError("with_text must be False for an index without text, got True")
        best = _reduce(np.minimum, runs.anchors, runs.offsets)
        columns["rank"] = pa.array(best + 1, pa.int32())
        columns["score"] = found.hits.scores.numpy()[runs.query, best]
        span_of_row = np.repeat(np.arange(n_spans), np.diff(runs.offsets))
        for name, chosen in (("hits", runs.is_hit), ("neighbours", ~runs.is_hit)):
            offsets = sums(np.bincount(span_of_row[chosen], minlength=n_spans))
            columns[name] = pa.ListArray.from_arrays(
                pa.array(offsets, pa.int32()), pa.array(runs.rows[chosen])
            )
        if headings is not None:
            columns["headings"] = headings
        return pa.table(columns)

    def _columns(self, pa: Any) -> _Columns:
        """The columns of the chunks. Two threads may both make them; either's will do."""
        if self._known is None:
            chunks = cast(ChunkTable, self._chunks)
            texts = chunks.texts if isinstance(chunks.texts, TextBytes) else MemoryBytes(chunks)
            self._known = _Columns(
                ids=pa.array(chunks.ids, pa.string()),
                paths=pa.array(list(chunks.paths), pa.list_(pa.string())),
                texts=texts,
            )
        return self._known


def _runs(found: Found) -> _Runs:
    spans, expansion = found.spans, found.expansion
    inside = np.arange(spans.start.shape[1]) < spans.lengths.numpy()[:, None]
    query = np.nonzero(inside)[0]
    start = spans.start.numpy()[inside]
    offsets = sums(spans.end.numpy()[inside] - start)
    rows = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], np.diff(offsets))
    # Both the spans and the expansion hold each row of a query once: sorted, they match.
    ids, anchors = expansion.ids.numpy(), expansion.anchors.numpy()
    used = np.arange(ids.shape[1]) < expansion.lengths.numpy()[:, None]
    limit = int(rows.max(initial=0)) + 1
    keys = query.repeat(np.diff(offsets)) * limit + rows
    order = np.argsort(keys)
    listed = np.nonzero(used)[0] * limit + ids[used]
    anchor_of_row = np.empty(len(rows), dtype=np.int64)
    anchor_of_row[order] = anchors[used][np.argsort(listed)]
    # Not read off the anchors: a window gives a hit beside a better one to that one.
    hits = found.hits.ids.numpy()
    real = (hits >= 0) & (hits < limit)
    hit_keys = np.nonzero(real)[0] * limit + hits[real]
    is_hit = np.zeros(len(rows), dtype=bool)
    if len(rows):
        sorted_keys = keys[order]
        at = np.minimum(np.searchsorted(sorted_keys, hit_keys), len(rows) - 1)
        is_hit[order[at[sorted_keys[at] == hit_keys]]] = True
    return _Runs(query, offsets, rows, anchor_of_row, is_hit)


def _reduce(function: np.ufunc, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """One value per span; spans are never empty, but there may be none."""
    return function.reduceat(values, offsets[:-1]) if len(offsets) > 1 else values[:0]


def _text(pa: Any, texts: TextBytes, runs: _Runs) -> Any:
    """Each span's bytes from its first chunk's begin to its furthest end: no overlap twice."""
    begin = _reduce(np.minimum, texts.start[runs.rows], runs.offsets)
    behind = _reduce(np.maximum, texts.end[runs.rows], runs.offsets)
    data, offsets = texts.gather(begin, behind)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(begin), buffers)
