"""reStructuredText section titles."""

from __future__ import annotations

import re

from scar_gpu.text.layout import Heading, blank_at, split_lines

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*")


def rst_headings(text: str) -> list[Heading]:
    r"""Find titles underlined, or over- and underlined, with a run of one punctuation mark.

    The rules are those of docutils: each pair of mark and overline is one level, in order of
    first appearance; an underline shorter than its title counts from four marks on; only an
    overlined title may be indented. Literal blocks are indented, so nothing in them matches.

    Args:
        text: the whole document.

    Returns:
        The headings in order; `end` lies behind the underline.

    Example:
        >>> [(h.level, h.title) for h in rst_headings("A\n=\n\nB\n-\n\nC\n=\n")]
        [(1, 'A'), (2, 'B'), (1, 'C')]
    """
    lines = split_lines(text)
    levels: dict[tuple[str, bool], int] = {}
    found: list[Heading] = []
    last_underline = -1
    for i in range(1, len(lines)):
        underline, title = lines[i].text.rstrip(), lines[i - 1].text.rstrip()
        if not title or not _ADORNMENT.fullmatch(underline) or _ADORNMENT.fullmatch(title):
            continue
        if len(underline) < min(len(title.lstrip()), 4):
            continue
        overlined = i >= 2 and last_underline != i - 2 and lines[i - 2].text.rstrip() == underline
        first = i - 2 if overlined else i - 1
        if title[0].isspace() and not overlined:
            continue
        if not blank_at(lines, first - 1) and last_underline != first - 1:
            continue
        level = levels.setdefault((underline[0], overlined), len(levels) + 1)
        found.append(Heading(lines[first].start, lines[i].end, level, title.strip()))
        last_underline = i
    return found
