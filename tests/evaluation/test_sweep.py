"""Sweeps over a trial: the ordinary method at every point, and choices made by hand."""

from __future__ import annotations

import importlib

import pytest
import torch

from scar_gpu.evaluation.choice import (
    Surface,
    average,
    fewest_chunks,
    is_at_end,
    most_coverage,
    pareto,
    plateau,
    surface_of,
)
from scar_gpu.evaluation.held_out import folds_of, hold_out
from scar_gpu.evaluation.methods import MatchedTopK, Scar, Window
from scar_gpu.evaluation.metrics import score
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.evaluation.sweep import Grid, GridSums, joined, neighborhood, sweep
from scar_gpu.evaluation.trial import Settings, Trial, prepare
from tests.evaluation.machines import machines
from tests.text.word_embedder import WordEmbedder

SMALL = Settings(chunk_size=50, overlap=0)


@pytest.fixture
def trial(write_folder) -> Trial:
    return prepare(read_dataset(write_folder(*machines())), WordEmbedder(), SMALL)


@pytest.fixture
def others(write_folder) -> list[Trial]:
    """Three corpora of different sizes."""
    return [
        prepare(
            read_dataset(write_folder(*machines(n, n + 1), name=f"corpus {n}")),
            WordEmbedder(),
            SMALL,
        )
        for n in (2, 3, 4)
    ]


@pytest.mark.parametrize("options", [{}, {"reach": 2}, {"reach": 2, "contiguous": True}])
@pytest.mark.parametrize("hybrid", [False, True])
def test_every_point_is_the_ordinary_method(trial, options, hybrid):
    grid = Grid(lam=(0.0, 0.3), gamma=(0.6, 0.9, 1.0), k=2, hybrid=hybrid, **options)
    found = sweep(trial, grid, trial.gold.kinds)
    assert set(found) == {"atomic", "fragmented"}
    for i, lam in enumerate(grid.lam):
        for j, gamma in enumerate(grid.gamma):
            method = Scar(2, lam=lam, gamma=gamma, hybrid=hybrid, **options)
            scores = score(method.select(trial), trial.gold, trial.sizes)
            for kind, sums in found.items():
                some = torch.tensor([own == kind for own in trial.gold.kinds])
                assert sums.n == int(some.sum())
                assert sums.chunks[i, j] == scores.chunks[some].sum()
                for name in ("recall", "coverage"):
                    expected = getattr(scores, name)[some].sum().item()
                    assert getattr(sums, name)[i, j].item() == pytest.approx(expected, rel=1e-6)
    window = score(Window(2, grid.reach, hybrid).select(trial), trial.gold, trial.sizes)
    total = joined(list(found.values()))
    expected = [window.recall.sum(), window.coverage.sum(), window.chunks.sum()]
    assert total.window.tolist() == pytest.approx([one.item() for one in expected])
    assert total.chunks.unique().numel() > 2  # the grid makes a difference


def test_blocks_of_questions_change_nothing(trial, monkeypatch):
    grid = Grid(lam=(0.0, 0.3), gamma=(0.6, 0.9), k=2)
    whole = joined(list(sweep(trial, grid, trial.gold.kinds).values()))
    module = importlib.import_module("scar_gpu.evaluation.sweep")
    monkeypatch.setattr(module, "_BLOCK_BYTES", 4 * 3 * 4 * 7)
    blocks = joined(list(sweep(trial, grid, trial.gold.kinds).values()))
    torch.testing.assert_close(list(blocks[1:]), list(whole[1:]))


def test_neighborhood_has_the_bits_that_are_judged(trial):
    hits = torch.tensor([[0, 5, -1], [11, 12, 71]])
    queries = trial.queries[:2]
    around = neighborhood(trial.index, queries, hits, 2)
    for lam in (0.0, 0.1, 0.7):
        judged = trial.index.neighbor_scores(queries, hits, lam=lam)
        scores = around.neighbor_relevance - lam * (1 - around.continuity)
        scores = torch.where(around.continuity.isnan(), -torch.inf, scores)
        assert torch.equal(scores, judged.scores)
        assert torch.equal(around.relevance, judged.relevance)
    assert neighborhood(trial.index, queries, hits, 0).continuity.shape == (2, 3, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lam": ()}, "lam must have at least one value, got none"),
        ({"gamma": ()}, "gamma must have at least one value, got none"),
        ({"lam": (0.1, -0.1)}, "lam must be >= 0, got -0.1"),
        ({"gamma": (float("nan"),)}, "gamma must be finite, got nan"),
    ],
)
def test_bad_grids(wrong, message):
    with pytest.raises(ValueError, match=message):
        Grid(**wrong)


def surface(coverage, share, loss=None) -> Surface:
    return Surface(*(torch.tensor(one) for one in (coverage, loss or coverage, share)))


def test_surfaces_by_hand():
    # Two questions: at the only point 1.5 of 2 recalled, 5 chunks of the window's 8.
    one = torch.tensor([[1.5]]).double(), torch.tensor([[1.0]]).double(), torch.tensor([[5.0]])
    sums = GridSums(2, *one, torch.tensor([2.0, 1.9, 8.0]).double())
    found = surface_of(sums)
    assert [part.item() for part in found] == [0.5, 0.25, 5 / 8]
    assert joined([sums, sums]).n == 4
    assert surface_of(joined([sums, sums])) == found
    other = Surface(*(part + 0.5 for part in found))
    assert average([found, other]).coverage.item() == 0.75
    with pytest.raises(ValueError, match="at least one group of questions, got none"):
        joined([])


