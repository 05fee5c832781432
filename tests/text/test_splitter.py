"""Chunks: exact offsets, nothing lost, nothing longer than asked for."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter

from scar_gpu.text import split_text

TEXTS = st.one_of(
    st.text(max_size=300),
    # Few different words and breaks: the same passage again and again.
    st.lists(
        st.sampled_from(
            ["a", "ab ", " ", "\n", "\n\n", "\r\n", "\r\n\r\n", "word", "é", "😀", "."]
        ),
        max_size=120,
    ).map("".join),
)


@given(text=TEXTS, chunk_size=st.integers(2, 40), share=st.floats(0, 0.99))
def test_chunks_without_their_overlaps_are_the_text(
    text: str, chunk_size: int, share: float
) -> None:
    overlap = int(chunk_size * share)
    ranges = split_text(text, chunk_size, overlap)
    rebuilt, reached = "", 0
    for start, end in ranges:
        assert reached - overlap <= start <= reached < end
        assert len(text[start:end].strip()) <= chunk_size
        rebuilt += text[reached:end]
        reached = end
    assert rebuilt == text
    assert all(a[0] < b[0] for a, b in pairwise(ranges))


@given(text=TEXTS, chunk_size=st.integers(2, 40))
def test_only_white_space_makes_a_chunk_longer(text: str, chunk_size: int) -> None:
    for start, end in split_text(text, chunk_size, chunk_size // 4):
        words = text[start:end].strip()
        assert len(words) <= chunk_size
        assert words or text.isspace()


@given(words=st.lists(st.sampled_from(["one", "three", "seventeen", "x"]), min_size=1, max_size=80))
def test_chunks_are_those_of_langchain(words: list[str]) -> None:
    text = " ".join(words)
    library = RecursiveCharacterTextSplitter(
        chunk_size=30, chunk_overlap=10, keep_separator="end", strip_whitespace=False
    )
    assert [text[a:b] for a, b in split_text(text, 30, 10)] == library.split_text(text)


def test_a_periodic_text_keeps_its_place() -> None:
    text = "ab " * 40 + "end"
    ranges = split_text(text, 30, 8)
    assert ranges[:3] == [(0, 30), (24, 54), (48, 78)]
    assert ranges[-1][1] == len(text)


def test_defaults_are_600_and_60() -> None:
    text = "".join(f"w{i:03} " for i in range(400))  # 5 characters each
    assert split_text(text)[:2] == [(0, 600), (540, 1140)]


def test_paragraphs_come_before_lines_before_words() -> None:
    text = "aaa bbb\nccc\n\nddd eee"
    assert [text[a:b] for a, b in split_text(text, 14, 0)] == ["aaa bbb\nccc\n\n", "ddd eee"]
    assert [text[a:b] for a, b in split_text(text, 9, 0)] == ["aaa bbb\n", "ccc\n\n", "ddd eee"]
    assert [text[a:b] for a, b in split_text(text, 5, 0)] == [
        "aaa ", "bbb\n", "ccc\n\n", "ddd ", "eee",
    ]  # fmt: skip


def test_crlf_splits_at_the_same_places() -> None:
    text = "aaa bbb\r\nccc\r\n\r\nddd eee"
    paragraphs = ["aaa bbb\r\nccc\r\n\r\n", "ddd eee"]
    lines = ["aaa bbb\r\n", "ccc\r\n\r\n", "ddd eee"]
    assert [text[a:b] for a, b in split_text(text, 17, 0)] == paragraphs
    assert [text[a:b] for a, b in split_text(text, 10, 0)] == lines
    # The first two lines would fit together, but a paragraph ends between them.
    assert split_text("aa\r\n\r\nbb\r\ncc", 11, 0) == [(0, 6), (6, 12)]


def test_white_space_is_joined_to_a_neighbour() -> None:
    text = "\n" * 12 + "word" + "\n" * 30 + "more"
    chunks = [text[a:b] for a, b in split_text(text, 10, 0)]
    assert [chunk.strip() for chunk in chunks] == ["word", "more"]
    assert "".join(chunks) == text


def test_empty_and_blank_texts() -> None:
    assert split_text("") == []
    assert split_text(" \n ") == [(0, 3)]
    assert split_text("word") == [(0, 4)]


@pytest.mark.parametrize(
    ("chunk_size", "overlap", "message"),
    [
        (1, 0, "chunk_size must be >= 2, got 1"),
        (10, 10, "overlap must be in [0, chunk_size), got 10 of 10"),
        (10, -1, "overlap must be in [0, chunk_size), got -1 of 10"),
    ],
)
def test_sizes_out_of_range(chunk_size: int, overlap: int, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        split_text("text", chunk_size, overlap)
