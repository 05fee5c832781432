"""window_expand: every hit with the rows before and after it in its document, each row once."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cases_expansion import WINDOW_CASES
from tests.closeness import assert_equal, assert_expansion, assert_same_bits
from tests.corpora import LAYOUTS, offsets, random_hits, random_offsets, seeded
from tests.strategies import documents_and_rows, orders

sides = st.integers(0, 4)


@pytest.mark.parametrize("order", ["rank", "document"])
@pytest.mark.parametrize("case", WINDOW_CASES, ids=lambda case: case.name)
def test_hand_cases(operation, case, order):
    rows = list(zip(case.ids, case.anchors, strict=True))
    if order == "document":
        rows.sort()
    ids, anchors = zip(*rows, strict=True) if rows else ((), ())
    for dtype in (torch.int32, torch.int64):
        expansion = operation(
            "window_expand",
            torch.tensor([case.hits], dtype=dtype),
            offsets(*case.lengths),
            before=case.before,
            after=case.after,
            order=order,
        )
        width = len(case.hits) * (case.before + case.after + 1)
        assert_expansion(expansion, ids, [0.0] * len(ids), anchors, width)


def test_defaults_are_one_row_on_each_side_in_rank_order(run):
    expansion = run("window_expand", torch.tensor([[4, 1]]), offsets(6))
    assert expansion.ids.tolist() == [[3, 4, 5, 0, 1, 2]]


@pytest.mark.parametrize("hits_dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("order", ["rank", "document"])
def test_reference_on_a_grid(run, expand_shape, order, hits_dtype):
    from scar_gpu import reference

    b, k, window = expand_shape
    n = 2 * k + 1
    ends = random_offsets(n, seeded(k))
    hits = random_hits(n, b, k).to(hits_dtype)
    options = {"before": window, "after": (window + 1) // 2, "order": order}
    actual = run("window_expand", hits, ends, **options)
    assert actual.ids.shape == (b, k * (options["before"] + options["after"] + 1))
    for one, other in zip(actual, reference.window_expand(hits, ends, **options), strict=True):
        assert_equal(one, other)


def test_no_documents_and_no_rows(run):
    for ends in (offsets(), offsets(0, 0)):
        expansion = run("window_expand", torch.full((2, 3), -1), ends)
        assert bool((expansion.ids == -1).all())
        assert expansion.lengths.tolist() == [0, 0]


@given(drawn=documents_and_rows(), before=sides, after=sides, order=orders)
def test_the_set_is_the_union_of_the_windows(run, drawn, before, after, order):
    """A row belongs to the first hit whose window reaches it; groups follow each other by rank."""
    lengths, rows = drawn
    ends = offsets(*lengths)
    hits = torch.tensor(rows, dtype=torch.int64).view(len(rows), -1)
    expansion = run("window_expand", hits, ends, before=before, after=after, order=order)
    for q, hit_rows in enumerate(rows):
        owner = {}
        for anchor, row in enumerate(hit_rows):
            if row >= 0:
                document = int(torch.searchsorted(ends, row, right=True)) - 1
                first = max(int(ends[document]), row - before)
                for near in range(first, min(int(ends[document + 1]), row + after + 1)):
                    owner.setdefault(near, anchor)
        entries = sorted((anchor, row) for row, anchor in owner.items())
        if order == "document":
            entries.sort(key=lambda entry: entry[1])
        length = int(expansion.lengths[q])
        assert expansion.ids[q, :length].tolist() == [row for _, row in entries]
        assert expansion.anchors[q, :length].tolist() == [anchor for anchor, _ in entries]
        assert bool((expansion.ids[q, length:] == -1).all())


@given(drawn=documents_and_rows(), order=orders)
def test_a_row_alone_equals_the_row_in_a_batch(run, drawn, order):
    lengths, rows = drawn
    hits = torch.tensor(rows, dtype=torch.int64).view(len(rows), -1)
    batch = run("window_expand", hits, offsets(*lengths), before=2, order=order)
    for i in range(len(rows)):
        row = slice(i, i + 1)
        alone = run("window_expand", hits[row], offsets(*lengths), before=2, order=order)
        assert_same_bits(list(alone), [tensor[row] for tensor in batch])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(run, device, layout):
    ends = random_offsets(40, seeded(0)).to(device)
    hits = random_hits(40, 3, 4).to(device)
    result = run("window_expand", LAYOUTS[layout](hits), LAYOUTS[layout](ends), before=2)
    assert_same_bits(result, run("window_expand", hits, ends, before=2))


def test_threads(run, threads, backend):
    ends = random_offsets(400, seeded(0))
    hits = random_hits(400, 4 if backend == "triton" else 600, 9)
    results = []
    for count in (1, 2):
        threads(count)
        results.append(run("window_expand", hits, ends))
    assert_same_bits(*results)


def test_a_window_too_wide_to_count_is_refused():
    import scar_gpu

    bounds = torch.tensor([0, 4])
    rule = r"before \+ after must keep K \* \(before \+ after \+ 1\) below 2\^31"
    with pytest.raises(ValueError, match=rf"^{rule}, got 1073741824 \+ 1 for K = 2$"):
        scar_gpu.window_expand(torch.tensor([[0, 1]]), bounds, before=2**30)
