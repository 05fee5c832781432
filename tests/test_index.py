"""ChunkIndex: the tensors of a corpus, and the operations as methods."""

import warnings

import numpy as np
import pytest
import torch

from tests.backends import move
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import (
    ROW_DTYPES,
    level_corpus,
    level_rows,
    offsets,
    random_corpus,
    random_hits,
    random_queries,
)


@pytest.fixture
def index_class():
    import scar_gpu

    return scar_gpu.ChunkIndex


def test_build_makes_the_tensors_of_the_contract(index_class, device):
    data = level_corpus([2, 0, 3], [], [1, None], window=2)
    index = index_class.build(data.embeddings, data.doc_offsets, window=2, device=device)
    assert (index.n_chunks, index.dim, index.n_docs, index.window) == (5, 16, 3, 2)
    for name in ("embeddings", "row_scale", "continuity", "doc_offsets"):
        tensor = getattr(index, name)
        assert tensor.device == device
        assert_equal(tensor.cpu(), getattr(data, name))
    assert index.doc_offsets.dtype == torch.int64
    assert index.row_scale.dtype == index.continuity.dtype == torch.float32


def test_without_documents_all_rows_are_one(index_class):
    index = index_class.build(level_rows([0, 2, 4]))
    assert index.doc_offsets.tolist() == [0, 3]
    assert (index.n_docs, index.window) == (1, 1)
    assert_equal(index.continuity[0, :2], torch.tensor([6 / 8, 6 / 8]))


def test_no_rows(index_class):
    index = index_class.build(torch.empty(0, 16))
    assert (index.n_chunks, index.dim) == (0, 16)
    hits = index.search(level_rows([0]), 2)
    assert hits.ids.tolist() == [[-1, -1]]


@pytest.mark.parametrize(
    "doc_ids",
    [
        ["a", "a", "b", "c", "c"],
        [7, 7, 3, 9, 9],
        np.array([7, 7, 3, 9, 9]),
        np.array(["a", "a", "b", "c", "c"]),
        torch.tensor([7, 7, 3, 9, 9]),
    ],
    ids=["strings", "integers", "array", "string array", "tensor"],
)
def test_doc_ids_become_offsets(index_class, doc_ids):
    index = index_class.build(level_rows([0, 1, 2, 3, 4]), doc_ids=doc_ids)
    assert index.doc_offsets.tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("dtype", ROW_DTYPES, ids=str)
def test_dtype_rounds_the_rows_and_scales_the_rounded_rows(index_class, dtype):
    rows = random_corpus(20, 96).embeddings
    index = index_class.build(rows, dtype=dtype)
    assert index.embeddings.dtype == dtype
    assert_same_bits(index.embeddings.cpu(), rows.to(dtype))
    norm = rows.to(dtype).double().norm(dim=1)
    expected = torch.where(norm > 0, 1 / norm, 0.0).float()
    assert_equal(index.row_scale.cpu(), expected)


def test_numpy_arrays_are_taken_without_a_copy(index_class):
    for dtype in (np.float32, np.float16):
        array = np.eye(4, 8, dtype=dtype)
        index = index_class.build(array, np.array([0, 1, 4]))
        assert index.embeddings.data_ptr() == array.ctypes.data
        assert index.doc_offsets.tolist() == [0, 1, 4]


