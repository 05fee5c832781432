"""The entry point of `scar-gpu`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is 0, or 2 for bad input."""
    try:
        from scar_gpu.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"scar-gpu: {error.name} must be installed: pip install 'scar_gpu[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    app()
