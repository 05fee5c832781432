"""`scar-gpu explain`: why the neighbours of each hit are in or out, as a table or a page."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scar_gpu.cli.judgement import Hit, judge, parts
from scar_gpu.cli.messages import note, progress
from scar_gpu.cli.options import (
    Device,
    Gamma,
    Hybrid,
    Index,
    Lam,
    MemoryBudget,
    Model,
    Overwrite,
    Pool,
    QueryPrompt,
    RrfK,
    Weights,
    Window,
    bytes_of,
    checked_device,
    hybrid_options,
)
from scar_gpu.cli.outputs import check_output, replacing

if TYPE_CHECKING:
    from scar_gpu.text import ChunkTable

_WIDTH = 100  # piped output has no width of its own
_BORDER = 80  # characters shown on each side of a border


def explain(
    index: Index,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One question.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a page: .html.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Hits.")] = 5,
    window: Window = None,
    lam: Lam = 0.1,
    gamma: Gamma = 0.8,
    hybrid: Hybrid = False,
    pool: Pool = None,
    weights: Weights = None,
    rrf_k: RrfK = None,
    model: Model = None,
    query_prompt: QueryPrompt = None,
    device: Device = None,
    memory_budget: MemoryBudget = None,
    overwrite: Overwrite = False,
) -> None:
    """Show each hit of a question with its neighbours, their S, the threshold and the verdict.

    S = the neighbour's relevance - lam x (1 - its cosine with the hit); a neighbour is admitted
    if S exceeds gamma x the hit's relevance.
    """
    if output is not None:
        check_output(output, overwrite, (".html", ".htm"))
    from scar_gpu.cli.opened import open_with_model, table_with_text
    from scar_gpu.text.retrieval import Asked, find_hits
    from scar_gpu.text.settings import Settings

    budget = bytes_of(memory_budget)
    settings = Settings(k=k, **hybrid_options(hybrid, pool, weights, rrf_k))
    retriever = open_with_model(
        index,
        model,
        device=checked_device(device),
        prompt=query_prompt,
        needs_lexical=hybrid,
        memory_budget=budget,
    )
    chunks = table_with_text(retriever)
    vector = retriever.encode_queries(query)
    words = retriever.lexical if hybrid else None
    with progress("rows searched") if retriever.searching().is_tiled else nullcontext() as show:
        search = retriever.searching(show)
        found, relevance = find_hits(search, words, Asked(vector, [query]), settings)
    hits = judge(retriever.index, vector, found, relevance, lam, gamma, window)
    if output is None:
        console = Console(highlight=False, width=None if Console().is_terminal else _WIDTH)
        _print(console, chunks, hits, lam, gamma)
        return
    from scar_gpu.cli.explain_page import page

    text = page(chunks, query, hits, lam, gamma, str(index), retriever.embedder.name)
    with replacing(output) as partial:
        partial.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    note(f"{output}: {len(hits)} hits explained")


def _print(console: Console, chunks: ChunkTable, hits: list[Hit], lam: float, gamma: float) -> None:
    console.print(
        f"S = relevance - {lam:g} x (1 - cosine with the hit); admitted if S > "
        f"{gamma:g} x the hit's relevance"
    )
    for hit in hits:
        chunk = chunks.chunk(hit.row)
        console.print()
        console.print(
            Text(
                f"{hit.rank}. {chunk.document} {chunk.start}..{chunk.end}  "
                f"relevance {hit.relevance:.3f}, threshold {hit.threshold:.3f}",
                style="bold",
            )
        )
        if chunk.headings:
            console.print(Padding(Text(" > ".join(chunk.headings)), (0, 0, 0, 3), expand=False))
        if not hit.neighbours:
            console.print("   no neighbours: the only chunk of its document, or window 0")
            continue
        console.print(_neighbours(chunks, hit))


def _neighbours(chunks: ChunkTable, hit: Hit) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 2, 0, 0), show_header=True)
    for name in ("", "relevance", "cosine", "S"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("text on both sides of the border |", overflow="fold")
    for neighbour in hit.neighbours:
        first, behind = sorted((hit.row, neighbour.row))
        run = list(parts(chunks, first, behind + 1))
        border = Text("")
        if abs(neighbour.offset) == 1:
            upper = run[0].before[-_BORDER:] + run[0].shared
            lower = run[1].before[:_BORDER]
            border = Text(f"{_last(upper)} | {' '.join(lower.split())}")
        table.add_row(
            f"{neighbour.offset:+d}",
            f"{neighbour.relevance:.3f}",
            f"{neighbour.likeness:.3f}",
            f"{neighbour.score:.3f}",
            neighbour.verdict,
            border,
        )
    return table


def _last(text: str) -> str:
    return " ".join(text.split())[-_BORDER:]
