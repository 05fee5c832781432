"""Headings of the four kinds, and the paths they give."""

import pytest

from scar_gpu.text import Heading, heading_paths, headings


def outline(text: str, format: str) -> list[tuple[int, str]]:
    """Level and title of each heading; start and end are checked on the way."""
    found = headings(text, format)
    for heading in found:
        first_word = heading.title.split()[0].strip("#.:")
        assert first_word in text[heading.start : heading.end].replace("`", "")
        assert text[heading.end : heading.end + 1] in ("", "\n", "\r", ".")
    return [(heading.level, heading.title) for heading in found]


# reStructuredText


def test_rst_levels_follow_the_order_of_styles() -> None:
    text = "=====\nTitle\n=====\n\nPart\n====\n\ntext\n\nSub\n---\n\nPart two\n========\n"
    assert outline(text, "rst") == [(1, "Title"), (2, "Part"), (3, "Sub"), (2, "Part two")]


def test_rst_offsets_cover_overline_and_underline() -> None:
    text = "x\n\n==\nAB\n==\n\ny"
    assert headings(text, "rst") == [Heading(3, 11, 1, "AB")]
    assert text[3:11] == "==\nAB\n=="


def test_rst_titles_may_follow_each_other() -> None:
    assert outline("One\n===\nTwo\n===\n", "rst") == [(1, "One"), (1, "Two")]


@pytest.mark.parametrize(
    "text",
    [
        "two lines of\na paragraph\n-----------\n",
        "   indented\n   ========\n",
        "   indented\n========\n",
        "text\n\n--------\n\ntext\n",
        "Code::\n\n   Not a title\n   ===========\n",
        "=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n",
        "Much longer title\n--\n",
        "Title\n=-=-=\n",
    ],
)
def test_rst_lines_that_are_no_titles(text: str) -> None:
    assert headings(text, "rst") == []


def test_rst_short_underline_counts_from_four_marks() -> None:
    assert outline("A longer title\n====\n", "rst") == [(1, "A longer title")]


# Markdown


def test_markdown_atx_and_setext() -> None:
    text = "Top\n===\n\n# One #\n\n## Two `code` *now*\n\nThree\n---\n"
    assert outline(text, "markdown") == [
        (1, "Top"),
        (1, "One"),
        (2, "Two code now"),
        (2, "Three"),
    ]
    assert headings(text, "markdown")[0] == Heading(0, 7, 1, "Top")


@pytest.mark.parametrize(
    "block",
    [
        "```sh\n# comment\n```",
        "~~~\n# comment\n\n# more\n~~~",
        "    # indented code",
        "<!--\n# comment\n-->",
        "> # quoted",
        "- # in a list",
        "#hashtag",
        "\\# escaped",
        "#",
    ],
)
def test_markdown_lines_that_are_no_headings(block: str) -> None:
    assert outline(f"# Real\n\n{block}\n\n# End\n", "markdown") == [(1, "Real"), (1, "End")]


