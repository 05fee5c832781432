"""Documents to chunks: about as long as asked for, overlapping, and without loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scar_gpu.text.extras import import_extra

if TYPE_CHECKING:
    from scar_gpu.text.offset_splitter import OffsetSplitter


def split_text(text: str, chunk_size: int = 600, overlap: int = 60) -> list[tuple[int, int]]:
    r"""Split a text into overlapping chunks at paragraphs, lines, words or characters.

    This is LangChain's `RecursiveCharacterTextSplitter` with every character kept: the
    chunks cover the text, `text[start:end]` is the chunk, and the chunks without their
    overlaps, one after the other, are the text. A chunk of nothing but white space is joined
    to the one before it (at the beginning of a text, to the one behind it), so only white
    space ever makes a chunk longer than `chunk_size`.

    Args:
        text: any text; the empty one has no chunks.
        chunk_size: most characters of a chunk, >= 2.
        overlap: most characters a chunk repeats of the one before it, 0 <= overlap < chunk_size.

    Returns:
        Half-open character ranges; starts and ends ascend, and no range begins behind the end
        of the one before it.

    Raises:
        ValueError: `chunk_size` or `overlap` out of range.
        ImportError: langchain-text-splitters is missing; `scar_gpu[text]` brings it.

    Example:
        >>> split_text("one two three", chunk_size=10, overlap=4)
        [(0, 8), (4, 13)]
    """
    splitter = _splitter(chunk_size, overlap)
    return _join_blank(text, splitter.ranges(text))


def _splitter(chunk_size: int, overlap: int) -> OffsetSplitter:
    if chunk_size < 2:
        raise ValueError(f"chunk_size must be >= 2, got {chunk_size}")
    if not 0 <= overlap < chunk_size:
        raise ValueError(f"overlap must be in [0, chunk_size), got {overlap} of {chunk_size}")
    import_extra("langchain_text_splitters", "text")
    from scar_gpu.text.offset_splitter import OffsetSplitter

    return OffsetSplitter(chunk_size, overlap)


def _join_blank(text: str, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join chunks of nothing but white space to a neighbour: their embedding means nothing."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and (text[start:end].isspace() or text[slice(*joined[-1])].isspace()):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
