"""The entry point as a process: signals, early errors, the exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from scar_gpu.cli.messages import progress
from scar_gpu.cli.signals import handle_signals
from tests.text.word_embedder import WordEmbedder

ROOT = Path(__file__).parents[2]
# As from a terminal, even if the tests run behind nohup.
MAIN = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from scar_gpu.cli.main import main
main()
"""


class Slow(WordEmbedder):
    """Answers the first batch at once and then takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.is_first = True

    def encode(self, texts: list[str]) -> np.ndarray:
        if not self.is_first:
            time.sleep(15)
        self.is_first = False
        return super().encode(texts)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_leaves_no_half_written_file(
    index: Path, tmp_path: Path, name: str, code: int
) -> None:
    queries = tmp_path / "q.txt"
    queries.write_text("fruit\nwater\n")
    arguments = ["retrieve", str(index), str(queries), "-o", str(tmp_path / "out.jsonl")]
    options = ["--model", f"{__name__}:Slow", "--batch-size", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments, *options],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.jsonl.*.partial")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.Signals[name])
        _, errors = process.communicate(timeout=50)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "index", "q.txt"]


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, SystemExit),
        (signal.SIGHUP, SystemExit),
    ],
)
def test_a_signal_that_a_library_swallows_still_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, error: type[BaseException]
) -> None:
    monkeypatch.setattr("scar_gpu.cli.signals._raised", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    handle_signals()
    with progress("waiting") as show:
        show(1, None)
        with suppress(error):
            signal.raise_signal(number)
        with pytest.raises(error):
            show(2, None)
    # Where they are ignored, as behind nohup, they stay so.
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
        handle_signals()
        signal.raise_signal(ignored)
