"""Options that several commands share."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import torch


class Method(StrEnum):
    """Which neighbours of a hit are retrieved."""

    scar = "scar"
    window = "window"
    none = "none"


class Order(StrEnum):
    """The order of a query's contexts."""

    rank = "rank"
    document = "document"


Index = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder written by build.")]
Window = Annotated[
    int | None, typer.Option(min=0, help="Neighbours on each side [default: the index's].")
]
Lam = Annotated[float, typer.Option(min=0, help="Penalty of a neighbour unlike its hit.")]
Gamma = Annotated[float, typer.Option(help="Share of the hit's relevance to exceed.")]
Hybrid = Annotated[
    bool,
    typer.Option(
        "--hybrid",
        help="Find hits by words too (build --lexical) and fuse the ranks; scores stay cosines.",
    ),
]
Pool = Annotated[
    int | None,
    typer.Option(min=1, help="Hits of either kind that are fused [default: 50, at least k]."),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="DENSE,LEXICAL", help="Of the hits by vectors and by words [default: 1,1]."
    ),
]
RrfK = Annotated[
    float | None,
    typer.Option(help="The k of reciprocal rank fusion, 1 / (k + rank) [default: 60]."),
]
Model = Annotated[
    str | None,
    typer.Option(help="Folder or name of a sentence-transformers model, or module:factory."),
]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")]
MemoryBudget = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Such as 512MiB or 8GB. A larger matrix of vectors stays on disk and is searched in "
        "this much memory, piece by piece: the same results [default: 3/4 of the memory].",
    ),
]
QueryPrompt = Annotated[
    str | None, typer.Option(help="Put before every query [default: the index's].")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]


def hybrid_options(
    hybrid: bool, pool: int | None, weights: str | None, rrf_k: float | None
) -> dict[str, Any]:
    """The options of `scar_gpu.text.settings.Settings` that these four stand for.

    Raises:
        ValueError: one of the others without `--hybrid`, or weights that are no numbers.
    """
    given = {"pool": pool, "weights": weights, "rrf-k": rrf_k}
    for option, value in given.items():
        if value is not None and not hybrid:
            raise ValueError(f"{option} must come with --hybrid, got {value} alone")
    options: dict[str, Any] = {"hybrid": hybrid, "pool": pool}
    if weights is not None:
        try:
            options["weights"] = [float(weight) for weight in weights.split(",")]
        except ValueError:
            raise ValueError(
                f"weights must be two numbers with a comma between them, got {weights!r}"
            ) from None
    if rrf_k is not None:
        options["rrf_k"] = rrf_k
    return options


def bytes_of(size: str | None) -> int | None:
    """The bytes of a size such as 512MiB, 8GB, 1.5G or 4096.

    Raises:
        ValueError: no such size, or one below a byte.
    """
    if size is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgt]?)(i?)b?)", size.strip(), re.IGNORECASE)
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"memory-budget must be a size such as 512MiB or 8GB, got {size!r}")
    number, unit, is_binary = found.groups()
    # A float would end at 309 digits.
    n_bytes = int(
        Decimal(number) * (1024 if is_binary else 1000) ** "_kmgt".index(unit.lower() or "_")
    )
    if n_bytes < 1:
        raise ValueError(f"memory-budget must be at least one byte, got {size!r}")
    return n_bytes


def checked_device(device: str | None) -> torch.device | None:
    """The device, if it can be used.

    Raises:
        ValueError: no device of that name here.
    """
    import torch

    if device is None:
        return None
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"device must be one that torch can use here, got {device!r}: {reason}"
        ) from error
    return found
