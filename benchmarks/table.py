"""Turns a report of the benchmarks into the README's table and into docs/performance.md.

python benchmarks/table.py REPORT.json                      prints all rows
python benchmarks/table.py REPORT.json README.md            puts the key rows between its marks
python benchmarks/table.py REPORT.json docs/performance.md  writes the page and its plots
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from report import LEAST_MEMORY

BEGIN = "<!-- benchmarks: begin -->\n"
END = "<!-- benchmarks: end -->\n"
# Section, work and rival of the rows that the README keeps: those that a second run repeats.
KEY_ROWS = (
    ("neighbor_scores", "neighbor_scores fp32", "eager gather + einsum"),
    ("neighbor_scores", "neighbor_scores fp16", "eager gather + einsum"),
    ("scar_expand", "scar_expand B=1 K=5, in cache", "one torch.mul"),
    ("rank_fusion", "rank_fusion B=2000 L=2 K=100", "ranx"),
    ("search_expand", "search_expand fp32 N=500000 B=256 k=10", "our time over bare GEMM"),
    ("search_expand", "search_expand fp32 N=500000 B=256 k=10", "our time over FAISS with BLAS"),
)
# What a section ends with.
PLOTS = {
    "growth": ("cost against size", "performance-growth.png"),
    "memory": ("temporary memory against size", "performance-memory.png"),
}
HEAD = """# Performance

Written by `make bench`, from `{source}`. Every figure is the median of the ratios
of one interleaved run's rounds, so that a drifting machine does not decide it; other processes must
leave the cores alone all the same. What is timed follows an untimed call of the same function,
unless it takes seconds; judgements of random hits take turns with four sets of them. Times and
rates say something about one machine and are not kept. A row against a rival gives the rival's time
over ours: below 1 the rival is faster. "Our time over", targets with <=, and rows against our own
operations are the other way round: our time over the other's. Losing rows come first in each
section: missed targets, then faster rivals.

Benchmarks of operations first compare their result with the reference, a rival's or the ordinary
functions'; matrices are larger than the caches, but for the first points of curves and where a row
says "in cache"; rivals are set up outside the timing as their documentation advises and pinned in
`benchmarks/peers/requirements.txt`. `make bench` repeats it all, `make bench-quick` smaller sizes
without rivals.

{machine}
"""


def table(rows: list[dict]) -> list[str]:
    lines = ["| work | against | ratio | target | |", "|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: (row[""] != "MISSED", not loses(row))):
        cells = [row[name] for name in ("work", "against", "ratio", "target", "")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def loses(row: dict) -> bool:
    """Whether a rival is faster."""
    ratio = float(row["ratio"])
    if row["against"].startswith("our time over"):
        return ratio > 1
    return row["section"] in ("peers", "rank_fusion") and ratio < 1


def measured_with(report: dict) -> str:
    about = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    return f"Measured with: {about}."


def markdown(report: dict) -> str:
    """The README's rows and how many targets were met."""
    rows = [
        row for row in report["rows"] if (row["section"], row["work"], row["against"]) in KEY_ROWS
    ]
    judged = [row[""] for row in report["rows"] if row[""]]
    summary = f"{judged.count('met')} of {len(judged)} targets met; all rows, the losing ones first"
    lines = [*table(rows), "", f"{summary}: [docs/performance.md](docs/performance.md)."]
    return "\n".join([*lines, measured_with(report), ""])


def insert(text: str, rows: str) -> str:
    """`text` with `rows` between the marks."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + rows + END + rest.split(END)[1]


def summary_of(section: str) -> str:
    """The first docstring line of a section's file."""
    source = (Path(__file__).parent / f"bench_{section}.py").read_text()
    return source.split('"""')[1].split("\n\n")[0].replace("\n", " ")


def page(report: dict, source: str) -> str:
    """docs/performance.md."""
    parts = [HEAD.format(source=source, machine=measured_with(report))]
    sections = dict.fromkeys(row["section"] for row in report["rows"])
    for section in sections:
        rows = [row for row in report["rows"] if row["section"] == section]
        parts.append("\n".join([f"## {section}", "", summary_of(section), "", *table(rows), ""]))
        if section in PLOTS:
            about, name = PLOTS[section]
            parts.append(f"![{about}]({name})\n")
    return "\n".join(parts)


