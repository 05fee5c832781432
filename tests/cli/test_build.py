"""`scar-gpu build`: sources, own vectors, interruption, and what it refuses."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file

from scar_gpu.storage import open_index
from tests.cli.conftest import WORDS, Run
from tests.text.word_embedder import WordEmbedder

Refused = Callable[..., str]
MODEL = ("--model", WORDS)


class Stopping(WordEmbedder):
    """Is interrupted at its second call, as by Ctrl-C; `made` keeps all of them."""

    made: list[Stopping] = []  # noqa: RUF012
    stop_at = 2

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.made.append(self)

    def encode(self, texts: list[str]) -> np.ndarray:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        return super().encode(texts)


@pytest.fixture
def stopping() -> Iterator[str]:
    Stopping.made.clear()
    yield f"{__name__}:Stopping"
    Stopping.stop_at = 2


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((6, 4)).astype(np.float32)


def texts_of(path: Path) -> list[str]:
    chunks = open_index(path).chunks
    assert chunks is not None
    return [chunks.text(row) for row in range(len(chunks))]


# Documents


def test_a_folder_is_read_with_its_subfolders(index: Path, corpus: Path) -> None:
    stored = open_index(index, verify=True)
    assert stored.chunks is not None
    assert stored.chunks.ids == ("deep/water.txt", "fruit.md")
    assert stored.embedder == {"name": "words", "dim": 32, "hash": WordEmbedder.content_hash}
    assert "".join(texts_of(index)) == "".join(
        (corpus / name).read_text() for name in stored.chunks.ids
    )
    assert stored.chunks.chunk(0).headings == ("1. Water",)
    expected = WordEmbedder().encode([stored.chunks.embedding_text(3)])
    assert np.array_equal(stored.index.embeddings[3:4].numpy(), expected)


def test_options_reach_the_index(corpus: Path, tmp_path: Path, succeed: Run) -> None:
    path = tmp_path / "index"
    options = ("--glob", "*.md", "--window", 2, "--dtype", "float16", "--chunk-size", 80)
    result = succeed("build", corpus, "-o", path, *MODEL, *options, "--overlap", 40)
    stored = open_index(path)
    assert stored.chunks is not None
    assert stored.chunks.ids == ("fruit.md",)
    assert (stored.index.window, stored.index.embeddings.dtype) == (2, torch.float16)
    assert (stored.chunks.end - stored.chunks.start).max() <= 80
    assert (stored.chunks.end[:-1] > stored.chunks.start[1:]).any()
    assert f"{path}: 1 documents, {len(stored.chunks)} chunks of 32 dimensions" in result.stderr


def test_rows_of_jsonl_and_parquet(tmp_path: Path, succeed: Run, refused: Refused) -> None:
    rows = [{"name": f"n{i}", "body": f"text number {i}"} for i in range(3)]
    jsonl, parquet = tmp_path / "d.jsonl", tmp_path / "d.parquet"
    jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    columns = ("--id-column", "name", "--text-column", "body")
    for source in (jsonl, parquet):
        path = tmp_path / f"of{source.suffix}"
        succeed("build", source, "-o", path, *MODEL, *columns)
        assert texts_of(path) == [row["body"] for row in rows]
        message = refused("build", source, "-o", tmp_path / "no", *MODEL)
        assert "text_column must be a column of" in message
        assert "(name, body), got 'text'" in message
    with jsonl.open("a") as file:
        file.write("{broken\n")
    assert "d.jsonl line 4 must be JSON" in refused(
        "build", jsonl, "-o", tmp_path / "no", *MODEL, *columns
    )
    assert not (tmp_path / "no").exists()


def test_an_index_in_the_source_is_no_document(index: Path, tmp_path: Path, succeed: Run) -> None:
    assert index.parent == tmp_path
    succeed("build", tmp_path, "-o", index, *MODEL, "--overwrite")
    chunks = open_index(index).chunks
    assert chunks is not None
    assert chunks.ids == ("corpus/deep/water.txt", "corpus/fruit.md")


# What is refused


def test_a_file_that_is_not_text_is_named_and_left_out_on_request(
    corpus: Path, tmp_path: Path, succeed: Run, refused: Refused
) -> None:
    (corpus / "bad.txt").write_bytes(b"fine until \xe9 here")
    message = refused("build", corpus, "-o", tmp_path / "index", *MODEL)
    assert message == f"{corpus / 'bad.txt'} must be UTF-8 text, got byte 0xe9 at offset 11"
    result = succeed("build", corpus, "-o", tmp_path / "index", *MODEL, "--skip-bad")
    assert f"left out: {corpus / 'bad.txt'} must be UTF-8" in result.stderr
    assert len(texts_of(tmp_path / "index")) > 0


def test_a_source_without_text(tmp_path: Path, succeed: Run, refused: Refused) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    output = tmp_path / "index"
    assert "at least one document" in refused("build", folder, "-o", output, *MODEL)
    (folder / "empty.txt").write_text("")
    assert "got 1 documents and no character" in refused("build", folder, "-o", output, *MODEL)
    (folder / "full.txt").write_text("text")
    result = succeed("build", folder, "-o", output, *MODEL)
    assert "1 of 2 documents hold no text, the first is 'empty.txt'" in result.stderr
    assert open_index(output).index.doc_offsets.tolist() == [0, 0, 1]
    missing = refused("build", tmp_path / "gone", "-o", tmp_path / "no", *MODEL)
    assert "gone, which is missing" in missing


def test_an_existing_output_is_kept(
    index: Path, corpus: Path, tmp_path: Path, refused: Refused
) -> None:
    before = (index / "manifest.json").read_bytes()
    message = refused("build", corpus, "-o", index, *MODEL)
    assert message == f"output must not exist yet, got {index}; --overwrite replaces it"
    assert (index / "manifest.json").read_bytes() == before
    for taken in (corpus, corpus / "fruit.md"):
        refused("build", corpus, "-o", taken, *MODEL, "--overwrite")
    assert (corpus / "fruit.md").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--device", "cuda:99"), "device must be one that torch can use here, got 'cuda:99'"),
        (("--device", "spoon"), "device must be one that torch can use here, got 'spoon'"),
        (("--model", "no.such:thing"), "model must name a module and a factory"),
        (("--model", "json:loads"), "loads"),
        (("--model", "/no/such/folder"), "model must be a folder or a model's name"),
        (("--overlap", "600"), "overlap must be in [0, chunk_size), got 600 of 600"),
        (("--doc-ids", "x"), "doc-ids must come with --embeddings, got x alone"),
        (("--glob", "/etc/*"), "glob must be a pattern below the folder"),
    ],
)
def test_options_that_cannot_be(
    corpus: Path, tmp_path: Path, refused: Refused, options: tuple[str, ...], message: str
) -> None:
    assert message in refused("build", corpus, "-o", tmp_path / "index", *MODEL, *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"]


def test_neither_source_nor_vectors(tmp_path: Path, refused: Refused) -> None:
    assert "SOURCE or --embeddings must be given" in refused("build", "-o", tmp_path / "index")


# Interruption


def test_an_interrupted_build_goes_on_where_it_stopped(
    corpus: Path, tmp_path: Path, run: Run, succeed: Run, stopping: str
) -> None:
    output = tmp_path / "index"
    arguments = ("build", corpus, "-o", output, "--chunk-size", 40, "--overlap", 0)
    first = run(*arguments, "--model", stopping, "--batch-size", 1)
    assert first.exit_code == 130
    assert "4 vectors are kept in" in first.stderr
    assert not output.exists()
    Stopping.stop_at = 0
    second = succeed(*arguments, "--model", stopping, "--batch-size", 1)
    assert "going on with 4 vectors" in second.stderr
    before, after = (set(embedder.seen) for embedder in Stopping.made)
    assert len(before) == 4
    assert not before & after
    # The work is done: nothing stays beside the index, which is that of an uninterrupted build.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "index"]
    succeed(*arguments[:3], tmp_path / "whole", *arguments[4:], *MODEL)
    whole, resumed = (open_index(tmp_path / name).index for name in ("whole", "index"))
    assert torch.equal(whole.embeddings, resumed.embeddings)


def test_a_build_can_begin_anew(corpus: Path, tmp_path: Path, run: Run, stopping: str) -> None:
    arguments = ("build", corpus, "-o", tmp_path / "index", "--model", stopping)
    small = ("--chunk-size", 40, "--overlap", 0, "--batch-size", 1)
    assert run(*arguments, *small).exit_code == 130
    Stopping.stop_at = 0
    assert run(*arguments, *small, "--no-resume").exit_code == 0
    before, after = (set(embedder.seen) for embedder in Stopping.made)
    assert before <= after


def test_equal_text_is_embedded_once(tmp_path: Path, succeed: Run, stopping: str) -> None:
    Stopping.stop_at = 0
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text("the same text")
    result = succeed("build", folder, "-o", tmp_path / "index", "--model", stopping)
    assert Stopping.made[0].seen == ["the same text"]
    assert "embedded 3 chunks, 1 of them different" in result.stderr
    assert open_index(tmp_path / "index").index.n_chunks == 3


class Limited(WordEmbedder):
    """Reads 50 characters."""

    def count_truncated(self, texts: list[str]) -> int:
        return sum(len(text) > 50 for text in texts)


def test_truncated_chunks_are_reported(corpus: Path, tmp_path: Path, succeed: Run) -> None:
    (corpus / "long.txt").write_text("word " * 20)
    (corpus / "again.txt").write_text("word " * 20)
    options = ("--glob", "*n*.txt", "--model", f"{__name__}:Limited")
    result = succeed("build", corpus, "-o", tmp_path / "index", *options)
    assert "1 of 1 different chunks are longer than words reads" in result.stderr


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow beyond a few blocks, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_leaves_the_old_index(
    tmp_path: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    old = np.eye(4, dtype=np.float32)
    np.save(tmp_path / "m.npy", old)
    assert run("build", "--embeddings", tmp_path / "m.npy", "-o", tmp_path / "i").exit_code == 0
    # Larger than what may be written, and written before the limit.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
    np.save(tmp_path / "m.npy", np.eye(200, dtype=np.float32))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    result = run("build", "--embeddings", tmp_path / "m.npy", "-o", tmp_path / "i", "--overwrite")
    assert result.exit_code == 2
    assert os.strerror(27) in result.stderr  # EFBIG
    assert torch.equal(open_index(tmp_path / "i", verify=True).index.embeddings, torch.eye(4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i", "m.npy"]


# Own vectors


def test_own_vectors_from_every_kind_of_file(
    matrix: np.ndarray, tmp_path: Path, succeed: Run
) -> None:
    np.save(tmp_path / "m.npy", matrix)
    np.save(tmp_path / "offsets.npy", np.array([0, 2, 6]))
    (tmp_path / "ids.txt").write_text("a\na\nb\nb\nb\nb\n")
    tensors = {"embeddings": matrix, "offsets": np.array([0, 2, 6])}
    save_file(tensors, tmp_path / "m.safetensors")
    table = pa.table({"embeddings": matrix.tolist(), "doc": list("aabbbb")})
    pq.write_table(table, tmp_path / "m.parquet")
    for name, option, where in (
        ("m.npy", "--doc-offsets", tmp_path / "offsets.npy"),
        ("m.npy", "--doc-ids", tmp_path / "ids.txt"),
        ("m.safetensors", "--doc-offsets", "offsets"),
        ("m.parquet", "--doc-ids", "doc"),
    ):
        output = tmp_path / f"of {name} {option}"
        succeed("build", "--embeddings", tmp_path / name, "-o", output, option, where)
        stored = open_index(output)
        assert np.array_equal(stored.index.embeddings.numpy(), matrix)
        assert stored.index.doc_offsets.tolist() == [0, 2, 6]
        assert stored.embedder is None
        assert (stored.chunks is None) == (option == "--doc-offsets")
        if stored.chunks is not None:
            assert stored.chunks.ids == ("a", "b")


def test_own_vectors_with_the_texts_of_their_chunks(
    matrix: np.ndarray, tmp_path: Path, succeed: Run
) -> None:
    np.save(tmp_path / "m.npy", matrix)
    rows = [{"id": "ab"[i > 1], "text": f"chunk {i}"} for i in range(6)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "index"
    succeed("build", tmp_path / "c.jsonl", "--embeddings", tmp_path / "m.npy", "-o", output)
    assert texts_of(output) == [f"chunk {i}" for i in range(6)]
    chunks = open_index(output).chunks
    assert chunks is not None
    assert list(chunks.texts) == ["chunk 0\nchunk 1", "chunk 2\nchunk 3\nchunk 4\nchunk 5"]


def test_own_vectors_that_cannot_be(matrix: np.ndarray, tmp_path: Path, refused: Refused) -> None:
    vectors, ids = tmp_path / "m.npy", tmp_path / "ids.txt"
    np.save(vectors, matrix)

    def message(*arguments: object) -> str:
        return refused("build", "-o", tmp_path / "index", "--embeddings", *arguments)

    ids.write_text("a\nb\n")
    assert "doc-ids must be as many as the embeddings (6), got 2" in message(
        vectors, "--doc-ids", ids
    )
    ids.write_text("a\nb\na\nb\nb\nb\n")
    assert "doc-ids must not return to an earlier document, got 'a' in row 2" in message(
        vectors, "--doc-ids", ids
    )
    assert "doc-offsets must be an existing file, got gone" in message(
        vectors, "--doc-offsets", "gone"
    )
    np.save(tmp_path / "offsets.npy", np.array([0, 9]))
    assert "doc_offsets must end at 6" in message(
        vectors, "--doc-offsets", tmp_path / "offsets.npy"
    )
    assert "must be given, got more" in message(vectors, "--doc-ids", ids, "--doc-offsets", ids)
    assert "embeddings must be an existing file" in message(tmp_path / "gone.npy")
    (tmp_path / "m.bin").write_bytes(b"")
    assert "embeddings must be a .npy, .safetensors or .parquet file" in message(tmp_path / "m.bin")
    save_file({"a": matrix, "b": matrix}, tmp_path / "m.safetensors")
    assert "vector-column must be a column of" in message(tmp_path / "m.safetensors")
    (tmp_path / "m.safetensors").write_bytes(b"no tensors at all")
    assert "must be a whole .safetensors file" in message(tmp_path / "m.safetensors")
    pq.write_table(pa.table({"v": [[1.0], [1.0, 2.0]]}), tmp_path / "m.parquet")
    assert "(v), got 'embeddings'" in message(tmp_path / "m.parquet")
    assert "must hold lists of one length" in message(
        tmp_path / "m.parquet", "--vector-column", "v"
    )
    matrix[4, 1] = np.nan
    np.save(vectors, matrix)
    assert "embeddings[4] must be finite" in message(vectors)
    assert not (tmp_path / "index").exists()
