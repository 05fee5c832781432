"""Sizes, the shared chunk matrix, the table at the end of a run.

    pytest benchmarks                 full sizes, one figure per row of the table
    pytest benchmarks --size tiny     the same code in a second, for the test-suite

Every row is a ratio measured in one interleaved run; `target` is what the design asks for.
"""

import importlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from corpus import Corpus
from measure import Timing
from sizes import FULL, TINY, Size

pytest_plugins = ("pytest_benchmark",)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=("full", "tiny"), default="full")
    parser.addoption("--report", metavar="FILE", help="write the closing table as JSON")


ABSOLUTE = ("queries/s", "milliseconds")


@dataclass
class Report:
    """Rows of the closing table."""

    rows: list[dict[str, str]] = field(default_factory=list)

    def add(
        self,
        benchmark,
        *,
        work: str,
        against: str,
        ratio: float,
        target: str,
        met: bool | None,
        timing: Timing,
        bytes_read: int = 0,
    ) -> None:
        """Add one row, and the same to the benchmark's extra_info."""
        verdict = "" if met is None else "met" if met else "MISSED"
        row = {
            "work": work,
            "against": against,
            "ratio": f"{ratio:.2f}",
            "target": target,
            "": verdict,
            "spread": f"{timing.spread:.0%}",
        }
        benchmark.extra_info.update(row)
        if bytes_read:
            benchmark.extra_info["GB/s"] = bytes_read / timing.median / 1e9
        self.rows.append(row)

    def add_memory(self, benchmark, *, work: str, extra: int, limit: int) -> None:
        """Add a row for temporary memory."""
        row = {
            "work": work,
            "against": "temporary memory, MiB",
            "ratio": f"{max(extra, 0) / 2**20:.1f}",
            "target": f"<= {limit >> 20}",
            "": "met" if extra <= limit else "MISSED",
            "spread": "",
        }
        benchmark.extra_info.update(row)
        self.rows.append(row)


REPORT = Report()


@pytest.fixture(scope="session")
def size(pytestconfig: pytest.Config) -> Size:
    return TINY if pytestconfig.getoption("--size") == "tiny" else FULL


@pytest.fixture(scope="session")
def report() -> Report:
    return REPORT


DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(scope="session", params=["fp32", "fp16"])
def corpus(request: pytest.FixtureRequest, size: Size) -> Corpus:
    """One matrix at a time in memory: pytest groups the tests by it."""
    return Corpus.random(size, DTYPES[request.param], request.param)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table with what it was measured on."""
    path = session.config.getoption("--report")
    if path is None or not REPORT.rows:
        return
    machine = {
        "PyTorch": torch.__version__.split("+")[0],
        "threads": torch.get_num_threads(),
        "instruction set": importlib.import_module("scar_gpu._C").instruction_sets()[0],
    }
    # Rates and times say something about a machine; only ratios are worth keeping.
    rows = [row for row in REPORT.rows if not row["against"].startswith(ABSOLUTE)]
    text = json.dumps({"machine": machine, "rows": rows}, indent=1)
    Path(path).write_text(text + "\n")


def pytest_terminal_summary(terminalreporter) -> None:
    if not REPORT.rows:
        return
    terminalreporter.section("ratios")
    names = list(REPORT.rows[0])
    cells = [names, *([row[name] for name in names] for row in REPORT.rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    for line in cells:
        terminalreporter.write_line("  ".join(map(str.ljust, line, widths)).rstrip())
