"""What a run of the benchmarks found: rows of ratios, and curves of cost against size."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from measure import OtherProcesses, Rounds

# Rates and times say something about a machine; only ratios are worth keeping.
ABSOLUTE = ("queries/s", "milliseconds")
COLUMNS = ("work", "against", "ratio", "target", "", "spread", "others")
LEAST_MEMORY = 1 << 18


@dataclass
class Report:
    """Rows of the closing table, and curves for the plots."""

    rows: list[dict[str, str]] = field(default_factory=list)
    curves: list[dict[str, Any]] = field(default_factory=list)
    others: OtherProcesses = field(default_factory=OtherProcesses)

    def add(
        self,
        benchmark: Any,
        *,
        work: str,
        against: str,
        ratio: float,
        target: str = "",
        met: bool | None = None,
        timing: Rounds,
        bytes_read: int = 0,
    ) -> None:
        """Add one row, and the same to the benchmark's extra_info."""
        verdict = "" if met is None else "met" if met else "MISSED"
        if bytes_read:
            benchmark.extra_info["GB/s"] = bytes_read / timing.median / 1e9
        row = {"work": work, "against": against, "ratio": f"{ratio:.2f}", "target": target}
        row |= {"": verdict, "spread": f"{timing.spread:.0%}", "others": f"{timing.others:.0%}"}
        self._add(benchmark, row)

    def add_memory(self, benchmark: Any, *, work: str, extra: int, limit: int) -> None:
        """Add a row for temporary memory."""
        verdict = "met" if extra <= limit else "MISSED"
        size = f"{max(extra, 0) / 2**20:.1f}"
        row = {"work": work, "against": "temporary memory, MiB", "ratio": size}
        self._add(benchmark, {**row, "target": f"<= {limit >> 20}", "": verdict})

    def add_curve(
        self, benchmark: Any, *, work: str, variable: str, sizes: list[int], costs: list[float]
    ) -> None:
        """Add costs (of any unit) against sizes, and a row for the exponent of their growth."""
        exponent = slope(sizes, costs)
        curve = {"work": work, "variable": variable, "sizes": sizes}
        self.curves.append({**curve, "costs": [cost / costs[0] for cost in costs]})
        against = f"exponent of cost in {variable}"
        self._add(benchmark, {"work": work, "against": against, "ratio": f"{exponent:.2f}"})

    def add_memory_curve(
        self, benchmark: Any, *, work: str, variable: str, sizes: list[int], extras: list[int]
    ) -> None:
        """Add temporary memory in bytes against sizes, and a row for the exponent of its growth.

        Its logarithm needs a least: what is below is pages, and the stacks of threads.
        """
        exponent = slope(sizes, [float(max(extra, LEAST_MEMORY)) for extra in extras])
        curve = {"work": work, "variable": variable, "sizes": sizes}
        self.curves.append({**curve, "MiB": [round(extra / 2**20, 1) for extra in extras]})
        against = f"exponent of temporary memory in {variable}"
        self._add(benchmark, {"work": work, "against": against, "ratio": f"{exponent:.2f}"})

    def _add(self, benchmark: Any, row: dict[str, str]) -> None:
        row = dict.fromkeys(COLUMNS, "") | row
        benchmark.extra_info.update(row)
        section = Path(benchmark.fullname.split("::")[0]).stem.removeprefix("bench_")
        self.rows.append({**row, "section": section})

    def write(self, path: Path) -> None:
        """Write everything but absolute figures, with what it was measured on."""
        root = Path(__file__).parents[1]
        revision = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=root, capture_output=True, text=True
        )
        machine = {
            "PyTorch": torch.__version__.split("+")[0],
            "threads": torch.get_num_threads(),
            "instruction set": importlib.import_module("scar_gpu._C").instruction_sets()[0],
            "other processes": f"{self.others.share():.0%} of the cores",
            "revision": revision.stdout.strip() or "unknown",
        }
        rows = [row for row in self.rows if not row["against"].startswith(ABSOLUTE)]
        document = {"machine": machine, "rows": rows, "curves": self.curves}
        path.write_text(json.dumps(document, indent=1) + "\n")

    def lines(self) -> list[str]:
        """The rows as an aligned table."""
        cells = [COLUMNS, *([row[name] for name in COLUMNS] for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
        return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]


def slope(sizes: list[int], costs: list[float]) -> float:
    """The least-squares slope of log cost over log size."""
    x = [math.log(size) for size in sizes]
    y = [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)
