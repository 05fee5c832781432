"""Fixtures of the text layer's tests."""

import pytest

from tests.text.word_embedder import WordEmbedder


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()
