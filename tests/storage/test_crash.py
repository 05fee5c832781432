"""A save that dies, fails or meets another one leaves the old index or the new one."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scar_gpu.storage import describe, open_index, save_index
from tests.storage.stored_cases import assert_same_index, small_index, small_table, small_words


def run(folder: Path, case: str) -> list[dict]:
    program = Path(__file__).with_name("killed_saves.py")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(program), str(folder), case],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_process_that_dies_in_any_call(tmp_path):
    found = run(tmp_path, "calls")
    first = [row["state"] for row in found if not row["overwrite"]]
    # Nothing, up to the rename; then the new index.
    switch = first.index("new")
    assert first == ["none"] * switch + ["new"] * (len(first) - switch)
    again = [row["state"] for row in found if row["overwrite"]]
    # The old index; between the two renames it is named by the error; then the new one.
    aside = again.index("old aside")
    expected = ["old"] * aside + ["old aside"] + ["new"] * (len(again) - aside - 1)
    assert again == expected
    assert switch > 15
    assert len(again) > len(first) + 5
    assert [row["code"] for row in found].count(0) == 2


def test_a_process_that_is_killed_from_outside(tmp_path):
    states = [row["state"] for row in run(tmp_path, "signals")]
    assert len(states) == 25
    assert set(states) <= {"old", "new", "old aside", "new aside"}


class Failing:
    """Makes the n-th call of a function in `os` fail."""

    def __init__(self, name: str, number: int, code: int) -> None:
        self._function = getattr(os, name)
        self._left = number
        self._code = code

    def __call__(self, *args, **kwargs):
        self._left -= 1
        if self._left == 0:
            raise OSError(self._code, os.strerror(self._code))
        return self._function(*args, **kwargs)


def save_problem(path: Path, overwrite: bool) -> OSError | None:
    parts = {"chunks": small_table(), "lexical": small_words()}
    try:
        save_index(path, small_index(seed=2), **parts, overwrite=overwrite)
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["write", "fsync", "rename", "mkdir"])
def test_an_error_in_any_call_leaves_what_was_there(tmp_path, monkeypatch, name, overwrite):
    path = tmp_path / "index"
    if overwrite:
        save_index(path, small_index(seed=1), chunks=small_table())
    number = 0
    while True:
        number += 1
        failing = Failing(name, number, errno.ENOSPC)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing)
            problem = save_problem(path, overwrite)
        if problem is None:
            break
        assert problem.errno == errno.ENOSPC
        expected = "could not be saved, nothing that was there has changed: No space left on device"
        assert problem.strerror == f"{path} {expected}"
        assert os.listdir(tmp_path) == (["index"] if overwrite else [])
        if overwrite:
            assert_same_index(open_index(path, verify=True).index, small_index(seed=1))
    assert number > 1
    assert os.listdir(tmp_path) == ["index"]
    assert_same_index(open_index(path, verify=True).index, small_index(seed=2))


def test_a_full_disk(tmp_path):
    """The same on a real file system of 64 KiB, where the test may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        save_index(disk / "index", small_index(seed=1), chunks=small_table())
        with pytest.raises(OSError, match="could not be saved") as caught:
            save_index(disk / "index", small_index(4000), overwrite=True)
        assert caught.value.errno == errno.ENOSPC
        assert os.listdir(disk) == ["index"]
        assert_same_index(open_index(disk / "index", verify=True).index, small_index(seed=1))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_files_are_on_disk_before_they_are_renamed(tmp_path, monkeypatch):
    events = []

    def record(name):
        function = getattr(os, name)

        def call(first, *args, **kwargs):
            is_fd = isinstance(first, int)
            place = os.readlink(f"/proc/self/fd/{first}") if is_fd else os.fspath(first)
            events.append((name, Path(place).name))
            return function(first, *args, **kwargs)

        return call

    parts = {"chunks": small_table(), "lexical": small_words()}
    save_index(tmp_path / "index", small_index(), **parts)
    for name in ("write", "fsync", "rename", "rmdir"):
        monkeypatch.setattr(os, name, record(name))
    save_index(tmp_path / "index", small_index(), **parts, overwrite=True)
    renames = [i for i, (name, _) in enumerate(events) if name == "rename"]
    assert len(renames) == 2
    written = {place for name, place in events if name == "write"}
    assert len(written) == 5
    synced = [place for name, place in events[: renames[0]] if name == "fsync"]
    assert written <= set(synced)
    # The folder itself comes last, and the one around it before the old index goes.
    assert synced[-1].startswith(".index.saving-")
    after = [event for event in events[renames[1] + 1 :] if event[0] in ("fsync", "rmdir")]
    assert after[0] == ("fsync", tmp_path.name)
    assert after[1][0] == "rmdir"


def test_an_existing_path_is_left_alone(tmp_path):
    path = tmp_path / "index"
    small_index(seed=1).save(path)
    with pytest.raises(FileExistsError, match="index must not exist unless overwrite is asked"):
        small_index(seed=2).save(path)
    assert_same_index(open_index(path).index, small_index(seed=1))
    (path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"hold nothing but what .*, got notes\.txt"):
        small_index(seed=2).save(path, overwrite=True)
    (tmp_path / "file").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match="file must"):
            small_index().save(tmp_path / "file", overwrite)
    assert sorted(os.listdir(tmp_path)) == ["file", "index"]


def test_a_damaged_index_may_be_overwritten(tmp_path):
    path = tmp_path / "index"
    small_index(seed=1).save(path)
    (path / "manifest.json").write_text("{}")
    small_index(seed=2).save(path, overwrite=True)
    assert_same_index(open_index(path).index, small_index(seed=2))


def test_a_link_keeps_pointing_to_the_index(tmp_path):
    small_index(seed=1).save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    small_index(seed=2).save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert_same_index(open_index(tmp_path / "link").index, small_index(seed=2))


def test_folders_above_are_made(tmp_path):
    small_index().save(tmp_path / "a" / "b" / "index")
    assert describe(tmp_path / "a" / "b" / "index")["n_chunks"] == 7


def test_what_an_interrupted_save_left_is_described(tmp_path):
    small_index().save(tmp_path / "index")
    left = tmp_path / ".index.saving-0123"
    left.mkdir()
    (tmp_path / ".index2.saving-0123").mkdir()
    assert describe(tmp_path / "index")["leftovers"] == [str(left)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_savers_of_one_path(tmp_path, overwrite):
    """One wins at a time, and whoever reads meanwhile finds a whole index."""
    path = tmp_path / "index"
    outcomes: list[str] = []
    done = threading.Event()
    if overwrite:
        save_index(path, small_index(seed=0), chunks=small_table())

    def save(seed: int) -> None:
        for _ in range(10):
            try:
                save_index(path, small_index(seed=seed), chunks=small_table(), overwrite=overwrite)
                outcomes.append("saved")
            except FileExistsError:
                outcomes.append("refused")

    def read() -> None:
        while not done.is_set():
            open_index(path, verify=True)
            outcomes.append("read")

    savers = [threading.Thread(target=save, args=(seed,)) for seed in (1, 2, 3)]
    reader = threading.Thread(target=read)
    if overwrite:
        reader.start()
    for thread in savers:
        thread.start()
    for thread in savers:
        thread.join()
    done.set()
    if overwrite:
        reader.join()
        assert outcomes.count("read") > 0
    assert outcomes.count("saved") == (30 if overwrite else 1)
    assert os.listdir(tmp_path) == ["index"]
    open_index(path, verify=True)
