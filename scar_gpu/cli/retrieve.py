"""`scar-gpu retrieve`: queries in, contexts out, in batches of constant memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from scar_gpu.cli.answers import Answers
from scar_gpu.cli.given_hits import GivenHits
from scar_gpu.cli.messages import progress
from scar_gpu.cli.opened import open_with_model, open_without_model
from scar_gpu.cli.options import (
    Device,
    Gamma,
    Hybrid,
    Index,
    Lam,
    MemoryBudget,
    Method,
    Model,
    Order,
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
from scar_gpu.cli.queries import Columns, Queries, query_file, read_queries, vectors_expected
from scar_gpu.cli.writers import SUFFIXES, Screen, Writer, open_writer, with_ids

_DEFAULT_K = 5


def retrieve(
    index: Index,
    queries: Annotated[
        str,
        typer.Argument(
            metavar="QUERIES",
            help="A question, or a file: .txt with one per line, .jsonl, .parquet, or .npy of "
            "query vectors.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=".jsonl or .parquet [default: a table here]."),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Take QUERIES as a question even if it names a file.")
    ] = False,
    hits: Annotated[
        Path | None, typer.Option(help="Hits of another retriever: .npy [Q, K] or .parquet.")
    ] = None,
    hits_column: Annotated[str, typer.Option(help="Column of lists of rows.")] = "hits",
    method: Annotated[
        Method, typer.Option(help="Neighbours: those SCAR admits, all, or none.")
    ] = Method.scar,
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", min=1, help="Hits per query [default: 5, or all given]."),
    ] = None,
    window: Window = None,
    lam: Lam = 0.1,
    gamma: Gamma = 0.8,
    order: Annotated[Order, typer.Option(help="Best first, or reading order.")] = Order.rank,
    hybrid: Hybrid = False,
    pool: Pool = None,
    weights: Weights = None,
    rrf_k: RrfK = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of the queries' ids [default: id, if any].")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Column of the queries [default: query, question or text].")
    ] = None,
    vector_column: Annotated[
        str | None, typer.Option(help="Column of query vectors, to be used instead of texts.")
    ] = None,
    within_document: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column that names the document to search for each query."
        ),
    ] = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Write where the contexts lie, not their text.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Queries at a time.")] = 1024,
    model: Model = None,
    query_prompt: QueryPrompt = None,
    device: Device = None,
    memory_budget: MemoryBudget = None,
    overwrite: Overwrite = False,
) -> None:
    """Answer questions with contexts: hits and the neighbours that belong to them.

    Each context is one record: query, document, start, end, text, rank, score, hits,
    neighbours, headings.
    """
    started = time.perf_counter()
    if output is not None:
        check_output(output, overwrite, SUFFIXES)
    path = query_file(queries, text)
    columns = Columns(id_column, text_column, vector_column, within_document)
    given = None if hits is None else GivenHits(hits, hits_column, k)
    options = {
        "k": k or _DEFAULT_K,
        "method": method.value,
        "window": window,
        "lam": lam,
        "gamma": gamma,
        "order": order.value,
        **hybrid_options(hybrid, pool, weights, rrf_k),
    }
    is_words = path is None or not vectors_expected(path, columns)
    _check_hybrid(options, is_words, given)
    place, budget = checked_device(device), bytes_of(memory_budget)
    if is_words:
        retriever = open_with_model(
            index,
            model,
            device=place,
            prompt=query_prompt,
            needs_lexical=hybrid,
            memory_budget=budget,
        )
    else:
        retriever = open_without_model(index, device=place, memory_budget=budget)
    answers = Answers(retriever, given, with_text=not no_text, options=options)
    batches = _read(queries, path, columns, batch_size)
    with ExitStack() as stack:
        writer: Writer = Screen(retriever)
        if output is not None:
            show = stack.enter_context(progress("queries answered"))
            partial = stack.enter_context(replacing(output))
            writer = stack.enter_context(open_writer(partial, output.suffix.lower()))
        for batch in batches:
            contexts = answers.table(batch)
            if output is not None:
                contexts = with_ids(contexts, batch.ids)
                show(answers.n_queries, None)
            writer.write(batch, contexts)
        if given is not None:
            given.check_finished()
        if not answers.n_queries:
            raise ValueError(f"queries must hold at least one query, got none in {queries}")
    answers.report(output, time.perf_counter() - started)


def _check_hybrid(options: dict[str, Any], is_words: bool, given: GivenHits | None) -> None:
    """Refuse what can be refused before an index is opened."""
    from scar_gpu.text.settings import Settings

    if not Settings(**options).hybrid:
        return
    if given is not None:
        raise ValueError("hybrid must not come with --hits, which are not searched for")
    if not is_words:
        raise ValueError("hybrid must come with queries in words, got query vectors alone")


def _read(queries: str, path: Path | None, columns: Columns, batch_size: int) -> Iterator[Queries]:
    if path is not None:
        return read_queries(path, columns, batch_size)
    if columns.within is not None:
        raise ValueError("within-document must be a column of a query file, got a question")
    return iter([Queries([0], [queries])])
