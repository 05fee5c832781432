"""The entry point as a process: signals, early errors, the exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.text.word_embedder import WordEmbedder

ROOT = Path(__file__).parents[2]


class Slow(WordEmbedder):
    """Answers the first batch at once and then takes a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.is_first = True

    def encode(self, texts: list[str]) -> np.ndarray:
        if not self.is_first:
            time.sleep(60)
        self.is_first = False
        return super().encode(texts)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_leaves_no_half_written_file(
    index: Path, tmp_path: Path, name: str, code: int
) -> None:
    queries = tmp_path / "q.txt"
    queries.write_text("fruit\nwater\n")
    arguments = ["retrieve", str(index), str(queries), "-o", str(tmp_path / "out.jsonl")]
    options = ["--model", f"{__name__}:Slow", "--batch-size", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from scar_gpu.cli.main import main; main()", *arguments, *options],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.jsonl.*.partial")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.Signals[name])
    _, errors = process.communicate(timeout=50)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "index", "q.txt"]
