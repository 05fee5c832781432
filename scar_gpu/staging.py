"""Tiles of rows for a search: those of the index itself or copies on a GPU.

A source is used by two threads. The one that reads ahead calls `read`, tile after tile; the one
that searches calls `take` before a tile is searched and `done` after that was queued. Tile t + 2
is read only after `done(t)`.
"""

import ctypes
import mmap
import sys
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

_MADV_POPULATE_READ = 22  # since Linux 5.14
# So that a kernel may load from the head of every tensor of a buffer in its widest steps.
ALIGNMENT = 256
N_BUFFERS = 2  # for the tile that is searched, and the next


class Rows(NamedTuple):
    """Adjacent rows of an index: embeddings [n, D], row_scale [n], continuity [W, n]."""

    embeddings: Tensor
    row_scale: Tensor
    continuity: Tensor

    def part(self, low: int, high: int) -> "Rows":
        """Rows low .. high, without a copy."""
        return Rows(
            self.embeddings[low:high], self.row_scale[low:high], self.continuity[:, low:high]
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the three, one behind the other."""
        return sum(_aligned(tensor.nbytes) for tensor in self)

    def laid_out(self, buffer: Tensor) -> "Rows":
        """Contiguous tensors of the same shapes that share the memory of `buffer` [bytes]."""
        views, begin = [], 0
        for tensor in self:
            flat = buffer[begin : begin + tensor.nbytes].view(tensor.dtype)
            views.append(flat.view(tensor.shape))
            begin += _aligned(tensor.nbytes)
        return Rows(*views)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Source(Protocol):
    """What a search by tiles asks for its rows."""

    def read(self, number: int, low: int, high: int) -> Any:
        """Read rows low .. high as tile `number`; waits for memory, disk, and free buffers."""

    def take(self, tile: Any) -> Rows:
        """What `read` returned, for work on the current stream."""

    def done(self, number: int) -> None:
        """All work on the tile is queued."""


def _populate(address: int, nbytes: int) -> bool:
    """Ask Linux for all pages of a stretch at once; False where it is too old, or another system.

    Touching each page costs a miss of every cache even where all is in memory.
    """
    if sys.platform != "linux":
        return False
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    length = ctypes.c_size_t(address + nbytes - start)
    return ctypes.CDLL(None).madvise(ctypes.c_void_p(start), length, _MADV_POPULATE_READ) == 0


class InPlace:
    """Tiles where the index is. Of a mapped one every page is brought in ahead of its use."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def read(self, number: int, low: int, high: int) -> Rows:
        """Have the pages in memory, and in this process's tables."""
        tile = self._rows.part(low, high)
        rows = tile.embeddings
        if rows.is_cpu and rows.numel():
            extent = ((rows.shape[0] - 1) * rows.stride(0) + rows.shape[1]) * rows.itemsize
            if not _populate(rows.data_ptr(), extent):
                memory = memoryview((ctypes.c_char * extent).from_address(rows.data_ptr()))
                np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE].max()
        return tile

    def take(self, tile: Rows) -> Rows:
        """The tile."""
        return tile

    def done(self, number: int) -> None:
        """Nothing is to be given back."""


class Copies:
    """What `Staged` asks of CUDA: buffers, a stream of copies beside the current one, events."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._compute = torch.cuda.current_stream(device)
        self._stream = torch.cuda.Stream(device)

    def host_buffer(self, nbytes: int) -> Tensor:
        """Pinned memory."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def device_buffer(self, nbytes: int) -> Tensor:
        """Memory of the compute stream that is not given away before the last copy into it."""
        buffer = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
        buffer.record_stream(self._stream)
        return buffer

    def computed(self) -> Any:
        """The event after all that the compute stream has been given."""
        return self._compute.record_event()

    def copy(self, target: Tensor, source: Tensor, after: Any) -> Any:
        """Queue a copy that begins after an event; the event of its end."""
        self._stream.wait_event(after)
        # The reading thread begins on GPU 0. Leaving a stream of another one alone would set that
        # again, and give this process a context, some hundred MiB, on a GPU that it does not use.
        with torch.cuda.device_of(target), torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
        # Who waits for it sleeps instead of keeping a core busy.
        return self._stream.record_event(torch.cuda.Event(blocking=True))

    def compute_after(self, copied: Any) -> None:
        """What the compute stream is given from now on begins after the event."""
        self._compute.wait_event(copied)

    def wait(self, copied: Any) -> None:
        """Let this thread wait for the event."""
        copied.synchronize()


class _Copied(NamedTuple):
    rows: Rows
    event: Any


class Staged:
    """Tiles copied to a GPU through two pinned buffers, while the tile before is searched.

    The reading thread overwrites a pinned buffer when the copy out of it is complete; the copies
    overwrite a device buffer when the search of the tile in it is. The searching thread never
    waits for the device.

    Args:
        rows: those of the index, on the CPU.
        most: rows of the largest tile.
        copies: of the device.
    """

    def __init__(self, rows: Rows, most: int, copies: Copies) -> None:
        self._rows, self._copies = Rows(*(tensor.detach() for tensor in rows)), copies
        nbytes = rows.part(0, most).nbytes
        self._host = [copies.host_buffer(nbytes) for _ in range(N_BUFFERS)]
        self._device = [copies.device_buffer(nbytes) for _ in range(N_BUFFERS)]
        # Fresh memory may still be in use by what the compute stream was given before.
        self._computed = [copies.computed()] * N_BUFFERS
        self._copied: list[Any] = [None] * N_BUFFERS

    def read(self, number: int, low: int, high: int) -> _Copied:
        """Read into a pinned buffer and queue the copy to the device."""
        slot, tile = number % N_BUFFERS, self._rows.part(low, high)
        if self._copied[slot] is not None:
            self._copies.wait(self._copied[slot])
        host, device = self._host[slot][: tile.nbytes], self._device[slot][: tile.nbytes]
        for target, source in zip(tile.laid_out(host), tile, strict=True):
            target.copy_(source)
        self._copied[slot] = self._copies.copy(device, host, after=self._computed[slot])
        return _Copied(tile.laid_out(device), self._copied[slot])

    def take(self, tile: _Copied) -> Rows:
        """Let the compute stream wait for the copy."""
        self._copies.compute_after(tile.event)
        return tile.rows

    def done(self, number: int) -> None:
        """The device buffer is free after what the compute stream has been given."""
        self._computed[number % N_BUFFERS] = self._copies.computed()