STYLES = {
    "scar_expand": "C0o-",
    "search": "C1s-",
    "rank_fusion": "C2^-",
    "retrieve": "C3d-",
    "search_expand": "C4v-",
    "corpus_masks": "C5P-",
}


def panels(curves: list[dict]) -> tuple[Any, list[tuple[Any, list[dict]]]]:
    """A figure, and its logarithmic axes with the curves of one variable each."""
    plt = importlib.import_module("matplotlib.pyplot")
    variables = list(dict.fromkeys(curve["variable"] for curve in curves))
    columns = 3
    lines = -(-len(variables) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4 * columns, 3.2 * lines), squeeze=False)
    for axis in axes.flat[len(variables) :]:
        axis.set_visible(False)
    filled = []
    for axis, variable in zip(axes.flat, variables, strict=False):
        drawn = [curve for curve in curves if curve["variable"] == variable]
        axis.loglog()
        axis.set_xlabel(variable)
        ticks = sorted({size for curve in drawn for size in curve["sizes"]})
        axis.set_xticks(ticks[:: -(-len(ticks) // 5)], minor=False)
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter("")
        filled.append((axis, drawn))
    return figure, filled


def save(figure: Any, path: Path, title: str) -> None:
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=80, metadata={"Software": None})


def operation_of(curve: dict) -> str:
    return curve["work"].split(",")[0]


def plot(curves: list[dict], path: Path) -> None:
    """One panel per variable, cost relative to the first point."""
    figure, filled = panels(curves)
    for axis, drawn in filled:
        for curve in drawn:
            name, sizes = operation_of(curve), curve["sizes"]
            axis.plot(sizes, curve["costs"], STYLES[name], label=name)
            power = -1 if curve["variable"] == "threads" else 1
            axis.plot(sizes, [(n / sizes[0]) ** power for n in sizes], color="0.8", zorder=0)
        axis.set_ylabel("cost, first = 1")
        axis.legend(fontsize=8)
    save(figure, path, "grey: linear in size, inverse in threads")


def plot_memory(curves: list[dict], path: Path) -> None:
    """One panel per variable, MiB; what is too little to tell from noise lies on the lower edge."""
    least = LEAST_MEMORY / 2**20
    figure, filled = panels(curves)
    for axis, drawn in filled:
        for place, curve in enumerate(drawn):  # on top of each other, so of different sizes
            name, most = operation_of(curve), max(curve["MiB"])
            heights = [max(height, least) for height in curve["MiB"]]
            label, marker = f"{name}: {most:.1f}", 10 - 2 * place
            axis.plot(curve["sizes"], heights, STYLES[name], label=label, markersize=marker)
        for limit in (64, 256):
            axis.axhline(limit, color="0.8", zorder=0)
        axis.set_ylim(least * 0.8, 2**13)
        axis.set_yticks([least, 1, 4, 16, 64, 256])
        axis.set_ylabel("temporary memory, MiB")
        axis.legend(
            loc="upper center", fontsize=7, ncols=2, title="the most, in MiB:", title_fontsize=7
        )
    save(
        figure, path, f"grey: the limits, 256 MiB for searches, else 64; {least:g} is that or less"
    )


def main(source: str, target: str | None = None) -> None:
    report = json.loads(Path(source).read_text())
    if target is None:
        print("\n".join(table(report["rows"])))
    elif Path(target).name == "README.md":
        readme = Path(target)
        readme.write_text(insert(readme.read_text(), markdown(report)))
    else:
        Path(target).parent.mkdir(exist_ok=True)
        Path(target).write_text(page(report, source))
        for unit, draw, section in (("costs", plot, "growth"), ("MiB", plot_memory, "memory")):
            curves = [curve for curve in report["curves"] if unit in curve]
            if curves:
                draw(curves, Path(target).with_name(PLOTS[section][1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
