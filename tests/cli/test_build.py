"""`scar-gpu build`: documents in, an index out, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from scar_gpu.storage import open_index
from tests.cli.conftest import MODEL, Refused, Run
from tests.text.word_embedder import WordEmbedder


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