def test_tensors_are_taken_without_a_copy(index_class):
    wide = torch.ones(5, 20)
    index = index_class.build(wide[:, :16])
    assert index.embeddings.data_ptr() == wide.data_ptr()
    assert index.embeddings.stride() == (20, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_read_only_map_is_taken_without_a_copy_or_a_warning(index_class, tmp_path, dtype):
    rows = random_corpus(30, 96).embeddings.numpy().astype(dtype)
    path = tmp_path / "rows.bin"
    rows.tofile(path)
    mapped = np.memmap(path, mode="r", dtype=dtype, shape=rows.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = index_class.build(mapped)
    assert index.embeddings.data_ptr() == mapped.ctypes.data
    queries = random_queries(index.embeddings, 3)
    in_memory = index_class.build(rows)
    assert_same_bits(index.search(queries, 5), in_memory.search(queries, 5))


def test_a_slice_of_a_map_keeps_its_row_stride(index_class, tmp_path):
    path = tmp_path / "rows.bin"
    np.arange(60, dtype=np.float32).tofile(path)
    mapped = np.memmap(path, mode="r", dtype=np.float32, shape=(6, 10))[1:, 2:9]
    index = index_class.build(mapped)
    assert index.embeddings.data_ptr() == mapped.ctypes.data
    assert_equal(index.embeddings, torch.from_numpy(np.array(mapped)))


def test_to_moves_every_tensor(index_class, device):
    index = index_class.build(level_rows([0, 2, 4]), window=2)
    moved = index.to(device)
    assert isinstance(moved, index_class)
    assert (moved.n_chunks, moved.dim, moved.n_docs, moved.window) == (3, 16, 1, 2)
    for name in ("embeddings", "row_scale", "continuity", "doc_offsets"):
        assert getattr(moved, name).device == device
        assert_same_bits(getattr(moved, name).cpu(), getattr(index, name))
        assert getattr(index.to("meta"), name).device.type == "meta"


@pytest.mark.parametrize("window", [None, 0, 1, 2, 3])
def test_methods_are_the_functions_over_the_index(index_class, run, device, window):
    data = random_corpus(40, 96, window=3)
    index = index_class.build(data.embeddings, data.doc_offsets, window=3, device=device)
    queries, hits = random_queries(data.embeddings, 4), random_hits(40, 4, 3)
    on_device = queries.to(device), hits.to(device)
    table = index.continuity[: 3 if window is None else window]
    args = (queries, index.embeddings, table, hits)
    options = {"lam": 0.25, "gamma": 0.5, "contiguous": True}

    def method(name, *values, **settings):
        result = getattr(index, name)(*values, **settings)
        return type(result)(*(tensor.cpu() for tensor in result))

    scored = run("neighbor_scores", *args, row_scale=index.row_scale, **options)
    assert_same_bits(method("neighbor_scores", *on_device, window=window, **options), scored)
    options["order"] = "document"
    expanded = run("scar_expand", *args, row_scale=index.row_scale, **options)
    assert_same_bits(method("scar_expand", *on_device, window=window, **options), expanded)
    del options["order"]
    masks = index.corpus_masks(on_device[0], window=window, return_relevance=True, **options)
    expected = run("corpus_masks", *args[:3], row_scale=index.row_scale, return_relevance=True,
                   **options)  # fmt: skip
    assert_same_bits(move(masks, torch.device("cpu")), expected)
    options["order"] = "document"
    ranges = torch.tensor([[0, 40], [3, 9], [5, 5], [39, 40]])
    found = run(
        "search_expand", *args[:3], 7, row_scale=index.row_scale, row_ranges=ranges, **options
    )
    ranges = ranges.to(device)
    actual = index.search_expand(on_device[0], 7, row_ranges=ranges, window=window, **options)
    assert_same_bits(move(actual, torch.device("cpu")), found)


def test_methods_without_a_window(index_class, run, device):
    data = random_corpus(40, 96)
    index = index_class.build(data.embeddings, data.doc_offsets, device=device)
    queries, hits = random_queries(data.embeddings, 4), random_hits(40, 4, 3)
    static = index.window_expand(hits.to(device), before=2, after=0, order="document")
    expected = run("window_expand", hits, data.doc_offsets, before=2, after=0, order="document")
    assert_same_bits([tensor.cpu() for tensor in static], list(expected))
    spans = index.spans(static)
    assert_same_bits(
        [tensor.cpu() for tensor in spans], list(run("spans", expected, data.doc_offsets))
    )
    ranges = torch.tensor([[0, 40], [3, 9], [5, 5], [39, 40]])
    found = index.search(queries.to(device), 7, row_ranges=ranges.to(device))
    expected = run(
        "search", queries, data.embeddings, 7, row_scale=index.row_scale, row_ranges=ranges
    )
    assert_same_bits([tensor.cpu() for tensor in found], list(expected))


NONFINITE = level_rows([0, 1, 2, 3])
NONFINITE[2, 5], NONFINITE[3, 0] = float("nan"), float("inf")
TINY, HUGE = level_rows([0, 1, 2]), level_rows([0, 1, 2])
TINY[1], HUGE[2] = 2.0**-140, 2.0**126 * 1.5  # 1 / |e| is 2^138, and below 2^-126

NOT_NORMAL = (
    r"embeddings\[{}\] must have a length whose inverse is a normal float32, got [0-9.e+-]+"
)

ERRORS = {
    "non-finite": ((NONFINITE,), {}, ValueError, r"embeddings\[2\] must be finite, got nan"),
    "infinite": (
        (NONFINITE[3:],), {}, ValueError, r"embeddings\[0\] must be finite, got inf"
    ),
    "too small": ((TINY,), {}, ValueError, NOT_NORMAL.format(1)),
    "too large": ((HUGE,), {}, ValueError, NOT_NORMAL.format(2)),
    "float64": (
        (torch.ones(3, 4).double(),), {}, TypeError,
        r"embeddings must be bfloat16, float16 or float32, got torch\.float64",
    ),
    "a list": (([[1.0]],), {}, TypeError, r"embeddings must be .*, got list"),
    "one dimension": (
        (torch.ones(3),), {}, ValueError, r"embeddings must have shape \[N, D\], got \[3\]"
    ),
    "strided": (
        (torch.ones(4, 3).t(),), {}, ValueError,
        r"embeddings must have a contiguous last dimension, got \(1, 3\)",
    ),
    "offsets fall": (
        (level_rows([0] * 5), torch.tensor([0, 4, 3, 5])), {}, ValueError,
        r"doc_offsets must not fall, got 4 then 3 at position 2",
    ),
    "offsets start": (
        (level_rows([0] * 5), torch.tensor([1, 5])), {}, ValueError,
        r"doc_offsets must start at 0, got 1",
    ),
    "offsets end": (
        (level_rows([0] * 5), torch.tensor([0, 4])), {}, ValueError,
        r"doc_offsets must end at 5, the rows, got 4",
    ),
    "ids return": (
        (level_rows([0] * 4),), {"doc_ids": ["a", "b", "b", "a"]}, ValueError,
        r"doc_ids\[3\] must not return to an earlier document, got 'a'",
    ),
    "ids short": (
        (level_rows([0] * 4),), {"doc_ids": ["a", "b"]}, ValueError,
        r"doc_ids must have shape \[4\], got \[2\]",
    ),
    "both": (
        (level_rows([0] * 2), offsets(2)), {"doc_ids": ["a", "a"]}, ValueError,
        r"doc_offsets .*doc_ids.*",
    ),
    "window": ((level_rows([0]),), {"window": -1}, ValueError, r"window must be >= 0, got -1"),
    "dtype": (
        (level_rows([0]),), {"dtype": torch.float64}, ValueError,
        r"dtype must be float32, float16 or bfloat16, got torch\.float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_build_refuses(index_class, name):
    args, options, exception, message = ERRORS[name]
    with pytest.raises(exception, match=f"^{message}$"):
        index_class.build(*args, **options)


def test_rounding_to_float16_may_overflow(index_class):
    """70000 is finite in float32 and infinite in float16: the row as stored is what counts."""
    with pytest.raises(ValueError, match=r"^embeddings\[1\] must be finite, got inf$"):
        index_class.build(torch.tensor([[1.0], [70000.0]]), dtype=torch.float16)


@pytest.mark.parametrize("method", ["neighbor_scores", "scar_expand"])
@pytest.mark.parametrize(("window", "rule"), [(-1, ">= 0"), (3, "<= 2")])
def test_a_window_outside_the_index_is_refused(index_class, method, window, rule):
    index = index_class.build(level_rows([0, 2, 4]), window=2)
    with pytest.raises(ValueError, match=f"^window must be {rule}.*, got {window}$"):
        getattr(index, method)(level_rows([0]), torch.tensor([[1]]), window=window)


@pytest.mark.parametrize("length", [4e-39, 1e-37, 1e-30, 1.0, 1e30, 8e37])
def test_rows_and_queries_of_any_length(length):
    """cos((1, 0), (9, 1)) = 9 / sqrt(82), however long the vectors."""
    import scar_gpu

    rows = torch.tensor([[length, 0.0], [length, length / 9]])
    index = scar_gpu.ChunkIndex.build(rows)
    expected = 9 / 82**0.5
    assert index.continuity[0, 0].item() == pytest.approx(expected, rel=1e-5)
    for size in (1e-40, 1e-9, 1.0, 1e9, 1e38):
        query = torch.tensor([[size, 0.0]])
        found = index.search(query, 2)
        assert found.ids.tolist() == [[0, 1]]
        assert found.scores[0].tolist() == pytest.approx([1, expected], rel=1e-5)
        assert index.scar_expand(query, torch.tensor([[0]])).ids.tolist() == [[0, 1, -1]]


@pytest.mark.parametrize(
    "doc_ids", [[1, "1", 2], [2**53, 2**53 + 1, 0.5], [-1, 2**63, 2**63 + 1], [(0, 1), (0, 2), ()]]
)
def test_ids_of_different_documents_stay_different(doc_ids):
    import scar_gpu

    index = scar_gpu.ChunkIndex.build(torch.eye(3), doc_ids=doc_ids)
    assert index.doc_offsets.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("embeddings", "error", "message"),
    [
        (np.array(0.5, dtype=np.float32), ValueError, r"embeddings must have shape \[N, D\]"),
        (np.eye(3, dtype=np.float32)[::-1], ValueError, "embeddings must have positive strides"),
        (np.eye(3, dtype=">f4"), TypeError, "embeddings must be an array of native numbers"),
        (np.array([["a"]]), TypeError, "embeddings must be an array of native numbers"),
        (torch.eye(3).to_sparse(), TypeError, "embeddings must be a dense tensor"),
    ],
)
def test_matrices_of_another_kind(embeddings, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{message}, got "):
        scar_gpu.ChunkIndex.build(embeddings)


@pytest.mark.parametrize("doc_offsets", ["abc", [0, None], {0: 1, "b": 2}])
def test_offsets_of_another_kind(doc_offsets):
    import scar_gpu

    with pytest.raises(TypeError, match=r"^doc_offsets must be a sequence of int64, got "):
        scar_gpu.ChunkIndex.build(torch.eye(3), doc_offsets)
