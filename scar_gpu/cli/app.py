"""The commands of `scar-gpu` and what an error looks like."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scar_gpu.cli.build import build
from scar_gpu.cli.demo import demo
from scar_gpu.cli.evaluate import evaluate
from scar_gpu.cli.explain import explain
from scar_gpu.cli.info import info
from scar_gpu.cli.messages import note
from scar_gpu.cli.retrieve import retrieve
from scar_gpu.cli.sweep import sweep

# What bad input raises; anything else is a defect and keeps its traceback.
_INPUT_ERRORS = (ValueError, TypeError, IndexError, OSError, ImportError, MemoryError)
_DEBUG = "--debug"


def _sentence(error: Exception) -> str:
    """What went wrong; of an error that the system raised, in our words and with the path."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        reason = os.strerror(error.errno)
        return f"{error.filename} must be a path that can be used here, got: {reason}"
    return str(error) or type(error).__name__


class _Commands(TyperGroup):
    """The group of commands: an input error becomes one sentence and exit code 2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` before or after the command's name; what follows `--` is text."""
        end = args.index("--") if "--" in args else len(args)
        if _DEBUG in args[:end]:
            args = [_DEBUG, *(arg for arg in args[:end] if arg != _DEBUG), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except KeyboardInterrupt as error:
            if ctx.params["debug"]:
                raise
            note("interrupted")
            raise typer.Exit(130) from error
        except _INPUT_ERRORS as error:
            if ctx.params["debug"]:
                raise
            note(_sentence(error))
            raise typer.Exit(2) from error


app = typer.Typer(
    name="scar-gpu",
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Retrieve chunks of text together with the neighbours that belong to them."""


for _command in (build, retrieve, explain, info, demo, sweep):
    app.command()(_command)
app.command("eval")(evaluate)
