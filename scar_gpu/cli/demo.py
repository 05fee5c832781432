"""`scar-gpu demo`: the Python language reference, a dozen questions, three ways to answer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from scar_gpu.text import Context, Document, Embedder, Retriever
    from scar_gpu.types import Hits, NeighborScores

_WIDTH = 100
_GAP = 2  # columns between the columns of a table


class _Size(NamedTuple):
    """How much one method retrieved."""

    chunks: int
    characters: int
    spans: int

    @classmethod
    def of(cls, contexts: list[Context]) -> _Size:
        chunks = sum(len(c.hits) + len(c.neighbours) for c in contexts)
        return cls(chunks, sum(len(c.text) for c in contexts), len(contexts))


def demo(
    questions: Annotated[
        list[str] | None, typer.Argument(help="Your own questions instead of the dozen.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Hits per question.")] = 5,
    window: Annotated[int, typer.Option(min=0, help="Neighbours on each side of a hit.")] = 1,
    lam: Annotated[float, typer.Option(min=0, help="Penalty of a neighbour unlike its hit.")] = 0.1,
    gamma: Annotated[float, typer.Option(help="Share of the hit's relevance to exceed.")] = 0.8,
    text: Annotated[bool, typer.Option("--text", help="Print what SCAR retrieves.")] = False,
    cache: Annotated[bool, typer.Option(help="Keep the embeddings for the next run.")] = True,
) -> None:
    """Answer questions about Python from its own language reference.

    Each question is answered by plain top-k, by a static window around the hits, and by SCAR,
    which admits a neighbour only if S exceeds gamma times its hit's relevance.
    """
    from scar_gpu.cli.demo_corpus import QUESTIONS, python_topics, topic_count

    # Piped output has no width of its own.
    console = Console(highlight=False, width=None if Console().is_terminal else _WIDTH)
    documents = python_topics()
    retriever = _build(documents, window, cache, console, topic_count())
    asked = list(questions) if questions else list(QUESTIONS)
    vectors = retriever.encode_queries(asked)
    hits = retriever.index.search(vectors, k)
    judged = retriever.index.neighbor_scores(vectors, hits.ids, lam=lam, gamma=gamma)
    answers = {
        f"top-{k}": retriever.retrieve(asked, k, "none"),
        f"Window(+-{window})": retriever.retrieve(asked, k, "window"),
        f"SCAR(+-{window})": retriever.retrieve(asked, k, "scar", lam=lam, gamma=gamma),
    }
    console.print(
        "S(-1) and S(+1) judge the chunks before and after a hit: S = the neighbour's relevance - "
        f"{lam:g} x (1 - its cosine with the hit). It is admitted (+) if S exceeds the threshold, "
        f"{gamma:g} x the hit's relevance, else refused (-); = marks a neighbour that is a hit "
        "itself."
    )
    sizes: dict[str, list[_Size]] = {name: [] for name in answers}
    for i, question in enumerate(asked):
        console.print()
        console.print(Text(f"{i + 1}. {question}", style="bold"))
        for name, contexts in answers.items():
            sizes[name].append(_Size.of(contexts[i]))
        console.print(_size_table({name: found[i] for name, found in sizes.items()}))
        console.print()
        console.print(_neighbour_table(retriever, hits, judged, i, gamma, console.width))
        if text:
            _print_contexts(console, answers[f"SCAR(+-{window})"][i])
    console.print()
    _print_summary(console, sizes)


def _build(
    documents: list[Document], window: int, cache: bool, console: Console, n_topics: int
) -> Retriever:
    """Chunk, embed and index, with a progress bar on standard error."""
    from scar_gpu.text import Retriever, SentenceTransformerEmbedder

    embedder: Embedder = SentenceTransformerEmbedder()
    if cache:
        embedder = _with_cache(embedder)
    start = time.perf_counter()
    stderr = Console(stderr=True)
    with Progress(console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        bar = progress.add_task("embedding", total=None)
        retriever = Retriever.from_documents(
            documents,
            embedder,
            window=window,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    seconds = time.perf_counter() - start
    console.print(
        f"{len(documents)} of {n_topics} topics of the Python language reference (the others "
        f"repeat their text): {sum(len(d.text) for d in documents):,} characters, "
        f"{retriever.index.n_chunks} chunks, embedded with {embedder.name} and indexed "
        f"in {seconds:.1f} s."
    )
    return retriever


def _with_cache(embedder: Embedder) -> Embedder:
    """Keep embeddings on disk where that is possible; the demo runs without, too."""
    from scar_gpu.text.embedding_cache import CachedEmbedder, default_cache_folder

    try:
        return CachedEmbedder(embedder, default_cache_folder())
    except (OSError, RuntimeError, ValueError) as error:
        typer.echo(f"scar-gpu: embeddings are not kept for the next run: {error}", err=True)
        return embedder


def _table(first: str, columns: Sequence[str], width: int | None = None) -> Table:
    """A table without lines: text in the first column, cut off at `width`, numbers behind."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(first, min_width=14, max_width=width, no_wrap=True, overflow="ellipsis")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _size_table(sizes: dict[str, _Size]) -> Table:
    table = _table("method", _Size._fields)
    for name, size in sizes.items():
        table.add_row(name, *(f"{value:,}" for value in size))
    return table


