"""continuity: the table of cosines between a chunk and the j-th after it, NaN across documents."""

import pytest
import torch

from tests.cases import NAN
from tests.closeness import assert_close, assert_equal, assert_same_bits, tolerance
from tests.corpora import (
    EXACT_DIMS,
    LAYOUTS,
    ROW_DTYPES,
    ROW_LAYOUTS,
    level_corpus,
    level_rows,
    offsets,
    random_corpus,
    sign_corpus,
)

DOCUMENTS = ([0, 2], [], [5], [1, None, 4])  # rows 0-1, none, 2, 3-5; None is a zero row
TABLE = [
    [1 - 2 / 8, NAN, NAN, 0.0, 0.0, NAN],
    [NAN, NAN, NAN, 1 - 3 / 8, NAN, NAN],
    [NAN] * 6,
]


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("window", [0, 1, 2, 3])
def test_hand_case(operation, window, dtype):
    data = level_corpus(*DOCUMENTS)
    rows = data.embeddings.to(dtype)
    table = operation("continuity", rows, data.doc_offsets, window=window, row_scale=data.row_scale)
    assert table.shape == (window, 6)
    assert_equal(table, torch.tensor(TABLE[:window]).view(window, 6))


def test_window_defaults_to_one(operation):
    data = level_corpus(*DOCUMENTS)
    table = operation("continuity", data.embeddings, data.doc_offsets, row_scale=data.row_scale)
    assert_equal(table, torch.tensor(TABLE[:1]))


def test_without_a_scale_rows_count_as_unit_and_cosines_are_clamped(operation):
    """Products of level rows are 16 cos; a quarter of a row on each side makes them cos."""
    rows = torch.cat([level_rows([0, 2]) / 4, level_rows([0, 0, 16])])
    table = operation("continuity", rows, offsets(5))
    assert_equal(table, torch.tensor([[1 - 2 / 8, 1.0, 1.0, -1.0, NAN]]))


def test_a_nan_row_gives_nan(operation):
    data = level_corpus([0, NAN, 0, 0])
    table = operation("continuity", data.embeddings, data.doc_offsets, row_scale=data.row_scale)
    assert_equal(table, torch.tensor([[NAN, NAN, 1.0, NAN]]))


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_reference_on_a_grid(run, table_shape, dtype):
    n, dim, window = table_shape
    data = random_corpus(n, dim, window=window, dtype=dtype)
    table = run(
        "continuity", data.embeddings, data.doc_offsets, window=window, row_scale=data.row_scale
    )
    assert_close(table, data.continuity, tolerance(dim, dtype))
    assert not bool((table.abs() > 1).any())
    if n > 5 and window:  # rows 4 and 5 are the same row
        assert table[0, 4].isnan() or table[0, 4] > 1 - tolerance(dim, dtype)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("dim", EXACT_DIMS)
def test_exact_arithmetic(run, backend, dim, dtype):
    data = sign_corpus(19 if backend == "triton" else 67, dim, window=3)
    rows = data.embeddings.to(dtype)
    table = run("continuity", rows, data.doc_offsets, window=3, row_scale=data.row_scale)
    assert_equal(table, data.continuity)


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", ROW_LAYOUTS)
def test_layouts(run, device, layout, dtype):
    data = random_corpus(20, 100, dtype=dtype)
    rows = ROW_LAYOUTS[layout](data.embeddings.to(device))
    scale = LAYOUTS["every-other-column"](data.row_scale.to(device))
    ends = LAYOUTS["every-other-column"](data.doc_offsets.to(device))
    plain = run("continuity", data.embeddings, data.doc_offsets, window=2, row_scale=data.row_scale)
    assert_same_bits(run("continuity", rows, ends, window=2, row_scale=scale), plain)


def test_threads(run, threads, backend):
    data = random_corpus(20 if backend == "triton" else 600, 384)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(
            run("continuity", data.embeddings, data.doc_offsets, row_scale=data.row_scale)
        )
    assert_same_bits(*results)


def test_a_larger_window_keeps_the_rows_of_the_smaller(run):
    data = random_corpus(20, 96)
    tables = [
        run("continuity", data.embeddings, data.doc_offsets, window=w, row_scale=data.row_scale)
        for w in (2, 5)
    ]
    assert_same_bits(tables[1][:2], tables[0])