def test_choices_by_hand():
    coverage = [[0.5, 0.7, 0.9], [0.6, 0.7, 0.8]]
    share = [[0.4, 0.6, 0.9], [0.5, 0.6, 0.7]]
    loss = [[0.3, 0.2, 0.0], [0.25, 0.05, 0.04]]
    found = surface(coverage, share, loss)
    assert most_coverage(found, 1.0) == (0, 2)
    assert most_coverage(found, 0.7) == (1, 2)
    assert most_coverage(found, 0.65) == (0, 1)  # of equal ones the smaller lam
    assert fewest_chunks(found, 0.05) == (1, 1)
    assert fewest_chunks(found, 0.2) == (0, 1)
    with pytest.raises(ValueError, match=r"budget must be >= 0.400 of .* got 0.3"):
        most_coverage(found, 0.3)
    with pytest.raises(ValueError, match=r"loss must be >= 0.000, the least .* got -0.1"):
        fewest_chunks(found, -0.1)


def test_of_equal_points_the_larger_gamma():
    assert most_coverage(surface([[0.5, 0.5]], [[0.5, 0.5]]), 1.0) == (0, 1)


def test_plateau_by_hand():
    found = surface([[0.5, 0.699, 0.9], [0.6, 0.7, 0.8]], [[0.4, 0.6, 0.9], [0.5, 0.6, 0.7]])
    flat = plateau(found, (0.0, 0.1), (0.9, 0.8, 0.7), 0.6, slack=0.01)
    assert flat == (2, 6, (0.0, 0.1), (0.8, 0.8))


def test_ends_of_a_grid():
    values = (0.0, 0.1, 0.2)
    assert [is_at_end(value, values) for value in values] == [True, False, True]
    assert [is_at_end(value, values, least=0) for value in values] == [False, False, True]
    assert is_at_end(0.1, (0.1, 0.2), least=0)
    assert not is_at_end(0.1, (0.1,))  # was not chosen


def test_pareto_by_hand():
    chunks = torch.tensor([[5.0, 6.0], [7.0, 6.0]])
    value = torch.tensor([[0.5, 0.7], [0.7, 0.6]], dtype=torch.float64)
    assert pareto(chunks, value) == [(5.0, 0.5), (6.0, 0.7)]


def test_folds_are_whole_documents(trial):
    folds = folds_of(trial, 3)
    documents = [question.document for question in trial.dataset.questions]
    assert len(set(zip(documents, folds, strict=True))) == 6
    assert sorted(folds.count(part) for part in range(3)) == [10, 10, 10]
    with pytest.raises(ValueError, match=r"must be at least 7 to hold some out, got 6 in tiny"):
        folds_of(trial, 7)


GRID = Grid(lam=(0.0, 0.2), gamma=(0.5, 0.7, 0.8, 0.95), k=2)


def test_a_part_is_never_tuned_on(trial):
    """The choice for a part is the best point of the other parts' sums, found by hand."""
    found = hold_out([trial], GRID, 0.8, n_folds=3, resamples=20)
    folds = folds_of(trial, 3)
    for part, choice in enumerate(found.choices):
        rest = trial.of([q for q, own in enumerate(folds) if own != part])
        means = surface_of(joined(list(sweep(rest, GRID, rest.gold.kinds).values())))
        i, j = most_coverage(means, 0.8)
        assert choice == ("tiny", f"{part + 1} of 3", 10, GRID.lam[i], GRID.gamma[j])
    tuned = next(row for row in found.results.rows if row.method == "SCAR(±1) tuned")
    total = 0.0
    for part, choice in enumerate(found.choices):
        some = trial.of([q for q, own in enumerate(folds) if own == part])
        ids = Scar(2, 1, choice.lam, choice.gamma).select(some)
        total += score(ids, some.gold, some.sizes).coverage.sum().item()
    assert tuned.n == 30
    assert tuned.estimates["coverage"].mean == pytest.approx(total / 30)


def test_leave_one_corpus_out(others):
    found = hold_out(others, GRID, 0.8, resamples=20)
    surfaces = [
        surface_of(joined(list(sweep(one, GRID, one.gold.kinds).values()))) for one in others
    ]
    for number, choice in enumerate(found.choices):
        rest = [one for other, one in enumerate(surfaces) if other != number]
        i, j = most_coverage(average(rest), 0.8)
        assert choice[3:] == (GRID.lam[i], GRID.gamma[j])
    row = next(r for r in found.results.rows if (r.dataset, r.kind) == ("corpus 3", "fragmented"))
    assert row.n == 3
    method = Scar(2, 1, *found.choices[1][3:])
    some = others[1].of([q for q, own in enumerate(others[1].gold.kinds) if own == "fragmented"])
    matched = score(MatchedTopK(method).select(some), some.gold, some.sizes)
    rows = {
        one.method: one
        for one in found.results.rows
        if (one.dataset, one.kind) == ("corpus 3", "fragmented")
    }
    best = rows["top-k, as many as SCAR(±1) tuned"].estimates
    assert best["recall"].mean == pytest.approx(matched.recall.mean().item())
    assert best["chunks"].mean == rows["SCAR(±1) tuned"].estimates["chunks"].mean


def test_tuning_on_a_kind(trial):
    found = hold_out([trial], GRID, 0.8, kind="fragmented", n_folds=3, resamples=5)
    assert len(found.choices) == 3
    with pytest.raises(ValueError, match=r"kind must occur among the .* tuned on, got 'long'"):
        hold_out([trial], GRID, 0.8, kind="long", n_folds=3)
    with pytest.raises(ValueError, match="budget must be >= "):
        hold_out([trial], GRID, 0.1, n_folds=3)
