"""Damaged, foreign and forged indexes: one sentence each, never a crash."""

import gc
import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from scar_gpu import ChunkIndex
from scar_gpu.storage import (
    IndexFormatError,
    IndexNotFoundError,
    describe,
    open_index,
    save_index,
)
from tests.storage.stored_cases import (
    EMBEDDER,
    edit_manifest,
    small_index,
    small_table,
    small_words,
)

FILES = ("manifest.json", "tensors.safetensors", "chunks.parquet", "documents.parquet",
         "lexical.parquet")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parts = {"chunks": small_table(), "lexical": small_words(), "embedder": EMBEDDER}
    save_index(tmp_path / "index", small_index(), **parts)
    return tmp_path / "index"


def read_everything(folder: Path, verify: bool = False) -> None:
    stored = open_index(folder, verify=verify)
    stored.index.embeddings.sum()
    assert stored.chunks is not None
    list(stored.chunks.texts)
    assert stored.lexical is not None


def refusal(folder: Path, **options: bool) -> str:
    """The one sentence with which a folder is refused; it names the folder."""
    with pytest.raises(IndexFormatError) as caught:
        read_everything(folder, **options)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file(folder, name):
    path = folder / name
    data = path.read_bytes()
    for size in sorted({0, 1, 7, 8, 100, len(data) // 2, len(data.rstrip()) - 1} - {len(data)}):
        path.write_bytes(data[:size])
        message = refusal(folder)
        if name != "manifest.json":
            expected = f"{name} must have {len(data)} bytes as its manifest says, got {size}"
            assert expected in message
    path.write_bytes(data + b" ")
    if name == "manifest.json":
        read_everything(folder)
    else:
        assert "bytes as its manifest says" in refusal(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    assert refusal(folder) == f"{folder} must have a file {name}, got none"


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file(folder, name):
    (folder / name).unlink()
    (folder / name).mkdir()
    assert f"{name} must be a file, got a folder or something else" in refusal(folder)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder):
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    assert "manifest.json must be a file" in refusal(folder)


@pytest.mark.parametrize("name", FILES)
def test_every_changed_byte_is_noticed(folder, name):
    path = folder / name
    data = bytearray(path.read_bytes())
    generator = random.Random(0)
    for at in range(generator.randrange(5), len(data), 5):
        old = data[at]
        data[at] ^= 1 << generator.randrange(8)
        path.write_bytes(data)
        refusal(folder, verify=True)
        data[at] = old
    path.write_bytes(data)
    read_everything(folder, verify=True)


def test_the_matrix_is_checked_on_request_alone(folder):
    path = folder / "tensors.safetensors"
    data = bytearray(path.read_bytes())
    data[4096] ^= 1
    path.write_bytes(data)
    read_everything(folder)
    message = refusal(folder, verify=True)
    assert "tensors.safetensors must hold embeddings as its manifest says" in message
    with pytest.raises(IndexFormatError, match="must hold embeddings"):
        ChunkIndex.load(folder, mmap=False)
    with pytest.raises(IndexFormatError, match="must hold embeddings"):
        describe(folder, verify=True)


@pytest.mark.parametrize("part", ["chunks", "lexical"])
def test_changed_text_is_noticed_when_it_is_first_used(folder, part):
    path = folder / f"{part}.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    stored = open_index(folder)
    for _ in range(2):
        with pytest.raises(IndexFormatError, match=rf"{part}\.parquet must hold its bytes as"):
            getattr(stored, part)
    with pytest.raises(IndexFormatError, match=rf"{part}\.parquet must hold its bytes as"):
        describe(folder)


def test_an_edited_manifest(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"words"', '"other"'))
    assert "manifest.json must be as it was written, got an edited one" in refusal(folder)


def test_a_later_version(folder):
    edit_manifest(folder, "version", value=2)
    expected = "must be of format version 1 or before for this release, got 2"
    assert expected in refusal(folder)


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": "other"}', b"NaN"],
    ids=lambda text: repr(text[:20]),
)
def test_a_foreign_manifest(folder, text):
    (folder / "manifest.json").write_bytes(text)
    assert "manifest.json must be" in refusal(folder)


def test_a_huge_manifest_is_not_read(folder):
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(1 << 40)
    assert "manifest.json must have at most" in refusal(folder)


@pytest.mark.parametrize("version", [None, "1", 0, -1, True, 1.0])
def test_a_version_that_is_none(folder, version):
    edit_manifest(folder, "version", value=version)
    assert "manifest.json must have a version" in refusal(folder)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("tensors", "embeddings", "shape"), [7, 9]),
        (("tensors", "embeddings", "shape"), [14, 4]),
        (("tensors", "embeddings", "shape"), [7]),
        (("tensors", "embeddings", "shape"), [-7, -8]),
        (("tensors", "embeddings", "shape"), [True, 8]),
        (("tensors", "embeddings", "shape"), ["7", 8]),
        (("tensors", "embeddings", "shape"), [2**61, 8]),
        (("tensors", "embeddings", "shape"), None),
        (("tensors", "embeddings", "dtype"), "float64"),
        (("tensors", "embeddings", "dtype"), "int64"),
        (("tensors", "embeddings", "dtype"), ["float32"]),
        (("tensors", "row_scale", "dtype"), "float16"),
        (("tensors", "row_scale", "shape"), [8]),
        (("tensors", "continuity", "shape"), [1, 14]),
        (("tensors", "doc_offsets", "shape"), [0]),
        (("tensors", "doc_offsets", "sha256"), 0),
        (("tensors", "more"), {"dtype": "float32", "shape": [0], "sha256": ""}),
        (("tensors",), {}),
        (("tensors",), []),
        (("files",), {}),
        (("files",), None),
        (("files", "../else"), {"bytes": 1}),
        (("files", "more.bin"), {"bytes": 1}),
        (("files", "tensors.safetensors", "bytes"), 10),
        (("files", "tensors.safetensors", "bytes"), 1.5),
        (("files", "chunks.parquet", "sha256"), None),
        (("embedder",), "words"),
        (("embedder",), {}),
        (("embedder",), {"name": "words", "dim": 9, "hash": "abc"}),
        (("embedder",), {"name": 3, "dim": 8, "hash": "abc"}),
        (("created_by",), 3),
    ],
    ids=str,
)
def test_a_forged_manifest(folder, keys, value):
    edit_manifest(folder, *keys, value=value)
    refusal(folder)


