"""Fixtures of the evaluation's tests: tiny labelled corpora."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scar_gpu.evaluation.datasets import Dataset
from scar_gpu.evaluation.reading import read_dataset

WriteFolder = Callable[..., Path]


@pytest.fixture
def write_folder(tmp_path: Path) -> WriteFolder:
    """Write `docs/` and `queries.jsonl`; a line may be a record or raw text."""

    def write(docs: Mapping[str, str], lines: list[Any], name: str = "tiny") -> Path:
        for path, text in docs.items():
            file = tmp_path / name / "docs" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        raw = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / name / "queries.jsonl").write_text("\n".join(raw) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def dataset_of(write_folder: WriteFolder) -> Callable[..., Dataset]:
    """A dataset of one document "d" and one question per given evidence."""

    def make(text: str, *evidence: list[Any]) -> Dataset:
        lines = [
            {"id": f"q{i}", "doc": "d", "question": "What?", "evidence": units}
            for i, units in enumerate(evidence)
        ]
        return read_dataset(write_folder({"d": text}, lines))

    return make


def unit(start: int, end: int, **more: Any) -> dict[str, Any]:
    """A unit of evidence."""
    return {"start": start, "end": end, **more}
