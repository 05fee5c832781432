"""Fixtures of the command line's tests."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from scar_gpu.cli.app import app

WORDS = "tests.text.word_embedder:WordEmbedder"
MODEL = ("--model", WORDS)
QUESTIONS = ["red fruit of apple tree number 3", "cold river water 5", "fruit", "river 0 blue"]

Run = Callable[..., Result]
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def _signals_are_those_of_the_tests() -> Iterator[None]:
    """A command that runs in this process would keep a signal from ending the tests."""
    known = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in known]
    yield
    for each, handler in zip(known, before, strict=True):
        signal.signal(each, handler)


@pytest.fixture
def run() -> Run:
    """Run the command; arguments may be paths and numbers."""

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def succeed(run: Run) -> Run:
    """Run a command that must succeed."""

    def invoke(*arguments: object) -> Result:
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        return result

    return invoke


@pytest.fixture
def refused(run: Run) -> Refused:
    """Run a command that must fail with one sentence; the sentence."""

    def invoke(*arguments: object) -> str:
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        *before, last = result.stderr.splitlines()
        assert "Traceback" not in result.output
        assert not any(line.startswith("Error") for line in before)
        return last.removeprefix("scar-gpu: ")

    return invoke


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of two documents of several chunks, with headings."""
    folder = tmp_path / "corpus"
    (folder / "deep").mkdir(parents=True)
    fruit = "# Fruit\n\n" + "".join(f"Apple tree number {i} grows red fruit.\n\n" for i in range(9))
    (folder / "fruit.md").write_text(fruit)
    water = "1.  Water\n\n" + "".join(f"River water {i} runs cold and blue.\n\n" for i in range(9))
    (folder / "deep" / "water.txt").write_text(water)
    return folder


@pytest.fixture
def index(corpus: Path, tmp_path: Path, succeed: Run) -> Path:
    """An index of the corpus."""
    path = tmp_path / "index"
    succeed("build", corpus, "-o", path, "--model", WORDS, "--chunk-size", 60, "--overlap", 0)
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "q.txt"
    path.write_text("\n".join(QUESTIONS) + "\n")
    return path
