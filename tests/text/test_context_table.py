"""Contexts as columns are the contexts as objects."""

import dataclasses
import json

import numpy as np
import pyarrow
import pytest
import torch

from scar_gpu import ChunkIndex
from scar_gpu.storage import save_index
from scar_gpu.text import Context, Retriever, json_lines
from tests.storage.stored_cases import small_table
from tests.storage.test_mapped import large_table


def records(contexts: list[list[Context]]) -> list[dict]:
    """What the rows of the table should be."""
    return [
        {"query": query, **dataclasses.asdict(context)}
        for query, answers in enumerate(contexts)
        for context in answers
    ]


def rows_of(table: pyarrow.Table) -> list[dict]:
    found = table.to_pylist()
    for row in found:
        for name in {"hits", "neighbours", "headings"} & set(row):
            row[name] = tuple(row[name])
    return found


@pytest.fixture(scope="module")
def retrievers(tmp_path_factory) -> dict[str, Retriever]:
    """The same table in memory and on disk."""
    chunks = large_table(600)
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(30, 16, generator=generator).repeat_interleave(20, 0)
    rows = base + torch.randn(600, 16, generator=generator) / 3
    index = ChunkIndex.build(rows, chunks.doc_offsets, window=2)
    path = tmp_path_factory.mktemp("stored") / "index"
    save_index(path, index, chunks=chunks)
    return {"memory": Retriever(index, chunks), "disk": Retriever.from_index(path)}


@pytest.mark.parametrize("order", ["rank", "document"])
@pytest.mark.parametrize("method", ["scar", "window", "none"])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_columns_are_the_objects(retrievers, where, method, order):
    retriever = retrievers[where]
    generator = np.random.default_rng(0)
    hits = generator.integers(-1, 600, (40, 6))
    # Hits beside each other, repeated, and none at all.
    hits[:, 1] = np.minimum(hits[:, 0] + generator.integers(0, 3, 40), 599)
    hits[3] = -1
    vectors = retriever.index.embeddings[hits[:, 0]].clone()
    options = {"method": method, "order": order, "window": 2}
    objects = retriever.retrieve_vectors(vectors, hits, **options)
    expected = records(objects)
    table = retriever.retrieve_table(vectors, hits, **options)
    assert rows_of(table) == expected
    assert len(expected) > 100
    if method != "none":
        assert any(row["neighbours"] for row in expected)
    assert objects[3] == []
    for row in expected:
        document = retriever.chunks.texts[retriever.chunks.ids.index(row["document"])]
        assert row["text"] == document[row["start"] : row["end"]]


def test_search_and_given_hits_answer_alike(retrievers):
    retriever = retrievers["memory"]
    vectors = torch.randn(20, 16)
    found = retriever.index.search(vectors, 4).ids
    for method in ("scar", "window", "none"):
        searched = retriever.retrieve_vectors(vectors, k=4, method=method)
        given = retriever.retrieve_vectors(vectors, found, method=method)
        assert searched == given
        narrow = retriever.retrieve_vectors(vectors.numpy(), found.int().numpy(), method=method)
        assert narrow == searched


def test_without_text(retrievers):
    retriever = retrievers["disk"]
    vectors = torch.randn(5, 16)
    objects = retriever.retrieve_vectors(vectors)
    without = [[dataclasses.replace(c, text="") for c in contexts] for contexts in objects]
    assert retriever.retrieve_vectors(vectors, with_text=False) == without
    table = retriever.retrieve_table(vectors)
    assert retriever.retrieve_table(vectors, with_text=False) == table.drop_columns("text")


def test_an_index_without_a_chunk_table(retrievers):
    retriever = Retriever(retrievers["memory"].index)
    vectors = torch.randn(5, 16)
    objects = retriever.retrieve_vectors(vectors, with_text=False)
    known = retrievers["memory"].retrieve_vectors(vectors)
    unknown = {"document": "", "start": -1, "end": -1, "text": "", "headings": ()}
    assert objects == [[dataclasses.replace(c, **unknown) for c in found] for found in known]
    table = retriever.retrieve_table(vectors, with_text=False)
    assert table.column_names == ["query", "rank", "score", "hits", "neighbours"]
    full = retrievers["memory"].retrieve_table(vectors)
    assert table == full.select(table.column_names)
    for method in (retriever.retrieve_vectors, retriever.retrieve_table):
        with pytest.raises(ValueError, match="with_text must be False for an index without text"):
            method(vectors)


