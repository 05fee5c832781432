"""Headings of a text: where they stand, how deep they are, and the path they give a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scar_gpu.text.layout import Heading
from scar_gpu.text.legal import legal_headings
from scar_gpu.text.markdown import markdown_headings
from scar_gpu.text.numbered import numbered_headings
from scar_gpu.text.rst import rst_headings

# "auto" takes the one that finds most; the order breaks ties.
_FINDERS: dict[str, Callable[[str], list[Heading]]] = {
    "rst": rst_headings,
    "numbered": numbered_headings,
    "legal": legal_headings,
    "markdown": markdown_headings,
}

FORMATS = ("auto", *_FINDERS, "plain")


def check_format(format: str) -> None:
    """Raise a ValueError when `format` is not one of `FORMATS`."""
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")


def headings(text: str, format: str = "auto") -> list[Heading]:
    r"""Find the headings of a text.

    Args:
        text: the whole document.
        format: one of

            - `"rst"`: reStructuredText titles, underlined or also overlined; the order in
              which the styles appear gives the levels;
            - `"numbered"`: `3.4.1.  Title` at the start of a line, as in RFCs;
            - `"legal"`: `CHAPTER II`, `Section 3`, `Article 17`, `ITEM 1A.` with the
              title behind it or on the next line;
            - `"markdown"`: ATX (`# Title`) and setext headings of CommonMark;
            - `"auto"`: whichever of these finds most;
            - `"plain"`: none.

    Returns:
        The headings in order of `start`; empty when there are none.

    Raises:
        ValueError: unknown format.
        ImportError: Markdown needs markdown-it-py, from `scar_gpu[text]`.

    Example:
        >>> headings("Intro\n=====\n\nText.\n", "rst")
        [Heading(start=0, end=11, level=1, title='Intro')]
    """
    check_format(format)
    if format == "plain":
        return []
    if format == "auto":
        return max((find(text) for find in _FINDERS.values()), key=len)
    return _FINDERS[format](text)


def heading_paths(found: Sequence[Heading], offsets: Sequence[int]) -> list[tuple[str, ...]]:
    """Give each offset the titles it stands under, outermost first.

    Args:
        found: headings in order of `start`.
        offsets: character offsets in ascending order.

    Returns:
        One tuple of titles per offset; an offset inside a heading stands under that heading,
        one before the first heading has the empty path.

    Example:
        >>> found = [Heading(0, 3, 1, "One"), Heading(9, 12, 2, "Sub"), Heading(20, 23, 1, "Two")]
        >>> heading_paths(found, [0, 10, 20])
        [('One',), ('One', 'Sub'), ('Two',)]
    """
    paths = []
    open_headings: list[Heading] = []
    path: tuple[str, ...] = ()
    position = 0
    for offset in offsets:
        while position < len(found) and found[position].start <= offset:
            heading = found[position]
            while open_headings and open_headings[-1].level >= heading.level:
                open_headings.pop()
            open_headings.append(heading)
            path = tuple(h.title for h in open_headings)
            position += 1
        paths.append(path)
    return paths