def _neighbour_table(
    retriever: Retriever, hits: Hits, judged: NeighborScores, query: int, gamma: float, width: int
) -> Table:
    """One line per hit: where it stands, and S of each neighbour with the verdict."""
    from scar_gpu.cli.opened import table_with_text

    chunks = table_with_text(retriever)
    window = retriever.index.window
    offsets = [*range(-window, 0), *range(1, window + 1)]
    columns = ["relevance", "threshold", *(f"S({offset:+d})" for offset in offsets)]
    taken = sum(max(len(name), len("-0.000 +")) + _GAP for name in columns)
    table = _table("hit", columns, max(width - taken - _GAP, 14))
    rows = hits.ids[query].tolist()
    relevance = judged.relevance[query].tolist()
    scores = judged.scores[query].tolist()
    admitted = judged.mask[query].tolist()
    for c, row in enumerate(rows):
        if row < 0:
            continue
        chunk = chunks.chunk(row)
        title = chunk.headings[-1] if chunk.headings else ""
        verdicts = []
        for o, offset in enumerate(offsets):
            if math.isinf(scores[c][o]):
                verdicts.append("none  ")
                continue
            mark = "=" if row + offset in rows else "+" if admitted[c][o] else "-"
            verdicts.append(f"{scores[c][o]:.3f} {mark}")
        table.add_row(
            Text(f"{chunk.document} {chunk.start}..{chunk.end}  {title}"),
            f"{relevance[c]:.3f}",
            f"{gamma * relevance[c]:.3f}",
            *verdicts,
        )
    return table


def _print_contexts(console: Console, contexts: list[Context]) -> None:
    for context in contexts:
        where = f"[{context.rank}] {context.document} {context.start}..{context.end}"
        console.print(Text(f"{where}  relevance {context.score:.3f}", style="bold"))
        console.print(Text(context.text.strip()))


def _print_summary(console: Console, sizes: dict[str, list[_Size]]) -> None:
    totals = {name: _Size(*map(sum, zip(*found, strict=True))) for name, found in sizes.items()}
    n_questions = len(next(iter(sizes.values())))
    console.print(Text(f"Sum of {n_questions} questions", style="bold"))
    console.print(_size_table(totals))
    (plain_name, plain), (window_name, window), (scar_name, scar) = totals.items()
    console.print(
        f"{scar_name} retrieves {_change(scar.chunks, window.chunks)} {window_name} and "
        f"{_change(scar.chunks, plain.chunks)} plain {plain_name}; "
        f"{_change(scar.characters, window.characters, 'characters')} the former and "
        f"{_change(scar.characters, plain.characters, 'characters')} the latter."
    )


def _change(value: int, base: int, unit: str = "chunks") -> str:
    """`"27 % fewer chunks than"`, `"12 % more chunks than"` or `"as many chunks as"`."""
    if value == base:
        return f"as many {unit} as"
    percent = 100 * abs(value - base) / max(base, 1)
    return f"{percent:.0f} % {'fewer' if value < base else 'more'} {unit} than"
