"""What `eval` and `sweep` share: options, and datasets read, embedded and indexed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from scar_gpu.cli.messages import note, progress

if TYPE_CHECKING:
    from scar_gpu.evaluation.datasets import Dataset
    from scar_gpu.evaluation.trial import Settings, Trial
    from scar_gpu.text import Embedder


class Scope(StrEnum):
    """Where a question is answered from."""

    document = "document"
    corpus = "corpus"


class Unit(StrEnum):
    """What is averaged and resampled."""

    question = "question"
    document = "document"


def check_cache(cache: Path | None) -> Path | None:
    """The folder, refused before anything is read if it cannot be one."""
    if cache is not None and os.path.lexists(cache) and not cache.is_dir():
        raise FileExistsError(f"cache must be a folder, got {cache}, which is none")
    return cache


Datasets = Annotated[
    list[Path],
    typer.Argument(metavar="DATASET...", help="Folders with docs/ and queries.jsonl."),
]
Hits = Annotated[int, typer.Option("-k", "--k", min=1, help="Hits per question.")]
ScopeOption = Annotated[Scope, typer.Option(help="Search the question's document, or all of them.")]
Hybrid = Annotated[
    bool, typer.Option("--hybrid", help="Fuse the hits with those of BM25 before expansion.")
]
Headings = Annotated[
    bool, typer.Option(help="Put the heading path before the text that is embedded.")
]
ChunkSize = Annotated[int, typer.Option(min=2, help="Most characters of a chunk.")]
Overlap = Annotated[int, typer.Option(min=0, help="Most characters a chunk repeats.")]
Documents = Annotated[
    int | None,
    typer.Option(min=1, help="Take a fixed sample of so many documents of each dataset."),
]
SkipUnanswered = Annotated[
    bool, typer.Option("--skip-without-evidence", help="Leave out questions without evidence.")
]
Cache = Annotated[
    Path | None,
    typer.Option(
        help="Folder that keeps vectors by model and text [default: the user's cache].",
        callback=check_cache,
    ),
]
Resamples = Annotated[int, typer.Option(min=1, help="Of the bootstrap.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the bootstrap.")]


class Source(NamedTuple):
    """How datasets become trials."""

    settings: Settings
    documents: int | None
    skip_without_evidence: bool
    cache: Path | None


def read_datasets(folders: Sequence[Path], source: Source, *, n_probes: int = 0) -> list[Dataset]:
    """Read all datasets before anything is embedded; say what is left out.

    With `n_probes`, a folder without questions is read as documents, and they are made.

    Raises:
        ValueError: a bad dataset, or two of one name.
    """
    from scar_gpu.evaluation.datasets import sample_documents
    from scar_gpu.evaluation.reading import is_labelled, read_dataset

    found: list[Dataset] = []
    for folder in folders:
        if n_probes and folder.exists() and not is_labelled(folder):
            dataset = _probes(folder, n_probes, source)
        else:
            dataset = read_dataset(folder, skip_without_evidence=source.skip_without_evidence)
            if source.documents is not None:
                dataset = sample_documents(dataset, source.documents)
        if dataset.name in [one.name for one in found]:
            raise ValueError(f"datasets must have different names, got {dataset.name!r} twice")
        without = dataset.documents_without_questions()
        if without:
            note(
                f"{dataset.name}: {len(without)} of {len(dataset.documents)} documents have no "
                f"question, the first is {without[0]!r}"
            )
        found.append(dataset)
    return found


def _probes(folder: Path, n: int, source: Source) -> Dataset:
    """Sample the documents first, so that all n questions are about those that are kept."""
    from scar_gpu.evaluation.datasets import sample_ids, sampled_name
    from scar_gpu.evaluation.probes import make_probes
    from scar_gpu.text import read_documents

    name, documents = folder.resolve().name, read_documents(folder)
    if source.documents is not None and source.documents < len(documents):
        chosen = sample_ids((one.id for one in documents), source.documents)
        documents = [one for one in documents if one.id in chosen]
        name = sampled_name(name, source.documents)
    settings = source.settings
    dataset = make_probes(
        documents, name, n=n, chunk_size=settings.chunk_size, overlap=settings.overlap
    )
    note(
        f"{name}: no queries.jsonl, so {len(dataset.questions):,} questions are made "
        "from its sentences; what is best on them is a proxy"
    )
    return dataset


def prepare_all(datasets: Sequence[Dataset], embedder: Embedder, source: Source) -> Iterator[Trial]:
    """Chunk, embed and index one dataset after the other, with a progress bar each."""
    from scar_gpu.evaluation.trial import prepare
    from scar_gpu.text.embedding_cache import default_cache_folder

    cache = source.cache or default_cache_folder()
    for dataset in datasets:
        with progress(f"embedding {dataset.name}") as show:
            trial = prepare(dataset, embedder, source.settings, cache=cache, progress=show)
        note(
            f"{dataset.name}: {len(dataset.documents):,} documents, {len(trial.chunks):,} chunks, "
            f"{len(dataset.questions):,} questions"
        )
        yield trial
