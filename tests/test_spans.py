"""spans: the maximal runs of a query's rows within one document."""

import pytest
import torch
from hypothesis import given

from tests.cases_expansion import SPANS_CASES
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import LAYOUTS, offsets, random_hits, random_offsets, seeded
from tests.strategies import documents_and_rows


def expansion_of(ids):
    """An expansion with these rows; spans reads nothing else."""
    import scar_gpu

    return scar_gpu.Expansion(
        ids,
        torch.zeros(ids.shape, device=ids.device),
        torch.zeros(ids.shape, dtype=torch.int32, device=ids.device),
        (ids >= 0).sum(1, dtype=torch.int32),
    )


@pytest.mark.parametrize("case", SPANS_CASES, ids=lambda case: case.name)
def test_hand_cases(operation, case):
    width = len(case.ids)
    result = operation("spans", expansion_of(torch.tensor([case.ids])), offsets(*case.lengths))
    table = [*case.spans, *[(-1, -1, -1)] * (width - len(case.spans))]
    start, end, first = (torch.tensor([column]) for column in zip(*table, strict=True))
    assert_equal(result.start, start)
    assert_equal(result.end, end)
    assert_equal(result.first, first)
    assert_equal(result.lengths, torch.tensor([len(case.spans)]))


def test_reference_on_a_grid(run, expand_shape):
    from scar_gpu import reference

    b, k, window = expand_shape
    width = k * (2 * window + 1)
    n = 2 * width + 1
    expansion = expansion_of(random_hits(n, b, width))
    ends = random_offsets(n, seeded(width))
    actual = run("spans", expansion, ends)
    assert actual.start.shape == (b, width)
    for one, other in zip(actual, reference.spans(expansion, ends), strict=True):
        assert_equal(one, other)


@given(drawn=documents_and_rows())
def test_spans_partition_the_rows_into_maximal_runs(run, drawn):
    lengths, rows = drawn
    ends = offsets(*lengths)
    ids = torch.tensor(rows, dtype=torch.int64).view(len(rows), -1)
    result = run("spans", expansion_of(ids), ends)
    for q, expected in enumerate(rows):
        length = int(result.lengths[q])
        spans = [
            tuple(int(column[q, i]) for column in (result.start, result.end, result.first))
            for i in range(length)
        ]
        covered = [row for start, end, _ in spans for row in range(start, end)]
        assert sorted(covered) == sorted({row for row in expected if row >= 0})
        for start, end, first in spans:
            document = int(torch.searchsorted(ends, start, right=True)) - 1
            assert ends[document] <= start < end <= ends[document + 1]
            assert start == ends[document] or start - 1 not in expected  # maximal
            assert end == ends[document + 1] or end not in expected
            assert first == min(i for i, row in enumerate(expected) if start <= row < end)
        assert [span[2] for span in spans] == sorted(span[2] for span in spans)
        for column in (result.start, result.end, result.first):
            assert bool((column[q, length:] == -1).all())


@given(drawn=documents_and_rows())
def test_the_spans_of_an_expansion_do_not_depend_on_its_order(run, drawn):
    lengths, rows = drawn
    hits = torch.tensor(rows, dtype=torch.int64).view(len(rows), -1)
    found = []
    for order in ("rank", "document"):
        expansion = run("window_expand", hits, offsets(*lengths), order=order)
        spans = run("spans", expansion, offsets(*lengths))
        found.append([
            sorted(zip(start.tolist(), end.tolist(), strict=True))
            for start, end in zip(spans.start, spans.end, strict=True)
        ])  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout):
    ends = random_offsets(30, seeded(0)).to(device)
    ids = random_hits(30, 4, 12).to(device)
    result = run("spans", expansion_of(LAYOUTS[layout](ids)), LAYOUTS[layout](ends))
    assert_same_bits(result, run("spans", expansion_of(ids), ends))


def test_a_row_alone_equals_the_row_in_a_batch(run):
    ends, ids = random_offsets(30, seeded(0)), random_hits(30, 5, 12)
    batch = run("spans", expansion_of(ids), ends)
    for i in range(5):
        row = slice(i, i + 1)
        alone = run("spans", expansion_of(ids[row]), ends)
        assert_same_bits(list(alone), [tensor[row] for tensor in batch])


def test_threads(run, threads, backend):
    ends = random_offsets(400, seeded(0))
    expansion = expansion_of(random_hits(400, 3 if backend == "triton" else 600, 30))
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("spans", expansion, ends))
    assert_same_bits(*results)
