"""Ctrl-C and SIGTERM: both end a command as an exception does, so that it cleans up."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

_interrupted = False


def handle_signals() -> None:
    """Let both signals raise, and remember Ctrl-C for `check_interrupted`."""
    # The default of SIGTERM would end the process with its temporary files in place.
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def check_interrupted() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed and something has swallowed that.

    A library that tries an import from C drops whatever the import raises: pyarrow does when it
    looks for pandas.
    """
    if _interrupted:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
