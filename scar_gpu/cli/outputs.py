"""Output files: whole or not there, never half."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def check_output(path: Path, overwrite: bool, suffixes: tuple[str, ...] = ()) -> None:
    """Refuse an output that cannot be written, before any work is done for it.

    Raises:
        ValueError: a suffix that names no known kind.
        FileExistsError: the path exists and `overwrite` is false, or is a folder.
        FileNotFoundError: its folder is missing.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"output must end in {' or '.join(suffixes)}, got {path}")
    if path.is_dir():
        raise FileExistsError(f"output must be a file, got {path}, which is a folder")
    if path.exists() and not overwrite:
        raise FileExistsError(f"output must not exist yet, got {path}; --overwrite replaces it")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"output must lie in an existing folder, got {path}")


def check_parents(path: Path) -> None:
    """Refuse an output whose folders cannot be made.

    Raises:
        NotADirectoryError: one of the folders above it is no folder.
    """
    above = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        raise NotADirectoryError(f"output must lie in a folder, got {path} in {above}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary sibling to write to; rename it to `path` if the block succeeds.

    Whatever ends the block early, an error or Ctrl-C, removes the sibling and leaves what
    stood at `path`.

    Raises:
        OSError: also for a full disk, then with the path, which a write does not know.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(partial)):
            raise
        reason = os.strerror(error.errno)
        raise OSError(f"{path} must be writable to its end, got: {reason}") from error
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
