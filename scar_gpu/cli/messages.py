"""What the commands say on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scar_gpu.cli.signals import check_interrupted

# Where nobody watches, a log line now and then is enough.
_SECONDS_BETWEEN_LINES = 30.0
_shown: Progress | None = None


def note(message: str) -> None:
    """Print one line on standard error, whatever line ends the message has."""
    typer.echo(f"scar-gpu: {' '.join(message.split())}", err=True)


@contextmanager
def _bars(stderr: Console) -> Iterator[Progress]:
    """The bars on the screen; a step within another one adds its own to them."""
    global _shown
    if _shown is not None:
        yield _shown
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr, transient=True) as _shown:
        try:
            yield _shown
        finally:
            _shown = None


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show how far a long step is: a bar on a terminal, else a line every half minute.

    A step may hold another one, whose bar stands below its own.

    Yields:
        A function of (done, total); total is None where it is not known. It raises
        what a signal raised if that was lost on the way.
    """
    stderr = Console(stderr=True)
    if stderr.is_terminal:
        with _bars(stderr) as bars:
            bar = bars.add_task(what, total=None)

            def move(done: int, total: int | None) -> None:
                check_interrupted()
                bars.update(bar, completed=done, total=total)

            try:
                yield move
            finally:
                bars.remove_task(bar)
        return
    last = time.monotonic()

    def show(done: int, total: int | None) -> None:
        nonlocal last
        check_interrupted()
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            note(f"{what}: {done:,}" + ("" if total is None else f" of {total:,}"))

    yield show
