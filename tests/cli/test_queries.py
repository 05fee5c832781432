"""Reading queries: texts or files, batches, and what is wrong with a line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scar_gpu.cli.given_hits import GivenHits
from scar_gpu.cli.matrices import npy_blocks
from scar_gpu.cli.queries import Columns, Queries, query_file, read_queries


def read(path: Path, size: int = 2, **columns: str) -> list[Queries]:
    return list(read_queries(path, Columns(**columns), size))


def write_jsonl(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# Text or file


def test_an_existing_file_is_a_file_and_anything_else_a_text(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_text("one\n")
    assert query_file(str(path), False) == path
    assert query_file(str(path), True) is None
    for text in ("what is it?", "a/b", "why.txt is it so", "x" * 5000, "nul\0byte", ""):
        assert query_file(text, False) is None


def test_a_missing_query_file_is_not_taken_for_a_text(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"got .*gone\.jsonl, which is missing; --text"):
        query_file(str(tmp_path / "gone.jsonl"), False)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("a,b\n")
    for path in (tmp_path / "q.csv", tmp_path):
        with pytest.raises(ValueError, match=r"a file of \.txt, \.jsonl, \.parquet, \.npy, got"):
            query_file(str(path), False)


# Lines


def test_lines_come_in_batches_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_bytes("\ufeffone\r\ntwo\nthree\u2028still three\n\n\n".encode())
    batches = read(path)
    assert [batch.texts for batch in batches] == [["one", "two"], ["three\u2028still three"]]
    assert [batch.ids for batch in batches] == [[0, 1], [2]]


def test_batches_are_read_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_bytes(b"one\ntwo\n\xff\n")
    batches = read_queries(path, Columns(), 1)
    assert next(batches).texts == ["one"]
    assert next(batches).texts == ["two"]
    with pytest.raises(ValueError, match=r"line 3 must be UTF-8 text, got byte 0xff at offset 0"):
        next(batches)


def test_an_empty_line_between_queries_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_text("one\n \ntwo\n")
    with pytest.raises(ValueError, match=r"q\.txt line 2 must be a query, got an empty line"):
        read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "x"', r"line 2 must be JSON, got: .*"),
        ("[1]", "line 2 must be a JSON object, got list"),
        ('{"question2": "x", "b": 1}', r"text-column must be a column of .* line 2 \(question2, b\)"
         ", got 'query'"),
        ('{"query": 3}', "line 2 must hold the query as text, got int"),
        ('{"query": " "}', "line 2 must hold a query, got ' ', which is empty"),
        ('{"query": "a\\ud800"}', r"line 2 must be valid Unicode, got '\\ud800' at offset 1"),
        ('{"query": "a", "id": null}', "line 2 must hold the query's id, .* got NoneType"),
        ('{"query": "a", "id": 1e999}', "line 2 must hold the query's id, .* got float"),
        ('{"query": "a", "id": 9223372036854775808}', "line 2 must hold a query's id of 64 bits"),
    ],
)  # fmt: skip
def test_broken_lines(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"query": "fine"}\n' + line + "\n")
    with pytest.raises(ValueError, match=message):
        read(path)


def test_jsonl_columns(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "why", "in": 7}, {"id": "b", "question": "how", "in": "d"}]
    path = write_jsonl(tmp_path / "q.jsonl", *rows)
    (batch,) = read(path, within="in")
    assert (batch.ids, batch.texts, batch.within) == (["a", "b"], ["why", "how"], ["7", "d"])
    (named,) = read(path, id="in", text="id")
    assert (named.ids, named.texts, named.within) == (["7", "d"], ["a", "b"], None)
    with pytest.raises(ValueError, match=r"within-document must be a column .* \(id, question, in"):
        read(path, within="doc")


def test_jsonl_vectors(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", {"v": [1, 2.5]}, {"v": [0, 0]})
    (batch,) = read(path, vector="v")
    assert batch.texts is None
    assert batch.vectors is not None
    assert batch.vectors.tolist() == [[1, 2.5], [0, 0]]
    write_jsonl(path, {"v": [1, 2]}, {"v": [1, 2]}, {"v": [1]})
    with pytest.raises(ValueError, match="line 3 must hold a vector of 2 numbers, got 1"):
        read(path, vector="v")
    for bad in ("x", None, ["1"], [True]):
        write_jsonl(path, {"v": bad})
        with pytest.raises(ValueError, match="line 1 must hold the query's vector as a list"):
            read(path, vector="v")


def test_parquet_says_the_same_as_jsonl(tmp_path: Path) -> None:
    rows = [{"id": i, "text": f"query {i}", "doc": f"d{i}", "v": [i, 1.0]} for i in range(5)]
    jsonl = write_jsonl(tmp_path / "q.jsonl", *rows)
    parquet = tmp_path / "q.parquet"
    pq.write_table(pa.Table.from_pylist(rows), parquet, row_group_size=3)
    for columns in ({"within": "doc"}, {"text": "doc"}):
        for a, b in zip(read(jsonl, 3, **columns), read(parquet, 3, **columns), strict=True):
            assert (a.ids, a.texts, a.within) == (b.ids, b.texts, b.within)
    for a, b in zip(read(jsonl, 3, vector="v"), read(parquet, 3, vector="v"), strict=True):
        assert np.array_equal(a.vectors, b.vectors)


def test_parquet_files_with_faults(tmp_path: Path) -> None:
    path = tmp_path / "q.parquet"
    pq.write_table(pa.table({"query": ["a", None], "v": [[1.0], [1.0, 2.0]]}), path)
    with pytest.raises(ValueError, match="row 2 must hold the query as text, got NoneType"):
        read(path)
    with pytest.raises(ValueError, match=r"v of .* must hold lists of one length, got 1 and 2"):
        read(path, vector="v")
    with pytest.raises(ValueError, match=r"query of .* must hold lists of numbers, got string"):
        read(path, vector="query")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="must be a whole Parquet file"):
        read(path)


def test_matrices(tmp_path: Path) -> None:
    path = tmp_path / "q.npy"
    matrix = np.arange(10, dtype=np.float16).reshape(5, 2)
    np.save(path, matrix)
    batches = read(path)
    assert [batch.ids for batch in batches] == [[0, 1], [2, 3], [4]]
    assert np.array_equal(np.concatenate([b.vectors for b in batches]), matrix)
    with pytest.raises(ValueError, match=r"within-document must be a column of .jsonl or .parquet"):
        read(path, within="doc")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"q\.npy must be a whole \.npy file"):
        read(path)
    for wrong in (matrix[0], matrix.astype(int)):
        np.save(path, wrong)
        with pytest.raises(ValueError, match="must hold a floating-point matrix"):
            read(path)
    np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"must be a whole \.npy file of numbers"):
        read(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_not_kept_in_memory(tmp_path: Path, order: str) -> None:
    path = tmp_path / "m.npy"
    matrix = np.asarray(np.random.default_rng(0).standard_normal((5000, 256)), order=order)
    np.save(path, matrix)
    blocks = []
    mapped = []
    for block in npy_blocks(path, 512):
        blocks.append(np.array(block))
        smaps = Path("/proc/self/smaps").read_text().split(str(path))[1:]
        mapped.append(sum(int(part.split("Rss:")[1].split()[0]) for part in smaps))
    assert np.array_equal(np.concatenate(blocks), matrix)
    if order == "C":
        # Kilobytes of the file in this process's memory: a block and a page or two more.
        assert max(mapped) <= 512 * 256 * 8 / 1024 + 200 < path.stat().st_size / 1024 / 5


def test_matrices_without_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.empty((0, 4), np.float32))
    assert read(tmp_path / "none.npy") == []
    np.save(tmp_path / "one.npy", np.float32(1))
    with pytest.raises(ValueError, match=r"one\.npy must hold rows, got one number"):
        read(tmp_path / "one.npy")


# Hits


def test_hits_are_taken_in_order_and_padded(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    pq.write_table(pa.table({"hits": [[3, 1], [2], [], [5, 6, 7]]}), path)
    hits = GivenHits(path, "hits", None)
    assert hits.take(3, 9).tolist() == [[3, 1, -1], [2, -1, -1], [-1, -1, -1]]
    with pytest.raises(ValueError, match=r"one row per query \(3\), got more"):
        hits.check_finished()
    hits = GivenHits(path, "hits", 1)
    assert hits.take(4, 9).tolist() == [[3], [2], [-1], [5]]
    hits.check_finished()
    with pytest.raises(ValueError, match=r"one row per query, got 4 rows in .* for more"):
        hits.take(1, 9)


def test_hits_across_blocks_of_other_widths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scar_gpu.cli.given_hits._BATCH", 1)
    path = tmp_path / "h.parquet"
    pq.write_table(pa.table({"rows": [[3], [2, 4], [5]]}), path)
    hits = GivenHits(path, "rows", None)
    assert hits.take(2, 9).tolist() == [[3, -1], [2, 4]]
    assert hits.take(1, 9).tolist() == [[5]]
    with pytest.raises(ValueError, match=r"hits-column must be .* \(rows\), got 'hits'"):
        GivenHits(path, "hits", None).take(1, 9)


def test_hits_of_the_wrong_kind(tmp_path: Path) -> None:
    path = tmp_path / "h.npy"
    for wrong in (np.zeros(3, dtype=np.int64), np.zeros((2, 3))):
        np.save(path, wrong)
        with pytest.raises(ValueError, match=r"must hold whole numbers \[Q, K\], got"):
            GivenHits(path, "hits", None).take(1, 9)
    with pytest.raises(FileNotFoundError, match="hits must be an existing file"):
        GivenHits(tmp_path / "gone.npy", "hits", None)
    (tmp_path / "h.csv").write_text("1")
    with pytest.raises(ValueError, match=r"hits must be a \.npy or \.parquet file"):
        GivenHits(tmp_path / "h.csv", "hits", None)
