"""Contexts: the expansion of each query's hits as text, one record per span."""

from __future__ import annotations

from dataclasses import dataclass

from scar_gpu.text.chunks import ChunkTable, Passage
from scar_gpu.types import Expansion, Hits, Spans

_UNKNOWN = Passage("", -1, -1, "")


@dataclass(frozen=True, slots=True)
class Context:
    """One consecutive stretch of a document that was retrieved for a query.

    Attributes:
        document: the document's id.
        start: first character in the document, counted in `Document.text`.
        end: behind the last character.
        text: `document[start:end]`; what neighbouring chunks share appears once. Empty where no
            text is asked for.
        rank: rank among the query's hits, from 1, of the best hit that brought it in.
        score: that hit's relevance, its cosine with the query.
        hits: row numbers of the hits inside, ascending.
        neighbours: row numbers of the other chunks inside, ascending.
        headings: the titles its first character stands under, outermost first; the headings
            of what follows stand in the text itself.

    Where an index has no chunk table, document and headings are empty, start and end -1.
    """

    document: str
    start: int
    end: int
    text: str
    rank: int
    score: float
    hits: tuple[int, ...]
    neighbours: tuple[int, ...]
    headings: tuple[str, ...] = ()


def assemble(
    hits: Hits,
    expansion: Expansion,
    spans: Spans,
    chunks: ChunkTable | None,
    *,
    with_text: bool = True,
) -> list[list[Context]]:
    """Turn the spans of B queries into contexts.

    Args:
        hits: ids [B, K] and scores [B, K] of the search.
        expansion: the hits and their admitted neighbours, [B, M].
        spans: the runs of rows in that expansion, [B, M].
        chunks: the table whose rows the ids are, if there is one.
        with_text: False reads no text.

    Returns:
        One list per query, in the order of its spans; a query without hits has an empty one.
        A stretch may hold no hit (an admitted second neighbour behind a refused first one):
        rank and score are then those of the hit that admitted it.

    Example:
        See `Retriever.retrieve`.
    """
    queries = zip(
        hits.ids.tolist(),
        hits.scores.tolist(),
        expansion.ids.tolist(),
        expansion.anchors.tolist(),
        expansion.lengths.tolist(),
        spans.start.tolist(),
        spans.end.tolist(),
        spans.lengths.tolist(),
        strict=True,
    )
    results = []
    for hit_ids, scores, rows, anchors, n_rows, starts, ends, n_spans in queries:
        # Not read off the anchors: a window gives a hit beside a better one to that one.
        is_hit = set(hit_ids)
        anchor_of = dict(zip(rows[:n_rows], anchors[:n_rows], strict=True))
        contexts = []
        for first, behind in zip(starts[:n_spans], ends[:n_spans], strict=True):
            members = range(first, behind)
            best = min(anchor_of[row] for row in members)
            passage, headings = _UNKNOWN, tuple[str, ...]()
            if chunks is not None:
                passage = chunks.passage(first, behind, with_text=with_text)
                headings = chunks.chunk(first).headings
            contexts.append(
                Context(
                    *passage,
                    rank=best + 1,
                    score=scores[best],
                    hits=tuple(row for row in members if row in is_hit),
                    neighbours=tuple(row for row in members if row not in is_hit),
                    headings=headings,
                )
            )
        results.append(contexts)
    return results
