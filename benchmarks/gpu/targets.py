"""What the design asks of a GPU, and the table of what was measured, losing rows first."""

from typing import Any

HALF = ("float16", "bfloat16")


def targets(row: dict[str, Any]) -> list[tuple[str, float, float]]:
    """(what, measured, bound) of every target that a row is held to; bounds are minima."""
    found = []
    operation, n_hits = row["operation"], row["n_queries"] * row["k"]
    against = row["against"]
    if operation == "neighbor_scores" and n_hits >= 80_000:
        if row["dim"] >= 512:
            found.append(("of copy bandwidth", row["share"], 0.8))
        found += [(f"x {name}", against[name], least) for name, least in
                  (("eager", 10), ("compiled", 3)) if name in against]  # fmt: skip
    if operation in ("neighbor_scores", "scar_expand") and n_hits <= 5:
        found.append(("of 12 us", 12e-6 / row["seconds"], 1))
        found += [("of two launches", 2 / row["launches"], 1)] if row["launches"] else []
    if operation == "rank_fusion" and row["n_queries"] == 2000:
        found += [("of one launch", 1 / row["launches"], 1)] if row["launches"] else []
        found += [("x eager", against["eager"], 10)] if "eager" in against else []
    is_large = row["n_chunks"] >= 1_000_000 and row["n_queries"] >= 1024
    if operation in ("search", "search_expand") and is_large and "torch.mm" in against:
        found.append(("of torch.mm", against["torch.mm"], 0.65 if row["dim"] >= 768 else 0.5))
    return found


def missed(row: dict[str, Any]) -> list[str]:
    """The targets that a row misses, in words."""
    return [f"{value:.2f} {what} < {least}" for what, value, least in targets(row) if value < least]


def slower_than(row: dict[str, Any]) -> list[str]:
    """Who does the same work faster; a bare product does less."""
    return [name for name, ratio in row["against"].items() if ratio < 1 and name != "torch.mm"]


def _order(row: dict[str, Any]) -> tuple[bool, bool, str]:
    return not missed(row), not slower_than(row), row["operation"]


def table(report: dict[str, Any]) -> str:
    """Ceilings, checks, rows with those that lose first, and what has no result."""
    lines = []
    if ceilings := report.get("ceilings"):
        copy, product = ceilings["copy"] / 1e9, ceilings["bf16"] / 1e12
        lines.append(f"copy {copy:.0f} GB/s, bf16 product {product:.0f} TFLOP/s")
    for name, outcome in report.get("checks", {}).items():
        lines.append(f"passed: {name} ({outcome})")
    head = ("", "work", "us", "+-", "GB/s", "of copy", "x eager", "x compiled", "of mm", "by tiles",
            "launches",
            "call us", "")  # fmt: skip
    cells = [head, *(_cells(row) for row in sorted(report.get("rows", []), key=_order))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        texts = [
            cell.ljust(width) if i in (0, 1, len(head) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    lines += [f"dropped: {text}" for text in report["dropped"]]
    lines += [f"FAILED: {failure['part']}: {failure['error']}" for failure in report["failures"]]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    against, lost = row["against"], missed(row)
    verdict = "MISSED" if lost else "slower" if slower_than(row) else ""
    call = row.get("python_seconds")

    def ratio(name: str) -> str:
        return f"{against[name]:.2f}" if name in against else "-"

    return (
        verdict,
        row["work"],
        f"{row['seconds'] * 1e6:.1f}",
        f"{row['spread']:.0%}",
        f"{row['bytes_per_second'] / 1e9:.0f}",
        f"{row['share']:.0%}",
        ratio("eager"),
        ratio("compiled"),
        ratio("torch.mm"),
        ratio("by tiles"),
        str(row["launches"] or "-"),
        "-" if call is None else f"{call * 1e6:.0f}",
        "; ".join([*lost, *row["notes"]]),
    )
