"""search on the CPU: a matrix product only filters, so nothing about it may show in a result."""

import subprocess
import sys

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_same_bits

ROWS, DIM = 3000, 40


def near_duplicates(seed: int = 0) -> torch.Tensor:
    """Rows in families that differ in their last bits, so that rounding decides the order."""
    generator = torch.Generator().manual_seed(seed)
    families = torch.randn(30, DIM, generator=generator)
    rows = families[torch.randint(30, (ROWS,), generator=generator)]
    return rows * (1 + 1e-6 * torch.randn(ROWS, DIM, generator=generator))


def queries(count: int) -> torch.Tensor:
    return torch.randn(count, DIM, generator=torch.Generator().manual_seed(1))


@only_on("cpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("k", [1, 10, 700])
def test_a_batch_that_pays_for_a_product_gives_the_bits_of_single_queries(k, dtype, threads):
    import scar_gpu

    rows = near_duplicates().to(dtype)
    scale = scar_gpu.row_scale(rows)
    asked = queries(130)
    single = [scar_gpu.search(query[None], rows, k, row_scale=scale) for query in asked]
    for count in (1, 2):
        threads(count)
        for batch in (9, 130):
            found = scar_gpu.search(asked[:batch], rows, k, row_scale=scale)
            alone = scar_gpu.Hits(
                *(torch.cat(parts) for parts in zip(*single[:batch], strict=True))
            )
            assert_same_bits(found, alone)


@only_on("cpu")
@pytest.mark.parametrize("rows", [1, 9, 255, 4097, 40_000])
def test_the_number_of_rows_and_of_tiles_does_not_show(rows):
    import scar_gpu

    matrix = torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))
    asked = torch.randn(300, 8, generator=torch.Generator().manual_seed(2))
    scale = scar_gpu.row_scale(matrix)
    together = scar_gpu.search(asked, matrix, 12, row_scale=scale)
    for first in range(0, 300, 8):  # eight at a time are streamed, not multiplied
        part = scar_gpu.search(asked[first : first + 8], matrix, 12, row_scale=scale)
        assert torch.equal(part.ids, together.ids[first : first + 8])
        assert torch.equal(part.scores, together.scores[first : first + 8])


@only_on("cpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_threads_that_share_a_batch_agree_on_ties(threads, dtype):
    """Each takes a part of the rows, in several tiles; a zero query ties with all of them."""
    import scar_gpu
    from scar_gpu import reference

    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 2, (20_000, 16), generator=generator) * 2.0 - 1
    asked = torch.randint(0, 2, (40, 16), generator=generator) * 2.0 - 1
    asked[7] = 0
    scale = torch.full((20_000,), 0.25)
    rows = rows.to(dtype)
    expected = reference.search(asked, rows, 30, row_scale=scale)
    assert expected.ids[7].tolist() == list(range(30))
    for count in (1, 2, 4, 7):
        threads(count)
        found = scar_gpu.search(asked, rows, 30, row_scale=scale)
        assert torch.equal(found.ids, expected.ids)
        assert torch.equal(found.scores.double(), expected.scores)
        least = found.scores[:, 11].contiguous()
        cut = scar_gpu.search(asked, rows, 30, row_scale=scale, min_scores=least)
        is_below = found.scores < least[:, None]
        assert torch.equal(cut.ids, found.ids.masked_fill(is_below, -1))


@only_on("cpu")
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_a_lowered_matmul_precision_changes_nothing(precision):
    import scar_gpu

    rows = near_duplicates().repeat(3, 1)
    scale = scar_gpu.row_scale(rows)
    asked = queries(64)
    expected = scar_gpu.search(asked, rows, 10, row_scale=scale)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = scar_gpu.search(asked, rows, 10, row_scale=scale)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(found.ids, expected.ids)
    assert torch.equal(found.scores, expected.scores)


@only_on("cpu")
def test_wide_ranges_are_respected_by_the_product_too():
    import scar_gpu

    rows = near_duplicates()
    scale = scar_gpu.row_scale(rows)
    asked = queries(50)
    ranges = torch.stack([torch.arange(50) * 10, ROWS - torch.arange(50) * 7], 1)
    found = scar_gpu.search(asked, rows, 20, row_scale=scale, row_ranges=ranges)
    for b, (begin, end) in enumerate(ranges.tolist()):
        own = scar_gpu.search(asked[b : b + 1], rows[begin:end], 20, row_scale=scale[begin:end])
        assert torch.equal(found.ids[b], own.ids[0] + begin)
        assert torch.equal(found.scores[b], own.scores[0])