def test_markdown_front_matter_is_no_heading() -> None:
    text = "---\ntitle: A\nauthor:\n  -\n---\n\n# Body\n"
    assert headings(text, "markdown") == [Heading(text.index("# Body"), len(text) - 1, 1, "Body")]
    kramdown = "---\ntitle: A\n\n--- abstract\n\n# Body {#body}\n"
    assert outline(kramdown, "markdown") == [(1, "Body")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_offsets_hold_for_every_line_ending(newline: str) -> None:
    text = newline.join(["# One", "", "\u2028 text \x0c more", "", "# Two", ""])
    one, two = headings(text, "markdown")
    assert (text[one.start : one.end], text[two.start : two.end]) == ("# One", "# Two")
    rst = newline.join(["", "One", "===", "", "text", ""])
    (found,) = headings(rst, "rst")
    assert rst[found.start : found.end] == f"One{newline}==="


# Numbered

RFC = """\
Table of Contents

   1. Purpose .......................................... 3
      1.1. Scope ........................................ 4

1.  Purpose

   Text. See
1.1 for more.

1.1.  Scope

   The steps are:

   1.  first

   2.  second

1.2.  A Title That Is Too Long for One Line and
      Runs On

   2001. It was a year.

2.  Rules

2.1.  0-RTT Data

   Text.

Appendix A.  Notes

A.1.  More Notes

   Text.
"""


def test_numbered_headings_of_an_rfc() -> None:
    assert outline(RFC, "numbered") == [
        (1, "1. Purpose"),
        (2, "1.1. Scope"),
        (2, "1.2. A Title That Is Too Long for One Line and Runs On"),
        (1, "2. Rules"),
        (2, "2.1. 0-RTT Data"),
        (1, "Appendix A. Notes"),
        (2, "A.1. More Notes"),
    ]


@pytest.mark.parametrize(
    "inside",
    [
        "1. Take the lid off\n\n2. Stir\n\n3. Wait",
        "1. Take the lid off.",
        "1. take the lid off",
        "2.1. Take the lid off.",
        "2.1. Take the lid off\n     stir it\n     wait",
        "text that wraps before section\n2.1. Something Else",
        "3.2  Title ........ 14",
        "3.2  Title        14",
        "27 April 2016",
        "3.2 million people\nlive here",
        "3.2 million people",
        "1.5.  An Earlier Number",
        "   3.1.  Indented",
    ],
)
def test_numbered_lines_that_are_no_headings(inside: str) -> None:
    text = f"1.  One\n\ntext\n\n2.  Two\n\ntext\n\n{inside}\n\ntext\n\n3.  Three\n\ntext\n"
    assert outline(text, "numbered") == [(1, "1. One"), (1, "2. Two"), (1, "3. Three")]


def test_an_excerpt_may_begin_at_a_deep_number() -> None:
    assert outline("3.4.1.  Selection\n\ntext\n", "numbered") == [(3, "3.4.1. Selection")]
    assert outline("4.  Selection\n\ntext\n", "numbered") == []


# Legal

LAW = """\
Whereas:

Article 16(2) of the treaty mandates rules.

CHAPTER I

General provisions

Article 1

Subject matter

This law, under
Article 7
of the treaty, lays down rules.

CHAPTER II

Rights

Section 1

Access

Article 2 Copies

Section 5 of the act applies to copies.

Section 6 of the act

Article 3

The holder may ask for a copy.

Article 4

and nothing else
"""


def test_legal_headings_of_a_law() -> None:
    assert outline(LAW, "legal") == [
        (1, "CHAPTER I General provisions"),
        (3, "Article 1 Subject matter"),
        (1, "CHAPTER II Rights"),
        (2, "Section 1 Access"),
        (3, "Article 2 Copies"),
        (3, "Article 3"),
        (3, "Article 4"),
    ]


def test_a_contract_has_sections_inside_articles() -> None:
    text = (
        "ARTICLE I\n\nDEFINITIONS\n\nSection 1.01  Terms.  In this agreement a term has the "
        "meaning that the parties ... had in mind when they signed it, whatever a later reader "
        "takes it to mean, except where it is one of those in Section 12\n\n"
        "Section 1.02 Interpretation. (a) Singular is plural.\n\n"
        "ARTICLE II\n\nSection 2.01 The Merger: what happens\n\ntext.\n"
    )
    assert outline(text, "legal") == [
        (1, "ARTICLE I DEFINITIONS"),
        (2, "Section 1.01 Terms"),
        (2, "Section 1.02 Interpretation"),
        (1, "ARTICLE II"),
        (2, "Section 2.01 The Merger: what happens"),
    ]


def test_a_filing_repeats_its_page_headers() -> None:
    text = (
        "PART I\nItem 1. Business 4\nItem 1A. Risks 23\n\n"
        "PART I\nItem 1\nITEM 1. BUSINESS\nWe make things.\n4\n\n"
        "PART I\nItem 1\nand sell them.\nNOTE 1 — POLICIES\ntext\n5\n\n"
        "PART I\nItem 1\nmore text\nITEM 1A. RISKS\ntext\n6\n\n"
        "PART I\nItem 1B\nThe regulator has\nno questions.\n"
    )
    assert outline(text, "legal") == [
        (1, "PART I"),
        (2, "Item 1"),
        (2, "ITEM 1. BUSINESS"),
        (3, "NOTE 1 — POLICIES"),
        (2, "ITEM 1A. RISKS"),
        (2, "Item 1B"),
    ]


# Any kind


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Title\n=====\n\ntext\n", "Title"),
        (RFC, "1. Purpose"),
        (LAW, "CHAPTER I General provisions"),
        ("# Title\n\ntext\n\n## Sub\n", "Title"),
    ],
)
def test_auto_finds_the_kind(text: str, title: str) -> None:
    assert headings(text)[0].title == title


@pytest.mark.parametrize("format", ["auto", "rst", "numbered", "legal", "markdown", "plain"])
@pytest.mark.parametrize("text", ["", "\n", "one line", "two paragraphs.\n\nAnd no heading.\n"])
def test_texts_without_headings(text: str, format: str) -> None:
    assert headings(text, format) == []


def test_plain_looks_for_none() -> None:
    assert headings("# Title\n", "plain") == []


def test_unknown_format() -> None:
    message = "format must be one of auto, rst, numbered, legal, markdown, plain, got 'html'"
    with pytest.raises(ValueError, match=message):
        headings("text", "html")


def test_paths_close_deeper_headings() -> None:
    found = [
        Heading(5, 8, 1, "A"),
        Heading(10, 13, 3, "deep"),
        Heading(20, 23, 2, "B"),
        Heading(30, 33, 1, "C"),
    ]
    assert heading_paths(found, [0, 5, 9, 10, 25, 30]) == [
        (),
        ("A",),
        ("A",),
        ("A", "deep"),
        ("A", "B"),
        ("C",),
    ]
