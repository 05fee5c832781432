"""`scar-gpu eval`: the paper's table on labelled corpora, with intervals and fair rivals."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scar_gpu.cli.messages import note, progress
from scar_gpu.cli.options import Device, Gamma, Lam, Model, Overwrite, QueryPrompt, checked_device
from scar_gpu.cli.outputs import check_output, replacing
from scar_gpu.cli.trials import (
    Cache,
    ChunkSize,
    Datasets,
    Documents,
    Headings,
    Hits,
    Hybrid,
    Overlap,
    Resamples,
    Scope,
    ScopeOption,
    Seed,
    SkipUnanswered,
    Source,
    Unit,
    prepare_all,
    read_datasets,
)

if TYPE_CHECKING:
    from scar_gpu.evaluation.evaluate import Results
    from scar_gpu.evaluation.methods import Method

_SUFFIXES = (".md", ".csv", ".json")


def evaluate(
    datasets: Datasets,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help=".md, .csv or .json; may be repeated."),
    ] = None,
    k: Hits = 5,
    lam: Lam = 0.1,
    gamma: Gamma = 0.8,
    hybrid: Hybrid = False,
    scope: ScopeOption = Scope.document,
    reranker: Annotated[
        str | None, typer.Option(help="Folder or name of a cross-encoder to compare with.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="What is averaged and resampled.")] = Unit.question,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    headings: Headings = True,
    chunk_size: ChunkSize = 600,
    overlap: Overlap = 60,
    documents: Documents = None,
    skip_without_evidence: SkipUnanswered = False,
    model: Model = None,
    query_prompt: QueryPrompt = None,
    device: Device = None,
    cache: Cache = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure recall, coverage and cost of SCAR and its rivals on labelled corpora.

    Every dataset is a folder with docs/ and queries.jsonl. Prints Markdown: a table per dataset
    and kind of question, with 95 % intervals, and the paired differences. Vectors are kept, so a
    second run embeds nothing.
    """
    outputs = output or []
    for path in outputs:
        check_output(path, overwrite, _SUFFIXES)
    checked_device(device)
    from scar_gpu.evaluation.evaluate import Results, paper_methods
    from scar_gpu.evaluation.evaluate import evaluate as evaluate_trial
    from scar_gpu.evaluation.tables import to_markdown
    from scar_gpu.evaluation.trial import Settings
    from scar_gpu.text.models import load_embedder

    settings = Settings(chunk_size, overlap, headings, scope=scope.value)
    source = Source(settings, documents, skip_without_evidence, cache)
    found = read_datasets(datasets, source)
    methods = paper_methods(k, lam, gamma, hybrid=hybrid) + _reranked(reranker, hybrid)
    embedder = load_embedder(model, device=device, query_prompt=query_prompt)
    results = Results()
    for trial in prepare_all(found, embedder, source):
        with progress(f"evaluating {trial.dataset.name}") as show:
            results.extend(
                evaluate_trial(
                    trial,
                    methods,
                    unit=unit.value,
                    resamples=resamples,
                    seed=seed,
                    progress=show,
                )
            )
    about = {
        "model": embedder.name,
        "hash": embedder.content_hash,
        "chunk_size": chunk_size,
        "overlap": overlap,
        "headings": headings,
        "scope": scope.value,
        "unit": unit.value,
        "resamples": resamples,
        "seed": seed,
        "reranker": reranker,
    }
    _write(outputs, results, about)
    if not outputs:
        typer.echo(to_markdown(results), nl=False)


def _reranked(reranker: str | None, hybrid: bool) -> list[Method]:
    if reranker is None:
        return []
    from scar_gpu.evaluation.reranking import Reranked, load_cross_encoder

    load_cross_encoder(reranker)  # before anything is embedded
    return [Reranked(reranker, hybrid=hybrid)]


def _write(outputs: list[Path], results: Results, about: dict[str, Any]) -> None:
    """Write every file, then put all of them in place."""
    from scar_gpu.evaluation.tables import to_csv, to_json, to_markdown

    texts = {
        ".md": lambda: to_markdown(results),
        ".csv": lambda: to_csv(results),
        ".json": lambda: to_json(results, about),
    }
    with ExitStack() as stack:
        for path in outputs:
            partial = stack.enter_context(replacing(path))
            partial.write_text(texts[path.suffix.lower()](), encoding="utf-8")
    for path in outputs:
        note(f"{path}: {len(results.rows):,} rows, {len(results.comparisons):,} differences")
