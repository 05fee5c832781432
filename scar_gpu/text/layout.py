"""Lines and headings of a text, each with its character offsets."""

from __future__ import annotations

import re
from typing import NamedTuple

_NEWLINE = re.compile(r"\r\n|\r|\n")
# A table of contents ends its lines with dot leaders, or with a page number behind a gap.
_CONTENTS = re.compile(r"\.{3,}|(?:\. ){3,}|(?:[ \t]{2,}|\t)\d+\s*$")
_LONGEST_TITLE = 160


class Line(NamedTuple):
    """One line: `text == document[start:end]`, the line ending left out."""

    start: int
    end: int
    text: str

    @property
    def blank(self) -> bool:
        """Whether the line holds nothing but white space."""
        return not self.text or self.text.isspace()


class Heading(NamedTuple):
    """One heading.

    Attributes:
        start: offset of its first character.
        end: offset behind its last character, an underline included, the line ending not.
        level: depth from 1; a heading closes all earlier ones of its level or deeper.
        title: the text on one line, with its number where it has one.
    """

    start: int
    end: int
    level: int
    title: str


def split_lines(text: str) -> list[Line]:
    r"""Split at `\n`, `\r\n` and `\r` only.

    `str.splitlines` also splits at form feeds and Unicode separators, so its line numbers
    would disagree with those of a Markdown parser.

    Args:
        text: any text.

    Returns:
        The lines in order: one more than there are line endings, so the last may be empty.

    Example:
        >>> split_lines("a\r\nbc")
        [Line(start=0, end=1, text='a'), Line(start=3, end=5, text='bc')]
    """
    lines = []
    start = 0
    for newline in _NEWLINE.finditer(text):
        lines.append(Line(start, newline.start(), text[start : newline.start()]))
        start = newline.end()
    lines.append(Line(start, len(text), text[start:]))
    return lines


def blank_at(lines: list[Line], number: int) -> bool:
    """Whether line `number` is blank; what lies before the first or after the last is."""
    return not 0 <= number < len(lines) or lines[number].blank


def is_contents_line(text: str) -> bool:
    """Whether `text` reads like a line of a table of contents."""
    return len(text) <= _LONGEST_TITLE and _CONTENTS.search(text) is not None


def is_title(text: str) -> bool:
    """Whether `text` could be a heading's title: short, and not the end of a sentence."""
    return 0 < len(text) <= _LONGEST_TITLE and text[-1] not in ".;,:"
