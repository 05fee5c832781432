"""`scar-gpu info`: what an index holds, and whether its files are as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from scar_gpu.cli.messages import note
from scar_gpu.cli.options import Index


def info(
    index: Index,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the checksum of the vectors too.")
    ] = False,
) -> None:
    """Show what an index holds and who made it; its files are checked."""
    from scar_gpu.storage import describe

    found = describe(index, verify=verify)
    lines = list(_lines(found))
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        typer.echo(f"{name:<{width}}  {value}")
    for left in found["leftovers"]:
        note(f"an interrupted save has left {left}")


def _lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "index", found["path"]
    yield "documents", f"{found['n_docs']:,}"
    yield "chunks", f"{found['n_chunks']:,}"
    yield "vectors", f"{found['dim']} dimensions, {found['dtype']}"
    yield "window", f"{found['window']}"
    yield "text", "yes" if found["text"] else "no"
    yield "lexical lists", "yes" if found["lexical"] else "no"
    embedder = found["embedder"] or {}
    yield "model", embedder.get("name", "not known: own vectors")
    if embedder:
        yield "model's hash", embedder["hash"]
    for option in ("query_prompt", "passage_prompt"):
        if embedder.get(option):
            yield option.replace("_", " "), repr(embedder[option])
    yield "made by", f"{found['created_by']}, format {found['version']}"
    for name, size in sorted(found["files"].items()):
        yield name, f"{size:,} bytes"
    yield "checked", "every byte" if found["verified"] else "all but the vectors (--verify)"
