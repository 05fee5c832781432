"""Files: written with a running checksum, opened from one folder, read or mapped by size."""

from __future__ import annotations

import errno
import hashlib
import io
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from scar_gpu.storage.errors import refuse, refuse_digest

BLOCK_BYTES = 8 << 20

# Not in the mmap module before Python 3.13. Without it Linux refuses a private writable map that
# is larger than memory, although nothing is ever written.
_NORESERVE = {"linux": 0x4000, "darwin": 0x40}.get(sys.platform, 0)


class ChecksummedFile(io.RawIOBase):
    """A new file that counts and hashes what is written; it is on disk when it closes.

    Every byte goes through `os.write`, so that a full disk is an OSError at the write that met it.

    Attributes:
        size: bytes written.
        sha256: hexadecimal digest of them.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.size = 0
        self._digest = hashlib.sha256()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        self._digest.update(view)
        written = 0
        while written < view.nbytes:
            written += os.write(self._fd, view[written : written + BLOCK_BYTES])
        self.size += written
        return written

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                os.fsync(self._fd)
        finally:
            self.close()


def sync_directory(path: Path) -> None:
    """Put the entries of a folder on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems have nothing to synchronise here and say so.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


class OpenFile:
    """A file of a folder that is held open; it stays readable when the folder is replaced."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.size = os.fstat(fd).st_size

    def check_size(self, expected: int) -> None:
        """Refuse a file shorter or longer than the manifest says, before anything is mapped."""
        if self.size != expected:
            refuse(self.path, f"have {expected} bytes as its manifest says", self.size)

    def check_sha256(self, expected: str | None) -> None:
        """Refuse a file with other bytes than the manifest says."""
        if self.sha256() != expected:
            refuse_digest(self.path)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` with the bytes from `offset` on."""
        done = 0
        while done < target.nbytes:
            block = target[done : done + BLOCK_BYTES]
            count = os.preadv(self.fd, [block], offset + done)
            if not count:
                refuse(self.path, f"have {self.size} bytes until it is read", offset + done)
            done += count

    def sha256(self, offset: int = 0, size: int | None = None) -> str:
        """The digest of a part, read in blocks that nothing keeps."""
        left = self.size - offset if size is None else size
        digest = hashlib.sha256()
        block = memoryview(bytearray(min(BLOCK_BYTES, max(left, 1))))
        while left:
            part = block[: min(left, block.nbytes)]
            self.read_into(part, offset)
            digest.update(part)
            offset += part.nbytes
            left -= part.nbytes
        return digest.hexdigest()

    def map(self) -> mmap.mmap:
        """The whole file as memory of this process: read on demand, never written back.

        The pages are private, so a careless write to a tensor changes this process's copy of the
        page instead of ending the process.
        """
        if not self.size:
            refuse(self.path, "not be empty", "0 bytes")
        flags = mmap.MAP_PRIVATE | _NORESERVE
        return mmap.mmap(self.fd, self.size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


class OpenFolder:
    """A folder held open: all its files come from one version of it, whatever is renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @contextmanager
    def file(self, name: str) -> Iterator[OpenFile]:
        """Open one file of the folder."""
        try:
            # A named pipe would wait here for someone to write to it.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            fd = os.open(name, flags, dir_fd=self._fd)
        except FileNotFoundError:
            refuse(self.path, f"have a file {name}", "none")
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                refuse(self.path / name, "be a file", "a folder or something else")
            yield OpenFile(self.path / name, fd)
        finally:
            os.close(fd)

    def was_replaced(self) -> bool:
        """Whether another folder, or none, stands at the path by now."""
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            return True
