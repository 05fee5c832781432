"""Reading documents from files and folders."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from scar_gpu.text import Document, Retriever, read_documents
from scar_gpu.text.documents import read_rows
from tests.text.word_embedder import WordEmbedder


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_folder_is_read_recursively_in_order_of_path(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "plain")
    write(tmp_path / "a" / "z.md", "# Markdown")
    write(tmp_path / "a" / "b" / "c.RST", "Title\n=====")
    write(tmp_path / "a" / "picture.png", b"\x89PNG")
    write(tmp_path / ".hidden" / "d.txt", "no")
    assert read_documents(tmp_path) == [
        Document("a/b/c.RST", "Title\n=====", "rst"),
        Document("a/z.md", "# Markdown", "markdown"),
        Document("b.txt", "plain", "auto"),
    ]


def test_glob_chooses_files_of_any_kind(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "no")
    write(tmp_path / "sub" / "b.log", "yes")
    assert read_documents(tmp_path, glob="*.log") == [Document("sub/b.log", "yes", "auto")]


@pytest.mark.parametrize("glob", ["/etc/*", ""])
def test_a_glob_outside_the_folder_is_refused(tmp_path: Path, glob: str) -> None:
    with pytest.raises(ValueError, match="glob must be a pattern below the folder, got"):
        read_documents(tmp_path, glob=glob)


def test_one_file_is_named_by_its_file_name_and_keeps_its_line_endings(tmp_path: Path) -> None:
    path = write(tmp_path / "deep" / "crlf.txt", "\ufeffone\r\ntwo\rthree\n")
    assert read_documents(path) == [Document("crlf.txt", "one\r\ntwo\rthree\n", "auto")]


def test_format_overrides_the_suffix(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "x")
    assert read_documents(path, format="legal")[0].format == "legal"
    with pytest.raises(ValueError, match=r"format must be one of auto, .*, plain, got 'html'"):
        read_documents(path, format="html")


def test_text_that_is_not_utf8_names_file_byte_and_offset(tmp_path: Path) -> None:
    write(tmp_path / "good.txt", "fine")
    write(tmp_path / "latin.txt", "caf\u00e9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt must be UTF-8 text, got byte 0xe9 at .* 3"):
        read_documents(tmp_path)


def test_jsonl_takes_ids_or_names_lines(tmp_path: Path) -> None:
    lines = '{"id": 7, "text": "seven", "n": 1}\r\n\r\n{"text": "three"}\r\n'
    path = write(tmp_path / "d.jsonl", lines)
    assert read_documents(path) == [Document("7", "seven"), Document("d.jsonl:3", "three")]


def test_jsonl_columns_by_option(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", json.dumps({"url": "u", "body": "b", "id": "x"}))
    assert read_documents(path, id_column="url", text_column="body") == [Document("u", "b")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "half', r"d\.jsonl line 2 must be JSON, got: Unterminated string"),
        ('["text"]', r"d\.jsonl line 2 must be a JSON object, got list"),
        ('{"body": "b", "title": "t"}', r"text_column .* line 2 \(body, title\), got 'text'"),
        ('{"text": null}', r"text of .*d\.jsonl line 2 must be text, got NoneType"),
        ('{"text": "a\\ud800"}', r"document text must be valid Unicode, got '\\ud800' at offset 1"),
    ],
)
def test_a_broken_json_line_names_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "d.jsonl", '{"text": "fine"}\n' + line + "\n")
    with pytest.raises(ValueError, match=message):
        read_documents(path)


def test_parquet_takes_ids_or_names_rows(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "n.parquet")
    pyarrow.parquet.write_table(pa.table({"text": ["c"], "id": ["x"]}), tmp_path / "y.parquet")
    assert read_documents(tmp_path) == [
        Document("n.parquet:1", "a"),
        Document("n.parquet:2", "b"),
        Document("x", "c"),
    ]


def test_parquet_errors_list_the_columns_and_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pa.table({"body": ["a", None], "n": [1, 2]}), path)
    with pytest.raises(ValueError, match=r"text_column must be .* \(body, n\), got 'text'"):
        read_documents(path)
    with pytest.raises(ValueError, match=r"id_column must be .* \(body, n\), got 'key'"):
        read_documents(path, text_column="body", id_column="key")
    with pytest.raises(ValueError, match=r"body of .* row 2 must be text, got NoneType"):
        read_documents(path, text_column="body")
    write(path, "no parquet")
    with pytest.raises(ValueError, match=r"d\.parquet must be a Parquet file, got"):
        read_documents(path)


def test_sources_that_give_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"source must be a file or a folder, got .*gone"):
        read_documents(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"source must hold at least one document \(\.txt, .md"):
        read_documents(tmp_path)
    path = write(tmp_path / "a.docx", "x")
    with pytest.raises(ValueError, match=r"source must be a folder or one of \.txt, .*a\.docx"):
        read_documents(path)


def test_files_that_are_not_text_may_be_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "fine")
    write(tmp_path / "b.txt", b"\xff")
    write(tmp_path / "c.jsonl", b'{"text": "\xff"}')
    bad: list[tuple[str, str]] = []
    documents = read_documents(
        tmp_path, on_bad=lambda path, error: bad.append((path.name, str(error)))
    )
    assert [document.id for document in documents] == ["a.txt"]
    assert [name for name, _ in bad] == ["b.txt", "c.jsonl"]
    assert all(f"{name} must be UTF-8 text, got byte 0xff" in error for name, error in bad)
    # What is text and wrong is not left out.
    write(tmp_path / "c.jsonl", "{")
    with pytest.raises(ValueError, match=r"c\.jsonl line 1 must be JSON"):
        read_documents(tmp_path, on_bad=lambda path, error: None)


def test_the_files_of_an_index_are_no_documents(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "fine")
    for name in ("manifest.json", "tensors.safetensors", "chunks.parquet", "note.txt"):
        write(tmp_path / "index" / name, "x")
    assert [document.id for document in read_documents(tmp_path)] == ["a.txt"]
    (tmp_path / "index" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="must be a Parquet file"):
        read_documents(tmp_path)


def test_rows_may_repeat_a_document(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", '{"doc": "a", "text": "1"}\n{"doc": "a", "text": "2"}')
    assert list(read_rows(path, "doc", "text")) == [(1, "a", "1"), (2, "a", "2")]
    with pytest.raises(ValueError, match=r"source must be one of \.jsonl, \.parquet, got"):
        list(read_rows(tmp_path / "c.txt", None, "text"))


def test_two_documents_of_one_id(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", '{"id": "a", "text": "1"}\n{"id": "a", "text": "2"}')
    with pytest.raises(ValueError, match="document ids must be unique, got 'a' twice"):
        read_documents(path)


def test_a_document_holds_text() -> None:
    with pytest.raises(TypeError, match="document text must be a str, got bytes"):
        Document("a", b"bytes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="document id must be a str, got int"):
        Document(1, "text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"format must be one of .*, got 'md'"):
        Document("a", "text", "md")


def test_offsets_count_the_characters_of_the_text_without_its_byte_order_mark(
    tmp_path: Path,
) -> None:
    """A file read as `utf-8` has one character more: the mark, whose place is before the text."""
    sentences = [
        "Apples are r\u00e9d.\r\n\r\n",
        "\ufeffRivers run.\r\n\r\n",
        "Cats \U0001f408 purr.\r\n",
    ]
    path = write(tmp_path / "marked.txt", "\ufeff" + "".join(sentences))
    with path.open(encoding="utf-8-sig", newline="") as file:
        text = file.read()
    assert text == "".join(sentences)
    retriever = Retriever.from_documents(
        read_documents(path), WordEmbedder(), chunk_size=20, overlap=0
    )
    retriever.save(tmp_path / "index")
    for found in (retriever, Retriever.from_index(tmp_path / "index", WordEmbedder())):
        for number, question in enumerate(("apples", "rivers", "cats")):
            ((context,),) = found.retrieve(question, 1, "none")
            assert context.text == sentences[number] == text[context.start : context.end]
            vectors = WordEmbedder().encode([question])
            (row,) = found.retrieve_table(vectors, k=1, method="none").to_pylist()
            assert row["text"] == text[row["start"] : row["end"]] == sentences[number]
