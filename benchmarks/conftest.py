"""Sizes, the shared chunk matrix, the table at the end of a run.

    pytest benchmarks                 full sizes, one figure per row of the table
    pytest benchmarks --size quick    smaller ones, in minutes
    pytest benchmarks --size tiny     the same code in seconds, for the test-suite

Every row is a ratio measured in one interleaved run; `target` is what the design asks for, and
holds for the full sizes.
"""

from pathlib import Path

import pytest
import torch
from corpus import Corpus
from report import Report
from sizes import SIZES, Size

pytest_plugins = ("pytest_benchmark",)

REPORT = Report()
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=tuple(SIZES), default="full")
    parser.addoption("--report", metavar="FILE", help="write the closing table as JSON")


@pytest.fixture(scope="session")
def size(pytestconfig: pytest.Config) -> Size:
    return SIZES[pytestconfig.getoption("--size")]


@pytest.fixture(scope="session")
def report() -> Report:
    return REPORT


@pytest.fixture(scope="session", params=["fp32", "fp16"])
def corpus(request: pytest.FixtureRequest, size: Size) -> Corpus:
    """One matrix at a time in memory: pytest groups the tests by it."""
    return Corpus.random(size, DTYPES[request.param], request.param)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--report")
    if path is not None and REPORT.rows:
        REPORT.write(Path(path))


def pytest_terminal_summary(terminalreporter) -> None:
    if REPORT.rows:
        terminalreporter.section("ratios")
        for line in REPORT.lines():
            terminalreporter.write_line(line)
