"""`scar-gpu build --embeddings`: own vectors from every kind of file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from scar_gpu.storage import open_index
from tests.cli.conftest import Refused, Run


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((6, 4)).astype(np.float32)


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
    chunks = open_index(output).chunks
    assert chunks is not None
    assert [chunks.text(row) for row in range(6)] == [f"chunk {i}" for i in range(6)]
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
