"""What is saved is what is loaded."""

import json
import os
import warnings

import numpy as np
import pyarrow.parquet
import pytest
import safetensors.torch
import torch

from scar_gpu import ChunkIndex
from scar_gpu.storage import describe, open_index, save_index
from scar_gpu.text.lexical import LexicalIndex
from tests.corpora import ROW_DTYPES
from tests.storage.stored_cases import (
    EMBEDDER,
    assert_same_index,
    assert_same_table,
    assert_same_words,
    small_index,
    small_table,
    small_words,
)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("n_chunks", [0, 1, 7, 8])
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_tensors(tmp_path, dtype, n_chunks, mmap):
    index = small_index(n_chunks, dtype)
    index.save(tmp_path / "index")
    assert_same_index(ChunkIndex.load(tmp_path / "index", mmap=mmap, verify=True), index)
    assert_same_index(ChunkIndex.load(str(tmp_path / "index"), mmap=mmap), index)


@pytest.mark.parametrize("dim", [1, 3, 0])
def test_odd_sizes_keep_every_tensor_aligned(tmp_path, dim):
    index = ChunkIndex.build(torch.ones(3, dim, dtype=torch.float16), window=0)
    index.save(tmp_path / "index")
    assert_same_index(ChunkIndex.load(tmp_path / "index"), index)
    # Its own library refuses tensors that are not aligned to their elements.
    loaded = safetensors.torch.load_file(tmp_path / "index" / "tensors.safetensors")
    assert_same_index(ChunkIndex(**loaded), index)


def test_the_matrix_begins_a_page_of_the_file(tmp_path):
    index = small_index(8)
    index.save(tmp_path / "index")
    data = (tmp_path / "index" / "tensors.safetensors").read_bytes()
    assert data.find(index.embeddings.numpy().tobytes()) == 4096
    assert ChunkIndex.load(tmp_path / "index").embeddings.data_ptr() % 4096 == 0


def test_rows_with_a_stride(tmp_path):
    wide = torch.randn(20, 11)
    index = ChunkIndex.build(wide[::2, 2:10])
    index.save(tmp_path / "index")
    assert_same_index(ChunkIndex.load(tmp_path / "index"), index)


def test_rows_of_several_blocks(tmp_path, monkeypatch):
    for module in ("tensors_file", "files", "stored_index"):
        monkeypatch.setattr(f"scar_gpu.storage.{module}.BLOCK_BYTES", 40)
    index = small_index()
    save_index(tmp_path / "index", index, chunks=small_table())
    assert_same_index(ChunkIndex.load(tmp_path / "index", mmap=False), index)
    assert_same_index(open_index(tmp_path / "index", verify=True).index, index)


@pytest.mark.parametrize("group_rows", [1, 2, 3, 4096])
def test_text(tmp_path, monkeypatch, group_rows):
    monkeypatch.setattr("scar_gpu.storage.chunks_file._GROUP_ROWS", group_rows)
    save_index(tmp_path / "index", small_index(), chunks=small_table(), embedder=EMBEDDER)
    stored = open_index(tmp_path / "index")
    assert_same_table(stored.chunks, small_table())
    assert stored.embedder == EMBEDDER
    assert stored.chunks is stored.chunks


def test_a_loaded_index_is_saved_again_over_itself(tmp_path):
    path = tmp_path / "index"
    save_index(path, small_index(), chunks=small_table())
    stored = open_index(path)
    save_index(path, stored.index, chunks=stored.chunks, overwrite=True)
    assert os.listdir(tmp_path) == ["index"]
    assert_same_index(open_index(path, verify=True).index, small_index())
    assert_same_table(open_index(path).chunks, small_table())
    # The version opened before lives on, though its files are gone.
    assert_same_table(stored.chunks, small_table())


def test_the_file_is_readable_without_this_package(tmp_path):
    table = small_table()
    save_index(tmp_path / "index", small_index(), chunks=table)
    rows = pyarrow.parquet.read_table(tmp_path / "index" / "chunks.parquet").to_pylist()
    assert [row["document"] for row in rows] == ["b"] * 3 + ["d"] * 4
    assert rows[0]["headings"] == ["Other"]
    # A document's rows, joined, are its text; the bytes are those of its UTF-8 form.
    assert "".join(row["text"] for row in rows[:3]) == table.texts[1]
    data = table.texts[1].encode()
    assert data[rows[2]["start_byte"] : rows[2]["end_byte"]].decode() == table.text(2)


def test_an_index_without_text_has_none(tmp_path):
    small_index().save(tmp_path / "index")
    stored = open_index(tmp_path / "index")
    assert stored.chunks is None
    assert stored.embedder is None
    assert sorted(os.listdir(tmp_path / "index")) == ["manifest.json", "tensors.safetensors"]


def test_nothing_is_pickled(tmp_path):
    save_index(tmp_path / "index", small_index(), chunks=small_table(), embedder=EMBEDDER)
    files = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert files == ["chunks.parquet", "documents.parquet", "manifest.json", "tensors.safetensors"]
    manifest = json.loads((tmp_path / "index" / "manifest.json").read_text())
    assert manifest["version"] == 1


