"""A mapped index reads what is touched, when it is touched."""

import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from scar_gpu import ChunkIndex
from scar_gpu.storage import chunk_texts, open_index, save_index
from scar_gpu.storage.files import OpenFolder
from scar_gpu.text import ChunkTable
from tests.storage.stored_cases import (
    assert_same_index,
    assert_same_table,
    small_index,
    small_table,
)

RESIDENT = """
import resource, sys, torch
from scar_gpu import ChunkIndex

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

small = ChunkIndex.load(sys.argv[1] + "/small")
small.neighbor_scores(torch.ones(4, 256), torch.zeros(4, 1, dtype=torch.int64))
small.embeddings.sum()
before = resident()
index = ChunkIndex.load(sys.argv[1] + "/large", verify=sys.argv[2] == "verify")
loaded = resident()
rows = torch.arange(0, index.n_chunks, index.n_chunks // 4)[:4, None]
index.neighbor_scores(torch.ones(4, 256), rows)
touched = resident()
index.embeddings.sum()
print(loaded - before, touched - loaded, resident() - touched)
"""


@pytest.mark.parametrize("verify", ["verify", "no"])
def test_resident_memory_grows_with_the_rows_touched(tmp_path, verify):
    n_chunks, dim = 40_000, 256
    rows = torch.randn(100, dim).repeat(n_chunks // 100, 1)
    ChunkIndex.build(rows).save(tmp_path / "large")
    ChunkIndex.build(rows[:100]).save(tmp_path / "small")
    command = [sys.executable, "-c", RESIDENT, str(tmp_path), verify]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded, touched, scanned = map(int, done.stdout.split())
    size = n_chunks * dim * 4
    # The tables of 4 bytes per row are read; a touched row brings at most the huge page around
    # it and, at its edge, the next.
    assert loaded < 2 * 2**20
    assert touched <= 4 * 2 * 2**21 < 0.45 * size
    assert scanned > size - touched - 2**20


def test_a_file_larger_than_memory_is_mapped(tmp_path):
    size = 1 << 42
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(size)
    with OpenFolder(tmp_path) as folder, folder.file("huge") as file:
        memory = file.map()
    assert len(memory) == size
    assert memory[size - 1] == 0


def test_an_opened_index_outlives_the_folder(tmp_path):
    path = tmp_path / "index"
    save_index(path, small_index(seed=1), chunks=small_table())
    stored = open_index(path)
    small_index(seed=2).save(path, overwrite=True)
    assert_same_index(stored.index, small_index(seed=1))
    assert_same_table(stored.chunks, small_table())
    assert_same_index(ChunkIndex.load(path), small_index(seed=2))


def large_table(n_chunks: int = 4000, size: int = 50) -> ChunkTable:
    """Chunks of `size` characters that overlap by a fifth, in documents of 100."""
    per_document = 100
    step = size * 4 // 5
    generator = np.random.default_rng(0)
    letters = np.array(list("abcdé€𝄞 "))
    length = step * (per_document - 1) + size
    n_docs = n_chunks // per_document
    texts = tuple("".join(generator.choice(letters, length)) for _ in range(n_docs))
    start = np.tile(np.arange(per_document) * step, n_docs)
    return ChunkTable(
        ids=tuple(f"document {i}" for i in range(n_docs)),
        texts=texts,
        document=np.repeat(np.arange(n_docs), per_document),
        start=start,
        end=start + size,
        path=np.zeros(n_chunks, dtype=np.int32),
        paths=(("Only",),),
    )


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChunkTable:
    """A stored table of 40 row groups, of which three fit in the cache."""
    monkeypatch.setattr("scar_gpu.storage.chunks_file._GROUP_ROWS", 100)
    monkeypatch.setattr(chunk_texts, "_CACHE_BYTES", 25_000)
    chunks = large_table()
    index = ChunkIndex.build(torch.randn(len(chunks), 4), chunks.doc_offsets)
    save_index(tmp_path / "index", index, chunks=chunks)
    loaded = open_index(tmp_path / "index").chunks
    assert loaded is not None
    return loaded


@pytest.fixture
def decoded(table: ChunkTable, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups decoded so far."""
    groups: list[int] = []
    decode = chunk_texts.StoredTexts._decode
    monkeypatch.setattr(
        chunk_texts.StoredTexts,
        "_decode",
        lambda self, group: groups.append(group) or decode(self, group),
    )
    return groups


def test_only_the_texts_asked_for_are_read(table, decoded):
    expected = large_table()
    assert decoded == []
    for row in (250, 250, 299, 3999):
        assert table.text(row) == expected.text(row)
    assert decoded == [2, 39]
    assert table.passage(297, 300) == expected.passage(297, 300)
    assert table.texts[5] == expected.texts[5]
    assert table.texts[-1] == expected.texts[-1]
    assert decoded == [2, 39, 5]
    assert table.passage(3, 5, with_text=False).text == ""


def test_many_ranges_decode_each_group_once(table, decoded):
    expected = large_table()
    rows = np.random.default_rng(1).integers(0, len(table), 500)
    texts = table.texts
    data, offsets = texts.gather(texts.start[rows], texts.end[rows])
    found = [data[a:b].decode() for a, b in pairwise(offsets)]
    assert found == [expected.text(row) for row in rows]
    assert decoded == sorted(set(decoded))
    assert len(decoded) == 40
    assert texts.gather(rows[:0], rows[:0])[0] == b""


def test_the_cache_is_bounded(table, decoded):
    for row in range(0, 4000, 100):
        table.text(row)
    assert len(table.texts._groups) <= 4
    assert table.texts._cached == sum(len(data) for data in table.texts._groups.values())


def test_threads_read_one_table(table):
    expected = large_table()
    wrong = []

    def read(seed: int) -> None:
        for row in np.random.default_rng(seed).integers(0, len(table), 300).tolist():
            if table.text(row) != expected.text(row):
                wrong.append(row)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_documents_are_a_sequence(table):
    expected = large_table()
    assert len(table.texts) == 40
    assert table.texts[1:3] == list(expected.texts[1:3])
    with pytest.raises(IndexError):
        table.texts[40]
    assert table.texts.lengths.tolist() == [len(text) for text in expected.texts]
