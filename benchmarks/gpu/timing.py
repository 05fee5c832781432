"""Times on a GPU: CUDA graphs or events, every call with a cold L2 cache."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch.autograd import DeviceType

from benchmarks.measure import Timing, timing

Call = Callable[[], object]
PROFILER = ("Sync", "Buffer", "ProfilerStep")  # its own events on the device


class Measured(NamedTuple):
    """Seconds per call, and how they were measured."""

    timing: Timing
    method: str  # "graph" or "events"


class GpuTimer:
    """Measures calls on the current CUDA device."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        properties = torch.cuda.get_device_properties(self.device)
        cache = getattr(properties, "L2_cache_size", 0) or 2**26
        # Writing it evicts everything else, and keeps the GPU busy while the CPU runs ahead.
        self._eviction = torch.empty(max(2 * cache, 2**28), dtype=torch.uint8, device=self.device)

    def synchronize(self) -> None:
        """Wait for the device; errors of earlier kernels appear here."""
        torch.cuda.synchronize(self.device)

    def free_bytes(self) -> int:
        """Memory that can still be taken."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self.device)[0]

    def capture(self, calls: Sequence[Call]) -> Call:
        """The calls as one CUDA graph, to be replayed; what they return is gone."""
        stream, current = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):  # libraries make their handles per stream
            for call in calls:
                call()
        current.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                for call in calls:
                    call()
        finally:  # after a capture that failed PyTorch stays on its stream
            torch.cuda.set_stream(current)
        return graph.replay

    def measure(self, calls: Sequence[Call], seconds: float = 0.3) -> Measured:
        """Time per call of `calls`, each of which should touch memory of its own."""
        for _ in range(2):  # compiles; fills the pool of memory
            for call in calls:
                call()
        self.synchronize()
        try:
            run, method = self.capture(calls), "graph"
        except RuntimeError:  # it waits for the device, or takes memory in a way of its own
            self.synchronize()
            run, method = lambda: [call() for call in calls], "events"
        first = self._rounds(run, 2)[-1]
        rounds = min(50, max(5, int(seconds / max(first, 1e-6))))
        values = [value / len(calls) for value in self._rounds(run, rounds)]
        return Measured(timing(values), method)

    def _rounds(self, run: Call, rounds: int) -> list[float]:
        """Seconds of every round."""
        events = []
        for _ in range(rounds):
            self._eviction.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            events.append((begin, end))
        self.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in events]

    def python_call(self, call: Call, rounds: int = 200) -> float:
        """Median seconds from the call in Python until its results are there."""
        values = []
        for _ in range(rounds):
            self.synchronize()
            begin = time.perf_counter()
            call()
            self.synchronize()
            values.append(time.perf_counter() - begin)
        return statistics.median(values[rounds // 10 :])

    def launches(self, call: Call) -> int | None:
        """Kernels, copies and fills that one call starts; None when the profiler sees none."""
        call()
        self.synchronize()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            call()
            self.synchronize()
        on_device = [e for e in profile.events() if e.device_type != DeviceType.CPU]
        return sum(not any(word in e.name for word in PROFILER) for e in on_device) or None


def ceilings(timer: GpuTimer, n_bytes: int = 2**31, side: int = 8192) -> dict[str, float]:
    """What the device reaches: bytes per second of a copy (read and written), bf16 FLOP/s."""
    device = timer.device
    n_bytes = min(n_bytes, timer.free_bytes() // 8)
    source, target = (torch.ones(n_bytes, dtype=torch.uint8, device=device) for _ in range(2))
    copy = timer.measure([lambda: target.copy_(source)]).timing.median
    one, other = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(one)
    product = timer.measure([lambda: torch.mm(one, other, out=out)]).timing.median
    return {"copy": 2 * n_bytes / copy, "bf16": 2 * side**3 / product}
