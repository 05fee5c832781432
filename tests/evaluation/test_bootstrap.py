"""Bootstrap: the same resamples as drawing units one by one, and known effect sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from scar_gpu.evaluation import bootstrap
from scar_gpu.evaluation.bootstrap import differences, estimates, interval, resampled_means


def test_means_are_those_of_drawn_units():
    values = torch.rand(7, 3, generator=torch.Generator().manual_seed(0)).double()
    drawn = np.random.default_rng(5).integers(7, size=(40, 7), dtype=np.int32)
    slow = torch.stack([values[torch.from_numpy(units).long()].mean(0) for units in drawn])
    torch.testing.assert_close(resampled_means(values, 40, seed=5), slow)


def test_blocks_change_nothing(monkeypatch):
    values = torch.arange(12.0).view(6, 2)
    whole = resampled_means(values, 50)
    monkeypatch.setattr(bootstrap, "_BLOCK", 6 * 7)
    assert torch.equal(resampled_means(values, 50), whole)


def test_the_seed_decides():
    values = torch.arange(10.0)[:, None]
    assert torch.equal(resampled_means(values, 20, 1), resampled_means(values, 20, 1))
    assert not torch.equal(resampled_means(values, 20, 1), resampled_means(values, 20, 2))


def test_intervals_are_those_of_numpy():
    means = torch.rand(1001, 4, generator=torch.Generator().manual_seed(0)).double()
    for borders, share in zip(interval(means), (2.5, 97.5), strict=True):
        assert borders == pytest.approx(np.percentile(means.numpy(), share, axis=0).tolist())


def test_the_interval_of_many_units_is_that_of_the_normal_distribution():
    values = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0)).double()
    (found,) = estimates(values)
    error = values.std().item() / math.sqrt(2000)
    assert found.mean == values.mean().item()
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=0.05 * error)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=0.05 * error)


def test_differences_by_hand():
    # The differences are 1, 2, 3, their mean 2, their standard deviation 1: d = 2.
    ours, theirs = torch.tensor([[2.0], [4.0], [6.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    (found,) = differences(ours, theirs)
    assert (found.mean, found.d) == (2, 2)
    assert (found.low, found.high) == (1, 3)
    (reverse,) = differences(theirs, ours)
    assert reverse == (-2, -3, -1, -2)


def test_differences_without_spread():
    same, more = torch.ones(3, 1), torch.full((3, 1), 2.0)
    assert differences(same, same)[0] == (0, 0, 0, 0)
    assert differences(more, same)[0] == (1, 1, 1, math.inf)
    assert differences(same[:1], more[:1])[0] == (-1, -1, -1, -math.inf)
    # Of so many equal numbers neither the mean nor the deviation is exact.
    for n in (3, 11, 100, 148):
        tenths = torch.full((n, 1), 0.1, dtype=torch.float64)
        assert differences(tenths, 0 * tenths, n=5)[0].d == math.inf
        assert differences(0 * tenths, tenths, n=5)[0].d == -math.inf


def test_pairing_narrows_the_interval():
    generator = torch.Generator().manual_seed(0)
    hardness = torch.randn(200, 1, generator=generator).double()
    better = hardness + 0.1 + 0.01 * torch.randn(200, 1, generator=generator)
    (paired,) = differences(better, hardness)
    assert 0.09 < paired.low < paired.high < 0.11


@pytest.mark.parametrize(
    ("values", "n", "message"),
    [
        (torch.empty(0, 2), 5, r"values must have shape \[U, C\] with U >= 1, got \[0, 2\]"),
        (torch.ones(3), 5, r"got \[3\]"),
        (torch.tensor([[math.nan]]), 5, "values must be finite"),
        (torch.ones(3, 1), 0, "n must be >= 1, got 0"),
    ],
)
def test_bad_input(values, n, message):
    with pytest.raises(ValueError, match=message):
        resampled_means(values, n)


def test_two_shapes_are_refused():
    with pytest.raises(ValueError, match=r"baseline must have shape \[3, 1\], got \[3, 2\]"):
        differences(torch.ones(3, 1), torch.ones(3, 2))
