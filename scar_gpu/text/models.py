"""Embedders by the name of their model, and the record of one that an index carries."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scar_gpu.text.embedder import Embedder
from scar_gpu.text.embedding_cache import CachedEmbedder
from scar_gpu.text.model_files import DEFAULT_MODEL
from scar_gpu.text.sentence_transformer import SentenceTransformerEmbedder

_FACTORY = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_OWN_KIND = "sentence-transformers"


def load_embedder(
    model: str | None = None,
    *,
    device: str | None = None,
    batch_size: int = 32,
    query_prompt: str | None = None,
    passage_prompt: str | None = None,
) -> Embedder:
    """Make the embedder of a model.

    Args:
        model: a folder or a name for sentence-transformers, or `"package.module:factory"`,
            where `factory()` returns any object that fits `Embedder`; default:
            all-MiniLM-L6-v2.
        device: see `SentenceTransformerEmbedder`; nothing to a factory.
        batch_size: the same.
        query_prompt: the same, but for a factory an error.
        passage_prompt: the same.

    Returns:
        The embedder.

    Raises:
        TypeError: the factory made something else.
        ValueError: a model that cannot be loaded.

    Example:
        >>> load_embedder("my_package.embedders:Small")  # doctest: +SKIP
    """
    factory = _FACTORY.fullmatch(model or "")
    if factory is not None and not Path(model or "").is_dir():
        if query_prompt or passage_prompt:
            prompt = query_prompt or passage_prompt
            raise ValueError(f"prompts must be left to {model} itself, got {prompt!r}")
        return _made_by(factory)
    if model is None or model == DEFAULT_MODEL:
        source = None
    else:
        # A relative folder means something else in the next working directory.
        source = str(Path(model).resolve()) if Path(model).is_dir() else model
    return SentenceTransformerEmbedder(
        source,
        device=device,
        batch_size=batch_size,
        query_prompt=query_prompt,
        passage_prompt=passage_prompt,
    )


def _made_by(factory: re.Match[str]) -> Embedder:
    where = factory[0]
    try:
        made = getattr(importlib.import_module(factory["module"]), factory["name"])()
    except (ModuleNotFoundError, AttributeError) as error:
        raise ValueError(f"model must name a module and a factory, got {where}: {error}") from error
    if not isinstance(made, Embedder):
        raise TypeError(
            f"model must make an object with encode, name, dim and content_hash, "
            f"got {type(made).__name__} from {where}"
        )
    return made


def embedder_record(embedder: Embedder) -> dict[str, Any]:
    """What an index remembers of the model that made it, as JSON can hold it."""
    if isinstance(embedder, CachedEmbedder):
        embedder = embedder.embedder
    record: dict[str, Any] = {
        "name": embedder.name,
        "dim": embedder.dim,
        "hash": embedder.content_hash,
    }
    if isinstance(embedder, SentenceTransformerEmbedder):
        record["kind"] = _OWN_KIND
        record["query_prompt"] = embedder.query_prompt
        record["passage_prompt"] = embedder.passage_prompt
    return record


def embedder_of(
    record: Mapping[str, Any],
    model: str | None = None,
    *,
    device: str | None = None,
    batch_size: int = 32,
    query_prompt: str | None = None,
) -> Embedder:
    """Make the embedder that an index was built with.

    Args:
        record: what `embedder_record` gave.
        model: where that model is now, see `load_embedder`; default: the recorded name.
        device: see `load_embedder`.
        batch_size: the same.
        query_prompt: default: the recorded one.

    Returns:
        The embedder, checked by `check_embedder`.

    Raises:
        ValueError: another model, one that cannot be loaded, or a record whose model only
            its owner can make.
    """
    if model is None and record.get("kind") != _OWN_KIND:
        # An index that came from elsewhere must not choose which code is imported.
        raise ValueError(
            f"model must be given as package.module:factory for an index made with "
            f"{record['name']}, got none"
        )
    embedder = load_embedder(
        record["name"] if model is None else model,
        device=device,
        batch_size=batch_size,
        query_prompt=record.get("query_prompt") if query_prompt is None else query_prompt,
        passage_prompt=record.get("passage_prompt"),
    )
    check_embedder(record, embedder)
    return embedder


def check_embedder(record: Mapping[str, Any], embedder: Embedder) -> None:
    """Raise a ValueError unless `embedder` is the recorded model: by hash, name and dimension.

    The hash decides; the name does where there is none, since a folder may have moved.
    """
    theirs = (embedder.name, embedder.dim, embedder.content_hash)
    ours = (record["name"], record["dim"], record.get("hash"))
    key = 2 if ours[2] else 0
    if ours[key] != theirs[key] or ours[1] != theirs[1]:
        raise ValueError(
            f"model must be the one that made the index, {_described(*ours)}, "
            f"got {_described(*theirs)}"
        )


def _described(name: str, dim: int, content_hash: str | None) -> str:
    return f"{name} ({dim} dimensions, hash {(content_hash or 'unknown')[:12]})"
