"""Headings of laws, contracts and filings: chapters, sections, articles, items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from scar_gpu.text.layout import Heading, Line, blank_at, is_contents_line, is_title, split_lines

# Outermost first. Section and article change places from one tradition to the other.
_KINDS = (
    ("book",),
    ("title",),
    ("part", "annex", "appendix", "schedule", "exhibit"),
    ("chapter",),
    ("section",),
    ("article",),
    ("item",),
    ("note",),
)
_RANK = {word: rank for rank, words in enumerate(_KINDS) for word in words}
_WORDS = "|".join(f"{word.capitalize()}|{word.upper()}" for word in _RANK)
_LEGAL = re.compile(
    rf"\s*(?P<label>(?P<word>{_WORDS})[ \t]+(?:\d{{1,4}}[A-Z]?(?:\.\d+)*|[IVXLCDM]+|[A-Z])\b)"
    r"(?:\s*|(?P<mark>[ \t]*[.:\u2013\u2014-])?[ \t]+(?P<title>\S.*))"
)
_RUN_IN = re.compile(r"(?P<title>[^.]{1,100})\.[ \t]+\S")
_PAGE_NUMBER = re.compile(r"\s\d{1,3}\s*$")


class _Legal(NamedTuple):
    """A line that looks like the heading of a law: where, what kind and number, the title."""

    start: int
    end: int
    kind: str
    label: str
    mark: str
    title: str


def legal_headings(text: str) -> list[Heading]:
    r"""Find the part, chapter, section, article and item lines of a law, contract or filing.

    The title stands behind the number, in a line of its own below it, or begins a paragraph
    ("Section 6.  Record Date.  The board ..."). A section contains articles or the other way
    round: whichever has the fewer different numbers is the outer one. A page header that
    repeats the number one stands under anyway opens nothing.

    Args:
        text: the whole document.

    Returns:
        The headings in order; levels count the kinds that occur, outermost first.

    Example:
        >>> text = "CHAPTER I\n\nScope\n\nArticle 1\n\nPurpose\n\nThis law ...\n"
        >>> [(h.level, h.title) for h in legal_headings(text)]
        [(1, 'CHAPTER I Scope'), (2, 'Article 1 Purpose')]
    """
    lines = split_lines(text)
    candidates: list[_Legal] = []
    for i in range(len(lines)):
        follows_heading = bool(candidates) and candidates[-1].end == lines[i - 1].end
        candidate = _legal_at(lines, i, blank_at(lines, i - 1) or follows_heading)
        if candidate is not None:
            candidates.append(candidate)
    levels = _legal_levels(candidates)
    found: list[Heading] = []
    open_labels: list[tuple[int, str]] = []
    for candidate in candidates:
        level = levels[_RANK[candidate.kind]]
        label = candidate.label.casefold()
        if not candidate.title and (level, label) in open_labels:
            continue
        open_labels = [(depth, name) for depth, name in open_labels if depth < level]
        open_labels.append((level, label))
        title = f"{candidate.label}{candidate.mark} {candidate.title}".rstrip()
        found.append(Heading(candidate.start, candidate.end, level, title))
    return found


def _legal_at(lines: list[Line], i: int, opens_paragraph: bool) -> _Legal | None:
    line = lines[i]
    match = _LEGAL.fullmatch(line.text)
    if match is None or not (opens_paragraph or line.text.isupper()):
        return None
    start = line.start + match.start("label")
    kind, label = match["word"].lower(), " ".join(match["label"].split())
    title = (match["title"] or "").rstrip()
    if not title:
        title, last = _title_below(lines, i)
        return _Legal(start, lines[last].end, kind, label, "", title)
    if title[0].islower() or is_contents_line(title):
        return None
    mark = match["mark"] or ""
    if is_title(title) or (mark and is_title(title[:-1])):
        if _PAGE_NUMBER.search(title):
            return None
        return _Legal(start, line.end, kind, label, mark, title)
    run_in = _RUN_IN.match(title)
    if run_in is None or not opens_paragraph or len(run_in["title"].split()) > 12:
        return None
    end = line.start + match.start("title") + run_in.end("title")
    return _Legal(start, end, kind, label, mark, run_in["title"])


def _title_below(lines: list[Line], i: int) -> tuple[str, int]:
    """The title in the next line or the one after a blank line, and its line number."""
    below = i + 2 if blank_at(lines, i + 1) else i + 1
    if blank_at(lines, below) or not blank_at(lines, below + 1):
        return "", i
    title = lines[below].text.strip()
    if _LEGAL.fullmatch(title) or title[0].islower() or not is_title(title):
        return "", i
    return title, below


def _legal_levels(candidates: Sequence[_Legal]) -> dict[int, int]:
    """Number the kinds that occur, from 1, outermost first."""
    section, article = _RANK["section"], _RANK["article"]
    labels = {rank: set[str]() for rank in {_RANK[c.kind] for c in candidates}}
    for candidate in candidates:
        labels[_RANK[candidate.kind]].add(candidate.label)
    order = sorted(labels)
    if section in labels and article in labels and len(labels[article]) < len(labels[section]):
        at = order.index(section)
        order[at : at + 2] = article, section
    return {rank: level for level, rank in enumerate(order, 1)}