def test_forged_offsets(folder, monkeypatch):
    """Offsets that lead out of the matrix, with checksums that fit."""
    for wrong in ([1, 1, 3, 3, 7], [0, 0, 3, 3, 8], [0, 4, 3, 3, 7], [-1, 0, 3, 3, 7]):
        index = small_index()
        index.doc_offsets.copy_(index.doc_offsets.new_tensor(wrong))
        index.save(folder, overwrite=True)
        with pytest.raises(IndexFormatError, match="hold doc_offsets that rise from 0 to 7"):
            ChunkIndex.load(folder)


@pytest.mark.parametrize("name", ["chunks.parquet", "documents.parquet"])
def test_a_foreign_parquet_file(folder, name):
    import hashlib

    import pyarrow
    import pyarrow.parquet

    path = folder / name
    tables = [
        {"a": [1]},
        {"start": [0], "end": [0], "start_byte": [0], "end_byte": [0], "path": [0], "text": [""]},
        {"id": ["a"], "characters": [0], "bytes": [0], "text": [""]},
    ]
    for columns in tables:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        data = path.read_bytes()
        edit_manifest(folder, "files", name, "bytes", value=len(data))
        edit_manifest(folder, "files", name, "sha256", value=hashlib.sha256(data).hexdigest())
        refusal(folder)


LISTS = {"word": ["a", "b"], "rows": [[0], [3, 6]], "scores": [[1.0], [2.0, 3.0]]}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({}, None),
        ({"rows": [[0], [3, 7]]}, "rows outside [0, 7)"),
        ({"rows": [[0], [3, -1]]}, "rows outside [0, 7)"),
        ({"rows": [[0, 3], [6]]}, "words with more rows than scores, or fewer"),
        ({"scores": [[1.0], [2.0]]}, "words with more rows than scores, or fewer"),
        ({"word": [b"a", b"b"]}, "words that are no text"),
        ({"word": ["a", None]}, "words that are no text"),
        ({"rows": [0, 3]}, ""),
        ({"rows": [[0], None]}, ""),
        ({"rows": [[0], [3, None]]}, ""),
        ({"rows": None}, ""),
    ],
    ids=str,
)
def test_a_forged_lexical_file(folder, wrong, reason):
    import hashlib

    import pyarrow as pa
    import pyarrow.parquet

    path = folder / "lexical.parquet"
    columns = {name: values for name, values in (LISTS | wrong).items() if values is not None}
    table = pa.table(columns)
    for name, kind in (("rows", pa.int32()), ("scores", pa.float32())):
        if name in columns and pa.types.is_list(table.schema.field(name).type):
            column = table[name].cast(pa.large_list(kind))
            table = table.set_column(table.column_names.index(name), name, column)
    pyarrow.parquet.write_table(table, path)
    data = path.read_bytes()
    edit_manifest(folder, "files", path.name, "bytes", value=len(data))
    edit_manifest(folder, "files", path.name, "sha256", value=hashlib.sha256(data).hexdigest())
    if reason is None:
        read_everything(folder)
    else:
        message = refusal(folder)
        assert message.startswith(f"{path} must be the lexical lists of its index, got {reason}")


def test_paths_that_are_no_index(tmp_path):
    with pytest.raises(IndexNotFoundError) as caught:
        open_index(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path}/none must be the folder of an index, got none there"
    assert isinstance(caught.value, FileNotFoundError)
    (tmp_path / "file").write_text("text")
    with pytest.raises(IndexFormatError, match="file must be the folder of an index, got a file"):
        open_index(tmp_path / "file")
    with pytest.raises(IndexFormatError, match=r"must have a file manifest\.json, got none"):
        open_index(tmp_path)
    with pytest.raises(IndexFormatError, match="must be the folder of an index, got a file"):
        open_index(tmp_path / "file" / "index")


def test_a_failed_open_leaves_no_file_open(folder):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    edit_manifest(folder, "tensors", "row_scale", "sha256", value="")
    for _ in range(5):
        refusal(folder)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    shutil.rmtree(folder)
    with pytest.raises(IndexNotFoundError):
        open_index(folder)


def test_the_sentence_is_one(folder):
    edit_manifest(folder, "version", value=7)
    assert re.fullmatch(r"\S+ must .*, got .*", refusal(folder))
    assert json.loads((folder / "manifest.json").read_text())["version"] == 7
