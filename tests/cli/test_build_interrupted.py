"""`scar-gpu build`: interrupted, resumed, on a full disk; what is embedded once."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from scar_gpu.storage import open_index
from tests.cli.conftest import MODEL, Run
from tests.text.word_embedder import WordEmbedder


class Stopping(WordEmbedder):
    """Is interrupted at its second call, as by Ctrl-C; `made` keeps all of them."""

    made: list[Stopping] = []  # noqa: RUF012
    stop_at = 2

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.made.append(self)

    def encode(self, texts: list[str]) -> np.ndarray:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        return super().encode(texts)


@pytest.fixture
def stopping() -> Iterator[str]:
    Stopping.made.clear()
    yield f"{__name__}:Stopping"
    Stopping.stop_at = 2


def test_an_interrupted_build_goes_on_where_it_stopped(
    corpus: Path, tmp_path: Path, run: Run, succeed: Run, stopping: str
) -> None:
    output = tmp_path / "index"
    arguments = ("build", corpus, "-o", output, "--chunk-size", 40, "--overlap", 0)
    first = run(*arguments, "--model", stopping, "--batch-size", 1)
    assert first.exit_code == 130
    assert "4 vectors are kept in" in first.stderr
    assert not output.exists()
    Stopping.stop_at = 0
    second = succeed(*arguments, "--model", stopping, "--batch-size", 1)
    assert "going on with 4 vectors" in second.stderr
    before, after = (set(embedder.seen) for embedder in Stopping.made)
    assert len(before) == 4
    assert not before & after
    # The work is done: nothing stays beside the index, which is that of an uninterrupted build.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "index"]
    succeed(*arguments[:3], tmp_path / "whole", *arguments[4:], *MODEL)
    whole, resumed = (open_index(tmp_path / name).index for name in ("whole", "index"))
    assert torch.equal(whole.embeddings, resumed.embeddings)


def test_a_build_can_begin_anew(corpus: Path, tmp_path: Path, run: Run, stopping: str) -> None:
    arguments = ("build", corpus, "-o", tmp_path / "index", "--model", stopping)
    small = ("--chunk-size", 40, "--overlap", 0, "--batch-size", 1)
    assert run(*arguments, *small).exit_code == 130
    Stopping.stop_at = 0
    assert run(*arguments, *small, "--no-resume").exit_code == 0
    before, after = (set(embedder.seen) for embedder in Stopping.made)
    assert before <= after


def test_equal_text_is_embedded_once(tmp_path: Path, succeed: Run, stopping: str) -> None:
    Stopping.stop_at = 0
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text("the same text")
    result = succeed("build", folder, "-o", tmp_path / "index", "--model", stopping)
    assert Stopping.made[0].seen == ["the same text"]
    assert "embedded 3 chunks, 1 of them different" in result.stderr
    assert open_index(tmp_path / "index").index.n_chunks == 3


class Limited(WordEmbedder):
    """Reads 50 characters."""

    def count_truncated(self, texts: list[str]) -> int:
        return sum(len(text) > 50 for text in texts)


def test_truncated_chunks_are_reported(corpus: Path, tmp_path: Path, succeed: Run) -> None:
    (corpus / "long.txt").write_text("word " * 20)
    (corpus / "again.txt").write_text("word " * 20)
    options = ("--glob", "*n*.txt", "--model", f"{__name__}:Limited")
    result = succeed("build", corpus, "-o", tmp_path / "index", *options)
    assert "1 of 1 different chunks are longer than words reads" in result.stderr


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow beyond a few blocks, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_leaves_the_old_index(
    tmp_path: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    old = np.eye(4, dtype=np.float32)
    np.save(tmp_path / "m.npy", old)
    assert run("build", "--embeddings", tmp_path / "m.npy", "-o", tmp_path / "i").exit_code == 0
    # Larger than what may be written, and written before the limit.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
    np.save(tmp_path / "m.npy", np.eye(200, dtype=np.float32))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    result = run("build", "--embeddings", tmp_path / "m.npy", "-o", tmp_path / "i", "--overwrite")
    assert result.exit_code == 2
    assert os.strerror(27) in result.stderr  # EFBIG
    assert torch.equal(open_index(tmp_path / "i", verify=True).index.embeddings, torch.eye(4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i", "m.npy"]
