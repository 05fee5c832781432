"""`scar-gpu explain`: the sums it shows, the text at the borders, and a page that is safe."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scar_gpu.cli.judgement import judge, parts
from scar_gpu.text import Document, Retriever, chunk_documents
from tests.cli.conftest import WORDS, Run
from tests.text.word_embedder import WordEmbedder

MODEL = ("--model", WORDS)
QUERY = "red fruit of apple tree number 3"


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def retriever(index: Path) -> Retriever:
    return Retriever.from_index(index, WordEmbedder())


def test_the_judgement_is_the_formula(retriever: Retriever) -> None:
    vector = retriever.encode_queries(QUERY)
    for window, lam, gamma in ((None, 0.1, 0.8), (1, 0.5, 0.2), (0, 0.1, 0.8)):
        hits = judge(
            retriever.index, vector, *retriever.index.search(vector, 4), lam, gamma, window
        )
        unit = retriever.index.embeddings / retriever.index.embeddings.norm(dim=1, keepdim=True)
        cosines = unit @ (vector[0] / vector.norm())
        for hit in hits:
            assert hit.relevance == pytest.approx(cosines[hit.row].item(), abs=1e-5)
            assert hit.threshold == pytest.approx(gamma * hit.relevance)
            for n in hit.neighbours:
                assert n.row == hit.row + n.offset
                assert n.relevance == pytest.approx(cosines[n.row].item(), abs=1e-5)
                assert n.likeness == pytest.approx((unit[hit.row] @ unit[n.row]).item(), abs=1e-5)
                assert n.score == pytest.approx(n.relevance - lam * (1 - n.likeness), abs=1e-5)
                assert n.admitted == (n.score > hit.threshold)
                assert n.is_hit == (n.row in {other.row for other in hits})
        assert any(hit.neighbours for hit in hits) == (window != 0)


def test_parts_are_the_text_of_a_run_once() -> None:
    text = " ".join(f"word{i:02}" for i in range(40))
    chunks = chunk_documents([Document("d", text)], chunk_size=60, overlap=24)
    found = list(parts(chunks, 1, 4))
    passage = chunks.passage(1, 4)
    assert "".join(part.before + part.shared for part in found) == passage.text
    for row, part in enumerate(found[:-1], 1):
        assert part.shared == text[chunks.start[row + 1] : chunks.end[row]] != ""
    assert found[-1].shared == ""


def test_the_table_shows_each_neighbour(index: Path, succeed: Run, retriever: Retriever) -> None:
    output = succeed("explain", index, QUERY, *MODEL, "--k", 1).stdout
    vector = retriever.encode_queries(QUERY)
    (hit,) = judge(retriever.index, vector, *retriever.index.search(vector, 1), 0.1, 0.8, None)
    assert f"relevance {hit.relevance:.3f}, threshold {hit.threshold:.3f}" in output
    rows = re.findall(r"([+-]1) +(\S+) +(\S+) +(\S+) +(admitted|refused)", output)
    assert rows == [
        (f"{n.offset:+d}", f"{n.relevance:.3f}", f"{n.likeness:.3f}", f"{n.score:.3f}", n.verdict)
        for n in hit.neighbours
    ]
    assert len(rows) == 2
    assert "Apple tree number 3 grows red fruit. |" in " ".join(output.split())
    assert max(map(len, output.splitlines())) <= 100


def test_the_page_has_every_number_and_no_address(
    index: Path, tmp_path: Path, succeed: Run, retriever: Retriever
) -> None:
    output = tmp_path / "page.html"
    succeed("explain", index, QUERY, *MODEL, "-o", output)
    html = output.read_text()
    page = Page(html)
    assert page.open == []
    assert page.tags.count("article") == 5
    text = " ".join(page.text.split())
    vector = retriever.encode_queries(QUERY)
    found = retriever.index.search(vector, 5)
    for hit in judge(retriever.index, vector, *found, 0.1, 0.8, None):
        for n in hit.neighbours:
            sign = ">" if n.admitted else "\N{LESS-THAN OR EQUAL TO}"
            assert f"= {n.score:.3f} {sign} {hit.threshold:.3f} {n.verdict}" in text
    assert not re.search(r"https?:|//|url\(|@import|<script|<link|<img", html)
    assert not {"src", "href", "srcset", "onclick"} & {name for name, _ in page.attributes}
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html


def test_the_page_escapes_what_it_shows(
    tmp_path: Path, succeed: Run, refused: Callable[..., str]
) -> None:
    folder = tmp_path / "a<b>&'\"c"
    folder.mkdir()
    attack = '<script>alert(1)</script> & </pre> "quoted" <img src=x onerror=alert(2)>'
    (folder / "x<i>.md").write_text(f"# Title {attack}\n\n{attack} apple\n\n" * 8)
    index, output = tmp_path / "<u>index", tmp_path / "page.html"
    succeed("build", folder, "-o", index, *MODEL, "--chunk-size", 200)
    succeed("explain", index, f"apple {attack}", *MODEL, "-o", output)
    page = Page(output.read_text())
    assert page.open == []
    assert not {"script", "img", "u"} & set(page.tags)
    assert page.text.count("<script>alert(1)</script>") > 3
    assert "<u>index" in page.text
    message = refused("explain", index, "apple", *MODEL, "-o", output)
    assert message == f"output must not exist yet, got {output}; --overwrite replaces it"
    assert "output must end in .html" in refused("explain", index, "a", "-o", tmp_path / "x.txt")


def test_lines_of_a_wrapped_paragraph_may_be_joined() -> None:
    from scar_gpu.cli.explain_page import _text

    long = "a line of prose that is wrapped by hand at seventy characters or so"
    assert _text(f"   {long}\n   goes on\n   - item") == (
        f"   {long}<i class=wide>\n   </i><i class=narrow> </i>goes on\n   - item"
    )
    drawing = f"+{'-' * 60}+\n| a |\n"
    assert _text(drawing) == drawing


def test_an_index_without_text_cannot_be_explained(
    tmp_path: Path, succeed: Run, refused: Callable[..., str]
) -> None:
    import numpy as np

    np.save(tmp_path / "m.npy", np.eye(32, dtype=np.float32))
    succeed("build", "--embeddings", tmp_path / "m.npy", "-o", tmp_path / "index")
    message = refused("explain", tmp_path / "index", "apple", *MODEL)
    assert message == "index must hold text for this, got one of vectors alone"
