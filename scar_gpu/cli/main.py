"""The entry point of `scar-gpu`."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Run the command line; the exit code is 0, 2 for bad input, 130 after Ctrl-C."""
    # The default would end the process with its temporary files in place.
    signal.signal(signal.SIGTERM, _stop)
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


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """End as by an exception, so that every `finally` runs."""
    sys.exit(128 + number)
