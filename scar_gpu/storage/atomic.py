"""A folder that appears whole or not at all, also when it takes the place of another.

It is written as a hidden sibling, put on disk, and renamed. A folder to be replaced is first
renamed to a sibling too and removed last, so at every moment one of the two is complete: at the
path, or, between the two renames, at the sibling that `leftovers` finds.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scar_gpu.storage.files import sync_directory

_LOGGER = logging.getLogger(__name__)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
# Each failed attempt means that another process has put its own folder there in between.
_ATTEMPTS = 100


@contextmanager
def new_folder(path: Path, files: frozenset[str], *, overwrite: bool) -> Iterator[Path]:
    """Give a temporary folder to write into; at the end of the block it is renamed to `path`.

    Args:
        path: where the folder is to stand; folders above it are made.
        files: the names a folder may hold to be overwritten: nothing else is ever removed.
        overwrite: whether a folder with these files may be replaced.

    Raises:
        FileExistsError: something is there, or another process was faster.
    """
    target = Path(os.path.realpath(path))
    _check_free(target, files, overwrite)
    if not target.parent.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(target, "saving")
    os.mkdir(temporary)
    try:
        yield temporary
        sync_directory(temporary)
        _publish(temporary, target, files, overwrite)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def leftovers(path: Path) -> list[Path]:
    """The siblings that interrupted saves to `path` have left, those of a replaced index first."""
    target = Path(os.path.realpath(path))
    found = []
    for kind in ("replaced", "saving"):
        prefix = f".{target.name}.{kind}-"
        with suppress(OSError):
            names = sorted(name for name in os.listdir(target.parent) if name.startswith(prefix))
            found += [target.parent / name for name in names]
    return found


def _sibling(target: Path, kind: str) -> Path:
    return target.parent / f".{target.name}.{kind}-{secrets.token_hex(6)}"


def _check_free(target: Path, files: frozenset[str], overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if not overwrite:
        got = "a folder" if target.is_dir() else "a file"
        raise FileExistsError(f"{target} must not exist unless overwrite is asked for, got {got}")
    try:
        foreign = sorted(set(os.listdir(target)) - files)
    except FileNotFoundError:  # another process has moved it aside
        return
    except NotADirectoryError:
        message = f"{target} must be a folder to be overwritten, got a file"
        raise FileExistsError(message) from None
    if foreign:
        rule = "hold nothing but what it would be overwritten with"
        raise FileExistsError(f"{target} must {rule}, got {foreign[0]}")


def _publish(temporary: Path, target: Path, files: frozenset[str], overwrite: bool) -> None:
    for _ in range(_ATTEMPTS):
        _check_free(target, files, overwrite)
        aside = _sibling(target, "replaced")
        try:
            if overwrite:
                with suppress(FileNotFoundError):
                    os.rename(target, aside)
            os.rename(temporary, target)
            sync_directory(target.parent)
        except BaseException as error:
            _undo(temporary, target, aside)
            if isinstance(error, OSError) and error.errno in _TAKEN:
                continue
            raise
        if aside.exists():
            _remove(aside)
        return
    raise FileExistsError(f"{target} must be left alone by other processes, got another index")


def _undo(temporary: Path, target: Path, aside: Path) -> None:
    """Put the old folder back, or drop it if another process has put a newer one there."""
    if not temporary.exists():
        os.rename(target, temporary)
    if not aside.exists():
        return
    try:
        os.rename(aside, target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        _remove(aside)


def _remove(aside: Path) -> None:
    """The new folder stands, so a failure here is worth a line and no more."""
    try:
        shutil.rmtree(aside)
    except OSError as error:
        _LOGGER.warning("%s could not be removed: %s", aside, error)
