"""Markdown headings, by a CommonMark parser."""

from __future__ import annotations

import re
from itertools import pairwise

from scar_gpu.text.extras import import_extra
from scar_gpu.text.layout import Heading, Line, split_lines

# A heading needs one of these lines; parsing is left out where there is none.
_POSSIBLE = re.compile(r"^ {0,3}(?:#{1,6}(?:[ \t]|\r?$)|=+[ \t]*\r?$|-+[ \t]*\r?$)", re.MULTILINE)
# The second mark of a front matter; kramdown-rfc writes "--- abstract".
_FRONT_MATTER_END = re.compile(r"(?:---|\.\.\.)(?:[ \t]+\w+)?[ \t]*")
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}$")


def markdown_headings(text: str) -> list[Heading]:
    r"""Find ATX and setext headings at the top level of a Markdown document.

    Lines inside code blocks, HTML blocks and comments, quotations and list items are no
    headings, nor is a YAML front matter. A trailing attribute block such as `{#anchor}` is
    left out of the title.

    Args:
        text: the whole document.

    Returns:
        The headings in order; the level is that of Markdown, 1 to 6.

    Raises:
        ImportError: markdown-it-py is missing; `scar_gpu[text]` brings it.

    Example:
        >>> [(h.level, h.title) for h in markdown_headings("# A\n\n```\n# no\n```\n\nB\n---\n")]
        [(1, 'A'), (2, 'B')]
    """
    if not _POSSIBLE.search(text):
        return []
    parser = import_extra("markdown_it", "text").MarkdownIt("commonmark")
    lines = split_lines(text)
    skipped = _front_matter(lines)
    tokens = parser.parse(text[lines[skipped].start :])
    found = []
    for token, inline in pairwise(tokens):
        if token.type != "heading_open" or token.level:
            continue
        first, behind = (skipped + number for number in token.map)
        title = "".join(
            " " if child.type in ("softbreak", "hardbreak") else child.content
            for child in inline.children
        )
        title = _ATTRIBUTES.sub("", " ".join(title.split()))
        if title:
            level = int(token.tag.removeprefix("h"))
            found.append(Heading(lines[first].start, lines[behind - 1].end, level, title))
    return found


def _front_matter(lines: list[Line]) -> int:
    """Count the lines of a leading YAML block, both its marks included."""
    if lines[0].text.rstrip() == "---":
        for number in range(1, len(lines) - 1):
            if _FRONT_MATTER_END.fullmatch(lines[number].text):
                return number + 1
    return 0
