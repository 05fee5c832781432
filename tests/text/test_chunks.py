"""The chunk table: rows, heading paths, passages."""

import dataclasses

import numpy as np
import pytest

from scar_gpu.text import Chunk, ChunkTable, Document, chunk_documents

GUIDE = "Pets\n====\n\nCats purr.\n\nDogs\n----\n\nDogs bark and run.\n"


def table_of(*ranges: tuple[int, int], text: str = "abcdefghij") -> ChunkTable:
    """One document with chunks at these ranges."""
    starts, ends = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    document = np.zeros(len(ranges), dtype=np.int64)
    return ChunkTable(("d",), (text,), document, starts, ends, document.astype(np.int32), ((),))


def test_each_chunk_has_the_path_of_its_first_character() -> None:
    table = chunk_documents([Document("guide", GUIDE, "rst")], chunk_size=24, overlap=0)
    assert [(table.text(i), table.chunk(i).headings) for i in range(len(table))] == [
        ("Pets\n====\n\nCats purr.\n\n", ("Pets",)),
        ("Dogs\n----\n\n", ("Pets", "Dogs")),
        ("Dogs bark and run.\n", ("Pets", "Dogs")),
    ]
    assert table.chunk(1) == Chunk("guide", 23, 34, ("Pets", "Dogs"))


def test_headings_move_no_boundary() -> None:
    with_headings = chunk_documents([Document("a", GUIDE, "rst")], 16, 4)
    without = chunk_documents([Document("a", GUIDE, "plain")], 16, 4)
    assert with_headings.start.tolist() == without.start.tolist()
    assert with_headings.end.tolist() == without.end.tolist()
    assert len(with_headings.paths) > len(without.paths) == 1


def test_the_path_is_embedded_and_not_returned() -> None:
    table = chunk_documents([Document("guide", GUIDE, "rst")], chunk_size=24, overlap=0)
    assert table.embedding_text(2) == "Pets > Dogs\nDogs bark and run.\n"
    assert table.text(2) == table.passage(2, 3).text == "Dogs bark and run.\n"
    plain = chunk_documents([Document("a", "no heading")])
    assert plain.embedding_text(0) == "no heading"


def test_offsets_count_documents_without_text() -> None:
    documents = [Document("a", ""), Document("b", "one two three"), Document("c", ""),
                 Document("d", "x"), Document("e", "")]  # fmt: skip
    table = chunk_documents(documents, chunk_size=10, overlap=4)
    assert table.doc_offsets.tolist() == [0, 0, 2, 2, 3, 3]
    assert table.doc_offsets.dtype == np.int64
    assert [table.chunk(i).document for i in range(3)] == ["b", "b", "d"]


def test_no_documents_and_no_text() -> None:
    assert chunk_documents([]).doc_offsets.tolist() == [0]
    assert len(chunk_documents([Document("a", "")])) == 0


def test_the_overlap_appears_once_in_a_passage() -> None:
    table = table_of((0, 4), (3, 7), (6, 10))
    assert table.passage(0, 3) == ("d", 0, 10, "abcdefghij")
    assert table.passage(0, 2).text == "abcdefg"


def test_a_passage_reaches_the_furthest_end() -> None:
    # The second chunk lies inside the first, the fourth inside the third.
    table = table_of((0, 6), (2, 4), (5, 9), (6, 7))
    assert table.passage(0, 2).text == "abcdef"
    assert table.passage(0, 4) == ("d", 0, 9, "abcdefghi")
    assert table.passage(1, 3).text == "cdefghi"


def test_a_passage_stays_in_one_document() -> None:
    table = chunk_documents([Document("a", "x"), Document("b", "y")])
    with pytest.raises(ValueError, match=r"rows 0\.\.2 must lie in one document, got two"):
        table.passage(0, 2)
    for first, behind in ((1, 1), (-1, 1), (1, 3)):
        message = rf"rows must be a range inside \[0, 2\), got {first}\.\.{behind}"
        with pytest.raises(ValueError, match=message):
            table.passage(first, behind)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end": np.array([4])}, r"end must have one entry per chunk \(2\), got 1"),
        ({"texts": ()}, r"texts must have one entry per document \(1\), got 0"),
        ({"document": np.array([0, 1])}, "document must be < 1, got 1"),
        ({"document": np.array([0, -1])}, "document must ascend .*, got a falling value"),
        ({"end": np.array([4, 11])}, r"chunk 1 .* document of 10 characters, got 3\.\.11"),
        ({"start": np.array([5, 3])}, r"chunk 0 .* document of 10 characters, got 5\.\.4"),
    ],
)
def test_columns_that_do_not_fit(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(table_of((0, 4), (3, 7)), **change)


def test_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="document ids must be unique, got 'a' twice"):
        chunk_documents([Document("a", "x"), Document("b", "x"), Document("a", "y")])
