"""Every instruction set of the C++ kernels gives the same bits."""

import importlib

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import ROW_DTYPES, ROW_LAYOUTS, random_question

kernels = importlib.import_module("scar_gpu._C")
SETS = kernels.instruction_sets()


@pytest.fixture(autouse=True)
def fastest_again():
    yield
    kernels.use_instruction_set(SETS[0])


@only_on("cpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [1, 3, 31, 32, 33, 96, 384, 1000])
def test_same_bits(dim, dtype):
    import scar_gpu

    generator = torch.Generator().manual_seed(dim)
    rows = torch.randn(40, dim, generator=generator)
    rows[3] *= 1e-4  # subnormal in half precision
    rows[4] = 0
    rows = rows.to(dtype)
    queries = torch.randn(5, dim, generator=generator)
    hits = torch.randint(-1, 40, (5, 6), generator=generator)
    results = []
    for name in SETS:
        kernels.use_instruction_set(name)
        index = scar_gpu.ChunkIndex.build(rows, [0, 15, 15, 40], window=2)
        judged = index.neighbor_scores(queries, hits)
        found = index.search(queries, 7)
        masks = index.corpus_masks(queries.repeat(4, 1), gamma=0.5)  # enough for a product
        results.append((index.row_scale, index.continuity, *judged, *found, masks.bits))
    assert "scalar" in SETS
    assert len(SETS) > 1
    for result in results[1:]:
        for expected, actual in zip(results[0], result, strict=True):
            assert torch.equal(expected.nan_to_num(nan=7.0), actual.nan_to_num(nan=7.0))


@only_on("cpu")
@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
@pytest.mark.parametrize("layout", ROW_LAYOUTS)
def test_same_bits_from_rows_of_any_alignment(run, layout, dtype):
    (queries, rows, *rest), options = random_question((4, 5, 2, 40, 37), dtype)
    results = []
    for name in SETS:
        kernels.use_instruction_set(name)
        arranged = ROW_LAYOUTS[layout](rows)
        results.append(run("scar_expand", queries, arranged, *rest, **options))
        assert_same_bits(results[-1], results[0])


@only_on("cpu")
def test_every_half_is_widened_alike():
    import scar_gpu

    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        rows = bits.view(dtype)[:, None]
        expected = rows.float()[:, 0]
        one = torch.ones(1, 1)
        for name in SETS:
            kernels.use_instruction_set(name)
            hits = torch.arange(2**16)[None]
            table = torch.empty(0, 2**16)
            actual = scar_gpu.neighbor_scores(one, rows, table, hits).relevance[0]
            assert torch.equal(actual.isnan(), expected.isnan())
            assert torch.equal(actual.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0))


@only_on("cpu")
def test_unknown_instruction_set():
    with pytest.raises(ValueError, match=r"^instruction set must be one of .*, got 'mmx'$"):
        kernels.use_instruction_set("mmx")