def test_a_read_only_file_is_mapped_without_a_copy_or_a_warning(tmp_path):
    index = small_index()
    index.save(tmp_path / "index")
    for path in (tmp_path / "index").iterdir():
        path.chmod(0o444)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = ChunkIndex.load(tmp_path / "index")
    before = (tmp_path / "index" / "tensors.safetensors").read_bytes()
    # A careless write stays in this process instead of ending it.
    loaded.embeddings.zero_()
    assert (tmp_path / "index" / "tensors.safetensors").read_bytes() == before
    assert_same_index(ChunkIndex.load(tmp_path / "index", verify=True), index)


def test_operations_on_a_mapped_index_give_the_same_bits(tmp_path):
    index = small_index()
    index.save(tmp_path / "index")
    loaded = ChunkIndex.load(tmp_path / "index")
    queries = torch.randn(3, 8)
    hits = index.search(queries, 3).ids
    assert torch.equal(loaded.search(queries, 3).ids, hits)
    for actual, expected in zip(
        loaded.scar_expand(queries, hits), index.scar_expand(queries, hits), strict=True
    ):
        assert torch.equal(actual, expected)


def test_describe(tmp_path):
    parts = {"chunks": small_table(), "lexical": small_words(), "embedder": EMBEDDER}
    save_index(tmp_path / "index", small_index(), **parts)
    found = describe(tmp_path / "index", verify=True)
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "index").iterdir()}
    del sizes["manifest.json"]
    assert found["files"] == sizes
    assert found["bytes"] == sum(sizes.values())
    expected = {
        "version": 1, "n_chunks": 7, "dim": 8, "n_docs": 4, "window": 2, "dtype": "float32",
        "embedder": EMBEDDER, "text": True, "lexical": True, "verified": True, "leftovers": [],
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    json.dumps(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedder": {"name": "m", "dim": 8}}, "embedder must have name, dim and hash, got no h"),
        ({"embedder": EMBEDDER | {"dim": 9}}, "embedder must have the index's dim 8, got 9"),
        ({"embedder": EMBEDDER | {"more": object()}}, "embedder must be what JSON can hold"),
    ],
)
def test_records_that_do_not_fit(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        save_index(tmp_path / "index", small_index(), **options)
    assert not os.listdir(tmp_path)


def test_chunks_that_do_not_fit(tmp_path):
    with pytest.raises(ValueError, match="chunks must have 8 rows, got 7"):
        save_index(tmp_path / "index", small_index(8), chunks=small_table())
    other = ChunkIndex.build(small_index().embeddings)
    with pytest.raises(ValueError, match="chunks must have the documents of the index"):
        save_index(tmp_path / "index", other, chunks=small_table())


def test_words(tmp_path, monkeypatch):
    """With chunks and without, in one row group and in several; and an index without words."""
    parts = {"chunks": small_table(), "lexical": small_words()}
    save_index(tmp_path / "both", small_index(), **parts)
    save_index(tmp_path / "alone", small_index(), lexical=small_words())
    monkeypatch.setattr("scar_gpu.storage.lexical_file._GROUP_WORDS", 2)
    save_index(tmp_path / "groups", small_index(), lexical=small_words())
    assert pyarrow.parquet.read_metadata(tmp_path / "groups" / "lexical.parquet").num_row_groups > 1
    for name in ("both", "alone", "groups"):
        stored = open_index(tmp_path / name, verify=True)
        assert_same_words(stored.lexical, small_words())
        assert stored.lexical is stored.lexical
        assert (stored.chunks is None) == (name != "both")
    none = LexicalIndex.build([""] * 7)
    save_index(tmp_path / "none", small_index(), lexical=none)
    assert_same_words(open_index(tmp_path / "none").lexical, none)
    small_index().save(tmp_path / "without")
    assert open_index(tmp_path / "without").lexical is None
    assert not describe(tmp_path / "without")["lexical"]
    with pytest.raises(ValueError, match="lexical must have 8 rows, got 7"):
        save_index(tmp_path / "index", small_index(8), lexical=small_words())


def test_text_that_no_file_can_hold(tmp_path):
    table = small_table()
    texts = (*table.texts[:3], "0123456789abcde\ud800")
    table = type(table)(table.ids, texts, table.document, table.start, table.end, table.path,
                        table.paths)  # fmt: skip
    with pytest.raises(ValueError, match=r"must be valid Unicode, got '\\ud800' at offset 15 of"):
        save_index(tmp_path / "index", small_index(), chunks=table)
    assert not os.listdir(tmp_path)


def test_columns_of_other_integer_types(tmp_path):
    table = small_table()
    narrow = type(table)(
        table.ids, table.texts, table.document.astype(np.int32), table.start.astype(np.int32),
        table.end.astype(np.uint16), table.path.astype(np.int64), table.paths,
    )  # fmt: skip
    save_index(tmp_path / "index", small_index(), chunks=narrow)
    assert_same_table(open_index(tmp_path / "index").chunks, table)
