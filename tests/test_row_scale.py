"""row_scale: 1 / |e_i| of the stored row, the norm in float64."""

import pytest
import torch

from tests.closeness import ROUNDING, assert_equal, assert_same_bits
from tests.corpora import ROW_DTYPES, ROW_LAYOUTS, level_rows, random_corpus

HAND = {
    "3-4-5": ([3.0, 4.0], 1 / 5),
    "zero row": ([0.0, 0.0], 0.0),
    "negative entries": ([0.0, -0.5], 1 / 0.5),
    "smallest float16": ([2.0**-24, 0.0], 2.0**24),
}


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("name", HAND)
def test_hand_cases(operation, name, dtype):
    row, scale = HAND[name]
    result = operation("row_scale", torch.tensor([row, row], dtype=dtype))
    assert_equal(result.float(), torch.tensor([scale, scale]))


@pytest.mark.parametrize("exponent", [100, 70, -70, -100])
def test_squares_beyond_float32(run, exponent):
    """Norm 4 * 2^exponent: the squares leave float32, the norm in float64 does not."""
    result = run("row_scale", level_rows([0, 5]) * 2.0**exponent)
    assert_equal(result, torch.full((2,), 2.0 ** -(exponent + 2)))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_one_rounding_from_float64(run, table_shape, dtype):
    n, dim, _ = table_shape
    rows = random_corpus(n, dim, dtype=dtype).embeddings
    norm = rows.double().norm(dim=1)
    result = run("row_scale", rows)
    nonzero = norm > 0
    error = (result.double() * norm - 1)[nonzero].abs()
    assert bool((error <= ROUNDING[torch.float32] * (1 + 2.0**-20)).all())
    assert_equal(result[~nonzero], torch.zeros(n)[~nonzero])
    assert result.shape == (n,)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", ROW_LAYOUTS)
def test_layouts(run, device, layout, dtype):
    rows = random_corpus(21, 100, dtype=dtype).embeddings.to(device)
    assert_same_bits(run("row_scale", ROW_LAYOUTS[layout](rows)), run("row_scale", rows))


def test_threads(run, threads, backend):
    rows = random_corpus(20 if backend == "triton" else 600, 384).embeddings
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("row_scale", rows))
    assert_same_bits(*results)
