"""Tolerance by measurement.

A score may differ from float64 by at most twice what plain PyTorch in float32 differs over rows of
the same dtype, plus one rounding of the result. Everything else is compared bit for bit.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from tests.backends import bits

# Half a unit in the last place of the result, relative to its scale, by the result's dtype.
ROUNDING = {torch.float32: 2.0**-24}


@lru_cache
def plain_error(dim: int, dtype: torch.dtype, lam: float = 0.0) -> float:
    """Largest error of S = cos(q, e) - lam * (1 - c) in plain float32 PyTorch; lam = 0: of cos."""
    generator = torch.Generator().manual_seed(dim)
    rows = torch.randn(64, dim, generator=generator).to(dtype)
    noise = torch.randn(64, dim, generator=generator)
    queries = rows.float() + 0.1 * noise  # the diagonal has cosines near 1
    continuity = torch.rand(64, 64, generator=generator) * 2 - 1

    def scores(number: torch.dtype) -> Tensor:
        q, e = queries.to(number), rows.to(number)
        scale = 1 / rows.double().norm(dim=1)
        cosine = torch.einsum("bd,nd->bn", q, e) * scale.to(number) / q.norm(dim=1, keepdim=True)
        return cosine - lam * (1 - continuity.to(number))

    return (scores(torch.float32).double() - scores(torch.float64)).abs().max().item()


def tolerance(dim: int, dtype: torch.dtype, lam: float = 0.0) -> float:
    """The largest error allowed to a float32 score whose size is at most 1 + 2 * lam."""
    return 2 * plain_error(dim, dtype, lam) + (1 + 2 * lam) * ROUNDING[torch.float32]


def assert_close(actual: Tensor, exact: Tensor, atol: float) -> None:
    """The same shape, NaN and infinities in the same places, and within atol elsewhere."""
    assert actual.shape == exact.shape
    actual, exact = actual.double(), exact.double()
    finite = exact.isfinite()
    same_kind = (actual == exact) | (actual.isnan() & exact.isnan())
    assert bool((same_kind | finite).all()), "NaN or infinity where the reference has none"
    error = (actual - exact)[finite].abs()  # NaN where only the result is NaN
    worst = error.max().item() if error.numel() else 0.0
    assert worst <= atol, f"off by {worst:.3g}, allowed {atol:.3g}"


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    """Exactly the same numbers, whatever the dtype; NaN equals NaN."""
    assert_close(actual, expected, 0.0)


def assert_same_bits(actual: object, expected: object) -> None:
    """Two results of the same call, tensor by tensor and bit by bit."""
    if isinstance(actual, Tensor):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert torch.equal(bits(actual), bits(expected))
        return
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert_same_bits(one, other)


def assert_expansion(expansion, ids, scores, anchors, width: int) -> None:
    """A batch of one: these entries, then padding up to the width."""
    length = len(ids)
    for actual, values, fill in (
        (expansion.ids, ids, -1),
        (expansion.scores, scores, -math.inf),
        (expansion.anchors, anchors, -1),
    ):
        expected = torch.tensor([[*values, *[fill] * (width - length)]], dtype=torch.float64)
        assert_equal(actual, expected)
    assert_equal(expansion.lengths, torch.tensor([length]))
