"""The benchmarks run, and check what they time, on tiny sizes."""

import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import bench_memory
import bench_parameter_sweep
import bench_rank_fusion
import measure
import pytest
import table
from measure import OtherProcesses, Rounds, interleaved
from peers import pins
from report import Report, slope
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
    for picture in ("performance-growth.png", "performance-memory.png"):
        assert f"({picture})" in page.read_text()
        assert page.with_name(picture).exists()


TEMPORARY = """
import peak_memory, torch

def call(operation, case):
    def function():
        parts = [torch.ones(case["N"] << 10, dtype=torch.uint8) for _ in range(3)]
        return (parts[0], None)
    return function

peak_memory.call = call
print([peak_memory.in_a_child("", {"N": n << 10}) >> 20 for n in (32, 4, 16)])
"""


def test_a_ratio_is_that_of_the_same_rounds():
    ours = Rounds(1.0, 0.0, seconds=(1.0, 1.0, 2.0, 2.0, 9.0), others=0.0)
    theirs = Rounds(6.0, 0.0, seconds=(6.0, 6.0, 12.0, 12.0, 12.0), others=0.0)
    assert (theirs.over(ours), ours.over(ours)) == (6.0, 1.0)
    timings = interleaved({"one": lambda: None, "other": lambda: None}, rounds=4, calls=2)
    assert [len(each.seconds) for each in timings.values()] == [4, 4]


def test_short_functions_are_called_often():
    counts = {"short": 0, "long": 0}

    def call(name: str, seconds: float) -> None:
        counts[name] += 1
        # the very first call takes longer than all of a slice
        time.sleep(0.05 if counts["short"] == 1 else seconds)

    functions = {"short": lambda: call("short", 0.003), "long": lambda: call("long", 0.1)}
    timings = interleaved(functions, rounds=2)
    assert counts["long"] == 2 + 2 * 2
    # not as often as the first call says: 8 or 16 times in a slice
    assert 2 * 4 < counts["short"] <= 1 + 31 + 2 * 17
    assert 10 < timings["long"].over(timings["short"]) < 34


def test_what_is_timed_follows_a_call_of_the_same_function(monkeypatch):
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "ab"}
    interleaved(functions, rounds=2, calls=2)
    assert "".join(calls) == "aaabbb" + "aaabbb" * 2
    monkeypatch.setattr(measure, "WARM_UP_SECONDS", 0)  # everything is too long for it
    calls.clear()
    interleaved(functions, rounds=1, calls=2)
    assert "".join(calls) == "aaabbb" + "aabb"


def test_a_busy_neighbour_is_seen():
    others = OtherProcesses()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        time.sleep(1)
        share = others.share()
        busy.kill()
    assert 0.2 / os.cpu_count() < share <= 1


def test_the_share_of_others_is_that_of_all_cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(OtherProcesses, "_now", staticmethod(iter([(5, 7.0), (7, 8.0)]).__next__))
    assert OtherProcesses().share() == 0.25


def test_memory_is_counted_without_results_and_earlier_calls():
    path = os.pathsep.join((str(ROOT), str(ROOT / "benchmarks")))
    command = [sys.executable, "-c", TEMPORARY]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == pytest.approx([64, 8, 32], abs=1)


def test_memory_too_little_to_tell_is_no_growth():
    report, benchmark = Report(), SimpleNamespace(fullname="bench_memory.py::x", extra_info={})
    for extras in ([0, 100_000], [1 << 20, 2 << 20]):
        report.add_memory_curve(benchmark, work="", variable="B", sizes=[1, 2], extras=extras)
    assert [row["ratio"] for row in report.rows] == ["0.00", "1.00"]


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


def test_every_size_has_curves_of_memory():
    everything = set(SIZES.values())
    assert set(bench_memory.BASE) == set(bench_memory.VALUES) == everything