def test_query_ids_and_ranges(retrievers):
    retriever = retrievers["memory"]
    vectors = torch.randn(3, 16)
    ranges = torch.tensor([[0, 100], [100, 200], [300, 300]])
    table = retriever.retrieve_table(vectors, row_ranges=ranges, query_ids=["x", "y", "z"])
    assert set(table["query"].to_pylist()) == {"x", "y"}
    for row in table.to_pylist():
        assert row["document"] == {"x": "document 0", "y": "document 1"}[row["query"]]
    with pytest.raises(ValueError, match="row_ranges must not be given with hits"):
        retriever.retrieve_vectors(vectors, torch.zeros(3, 1, dtype=torch.int64), row_ranges=ranges)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_queries_or_no_hits(retrievers, shape):
    for retriever in retrievers.values():
        hits = torch.zeros(shape, dtype=torch.int64)
        vectors = torch.randn(shape[0], 16)
        table = retriever.retrieve_table(vectors, hits)
        assert table.num_rows == 0
        assert table.schema == retriever.retrieve_table(torch.randn(1, 16)).schema
        assert retriever.retrieve_vectors(vectors, hits) == [[]] * shape[0]
        assert json_lines(table) == b""


def test_bad_arguments(retrievers):
    retriever = retrievers["memory"]
    with pytest.raises(TypeError, match=r"vectors must be a torch\.Tensor or numpy.ndarray, got l"):
        retriever.retrieve_vectors([[1.0]])
    with pytest.raises(ValueError, match="method must be scar, window or none, got 'all'"):
        retriever.retrieve_table(torch.randn(1, 16), method="all")
    with pytest.raises(IndexError, match="600"):
        retriever.retrieve_table(torch.randn(1, 16), torch.tensor([[600]]))
    with pytest.raises(ValueError, match="queries must"):
        retriever.retrieve_table(torch.randn(1, 15))
    with pytest.raises(ValueError, match="window must be <= 2, the index's own, got 3"):
        retriever.retrieve_table(torch.randn(1, 16), window=3)


def test_odd_tables_read_alike_from_memory():
    chunks = small_table()
    index = ChunkIndex.build(torch.randn(7, 8), chunks.doc_offsets, window=2)
    retriever = Retriever(index, chunks)
    hits = torch.arange(7)[:, None]
    for window in (0, 1, 2):
        options = {"method": "window", "window": window}
        expected = records(retriever.retrieve_vectors(torch.randn(7, 8), hits, **options))
        table = retriever.retrieve_table(torch.randn(7, 8), hits, **options)
        names = ["document", "start", "end", "text", "headings"]
        assert [{n: row[n] for n in names} for row in rows_of(table)] == [
            {n: row[n] for n in names} for row in expected
        ]


def test_json_lines_are_those_of_the_json_module(retrievers):
    retriever = retrievers["memory"]
    vectors = torch.randn(30, 16)
    lines = json_lines(retriever.retrieve_table(vectors)).decode().split("\n")
    expected = records(retriever.retrieve_vectors(vectors))
    assert lines == [*(json.dumps(row, ensure_ascii=False) for row in expected), ""]


def test_json_lines_of_everything_that_needs_care():
    columns = {
        'na"me %s': ['quote " back\\ tab\t', "\u2028 \x00 é 𝄞", "%d %s {}"],
        "number": pyarrow.array([float("nan"), float("inf"), 1e-7], pyarrow.float32()),
        "lists": [["a\nb", "%"], [], ["]"]],
        "missing": [None, "x", None],
        "missing lists": [[1], None, []],
        "flags": [True, False, True],
    }
    table = pyarrow.table(columns)
    lines = json_lines(table.slice(0, 1)) + json_lines(table.slice(1))
    assert b"\x00" not in lines
    found = [json.loads(line) for line in lines.split(b"\n")[:-1]]
    expected = table.to_pylist()
    expected[0]["number"] = expected[1]["number"] = None
    assert found == expected
    assert b"NaN" not in lines
    assert b"Infinity" not in lines


def test_json_lines_escape_every_character_that_json_escapes():
    values = [f"{chr(code)}é{chr(code)}" for code in range(0x300)] + ['\\"\\n"', ""]
    for kind in (pyarrow.string(), pyarrow.large_string()):
        table = pyarrow.table({"text": pyarrow.array(values, kind)})
        for part in (table, table.slice(7), table.slice(30, 5), table.slice(0, 0)):
            expected = [json.dumps(row, ensure_ascii=False) for row in part.to_pylist()]
            assert json_lines(part).decode().split("\n") == [*expected, ""]


def test_a_query_that_is_not_a_number_keeps_its_hits(retrievers):
    retriever = retrievers["memory"]
    vectors = torch.full((1, 16), float("nan"))
    hits = torch.tensor([[5, 300]])
    (line,) = json_lines(retriever.retrieve_table(vectors, hits).slice(0, 1)).splitlines()
    assert json.loads(line)["score"] is None
    assert [c.hits for c in retriever.retrieve_vectors(vectors, hits)[0]] == [(5,), (300,)]
