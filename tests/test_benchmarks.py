"""The benchmarks run, and check what they time, on tiny sizes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from peers import pins

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_benchmark_runs_on_tiny_sizes(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pytest", "-q", "benchmarks", "--size", "tiny"]
    command += ["--benchmark-disable-gc", "--report", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    rows = json.loads(report.read_text())["rows"]
    assert rows
    assert all(float(row["ratio"]) >= 0 for row in rows)
    # only ratios are kept: a time or a rate says something about one machine
    assert not re.search(r"milliseconds|queries/s", report.read_text())


def test_a_peer_of_another_version_is_an_error():
    assert not pins.is_installed("no-such-package", "no-such-package==1.0")
    with pytest.raises(pins.WrongVersion, match=r"pytest must be 0\.1 .*, got \d"):
        pins.is_installed("pytest", "pytest==0.1")


def test_every_peer_is_pinned():
    pinned = pins.pins()
    source = "".join(path.read_text() for path in (ROOT / "benchmarks/peers").glob("*.py"))
    named = set(re.findall(r'\(\s*"([a-z-]+)",\s', source))
    assert named
    assert named <= set(pinned)
