"""Timing by interleaved rounds, so that a drifting machine does not decide a ratio.

What is timed follows an untimed call of the same function, unless it takes seconds: it finds the
caches, its pages and its threads as a call of its own left them, not as another did. A ratio is the
median of the rounds' ratios: what slows the machine for a while slows both sides of a round, but
moves a median of one side alone. It does not help against other processes that keep the cores busy
throughout: threads of ours that wait for each other then wait for them, which some functions do
more than others. So their share is measured too, and a run is quiet or says it is not.
"""

import itertools
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# One call of microseconds after seconds of another function would tell how long threads take to
# wake up.
LEAST_SECONDS = 0.03
# A longer call is hardly touched by what others have left, and costs too much to be made twice.
WARM_UP_SECONDS = 3


@dataclass(frozen=True)
class Timing:
    """Seconds per call: median and spread (interquartile range over median) of the rounds."""

    median: float
    spread: float


@dataclass(frozen=True)
class Rounds(Timing):
    """The seconds per call of every round as well, and the share of the cores others had."""

    seconds: tuple[float, ...]
    others: float

    def over(self, other: "Rounds") -> float:
        """How many times as long as another in the same rounds."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


class OtherProcesses:
    """What other processes, and other virtual machines, take of the cores from now on."""

    def __init__(self) -> None:
        self._begin = self._now()

    def share(self) -> float:
        """Of all cores, 0 to 1; good to a few hundredths in half a second."""
        elapsed, others = (now - then for now, then in zip(self._now(), self._begin, strict=True))
        return min(max(others / (elapsed * (os.cpu_count() or 1)), 0.0), 1.0)

    @staticmethod
    def _now() -> tuple[float, float]:
        with open("/proc/stat") as file:  # user nice system idle iowait irq softirq steal
            ticks = [int(word) for word in file.readline().split()[1:9]]
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), busy - sum(os.times()[:4])


def interleaved(
    functions: Mapping[str, Callable[[], object]], rounds: int, calls: int | None = None
) -> dict[str, Rounds]:
    """Time every function once per round, after some calls to warm up.

    In a round a function is called `calls` times, or as often as fills LEAST_SECONDS.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    others = OtherProcesses()
    slices = {name: _slice(function, calls) for name, function in functions.items()}
    for _ in range(rounds):
        for name, function in functions.items():
            count, estimate = slices[name]
            if estimate < WARM_UP_SECONDS:
                function()
            seconds[name].append(_time(function, count))
    share = others.share()
    return {
        name: Rounds(**vars(timing(values)), seconds=tuple(values), others=share)
        for name, values in seconds.items()
    }


def in_turn(functions: Sequence[Callable[[], object]]) -> Callable[[], Any]:
    """One function that calls the next of `functions` every time, beginning with the first.

    For work on a part of the data: so that no call finds in cache what the last one read.
    """
    turns = itertools.cycle(functions)
    return lambda: next(turns)()


def _slice(function: Callable[[], object], calls: int | None) -> tuple[int, float]:
    """How many calls a slice has, and about how many seconds each takes."""
    count = calls or 1
    function()  # the first call may take far longer than others
    seconds = _time(function, count)
    while calls is None and seconds * count < LEAST_SECONDS:
        count *= 2
        seconds = _time(function, count)
    return count, seconds


def _time(function: Callable[[], object], calls: int) -> float:
    """Seconds per call."""
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return max(time.perf_counter() - begin, 1e-9) / calls


def timing(values: list[float]) -> Timing:
    """Median and spread of the rounds."""
    median = statistics.median(values)
    quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [median] * 3
    return Timing(median, (quartiles[2] - quartiles[0]) / median)
