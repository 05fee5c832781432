"""`scar-gpu sweep`: which lam and gamma serve a corpus, and what they bring where not tuned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scar_gpu.cli.messages import note, progress
from scar_gpu.cli.options import Device, Model, Overwrite, QueryPrompt, checked_device
from scar_gpu.cli.outputs import check_parents
from scar_gpu.cli.trials import (
    Cache,
    ChunkSize,
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
    prepare_all,
    read_datasets,
)

if TYPE_CHECKING:
    from scar_gpu.evaluation.held_out import HeldOut
    from scar_gpu.evaluation.sweep import Grid
    from scar_gpu.evaluation.sweep_report import Swept
    from scar_gpu.evaluation.trial import Trial


def sweep(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET...",
            help="Folders with docs/ and queries.jsonl, or of documents alone: then questions "
            "are made from their sentences.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for sweep.md, sweep.json, grid.csv, pictures."),
    ] = None,
    lam: Annotated[
        str | None, typer.Option(help="Values, such as 0,0.1,0.2 [default: 0 to 0.5].")
    ] = None,
    gamma: Annotated[
        str | None, typer.Option(help="Values, such as 0.6,0.8 [default: 0.1 to 1.1].")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="Questions to tune on: all, atomic, fragmented, long, scattered.")
    ] = "all",
    budget: Annotated[
        float, typer.Option(min=0, help="Most chunks, as a share of Window's.")
    ] = 0.75,
    loss: Annotated[float, typer.Option(min=0, help="Most of Window's recall to lose.")] = 0.03,
    k: Hits = 5,
    reach: Annotated[int, typer.Option(min=1, help="Furthest neighbour.")] = 1,
    contiguous: Annotated[
        bool, typer.Option("--contiguous", help="Stop a direction at its first refusal.")
    ] = False,
    hybrid: Hybrid = False,
    scope: ScopeOption = Scope.document,
    probes: Annotated[
        int, typer.Option(min=2, help="Questions to make for a folder without any.")
    ] = 1000,
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
    """Try every lam and gamma of a grid, and say which is best.

    What is best on some questions is then reported on others: with several datasets each is
    answered with the point of the others, with one its documents take turns.
    """
    checked_device(device)
    from scar_gpu.evaluation.evaluate import ALL
    from scar_gpu.evaluation.gold import KINDS
    from scar_gpu.evaluation.sweep import GAMMA, LAM, Grid
    from scar_gpu.evaluation.sweep_report import sweep_dataset
    from scar_gpu.evaluation.trial import Settings
    from scar_gpu.text.models import load_embedder

    if kind not in (ALL, *KINDS):
        raise ValueError(f"kind must be {ALL} or one of {', '.join(KINDS)}, got {kind!r}")
    values = (_numbers("lam", lam, LAM), _numbers("gamma", gamma, GAMMA))
    grid = Grid(*values, k=k, reach=reach, contiguous=contiguous, hybrid=hybrid)
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(output, overwrite)) if output else None
        settings = Settings(chunk_size, overlap, headings, window=reach, scope=scope.value)
        source = Source(settings, documents, skip_without_evidence, cache)
        found = read_datasets(datasets, source, n_probes=probes)
        embedder = load_embedder(model, device=device, query_prompt=query_prompt)
        trials = list(prepare_all(found, embedder, source))
        swept = []
        for trial in trials:
            with progress(f"sweeping {trial.dataset.name}"):
                swept.append(sweep_dataset(trial, grid, kind, budget, loss))
        held = _held_out(trials, grid, budget, kind, resamples, seed)
        text = _text(swept, held, budget, loss)
        if folder is None:
            typer.echo(text, nl=False)
            return
        about = {
            "model": embedder.name,
            "hash": embedder.content_hash,
            "chunk_size": chunk_size,
            "overlap": overlap,
            "headings": headings,
            "scope": scope.value,
            "kind": kind,
            "budget": budget,
            "loss": loss,
            "k": k,
            "reach": reach,
            "contiguous": contiguous,
            "hybrid": hybrid,
            "resamples": resamples,
            "seed": seed,
        }
        _write(folder, swept, held, text, about)
    note(f"{output}: sweep.md, sweep.json, grid.csv and {2 * len(swept)} pictures")


def _numbers(name: str, given: str | None, default: tuple[float, ...]) -> tuple[float, ...]:
    """The values of a grid, ascending, each once."""
    if given is None:
        return default
    try:
        return tuple(sorted({float(one) for one in given.split(",") if one.strip()}))
    except ValueError as error:
        raise ValueError(f"{name} must be numbers with commas between, got {given!r}") from error


@contextmanager
def _folder(output: Path, overwrite: bool) -> Iterator[Path]:
    """A folder that appears at the end, or not at all."""
    from scar_gpu.evaluation.plots import check_plotting
    from scar_gpu.storage.atomic import new_folder

    check_plotting()
    check_parents(output)
    # Pictures are named after datasets, so whatever an earlier sweep wrote may be replaced.
    known = {"sweep.md", "sweep.json", "grid.csv"}
    if overwrite and output.is_dir() and known <= {path.name for path in output.iterdir()}:
        known |= {path.name for path in output.glob("*.png")}
    with new_folder(output, frozenset(known), overwrite=overwrite) as folder:
        yield folder


def _held_out(
    trials: list[Trial], grid: Grid, budget: float, kind: str, resamples: int, seed: int
) -> HeldOut | None:
    from scar_gpu.evaluation.held_out import hold_out

    try:
        with progress("choosing on some questions, scoring others"):
            return hold_out(trials, grid, budget, kind=kind, resamples=resamples, seed=seed)
    except ValueError as error:
        note(f"nothing is reported on questions held out: {error}")
        return None


def _text(swept: list[Swept], held: HeldOut | None, budget: float, loss: float) -> str:
    from scar_gpu.evaluation.sweep_report import choices_table, to_text
    from scar_gpu.evaluation.tables import to_markdown

    parts = [to_text(one, budget, loss) for one in swept]
    if held is not None:
        parts += [
            "## Held out\n",
            f"Most coverage with at most {budget:.0%} of Window's chunks, chosen on the other "
            + ("documents:\n" if len(swept) == 1 else "datasets:\n"),
            choices_table(held),
            to_markdown(held.results),
        ]
    return "\n".join(parts)


def _write(
    folder: Path, swept: list[Swept], held: HeldOut | None, text: str, about: dict[str, Any]
) -> None:
    from scar_gpu.evaluation.evaluate import Results
    from scar_gpu.evaluation.sweep_report import draw, grid_csv, points_record
    from scar_gpu.evaluation.tables import to_json

    (folder / "sweep.md").write_text(text, encoding="utf-8")
    (folder / "grid.csv").write_text(grid_csv(swept), encoding="utf-8")
    choices = [] if held is None else [one._asdict() for one in held.choices]
    record = json.loads(to_json(Results() if held is None else held.results, about))
    record |= {"points": points_record(swept), "choices": choices}
    (folder / "sweep.json").write_text(
        json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    names = _file_names([one.trial.dataset.name for one in swept])
    for name, one in zip(names, swept, strict=True):
        draw(one, about["budget"], folder / f"{name}-heatmap.png", folder / f"{name}-pareto.png")


def _file_names(datasets: list[str]) -> list[str]:
    """Names of files from names of datasets, numbered where two would be one."""
    names = [re.sub(r"[^\w.-]+", "-", dataset) for dataset in datasets]
    folded = [name.casefold() for name in names]
    return [
        name if name and folded.count(name.casefold()) == 1 else f"{number}-{name}"
        for number, name in enumerate(names, 1)
    ]
