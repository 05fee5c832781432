"""Models by name, the record of one in an index, and how two are told apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scar_gpu.text import CachedEmbedder, SentenceTransformerEmbedder
from scar_gpu.text.model_files import DEFAULT_MODEL, DEFAULT_MODEL_SHA256, default_model_folder
from scar_gpu.text.models import check_embedder, embedder_of, embedder_record, load_embedder
from tests.text.word_embedder import WordEmbedder

WORDS = "tests.text.word_embedder:WordEmbedder"


def nothing() -> object:
    return object()


@pytest.fixture(scope="module")
def by_folder() -> SentenceTransformerEmbedder:
    folder = str(default_model_folder())
    embedder = load_embedder(folder, device="cpu", query_prompt="query: ", batch_size=3)
    assert isinstance(embedder, SentenceTransformerEmbedder)
    return embedder


def test_a_factory_is_named_by_its_module() -> None:
    assert isinstance(load_embedder(WORDS), WordEmbedder)
    for wrong, message in (
        ("no.such.module:thing", "model must name a module and a factory, got no.such.module:"),
        (WORDS + "s", "has no attribute 'WordEmbedders'"),
    ):
        with pytest.raises(ValueError, match=message):
            load_embedder(wrong)
    with pytest.raises(TypeError, match=r"model must make an object with encode, .* got object"):
        load_embedder(f"{__name__}:nothing")
    with pytest.raises(ValueError, match=r"prompts must be left to tests.* got 'query: '"):
        load_embedder(WORDS, query_prompt="query: ")


def test_the_record_makes_the_same_embedder(by_folder: SentenceTransformerEmbedder) -> None:
    record = json.loads(json.dumps(embedder_record(by_folder)))
    assert record == {
        "name": str(default_model_folder()),
        "dim": 384,
        "hash": DEFAULT_MODEL_SHA256,
        "kind": "sentence-transformers",
        "query_prompt": "query: ",
        "passage_prompt": "",
    }
    assert by_folder.batch_size == 3
    again = embedder_of(record, device="cpu")
    assert np.array_equal(again.encode(["a text"]), by_folder.encode(["a text"]))
    assert isinstance(again, SentenceTransformerEmbedder)
    assert again.query_prompt == "query: "
    # The default model has the same weights; a folder that has moved is the same model.
    default = embedder_of(record | {"name": "/moved/away"}, DEFAULT_MODEL, query_prompt="q: ")
    assert isinstance(default, SentenceTransformerEmbedder)
    assert (default.name, default.query_prompt) == (DEFAULT_MODEL, "q: ")


def test_a_relative_folder_is_recorded_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "model").symlink_to(default_model_folder())
    monkeypatch.chdir(tmp_path)
    assert load_embedder("model", device="cpu").name == str(default_model_folder())


def test_a_store_is_recorded_as_the_model_in_it(tmp_path: Path, embedder: WordEmbedder) -> None:
    assert embedder_record(CachedEmbedder(embedder, tmp_path)) == embedder_record(embedder)


def test_an_index_does_not_choose_what_is_imported(embedder: WordEmbedder) -> None:
    record = embedder_record(embedder) | {"name": WORDS}
    with pytest.raises(ValueError, match=r"model must be given as package.module:factory"):
        embedder_of(record)
    assert isinstance(embedder_of(record, WORDS), WordEmbedder)


def test_models_are_told_apart_by_hash_dimension_and_name(embedder: WordEmbedder) -> None:
    record = embedder_record(embedder)
    check_embedder(record, embedder)
    check_embedder(record | {"name": "another name of it"}, embedder)
    for other in ({"hash": "0" * 64}, {"dim": 33}, {"hash": None, "name": "sentences"}):
        with pytest.raises(ValueError, match="model must be the one that made the index, "):
            check_embedder(record | other, embedder)
    check_embedder(record | {"hash": None}, embedder)
    with pytest.raises(ValueError, match=r"sentences \(32 dimensions, hash unknown\), got words"):
        check_embedder(record | {"hash": None, "name": "sentences"}, embedder)
