"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
Model = Annotated[
    str | None,
    typer.Option(help="Folder or name of a sentence-transformers model, or module:factory."),
]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")]
QueryPrompt = Annotated[
    str | None, typer.Option(help="Put before every query [default: the index's].")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]


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
