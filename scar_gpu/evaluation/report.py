"""The report: figures measured on labelled corpora, written as Markdown.

python -m scar_gpu.evaluation.report DATASET... -o docs/evaluation.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scar_gpu.evaluation.bootstrap import RESAMPLES
from scar_gpu.evaluation.datasets import Dataset, sample_documents
from scar_gpu.evaluation.measure import measure
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.evaluation.report_text import to_markdown


def _shown(path: Path) -> str:
    """A path that says nothing about the machine."""
    return path.name if path.is_absolute() else path.as_posix()


def _sampled(dataset: Dataset, samples: Mapping[str, int]) -> Dataset:
    n = samples.get(dataset.name)
    return dataset if n is None else sample_documents(dataset, n)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scar_gpu.evaluation.report")
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the Markdown file")
    parser.add_argument("--json", type=Path, help="keep the record of figures")
    parser.add_argument("--model", action="append", help="may be repeated; default: the default")
    parser.add_argument("--sample", action="append", default=[], metavar="NAME=DOCUMENTS")
    parser.add_argument("--cache", type=Path, help="folder that keeps vectors")
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    given = parser.parse_args(arguments)
    from scar_gpu.cli.outputs import check_output, replacing
    from scar_gpu.text.embedding_cache import default_cache_folder
    from scar_gpu.text.models import load_embedder

    for path in (given.output, given.json):
        if path is not None:
            check_output(path, overwrite=True)
    samples = {name: int(n) for name, _, n in (one.partition("=") for one in given.sample)}
    datasets = [_sampled(read_dataset(folder), samples) for folder in given.datasets]
    record = measure(
        datasets,
        [load_embedder(model) for model in given.model or [None]],
        cache=given.cache or default_cache_folder(),
        resamples=given.resamples,
        say=lambda text: print(text, file=sys.stderr),
    )
    options = [f"--sample {one}" for one in given.sample]
    options += [f"--model {one}" for one in given.model or []]
    if given.resamples != RESAMPLES:
        options.append(f"--resamples {given.resamples}")
    names = [folder.resolve().name for folder in given.datasets]
    command = " ".join(
        ["python -m scar_gpu.evaluation.report", *names, *options, "-o", _shown(given.output)]
    )
    texts = {given.output: to_markdown(record, command)}
    if given.json is not None:
        texts[given.json] = json.dumps(record, indent=1, allow_nan=False) + "\n"
    for path, text in texts.items():
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
