"""Every path of every command, given what it cannot be: one sentence that says so."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import MODEL, Refused, Run
from tests.cli.test_evaluate import SMALL, write_dataset

# Arguments by what they need; PATH is what is tried. Values are the suffixes it may have.
FOLDERS_READ = [
    ("info", "PATH"),
    ("retrieve", "PATH", "a question"),
    ("explain", "PATH", "a question"),
    ("eval", "PATH", *MODEL),
    ("sweep", "PATH", *MODEL),
    ("build", "CORPUS", "-o", "NEW", "--model", "PATH"),
    ("retrieve", "INDEX", "a question", "--model", "PATH"),
    ("eval", "DATASET", *MODEL, *SMALL, "--cache", "CACHE", "--reranker", "PATH"),
]
FOLDERS_MADE = [
    ("eval", "DATASET", *MODEL, *SMALL, "--cache", "PATH"),
    ("sweep", "DATASET", *MODEL, *SMALL, "--cache", "PATH"),
    ("build", "CORPUS", *MODEL, "--overwrite", "-o", "PATH"),
    ("sweep", "DATASET", *MODEL, *SMALL, "--cache", "CACHE", "--overwrite", "-o", "PATH"),
]
FILES_READ = [
    (("retrieve", "INDEX", "QUESTIONS", *MODEL, "--hits", "PATH"), (".npy", ".parquet")),
    (("build", "-o", "NEW", "--embeddings", "PATH"), (".npy", ".parquet", ".safetensors")),
    (("build", "PATH", "-o", "NEW", "--embeddings", "VECTORS"), (".jsonl", ".parquet")),
    (("build", "-o", "NEW", "--embeddings", "VECTORS", "--doc-ids", "PATH"), (".npy", ".txt")),
    (("build", "-o", "NEW", "--embeddings", "VECTORS", "--doc-offsets", "PATH"), (".npy",)),
    (("build", "PATH", "-o", "NEW", *MODEL), (".jsonl", ".parquet", ".md")),
]
FILES_MADE = [
    (("retrieve", "INDEX", "a question", "--overwrite", "-o", "PATH"), (".jsonl", ".parquet")),
    (("explain", "INDEX", "a question", "--overwrite", "-o", "PATH"), (".html",)),
    (("eval", "DATASET", *MODEL, "--overwrite", "-o", "PATH"), (".md", ".csv", ".json")),
]


def state(path: Path) -> bytes | bool:
    """The bytes of a file, else whether there is something; names may be too long to exist."""
    return path.read_bytes() if os.path.isfile(path) else os.path.lexists(path)


@pytest.fixture
def call(index: Path, corpus: Path, questions: Path, tmp_path: Path, refused: Refused):
    """Run a command that must be refused because of its path, and leave nothing behind."""
    (tmp_path / "file").write_text("neither a folder nor an index\n")
    np.save(tmp_path / "vectors.npy", np.ones((3, 4), np.float32))
    known = {
        "INDEX": index,
        "CORPUS": corpus,
        "QUESTIONS": questions,
        "VECTORS": tmp_path / "vectors.npy",
        "DATASET": write_dataset(tmp_path / "machines"),
        "CACHE": tmp_path / "cache",
        "NEW": tmp_path / "new",
    }

    def invoke(arguments: tuple, path: Path) -> str:
        before = state(path)
        message = refused(*(path if a == "PATH" else known.get(a, a) for a in arguments))
        assert " must " in message, message
        assert "[Errno" not in message
        assert "os error" not in message
        assert state(path) == before
        assert not (tmp_path / "new").exists()
        return message

    return invoke


@pytest.mark.parametrize("arguments", FOLDERS_READ)
def test_folders_that_are_none(call, tmp_path, arguments: tuple) -> None:
    (tmp_path / "folder").mkdir()
    names = ("file", "folder", "missing", "file/below", "n" * 300)
    for name in names:
        call(tuple(arguments), tmp_path / name)


@pytest.mark.parametrize("arguments", FOLDERS_MADE)
def test_folders_that_cannot_be_made(call, tmp_path, arguments: tuple) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link", "file/below", "n" * 300):
        call(arguments, tmp_path / name)


@pytest.mark.parametrize(("arguments", "suffixes"), FILES_READ)
def test_files_that_are_none(call, tmp_path, arguments: tuple, suffixes: tuple) -> None:
    for suffix in suffixes:
        folder = tmp_path / f"folder{suffix}"
        folder.mkdir()
        for path in (folder, tmp_path / f"missing{suffix}", tmp_path / "file" / f"below{suffix}",
                     tmp_path / ("n" * 300 + suffix)):  # fmt: skip
            call(arguments, path)


@pytest.mark.parametrize(("arguments", "suffixes"), FILES_MADE)
def test_files_that_cannot_be_made(call, tmp_path, arguments: tuple, suffixes: tuple) -> None:
    for suffix in suffixes:
        (tmp_path / f"folder{suffix}").mkdir()
        for name in ("folder", "missing/below", "file/below", "n" * 300):
            call(arguments, tmp_path / f"{name}{suffix}")


def test_a_cache_is_refused_before_anything_is_read(tmp_path, refused: Refused) -> None:
    (tmp_path / "file").touch()
    for command in ("eval", "sweep"):
        message = refused(command, tmp_path / "missing", "--cache", tmp_path / "file")
        assert message == f"cache must be a folder, got {tmp_path / 'file'}, which is none"


@pytest.mark.parametrize("name", ["retrieve", "explain"])
def test_k_has_a_short_name(index, succeed: Run, name: str) -> None:
    command = (name, index, "fruit", *MODEL)
    assert succeed(*command, "-k", 2).stdout == succeed(*command, "--k", 2).stdout
