"""The commands of `scar-gpu` and what an error looks like."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scar_gpu.cli.demo import demo

# What bad input raises; anything else is a defect and keeps its traceback.
_INPUT_ERRORS = (ValueError, TypeError, IndexError, OSError, ImportError)


class _Commands(TyperGroup):
    """The group of commands: an input error becomes one sentence and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except _INPUT_ERRORS as error:
            if ctx.params["debug"]:
                raise
            typer.echo(f"scar-gpu: {' '.join(str(error).split())}", err=True)
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Retrieve chunks of text together with the neighbours that belong to them."""


app.command()(demo)
