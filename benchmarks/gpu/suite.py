"""Runs the parts of a suite within a budget of time and keeps the report on disk."""

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class DroppedError(Exception):
    """What cannot be done here, and why: no failure, but said."""


class Suite:
    """A report that grows part by part, whatever happens to one of them.

    Attributes:
        report: what is written: `failures` and `dropped` name every part that has no result.
    """

    def __init__(
        self,
        path: Path,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path, self.seconds, self.clock = path, seconds, clock
        self.begin = clock()
        self.is_usable: Callable[[], bool] = lambda: True  # asked after a failure
        self.report: dict[str, Any] = {"failures": [], "dropped": []}
        self.longest: dict[str, float] = {}  # seconds of one part, by kind

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.seconds - (self.clock() - self.begin)

    def attempt(
        self,
        name: str,
        work: Callable[[], Any],
        *,
        kind: str = "",
        keep: Callable[[Any], object] = lambda result: None,
    ) -> Any:
        """The result of `work`, or None when it failed or was dropped; the report is saved.

        `keep` puts the result into the report. A part is dropped when the longest one of its
        `kind` so far would not fit into the budget.
        """
        kind = kind or name
        begin = self.clock()
        result = None
        if self.report.get("unusable"):
            self.drop(name, "the device is unusable")
        elif self.left() <= self.longest.get(kind, 0.0):
            self.drop(name, "no time left")
        else:
            try:
                result = work()
                keep(result)
            except DroppedError as reason:
                self.drop(name, str(reason))
            except Exception as error:
                self.fail(name, error)
                self.report["unusable"] = not self.is_usable()
            self.longest[kind] = max(self.longest.get(kind, 0.0), self.clock() - begin)
        self.save()
        return result

    def drop(self, name: str, reason: str) -> None:
        """Note what is not done."""
        self.report["dropped"].append(f"{name}: {reason}")

    def fail(self, name: str, error: Exception) -> None:
        """Note an error with the end of its traceback."""
        trace = "".join(traceback.format_exception(error))[-2000:]
        message = f"{type(error).__name__}: {error}"
        self.report["failures"].append({"part": name, "error": message[:500], "trace": trace})

    def save(self) -> None:
        """Write the report; a reader never sees half of it."""
        self.report["seconds"] = round(self.clock() - self.begin, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.report, indent=1) + "\n")
        temporary.replace(self.path)

    @property
    def exit_code(self) -> int:
        """1 when anything failed."""
        return 1 if self.report["failures"] else 0
