"""Numbered headings of plain text, as in RFCs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from scar_gpu.text.layout import Heading, Line, blank_at, is_contents_line, is_title, split_lines

_NUMBERED = re.compile(
    r"(?P<number>Appendix[ \t]+[A-Z](?=[.:\s])|[A-Z](?:\.\d{1,3})+|\d{1,3}(?:\.\d{1,3})*)"
    r"(?P<dot>[.:]?)[ \t]+(?P<title>\S.*)"
)


class _Numbered(NamedTuple):
    """A line that looks like a numbered heading."""

    first: int
    last: int
    key: tuple[tuple[int, int], ...]
    title: str


def numbered_headings(text: str) -> list[Heading]:
    r"""Find `3.4.1.  Title`, `A.2.  Title` and `Appendix B.  Title` at a line's start.

    A heading stands between blank lines (its title may run on, indented to where it began),
    does not end like a sentence, and its number lies behind that of the heading before, at
    most three further on at the first level. Lines of a table of contents are not headings,
    nor are list items, which follow each other without text in between.

    Args:
        text: the whole document.

    Returns:
        The headings in order; the level is the count of the number's parts.

    Example:
        >>> text = "1.  Start\n\nText.\n\n1.1.  Deeper\n\nText.\n"
        >>> [(h.level, h.title) for h in numbered_headings(text)]
        [(1, '1. Start'), (2, '1.1. Deeper')]
    """
    lines = split_lines(text)
    candidates = [c for i in range(len(lines)) if (c := _numbered_at(lines, i)) is not None]
    found = []
    last: tuple[tuple[int, int], ...] | None = None
    for position, candidate in enumerate(candidates):
        if _in_list(lines, candidates, position) or not _follows(candidate.key, last):
            continue
        last = candidate.key
        start, end = lines[candidate.first].start, lines[candidate.last].end
        found.append(Heading(start, end, len(candidate.key), candidate.title))
    return found


def _numbered_at(lines: list[Line], i: int) -> _Numbered | None:
    match = _NUMBERED.fullmatch(lines[i].text)
    if match is None or not blank_at(lines, i - 1) or is_contents_line(match["title"]):
        return None
    title, last = match["title"].rstrip(), i
    if not blank_at(lines, i + 1):
        # A long title runs on below its own first letter.
        more = lines[i + 1].text
        if len(more) - len(more.lstrip()) != match.start("title") or not blank_at(lines, i + 2):
            return None
        title, last = f"{title} {more.strip()}", i + 1
    parts = match["number"].removeprefix("Appendix").split(".")
    # Lower case and a single number is how a list item begins.
    if title[0].islower() and not (len(parts) > 1 and match["dot"]):
        return None
    if not is_title(title):
        return None
    key = tuple((0, int(p)) if p.strip().isdigit() else (1, ord(p.strip())) for p in parts)
    number = " ".join(match["number"].split()) + match["dot"]
    return _Numbered(i, last, key, f"{number} {title}")


def _follows(key: tuple[tuple[int, int], ...], last: tuple[tuple[int, int], ...] | None) -> bool:
    if last is None:
        return len(key) > 1 or key[0] in ((0, 0), (0, 1), (1, ord("A")))
    return key > last and (key[0][0] != last[0][0] or key[0][1] - last[0][1] <= 3)


def _in_list(lines: list[Line], candidates: Sequence[_Numbered], position: int) -> bool:
    """Whether a single number stands directly before or after another one."""
    here = candidates[position]
    if len(here.key) > 1 or here.key[0][0]:
        return False
    for other in candidates[max(position - 1, 0) : position + 2]:
        if other is here or len(other.key) > 1 or other.key[0][0]:
            continue
        between = range(min(here.last, other.last) + 1, max(here.first, other.first))
        if all(lines[i].blank for i in between):
            return True
    return False
