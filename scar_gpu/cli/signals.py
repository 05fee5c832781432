"""Ctrl-C and SIGTERM: both end a command as an exception does, so that it cleans up.

So does SIGHUP, the end of a terminal, unless it is ignored.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

_raised: BaseException | None = None


def handle_signals() -> None:
    """Let the signals raise, and remember what they raised for `check_interrupted`."""
    # The default of SIGTERM would end the process with its temporary files in place.
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not behind nohup
        signal.signal(signal.SIGHUP, _stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def check_interrupted() -> None:
    """Raise what a signal has raised, if something has swallowed that.

    A library that tries an import from C drops whatever the import raises: pyarrow does when it
    looks for pandas.
    """
    if _raised is not None:
        raise _raised


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _raise(KeyboardInterrupt())


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _raise(SystemExit(128 + number))


def _raise(error: BaseException) -> NoReturn:
    global _raised
    _raised = error
    raise error
