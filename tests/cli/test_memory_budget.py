"""`--memory-budget`: a matrix that exceeds it is searched by tiles, and nothing else changes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from scar_gpu import tile_size
from scar_gpu.cli import messages
from scar_gpu.cli.options import bytes_of
from tests.cli.conftest import MODEL, QUESTIONS, Refused, Run

TINY, HUGE = ("--memory-budget", "1500"), ("--memory-budget", "1TiB")


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget is for rows alone, and may be any; every report of progress is printed."""
    monkeypatch.setattr(tile_size, "_search_bytes", lambda *arguments: 0)
    monkeypatch.setattr(tile_size, "LEAST_TILE_BYTES", 1)
    monkeypatch.setattr(tile_size, "N_BUFFERS", 1)
    monkeypatch.setattr(messages, "_SECONDS_BETWEEN_LINES", 0)


def outputs(succeed: Run, folder: Path, *command: object) -> list[bytes]:
    """What a command writes with a tiny and with a huge budget, and that it says so."""
    found = []
    for budget in (TINY, HUGE):
        output = folder / "out.jsonl"
        result = succeed(*command, "-o", output, *MODEL, "--overwrite", *budget)
        lines = re.findall(r"^scar-gpu: rows searched: (\d+) of (\d+)$", result.stderr, re.M)
        assert bool(lines) == (budget is TINY)
        if lines:
            assert len(lines) > 3
            assert lines[-1][0] == lines[-1][1]
        found.append(output.read_bytes())
    return found


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "arguments",
    [(), ("--batch-size", 3), ("--method", "window", "--k", 9), ("--method", "none")],
    ids=str,
)
def test_retrieve_writes_the_same_file(
    index: Path, questions: Path, tmp_path: Path, succeed: Run, arguments: tuple[object, ...]
) -> None:
    tiny, huge = outputs(succeed, tmp_path, "retrieve", index, questions, *arguments)
    assert tiny == huge
    assert len(tiny.splitlines()) >= len(QUESTIONS)


@pytest.mark.usefixtures("small_tiles")
def test_within_a_document_and_with_words(corpus: Path, tmp_path: Path, succeed: Run) -> None:
    pytest.importorskip("bm25s")
    path, queries = tmp_path / "hybrid", tmp_path / "q.jsonl"
    succeed("build", corpus, "-o", path, *MODEL, "--chunk-size", 60, "--overlap", 0, "--lexical")
    rows = [{"query": text, "doc": "fruit.md"} for text in QUESTIONS]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for arguments in (
        ("--within-document", "doc"), ("--hybrid",), ("--hybrid", "--within-document", "doc"),
    ):  # fmt: skip
        output = tmp_path / "out.jsonl"
        found = []
        for budget in (TINY, HUGE):
            options = ("-o", output, "--overwrite", *MODEL, *arguments, *budget)
            result = succeed("retrieve", path, queries, *options)
            assert ("rows searched" in result.stderr) == (budget is TINY)
            found.append(output.read_bytes())
        assert found[0] == found[1]
        assert found[0].count(b"\n") >= len(QUESTIONS)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("command", ["explain", "retrieve"])
def test_the_screen_shows_the_same(index: Path, succeed: Run, command: str) -> None:
    tiny, huge = (succeed(command, index, QUESTIONS[0], *MODEL, *size) for size in (TINY, HUGE))
    assert tiny.stdout == huge.stdout
    assert "rows searched" in tiny.stderr
    assert huge.stderr == ""


@pytest.mark.usefixtures("small_tiles")
def test_given_hits_need_no_search(index: Path, tmp_path: Path, succeed: Run) -> None:
    np.save(tmp_path / "v.npy", np.ones((2, 32), np.float32))
    np.save(tmp_path / "h.npy", np.array([[0], [1]]))
    result = succeed(
        "retrieve", index, tmp_path / "v.npy", "--hits", tmp_path / "h.npy",
        "--memory-budget", "1B",
    )  # fmt: skip
    assert "rows searched" not in result.stderr


def test_a_matrix_larger_than_the_budget_of_a_real_search(
    tmp_path: Path, succeed: Run, refused: Refused, threads: Callable[[int], None]
) -> None:
    """Nothing is pretended: 19 MB of vectors, searched in 18 MB by two threads."""
    threads(2)
    generator = np.random.default_rng(0)
    np.save(tmp_path / "m.npy", generator.standard_normal((150_000, 32), np.float32))
    np.save(tmp_path / "q.npy", generator.standard_normal((12, 32), np.float32))
    path, command = tmp_path / "index", ("retrieve", tmp_path / "index", tmp_path / "q.npy")
    succeed("build", "--embeddings", tmp_path / "m.npy", "-o", path)
    found = []
    for budget in ("18MB", "1GB"):
        output = tmp_path / f"{budget}.jsonl"
        succeed(*command, "-o", output, "--memory-budget", budget)
        found.append(output.read_bytes())
    assert found[0] == found[1]
    message = refused(*command, "--memory-budget", "1MB")
    assert re.fullmatch(
        r"memory_budget must be >= 1\d{7} for 12 queries and k = 5, got 1000000", message
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [(None, None), ("1", 1), ("4096", 4096), ("12B", 12), ("1k", 1000), ("1KiB", 1024),
     ("512MiB", 2**29), ("1.5GiB", 3 * 2**29), ("8GB", 8 * 10**9), ("8G", 8 * 10**9),
     (" 2 Ti ", 2**41), ("512mib", 2**29), ("9" * 400, 10**400)],
)  # fmt: skip
def test_sizes(size: str | None, expected: int | None) -> None:
    assert bytes_of(size) == expected


@pytest.mark.parametrize(
    ("size", "message"),
    [("much", "memory-budget must be a size such as 512MiB or 8GB, got 'much'"),
     ("-1", "memory-budget must be a size such as 512MiB or 8GB, got '-1'"),
     ("3iB", "memory-budget must be a size such as 512MiB or 8GB, got '3iB'"),
     ("nan", "memory-budget must be a size such as 512MiB or 8GB, got 'nan'"),
     ("", "memory-budget must be a size such as 512MiB or 8GB, got ''"),
     ("0.5", "memory-budget must be at least one byte, got '0.5'")],
)  # fmt: skip
@pytest.mark.parametrize("command", ["retrieve", "explain"])
def test_no_sizes(index: Path, refused: Refused, command: str, size: str, message: str) -> None:
    assert refused(command, index, "why", *MODEL, f"--memory-budget={size}") == message


def test_a_step_within_a_step_has_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        messages, "Console", lambda stderr: Console(file=screen, force_terminal=True, width=80)
    )
    with messages.progress("outer") as outer:
        outer(1, None)
        bars = messages._shown
        assert bars is not None

        def step() -> None:
            with messages.progress("inner") as inner:
                inner(3, 4)
                bars.refresh()
                assert [task.description for task in bars.tasks] == ["outer", "inner"]
                raise KeyError

        with pytest.raises(KeyError):
            step()
        assert [task.description for task in bars.tasks] == ["outer"]
    assert messages._shown is None
    assert "3/4" in screen.getvalue()
    with messages.progress("next") as following:
        following(1, 1)
    assert messages._shown is None
