"""The page of `explain`: one HTML file without any other, readable on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from scar_gpu.cli.explain_style import STYLE
from scar_gpu.cli.judgement import Hit, Neighbour, parts

if TYPE_CHECKING:
    from scar_gpu.text import ChunkTable

_MOST_TITLE = 80
# The end of a long line that goes on with a word: a paragraph wrapped by hand, which a narrow
# screen would wrap once more. Drawings, lists and tables keep their lines.
_WRAPPED = re.compile(r"(?<=[^\n]{50})\n[ \t]*(?=[A-Za-z(\"'])")


def page(
    chunks: ChunkTable,
    query: str,
    hits: list[Hit],
    lam: float,
    gamma: float,
    index: str,
    model: str,
) -> str:
    """Write the page.

    Args:
        chunks: the texts.
        query: the question.
        hits: see `judge`.
        lam: the penalty they were judged by.
        gamma: the share of relevance they were judged by.
        index: its name.
        model: its name.

    Returns:
        HTML that loads nothing; every text in it is escaped.
    """
    neighbours = [n for hit in hits for n in hit.neighbours if not n.is_hit]
    admitted = len({n.row for n in neighbours if n.admitted})
    refused = len({n.row for n in neighbours} - {n.row for n in neighbours if n.admitted})
    top = max([hit.relevance for hit in hits] + [n.score for n in neighbours], default=1.0)
    body = "\n".join(_hit(chunks, hit, lam, gamma, top) for hit in hits)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(query[:_MOST_TITLE])}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<p class="kind">Hits and their neighbours</p>
<h1>{escape(query)}</h1>
<p class="counts"><b>{len(hits)}</b> hits <span class="mark in">{admitted} admitted</span>
<span class="mark out">{refused} refused</span></p>
<p class="rule">A neighbour is admitted if <b>S &gt; {gamma:g} &times; the hit&rsquo;s
relevance</b>, where S = its own relevance &minus; {lam:g} &times; (1 &minus; its cosine with the
hit).</p>
<p class="source">{escape(index)} &middot; {escape(model)}</p>
</header>
<main>
{body or "<p>No hits.</p>"}
</main>
</body>
</html>
"""


def _hit(chunks: ChunkTable, hit: Hit, lam: float, gamma: float, top: float) -> str:
    chunk = chunks.chunk(hit.row)
    path = ' <span class="sep">&rsaquo;</span> '.join(escape(title) for title in chunk.headings)
    verdicts = "\n".join(_verdict(n, hit, lam, gamma, top) for n in hit.neighbours)
    return f"""<article id="hit-{hit.rank}">
<h2><span class="rank">{hit.rank}</span> {escape(chunk.document)}
<span class="range">characters {chunk.start:,}&ndash;{chunk.end:,}, chunk {hit.row:,}</span></h2>
<p class="path">{path}</p>
<dl><div><dt>relevance</dt><dd>{_number(hit.relevance)}</dd></div>
<div><dt>threshold</dt><dd>{_number(hit.threshold)}</dd></div></dl>
<ul class="verdicts">
{verdicts or "<li>No neighbours: the only chunk of its document, or a window of 0.</li>"}
</ul>
<div class="run">
{"".join(_run(chunks, hit))}
</div>
</article>"""


def _verdict(neighbour: Neighbour, hit: Hit, lam: float, gamma: float, top: float) -> str:
    """One neighbour: the bar of its S with the threshold's mark, and the sum behind it."""
    kind = _kind(neighbour)
    sign = "&gt;" if neighbour.admitted else "&le;"
    return f"""<li class="{kind}">
<span class="who">{_place(neighbour.offset)}</span>
<span class="bar" aria-hidden="true"><i style="width:{_percent(neighbour.score, top)}"></i>
<b style="left:{_percent(hit.threshold, top)}"></b></span>
<span class="sum">S = {_number(neighbour.relevance)} &minus; {lam:g} &times;
(1 &minus; {_number(neighbour.likeness)}) = <b>{_number(neighbour.score)}</b>
{sign} {_number(hit.threshold)}</span>
<span class="mark {kind}">{neighbour.verdict}</span></li>"""


def _run(chunks: ChunkTable, hit: Hit) -> Iterator[str]:
    """The hit between its neighbours in reading order, with the text that two share marked."""
    about = {neighbour.row: neighbour for neighbour in hit.neighbours}
    first, behind = min([hit.row, *about]), max([hit.row, *about]) + 1
    texts = dict(zip(range(first, behind), parts(chunks, first, behind), strict=True))
    for row, part in texts.items():
        neighbour = about.get(row)
        text = _text(part.before if part.shared else part.before.rstrip())
        if part.shared:
            shared = _text(part.shared.rstrip())
            text += f'<mark title="also in the next chunk">{shared}</mark>'
        if neighbour is None:
            yield f'<section class="hit"><h3>the hit</h3><pre>{text}</pre></section>'
            continue
        kind, name = _kind(neighbour), f"{_place(neighbour.offset)}: {neighbour.verdict}"
        yield f'<section class="{kind}"><h3>{name}</h3><pre>{text}</pre></section>'


def _text(text: str) -> str:
    """Escaped text whose lines a narrow screen may join."""
    pieces = []
    done = 0
    for wrapped in _WRAPPED.finditer(text):
        pieces.append(escape(text[done : wrapped.start()]))
        pieces.append(f"<i class=wide>{wrapped[0]}</i><i class=narrow> </i>")
        done = wrapped.end()
    return "".join(pieces) + escape(text[done:])


def _kind(neighbour: Neighbour) -> str:
    return "both" if neighbour.is_hit else "in" if neighbour.admitted else "out"


def _place(offset: int) -> str:
    distance = "" if abs(offset) == 1 else f", {abs(offset)} away"
    return ("before" if offset < 0 else "after") + distance


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "&minus;")


def _percent(value: float, top: float) -> str:
    return f"{100 * min(max(value / top, 0.0), 1.0) if top > 0 else 0:.1f}%"