@only_on("cpu")
def test_least_scores_are_respected_by_the_product_too():
    """Among rows that differ by less than the product's error."""
    import scar_gpu

    rows = near_duplicates()
    scale = scar_gpu.row_scale(rows)
    asked = queries(50)
    asked[7] = 0
    plain = scar_gpu.search(asked, rows, 30, row_scale=scale)
    for rank in (0, 11, 29):
        least = plain.scores[:, rank].contiguous()
        least[8:10] = torch.tensor([torch.nan, torch.inf])
        found = scar_gpu.search(asked, rows, 30, row_scale=scale, min_scores=least)
        is_below = plain.scores < least[:, None]
        assert torch.equal(found.ids, plain.ids.masked_fill(is_below, -1))
        assert torch.equal(found.scores, plain.scores.masked_fill(is_below, -torch.inf))


@only_on("cpu")
def test_rows_of_no_unit_length_show_in_spite_of_least_scores(monkeypatch):
    """Long rows, from whose scores products differ by more than from those of unit rows.

    Of some query the product with the best row is the lesser one, and no other row reaches it.
    """
    import scar_gpu
    from scar_gpu import large, tiles

    rows = torch.randn(3000, 384, generator=torch.Generator().manual_seed(5)) * 1000
    asked = torch.randn(16, 384, generator=torch.Generator().manual_seed(6))
    plain = scar_gpu.search(asked, rows, 20)
    for b in range(16):
        same = asked[b].repeat(16, 1)
        found = scar_gpu.search(same, rows, 20, min_scores=plain.scores[b, 0].repeat(16))
        assert found.ids[:, 0].tolist() == [int(plain.ids[b, 0])] * 16
        assert bool((found.ids[:, 1:] == -1).all())
    offsets = torch.tensor([0, 3000])
    index = scar_gpu.ChunkIndex(rows, torch.ones(3000), torch.ones(0, 3000), offsets)
    monkeypatch.setattr(tiles, "tile_rows", lambda *arguments: 700)
    by_tiles = large.search(index, asked, 20)
    assert torch.equal(by_tiles.ids, plain.ids)
    assert torch.equal(by_tiles.scores, plain.scores)


@only_on("cpu")
def test_odd_queries_among_many():
    import scar_gpu

    rows = near_duplicates()
    rows[5] = torch.nan
    scale = torch.ones(ROWS) / 6
    asked = queries(40)
    asked[3], asked[4, 0], asked[5, 1] = 0, torch.nan, torch.inf
    found = scar_gpu.search(asked, rows, 6, row_scale=scale)
    assert found.ids[3].tolist() == [0, 1, 2, 3, 4, 6]
    assert (found.ids[4:6] == -1).all()
    assert (found.scores[4:6] == -torch.inf).all()
    assert not (found.ids == 5).any()
    other = torch.tensor([b for b in range(40) if b not in (3, 4, 5)])
    alone = torch.cat([scar_gpu.search(asked[b : b + 1], rows, 6, row_scale=scale).ids
                       for b in other.tolist()])  # fmt: skip
    assert torch.equal(found.ids[other], alone)


@only_on("cpu")
@pytest.mark.parametrize("seed", range(20))
def test_a_lowered_precision_cannot_hide_rows_behind_exact_ones(seed):
    """The first row is exact in any precision, so nothing that passes shows the others' error."""
    import scar_gpu

    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 384, generator=generator)
    away = torch.randn(1, 384, generator=generator)
    unit = torch.nn.functional.normalize(query)
    row = torch.nn.functional.normalize(away - (away @ unit.T) * unit) + 1e-4 * unit
    rows = torch.cat([torch.zeros(1, 384), row.expand(255, 384)])
    scale = scar_gpu.row_scale(rows)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = scar_gpu.search(query.expand(64, 384), rows, 1, row_scale=scale)
    finally:
        torch.set_float32_matmul_precision(before)
    assert (found.ids == 1).all()


@pytest.mark.slow  # and not with a sanitizer, which takes memory of its own
@only_on("cpu")
def test_wide_half_rows_are_widened_a_few_at_a_time():
    """16 MiB of products and as much of widened rows, however long a row is."""
    program = """
import resource, torch, scar_gpu
rows = torch.zeros(16384, 9000, dtype=torch.float16).fill_(0.5)
asked = torch.randn(9, 9000)
scar_gpu.search(asked, rows[:64], 3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scar_gpu.search(asked, rows, 3)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 64
