"""Parquet files are read on the calling thread alone; beside PyTorch, more may abort an exit."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import scar_gpu
from scar_gpu.text import Document, Retriever
from tests.text.word_embedder import WordEmbedder

SOURCES = sorted(Path(scar_gpu.__file__).parent.rglob("*.py"))
HELPER = Path("text", "parquet.py")
# What reads, or calculates, with threads of pyarrow's: by these names, on whatever object.
THREADED = {
    "ParquetFile", "ParquetDataset", "read_table", "read_pandas", "read_row_group",
    "read_row_groups", "iter_batches", "to_pandas", "group_by", "read_csv", "read_json",
    "read_feather", "open_csv", "dataset", "scanner", "to_table",
}  # fmt: skip
MODULES = {"pyarrow.dataset", "pyarrow.csv", "pyarrow.json", "pyarrow.feather", "pyarrow.acero"}


def threaded_calls(source: str) -> list[str]:
    """The calls of a source that would let pyarrow start threads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in MODULES:
            found.append(node.value)
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("pyarrow")]
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pyarrow"):
            found.append(str(node.module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            threads = [word.value for word in node.keywords if word.arg == "use_threads"]
            alone = [isinstance(value, ast.Constant) and value.value is False for value in threads]
            if node.func.attr in THREADED and not any(alone):
                found.append(node.func.attr)
    return found


def test_only_the_reader_opens_parquet_files():
    root = Path(scar_gpu.__file__).parent
    reader = root / HELPER
    assert threaded_calls(reader.read_text()) == ["ParquetFile"]
    assert "self._file.read(columns, use_threads=False)" in reader.read_text()
    for path in SOURCES:
        if path != reader:
            assert not threaded_calls(path.read_text()), path.relative_to(root)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("file.iter_batches(5)", ["iter_batches"]),
        ("file.iter_batches(5, use_threads=threads)", ["iter_batches"]),
        ("file.iter_batches(5, use_threads=False)", []),
        ("import pyarrow.csv", ["pyarrow.csv"]),
        ("from pyarrow import dataset", ["pyarrow"]),
        ("import_extra('pyarrow.json', 'io')", ["pyarrow.json"]),
    ],
)
def test_threaded_calls_are_found(source, found):
    assert threaded_calls(source) == found


# Reads every kind of Parquet file, of many columns and row groups; then who is there besides.
READS = """
import os, sys
from pathlib import Path
import pyarrow, pyarrow.parquet, torch
from scar_gpu.cli.given_hits import GivenHits
from scar_gpu.storage import open_index
from scar_gpu.text import Retriever, read_documents
from scar_gpu.text.json_lines import json_lines

torch.set_num_threads(1)
folder = Path(sys.argv[1])
threads = lambda: len(os.listdir("/proc/self/task"))
before = threads()
stored = open_index(folder / "index", verify=True)
retriever = Retriever.from_stored(stored)
assert len(stored.lexical.words) > 100 and len(read_documents(folder / "documents.parquet")) == 300
vectors = stored.index.embeddings[:9]
table = retriever.retrieve_table(vectors, k=5)
assert json_lines(table) and GivenHits(folder / "hits.parquet", "hits", 3).take(9, 9).any()
print(threads() - before)
if len(sys.argv) > 2:
    pyarrow.parquet.read_table(folder / "documents.parquet")
    print(threads() - before)
"""


def read_in_a_process(folder: Path, *more: str) -> list[str]:
    command = [sys.executable, "-c", READS, str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_reading_starts_no_threads(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("bm25s")
    texts = [f"Word{i} of text.\n\nAnother{i} in it." for i in range(300)]
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    retriever = Retriever.from_documents(
        documents, WordEmbedder(), chunk_size=20, overlap=0, lexical=True
    )
    retriever.save(tmp_path / "index")
    ids = [document.id for document in documents]
    columns = pa.table({"id": ids, "text": texts})
    parquet.write_table(columns, tmp_path / "documents.parquet", row_group_size=50)
    hits = pa.table({"hits": [[1, 2, 3]] * 9, "more": range(9)})
    parquet.write_table(hits, tmp_path / "hits.parquet", row_group_size=3)
    assert read_in_a_process(tmp_path) == ["0"]
    none, some = read_in_a_process(tmp_path, "with pyarrow's own")
    assert none == "0"
    assert int(some) > 0


def test_an_empty_file_is_no_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from scar_gpu.text.parquet import ParquetReader

    (tmp_path / "empty.parquet").touch()
    with pytest.raises(pa.ArrowInvalid):
        ParquetReader(tmp_path / "empty.parquet")
