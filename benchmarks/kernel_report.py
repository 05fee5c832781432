"""Prints what every kernel needs of a GPU, per architecture, without a GPU.

    python benchmarks/kernel_report.py [--targets sm_90 ...] [--json FILE]

Exits 1 when a kernel breaks a limit: no stack, no spills, shared memory and occupancy within the
part's, embedding rows read with the widest loads.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

import triton

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, too

from benchmarks.ahead_of_time import TARGETS, Launch, compile_only
from benchmarks.kernel_cases import REPORTED
from benchmarks.kernel_launches import Case
from benchmarks.machine_code import PARTS, MachineCode, read_machine_code

# Triton 3.6 gives one kernel a few registers more, and counts as spills on CDNA what it keeps in
# lanes of vector registers: that touches no memory.
IS_OLD = triton.__version__.startswith("3.6.")
MIN_OCCUPANCY = 5 / 16 if IS_OLD else 1 / 3
# A tile of a matrix product fills the registers; its loads are in flight meanwhile.
PRODUCT_OCCUPANCY = {"filter": 1 / 8, "corpus_cosines": 1 / 8}
# A load of embedding rows stands on a line that begins like this.
ROW_LOAD = "row = tl.load("
KERNELS = Path(__file__).parents[1] / "scar_gpu" / "kernels"


class Row(NamedTuple):
    """One kernel of one case on one architecture."""

    target: str
    kernel: str
    label: str
    num_warps: int
    code: MachineCode
    row_bits: int | None  # the narrowest load of embedding rows
    useful: float  # share of the bytes moved
    wide_rows: bool

    def violations(self) -> list[str]:
        """The limits this kernel breaks, in words."""
        code = self.code
        most = PARTS[self.target].largest_shared
        found = []
        if code.stack or (code.spills and not IS_OLD):
            found.append(f"{code.stack} bytes of stack, {code.spills} spills")
        if code.shared > most:
            found.append(f"{code.shared} bytes of shared memory, the part has {most}")
        if code.occupancy < PRODUCT_OCCUPANCY.get(self.kernel, MIN_OCCUPANCY):
            found.append(f"occupancy {code.occupancy:.2f} with {code.registers} registers")
        if self.wide_rows and self.row_bits != 128:
            found.append(f"embedding rows are read {self.row_bits} bits at a time")
        return [f"{self.target} {self.kernel} {self.label}: {text}" for text in found]


def row_load_lines() -> set[tuple[str, int]]:
    """(file, line) of every load of embedding rows in the kernels.

    Triton 3.8 adds to the line the registers that a load fills, at most four.
    """
    return {
        (path.name, number + shift)
        for path in KERNELS.glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.lstrip().startswith(ROW_LOAD)
        for shift in range(5)
    }


def examine(launch: Launch, target: str, case: Case) -> Row:
    """The row of one compiled launch."""
    code = read_machine_code(launch.compiled, target)
    lines = row_load_lines()
    widths = [load.bits for load in code.loads if (load.file, load.line) in lines]
    kernel = launch.kernel.strip("_").removesuffix("_kernel")
    bits = min(widths, default=None)
    warps = launch.config["num_warps"]
    return Row(target, kernel, case.label, warps, code, bits, case.traffic.share, case.wide_rows)


def compile_cases(target: str, cases: list[Case]) -> list[tuple[Case, Launch]]:
    """Every launch of every case, compiled for `target`."""
    compiled = []
    for case in cases:
        with compile_only(target) as launches:
            case.launch()
        compiled += [(case, launch) for launch in launches]
    return compiled


def report(target: str, cases: list[Case]) -> list[Row]:
    """The rows of one architecture."""
    return [examine(launch, target, case) for case, launch in compile_cases(target, cases)]


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    head = "target kernel case warps registers stack spills shared occupancy row_bits useful"
    cells = [head.split()] + [
        [
            row.target, row.kernel, row.label, str(row.num_warps), str(row.code.registers),
            str(row.code.stack), str(row.code.spills), str(row.code.shared),
            f"{row.code.occupancy:.2f}", str(row.row_bits or "-"), f"{row.useful:.1%}",
        ]
        for row in rows
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        text = [
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(text))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = parser.parse_args(arguments)
    rows = []
    for target in options.targets:
        rows += report(target, REPORTED)
        print(table([row for row in rows if row.target == target]), end="\n\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps([_plain(row) for row in rows], indent=1) + "\n")
    violations = [text for row in rows for text in row.violations()]
    print("\n".join(violations) or f"{len(rows)} kernels within limits")
    return 1 if violations else 0


def _plain(row: Row) -> dict[str, object]:
    """The row without the single loads, for JSON."""
    code = row.code._asdict()
    del code["loads"]
    return row._asdict() | {"code": code}


if __name__ == "__main__":
    sys.exit(main())
