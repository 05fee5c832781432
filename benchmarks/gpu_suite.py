"""Checks and measures everything on one GPU, in at most eight minutes.

    python benchmarks/gpu_suite.py [--quick] [--out FILE]

Prints a table with the losing rows first and writes one JSON file, part by part. What does not
fit into the budget of time is named, most important work first. Exits 1 when anything failed, 3
when there is no GPU. Needs torch, triton, numpy and a C++ compiler, pytest and hypothesis for the
tests of the repository; no network.
"""

import argparse
import operator
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, too

from benchmarks.gpu.suite import Suite
from benchmarks.gpu.targets import table

ROOT = Path(__file__).parents[1]
# Importing PyTorch comes before, printing and what a last part takes too long after.
SECONDS, QUICK_SECONDS = 440, 50
NO_GPU = "There is no GPU here that PyTorch can use, so there is nothing to measure."


def build_extension() -> None:
    """Build scar_gpu/_C.abi3.so where it is absent."""
    if not list((ROOT / "scar_gpu").glob("_C.*so")):
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the extension could not be built:\n{done.stderr[-2000:]}")


def machine() -> dict[str, Any]:
    """What the figures were measured on, and of what."""
    import numpy
    import triton

    def git(*arguments: str) -> str | None:
        """Its output, None where there is no Git or no repository."""
        try:
            done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        except OSError:
            return None
        return done.stdout if done.returncode == 0 else None

    revision, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "-uno")
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "device": device.name,
        "capability": f"{device.major}.{device.minor}",
        "memory": device.total_memory,
        "multiprocessors": device.multi_processor_count,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": numpy.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "python": platform.python_version(),
        "revision": revision and revision.strip(),
        "changed_files": None if changes is None else len(changes.splitlines()),
    }


def run(suite: Suite, timer: Any, sizes: Any, is_quick: bool) -> None:
    """All parts, in order; `timer` and `sizes` are those of a device."""
    from benchmarks.gpu import case_tables, correctness, speed, timing

    report = suite.report
    ceilings = suite.attempt(
        "ceilings",
        lambda: timing.ceilings(timer),
        keep=partial(operator.setitem, report, "ceilings"),
    )
    report["checks"] = {}
    for name, check in correctness.checks(
        timer.device, sizes, timer.capture, timer.free_bytes
    ).items():
        keep = partial(operator.setitem, report["checks"], name)
        suite.attempt(f"check {name}", check, kind="check", keep=keep)
    if is_quick:
        suite.drop("the tests of the repository", "--quick")
    else:
        suite.attempt("the tests of the repository", lambda: tests(suite, case_tables))
    report["rows"] = []
    if ceilings is None:
        suite.drop("all times", "no ceilings to compare them with")
        return
    inputs = speed.Inputs(timer, sizes.most_chunks)
    for case in speed.cases():
        suite.attempt(
            f"time of {case.label}",
            lambda case=case: speed.measure(case, timer, inputs, ceilings),
            kind=f"{case.operation} {case.is_compiled}",
            keep=report["rows"].append,
        )


def tests(suite: Suite, case_tables: Any) -> None:
    """The case tables on the GPU, in a third of the time at most."""
    outcome = case_tables.run_case_tables(min(suite.seconds / 3, suite.left() / 2))
    suite.report["tests"] = outcome._asdict()
    if not outcome.is_finished:
        suite.drop("the rest of the tests", f"stopped after {outcome.seconds} s, of which "
                   f"{outcome.passed} passed")  # fmt: skip
    if not outcome.is_good:
        raise AssertionError(f"{len(outcome.failed)} tests failed: {outcome.failed[:5]}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the most important parts, in 60 s")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu.json", metavar="FILE")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(NO_GPU)
        return 3

    suite = Suite(options.out, QUICK_SECONDS if options.quick else SECONDS)
    suite.attempt("building the extension", build_extension)
    if not suite.report["failures"]:
        keep = partial(operator.setitem, suite.report, "machine")
        suite.attempt("description of the machine", machine, keep=keep)
        suite.attempt("checks and times", lambda: run_on_gpu(suite, options.quick))
    print(table(suite.report))
    return suite.exit_code


def run_on_gpu(suite: Suite, is_quick: bool) -> None:
    """`run` on the current device."""
    from benchmarks.gpu.correctness import Sizes
    from benchmarks.gpu.timing import GpuTimer

    timer = GpuTimer()

    def is_usable() -> bool:
        try:
            timer.synchronize()
        except RuntimeError:
            return False
        return True

    suite.is_usable = is_usable
    sizes = Sizes(n_chunks=20_000, dims=(384,), n_queries=50) if is_quick else Sizes()
    run(suite, timer, sizes, is_quick)


if __name__ == "__main__":
    sys.exit(main())
