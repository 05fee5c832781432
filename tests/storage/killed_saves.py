"""A program of the tests: saves that die at every step, each looked at afterwards.

    python killed_saves.py FOLDER CASE

CASE "calls": a child of this process ends inside its n-th call that changes the disk, for every
n; a write is cut in half first. CASE "signals": a child that saves in a loop is killed from
outside. One JSON line per death: what `open_index` finds.
"""

import json
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path

from scar_gpu.storage import IndexNotFoundError, open_index, save_index
from tests.storage.stored_cases import (
    assert_same_index,
    assert_same_table,
    assert_same_words,
    small_index,
    small_table,
    small_words,
)

CALLS = ("open", "mkdir", "write", "fsync", "rename", "unlink", "rmdir")
SURVIVED = 0
DIED = 9


def save(path: Path, seed: int, overwrite: bool) -> None:
    save_index(
        path,
        small_index(seed=seed),
        chunks=small_table(),
        lexical=small_words(),
        overwrite=overwrite,
    )


def state(path: Path) -> str:
    """Which index stands at the path, or at the sibling that the error names."""
    try:
        stored = open_index(path, verify=True)
    except IndexNotFoundError as error:
        named = re.search(r"the index it was to replace at (\S+)", str(error))
        if named is None:
            return "none"
        return f"{state(Path(named[1]))} aside"
    assert_same_table(stored.chunks, small_table())
    assert_same_words(stored.lexical, small_words())
    for name, seed in (("old", 1), ("new", 2)):
        try:
            assert_same_index(stored.index, small_index(seed=seed))
        except AssertionError:
            continue
        return name
    raise AssertionError("another index than was ever saved")


def die_in_call(number: int) -> None:
    """Make the process end inside its `number`-th call."""
    count = 0

    def wrapped(function, name):
        def call(*args, **kwargs):
            nonlocal count
            if name != "open" or args[1] & (os.O_CREAT | os.O_DIRECTORY):
                count += 1
                if count == number:
                    if name == "write":
                        function(args[0], args[1][: len(args[1]) // 2])
                    os._exit(DIED)
            return function(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name), name))


def calls(folder: Path) -> None:
    for overwrite in (False, True):
        number = 0
        code = DIED
        while code == DIED:
            number += 1
            path = folder / str(overwrite) / "index"
            path.parent.mkdir()
            if overwrite:
                save(path, 1, False)
            child = os.fork()
            if not child:
                die_in_call(number)
                save(path, 2, overwrite)
                os._exit(SURVIVED)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            found = {"overwrite": overwrite, "call": number, "code": code, "state": state(path)}
            # Whatever is left, the next save succeeds.
            save(path, 2, True)
            assert state(path) == "new"
            print(json.dumps(found), flush=True)
            shutil.rmtree(path.parent)


def signals(folder: Path) -> None:
    path = folder / "index"
    save(path, 1, False)
    generator = random.Random(0)
    for number in range(25):
        child = os.fork()
        if not child:
            for seed in (2, 1) * 10_000:
                save(path, seed, True)
            os._exit(SURVIVED)
        time.sleep(0.02 + generator.random() / 20)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(json.dumps({"call": number, "state": state(path)}), flush=True)
        if not path.exists():
            save(path, 1, True)


if __name__ == "__main__":
    {"calls": calls, "signals": signals}[sys.argv[2]](Path(sys.argv[1]))
