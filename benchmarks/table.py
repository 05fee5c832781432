"""Turns a report of the benchmarks into the table of the README.

`python benchmarks/table.py REPORT.json` prints the table; with `README.md` as a second argument it
is put between its marks there.
"""

import json
import sys
from pathlib import Path

BEGIN = "<!-- benchmarks: begin -->\n"
END = "<!-- benchmarks: end -->\n"


def markdown(report: dict) -> str:
    """The rows of a report, missed targets first, and what they were measured on."""
    rows = sorted(report["rows"], key=lambda row: row[""] != "MISSED")
    lines = ["| work | against | ratio | target | |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [row[name] for name in ("work", "against", "ratio", "target", "")]
        lines.append("| " + " | ".join(cells) + " |")
    about = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    return "\n".join([*lines, "", f"Measured with: {about}.", ""])


def insert(text: str, table: str) -> str:
    """`text` with `table` between the marks."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + table + END + rest.split(END)[1]


if __name__ == "__main__":
    table = markdown(json.loads(Path(sys.argv[1]).read_text()))
    if len(sys.argv) > 2:
        page = Path(sys.argv[2])
        page.write_text(insert(page.read_text(), table))
    else:
        print(table, end="")
