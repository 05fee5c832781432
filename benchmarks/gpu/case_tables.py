"""The test-suite on the GPU, in a process of its own, within a budget of time."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# Files that call no operation on a tensor of the device, or need more packages than the suite.
ELSEWHERE = (
    "tests/text", "tests/cli", "tests/evaluation", "tests/storage", "tests/peers",
    "tests/test_benchmarks.py", "tests/test_package.py", "tests/test_readme.py",
)  # fmt: skip
OUTCOME = re.compile(
    r"(?:^|\s)(?:(tests/\S+::.*?) )?(PASSED|FAILED|ERROR|SKIPPED)\b(?: (tests/.*))?"
)


class Outcome(NamedTuple):
    """What is known of the tests when they end or their time does."""

    is_finished: bool
    passed: int
    failed: list[str]
    seconds: float
    tail: str  # the end of the output, when something failed

    @property
    def is_good(self) -> bool:
        """Nothing failed, and something passed."""
        return not self.failed and self.passed > 0


def read_outcome(output: str, returncode: int | None, seconds: float) -> Outcome:
    """The outcome from verbose output; `returncode` None when the tests were stopped."""
    passed, failed = 0, []
    for line in output.splitlines():
        if line.startswith("=") and "short test summary" in line:
            break  # repeats what has been seen
        if found := OUTCOME.search(line):
            name = found[1] or found[3] or line.strip()
            passed += found[2] == "PASSED"
            if found[2] in ("FAILED", "ERROR"):
                failed.append(name.strip())
    if returncode not in (None, 0) and not failed:
        failed.append(f"pytest ended with {returncode}")
    tail = output[-3000:] if failed else ""
    return Outcome(returncode is not None, passed, failed, round(seconds, 1), tail)


def run_case_tables(seconds: float, backend: str = "cuda", tests: tuple[str, ...] = ()) -> Outcome:
    """Run `tests` (default: all that call operations) and stop them after `seconds`."""
    command = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-W", "default", "--backend", backend]  # other versions warn of other things
    if importlib.util.find_spec("xdist"):
        command += ["-n", str(min(4, os.cpu_count() or 1))]  # compiling takes most of the time
    command += tests or ["tests", *(f"--ignore={path}" for path in ELSEWHERE)]
    begin = time.monotonic()
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            returncode: int | None = process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            returncode = None
        file.seek(0)
        output = file.read().decode(errors="replace")
    return read_outcome(output, returncode, time.monotonic() - begin)
