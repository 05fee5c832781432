"""Pictures of a sweep: a heat map of the grid, and what each chunk buys. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from scar_gpu.evaluation.choice import pareto
from scar_gpu.text.extras import import_extra


class Marked(NamedTuple):
    """A point of the grid that the heat map marks."""

    name: str
    lam: float
    gamma: float


class Point(NamedTuple):
    """A method in the picture of chunks and recall."""

    name: str
    chunks: float
    recall: float
    coverage: float


def check_plotting() -> None:
    """Raise an ImportError that says what to install, before any work is done.

    Raises:
        ImportError: matplotlib is missing; `scar_gpu[plots]` brings it.
    """
    import_extra("matplotlib.figure", "plots")


def _figure(width: float, height: float, n_panels: int) -> tuple[Any, Any]:
    # Without pyplot nothing global is touched, and no display is looked for.
    figure = import_extra("matplotlib.figure", "plots").Figure(
        figsize=(width, height), layout="constrained", dpi=150
    )
    return figure, figure.subplots(1, n_panels)


def heat_map(
    path: Path,
    title: str,
    lam: Sequence[float],
    gamma: Sequence[float],
    coverage: Tensor,
    share: Tensor,
    budget: float,
    marked: Sequence[Marked],
) -> None:
    """Draw coverage and cost over the grid; a line shows the budget.

    Args:
        path: a .png file.
        title: above both panels.
        lam: L ascending values.
        gamma: G ascending values.
        coverage: [L, G] mean evidence coverage.
        share: [L, G] mean chunks as a share of the window's.
        budget: the share drawn as a line.
        marked: points to mark and name.

    Raises:
        ImportError: matplotlib is missing.
    """
    figure, panels = _figure(11, 4.6, 2)
    figure.suptitle(title)
    names = ("evidence coverage", "chunks as a share of Window's")
    for panel, name, values in zip(panels, names, (coverage, share), strict=True):
        image = panel.pcolormesh(
            list(gamma), list(lam), values.numpy(), shading="nearest", cmap="viridis"
        )
        figure.colorbar(image, ax=panel)
        if min(len(lam), len(gamma)) > 1 and float(share.min()) < budget < float(share.max()):
            lines = panel.contour(
                list(gamma), list(lam), share.numpy(), [budget], colors="white", linewidths=1.5
            )
            panel.clabel(lines, fmt={budget: f"{budget:.0%} of Window's chunks"}, fontsize=7)
        for number, one in enumerate(marked):
            panel.plot(
                one.gamma,
                one.lam,
                "os^Dv"[number % 5],
                markersize=8,
                markerfacecolor=f"C{number + 1}",
                markeredgecolor="white",
                label=f"{one.name}: {one.lam:g} / {one.gamma:g}",
            )
        panel.set(title=name, xlabel="gamma", ylabel="lam")
    if marked:
        panels[0].legend(loc="lower left", fontsize=7, framealpha=0.9)
    figure.savefig(path, format="png")


def pareto_plot(
    path: Path,
    title: str,
    chunks: Tensor,
    recall: Tensor,
    coverage: Tensor,
    top_k: Sequence[Point],
    points: Sequence[Point],
) -> None:
    """Draw recall and coverage over chunks: the grid, its best points, top-k, and methods.

    Args:
        path: a .png file.
        title: above both panels.
        chunks: [L, G] mean chunks.
        recall: [L, G] mean chunk recall.
        coverage: [L, G] mean evidence coverage.
        top_k: plain retrieval of 1, 2, 3 ... chunks, at least of 1.
        points: other methods to mark and name.

    Raises:
        ImportError: matplotlib is missing.
    """
    figure, panels = _figure(11, 4.8, 2)
    figure.suptitle(title)
    left = min([float(chunks.min()), *(one.chunks for one in points)]) - 1
    shown = [one for one in top_k if one.chunks >= left]
    name_of_curve = f"{top_k[0].name.rpartition('-')[0]}-k"  # of "top-1" or "hybrid, top-1"
    for panel, name, values in zip(panels, ("recall", "coverage"), (recall, coverage), strict=True):
        panel.scatter(
            chunks.flatten(), values.flatten(), s=3, color="0.8", label="SCAR, every lam / gamma"
        )
        front = list(zip(*pareto(chunks, values), strict=True))
        panel.plot(*front, color="C0", label="SCAR, best of its size")
        panel.plot(
            [one.chunks for one in shown],
            [getattr(one, name) for one in shown],
            ".-",
            color="C7",
            label=name_of_curve,
        )
        for number, one in enumerate(points):
            panel.plot(
                one.chunks,
                getattr(one, name),
                "os^Dv"[number % 5],
                color=f"C{number + 1}",
                markersize=8,
                label=one.name,
            )
        panel.grid(alpha=0.3)
        panel.set(xlabel="mean chunks", ylabel=f"mean {name}")
    panels[1].legend(loc="lower right", fontsize=7)
    figure.savefig(path, format="png")
