"""Timing by interleaved rounds, so that a drifting machine does not decide a ratio."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds per call: median and spread (interquartile range over median) of the rounds."""

    median: float
    spread: float


def interleaved(
    functions: Mapping[str, Callable[[], object]], rounds: int, calls: int = 1
) -> dict[str, Timing]:
    """Time every function once per round, `calls` calls each, after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for round_number in range(rounds + 1):
        for name, function in functions.items():
            begin = time.perf_counter()
            for _ in range(calls):
                function()
            elapsed = (time.perf_counter() - begin) / calls
            if round_number:
                seconds[name].append(elapsed)
    return {name: timing(values) for name, values in seconds.items()}


def timing(values: list[float]) -> Timing:
    """Median and spread of the rounds."""
    median = statistics.median(values)
    quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [median] * 3
    return Timing(median, (quartiles[2] - quartiles[0]) / median)
