"""A CUDA of one device, on the CPU, that keeps its copies waiting and its events honest.

A copy runs only when an event after it is waited for, so what reads too early reads poison, and
what writes too early is copied. Streams know what runs before them through events alone: an access
that nothing orders behind an earlier one to the same memory is a `RaceError`.
"""

import threading
from contextlib import contextmanager

import torch

POISON = 0xFF  # NaN in every float dtype


class RaceError(Exception):
    """Two accesses to a buffer that no event orders, or another misuse of the device."""


class Clock(dict):
    """For each stream the number of its operations that have run before."""

    def learn(self, other):
        for stream, number in other.items():
            self[stream] = max(self.get(stream, 0), number)


class Event:
    def __init__(self, cuda):
        self.cuda, self.clock = cuda, Clock()

    def synchronize(self):
        if threading.current_thread() is threading.main_thread():
            raise RaceError("the searching thread waits for the device")
        self.cuda.host.learn(self.clock)
        self.cuda.run(self.clock)


class Stream:
    def __init__(self, cuda, name):
        self.cuda, self.name, self.clock = cuda, name, Clock()

    def wait_event(self, event):
        self.clock.learn(event.clock)

    def record_event(self, event=None):
        event = event or Event(self.cuda)
        event.clock = Clock(self.clock)
        return event

    def advance(self):
        """The number of a new operation."""
        self.clock[self.name] = self.clock.get(self.name, 0) + 1
        return self.clock[self.name]


class Buffer(torch.Tensor):
    """Memory whose copies go through a LateCuda."""

    def copy_(self, source, non_blocking=False):
        if non_blocking:
            self.cuda.queue(self, source)
            return self
        self.cuda.host_writes(self)
        return super().copy_(source)

    def record_stream(self, stream):
        self.cuda.owners.setdefault(place(self), set()).add(stream.name)


def place(tensor):
    """What tells one buffer from another; None where there is no memory."""
    return tensor.untyped_storage().data_ptr() or None


class LateCuda:
    """Stands for torch.cuda in `scar_gpu.staging`."""

    def __init__(self, monkeypatch):
        self.lock = threading.RLock()
        self.host = Clock()
        self.compute = self.current = Stream(self, "compute")
        self.pending, self.buffers, self.owners = [], [], {}
        self.last = {}  # place: {stream: the number of its last access}
        self.n_copies = 0
        real_empty = torch.empty

        def empty(*sizes, pin_memory=False, **options):
            if options.get("dtype") is not torch.uint8:  # not of a Staged
                return real_empty(*sizes, **options)
            buffer = real_empty(*sizes, **options).fill_(POISON).as_subclass(Buffer)
            self.buffers.append(buffer)
            if not pin_memory and sizes != (0,):  # the memory of something that may still run
                self.last[place(buffer)] = {"compute": self.compute.advance()}
            return buffer

        monkeypatch.setattr(Buffer, "cuda", self, raising=False)
        monkeypatch.setattr(torch, "empty", empty)
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(self, "copies"))
        monkeypatch.setattr(torch.cuda, "Event", lambda blocking: Event(self))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.compute)
        monkeypatch.setattr(torch.cuda, "stream", self.using)
        monkeypatch.setattr(torch.cuda, "device_of", self.on_device_of)
        self.is_on_device = False

    @contextmanager
    def on_device_of(self, tensor):
        self.is_on_device = True
        yield
        self.is_on_device = False

    @contextmanager
    def using(self, stream):
        if not self.is_on_device:
            raise RaceError("the stream of another device than the current one")
        before, self.current = self.current, stream
        yield
        self.current = before

    def access(self, tensor, clock, name, number):
        """An operation on a buffer, which must know of all others on it."""
        if place(tensor) is None:
            return
        known = self.last.setdefault(place(tensor), {})
        for other, last in known.items():
            if other != name and clock.get(other, 0) < last:
                raise RaceError(f"{name} does not wait for {other}")
        known[name] = number

    def host_writes(self, tensor):
        with self.lock:
            for other, last in self.last.get(place(tensor), {}).items():
                if self.host.get(other, 0) < last:
                    raise RaceError(f"the host does not wait for {other}")

    def queue(self, target, source):
        with self.lock:
            stream = self.current
            number = stream.advance()
            for tensor in (target, source):
                self.access(tensor, stream.clock, stream.name, number)
            self.pending.append((stream.name, number, target, source))

    def run(self, clock):
        """Run the copies that an event stands behind; what was copied is poisoned."""
        with self.lock:
            due = [one for one in self.pending if one[1] <= clock.get(one[0], 0)]
            self.pending = [one for one in self.pending if one[1] > clock.get(one[0], 0)]
            for _, _, target, source in due:
                torch.Tensor.copy_(target, source)
                source.fill_(POISON)
                self.n_copies += 1

    def computes(self, *tensors):
        """The current stream is given an operation on these."""
        with self.lock:
            number = self.compute.advance()
            for tensor in tensors:
                if isinstance(tensor, Buffer) and tensor.numel():
                    self.access(tensor, self.compute.clock, "compute", number)
            self.run(self.compute.clock)

    def check_end(self):
        """Memory goes back to its stream; others that use it must have been named."""
        for address, used_by in self.last.items():
            others = used_by.keys() - self.owners.get(address, set()) - {"compute"}
            if "compute" in used_by and others:
                raise RaceError("memory is given away before the last copy into it")
