"""The entry point of `scar-gpu`."""

from __future__ import annotations

import sys

from scar_gpu.cli.signals import handle_signals


def main() -> None:
    """Run the command line; the exit code is 0, 2 for bad input, 130 after Ctrl-C."""
    handle_signals()
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
    except KeyboardInterrupt:
        sys.exit(130)
    app()
