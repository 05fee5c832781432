"""The benchmarks run, and check what they time, on tiny sizes."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import bench_parameter_sweep
import bench_rank_fusion
import pytest
import table
from peers import pins
from report import slope
from sizes import SIZES

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
    assert all(math.isfinite(float(row["ratio"])) for row in rows)
    # only ratios are kept: a time or a rate says something about one machine
    assert not re.search(r"milliseconds|queries/s", report.read_text())
    page = tmp_path / "docs" / "performance.md"
    table.main(str(report), str(page))
    assert all(f"| {row['work']} |" in page.read_text() for row in rows)


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


def row(work: str, ratio: str, met: str = "") -> dict[str, str]:
    names = {"work": work, "against": "a rival", "target": "", "section": "peers"}
    return {**names, "ratio": ratio, "": met}


def test_losing_rows_come_first():
    rows = [row("faster", "2.00"), row("slower", "0.50"), row("missed", "3.00", "MISSED")]
    works = [line.split("|")[1].strip() for line in table.table(rows)[2:]]
    assert works == ["missed", "slower", "faster"]


def test_the_exponent_of_a_power_law():
    assert slope([1, 2, 4, 8], [3 * size**1.5 for size in (1, 2, 4, 8)]) == pytest.approx(1.5)
    assert slope([1, 2, 4], [7.0, 7.0, 7.0]) == pytest.approx(0)


@pytest.mark.parametrize(
    "shapes", [bench_parameter_sweep.SHAPES, bench_parameter_sweep.UNITS, bench_rank_fusion.SHAPES]
)
def test_every_size_has_shapes(shapes):
    assert set(shapes) == set(SIZES)
