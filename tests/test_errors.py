"""Bad input: the name, the rule, the value, in one sentence, and the right kind of exception."""

import re

import numpy as np
import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import level_corpus, level_rows

N, DIM = 5, 16
DATA = level_corpus([2, 0, 3], [1, 4], window=2)


def scored_by(**wrong: torch.Tensor):
    """NeighborScores of 2 queries, 3 hits and a window of 2, with the given parts instead."""
    import scar_gpu

    good = {
        "relevance": torch.zeros(2, 3),
        "scores": torch.zeros(2, 3, 4),
        "mask": torch.zeros(2, 3, 4, dtype=torch.bool),
    }
    return scar_gpu.NeighborScores(**(good | wrong))


def expanded(ids: list[list[int]]):
    """An Expansion with these rows."""
    import scar_gpu

    rows = torch.tensor(ids)
    return scar_gpu.Expansion(
        rows, torch.zeros(rows.shape), torch.zeros_like(rows).int(), (rows >= 0).sum(1).int()
    )


def good(name: str) -> dict[str, object]:
    """Arguments that the operation accepts: 2 queries, 3 hits each, 5 chunks in 2 documents."""
    hits = torch.tensor([[1, 3, -1], [4, 0, 2]])
    scored = {
        "queries": level_rows([0, 3]),
        "embeddings": DATA.embeddings,
        "continuity": DATA.continuity,
        "hits": hits,
        "row_scale": DATA.row_scale,
    }
    return {
        "row_scale": {"embeddings": DATA.embeddings},
        "continuity": {"embeddings": DATA.embeddings, "doc_offsets": DATA.doc_offsets},
        "neighbor_scores": scored,
        "scar_expand": scored,
        "expand": {"hits": hits, "neighbor_scores": scored_by()},
        "window_expand": {"hits": hits, "doc_offsets": DATA.doc_offsets},
        "spans": {"expansion": expanded(hits.tolist()), "doc_offsets": DATA.doc_offsets},
        "search": {
            "queries": level_rows([0, 3]),
            "embeddings": DATA.embeddings,
            "k": 2,
            "row_scale": DATA.row_scale,
            "row_ranges": torch.tensor([[0, 5], [1, 2]]),
            "min_scores": torch.tensor([0.5, -1.0]),
        },
        "corpus_masks": {key: scored[key] for key in scored.keys() - {"hits"}},
        "search_expand": {
            "queries": level_rows([0, 3]),
            "embeddings": DATA.embeddings,
            "continuity": DATA.continuity,
            "k": 2,
            "row_scale": DATA.row_scale,
            "row_ranges": torch.tensor([[0, 5], [1, 2]]),
            "min_scores": torch.tensor([0.5, -1.0]),
        },
        "check_hits": {"hits": hits, "n_chunks": N},
    }[name]


FLOATS = "bfloat16, float16 or float32"
SCORED = ("neighbor_scores", "scar_expand")
SEARCHES = ("search", "search_expand")
JUDGED = (*SCORED, "search_expand", "corpus_masks")
WITH_QUERIES = (*SCORED, *SEARCHES, "corpus_masks")
WITH_ROWS = ("row_scale", "continuity", *WITH_QUERIES)
HITS_FIRST = ("expand", "window_expand", "check_hits")
WITH_HITS = (*SCORED, *HITS_FIRST)
WITH_OFFSETS = ("continuity", "window_expand", "spans")
WITH_ORDER = ("expand", "scar_expand", "window_expand", "search_expand")
f64, i16, i32 = torch.float64, torch.int16, torch.int32
zeros = torch.zeros


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


# (operations, the argument that is wrong, its value, exception, message)
TABLE = [
    (WITH_QUERIES, "queries", [[1.0]], TypeError, "queries must be a torch.Tensor, got list"),
    (WITH_ROWS, "embeddings", [[1.0]], TypeError, "embeddings must be a torch.Tensor, got list"),
    (WITH_HITS, "hits", [[1]], TypeError, "hits must be a torch.Tensor, got list"),
    (WITH_OFFSETS, "doc_offsets", [0, 5], TypeError,
     "doc_offsets must be a torch.Tensor, got list"),
    (JUDGED, "continuity", None, TypeError, "continuity must be a torch.Tensor, got NoneType"),
    (WITH_QUERIES, "row_scale", 1.0, TypeError, "row_scale must be a torch.Tensor, got float"),
    (WITH_QUERIES, "queries", zeros(2, DIM, dtype=f64), TypeError,
     f"queries must be {FLOATS}, got torch.float64"),
    (WITH_ROWS, "embeddings", zeros(N, DIM, dtype=i32), TypeError,
     f"embeddings must be {FLOATS}, got torch.int32"),
    (JUDGED, "continuity", zeros(2, N, dtype=f64), TypeError,
     "continuity must be float32, got torch.float64"),
    (WITH_HITS, "hits", zeros(2, 3), TypeError, "hits must be int32 or int64, got torch.float32"),
    (WITH_HITS, "hits", zeros(2, 3, dtype=i16), TypeError,
     "hits must be int32 or int64, got torch.int16"),
    (WITH_QUERIES, "row_scale", zeros(N, dtype=f64), TypeError,
     "row_scale must be float32, got torch.float64"),
    (SCORED, "relevance", zeros(2, 3, dtype=f64), TypeError,
     "relevance must be float32, got torch.float64"),
    (WITH_OFFSETS, "doc_offsets", torch.tensor([0, 5], dtype=i32), TypeError,
     "doc_offsets must be int64, got torch.int32"),
    (SEARCHES, "row_ranges", zeros(2, 2), TypeError,
     "row_ranges must be int64, got torch.float32"),
    (SEARCHES, "min_scores", zeros(2, dtype=f64), TypeError,
     "min_scores must be float32, got torch.float64"),
    (SEARCHES, "min_scores", 0.5, TypeError, "min_scores must be a torch.Tensor, got float"),
    (WITH_QUERIES, "queries", zeros(DIM), ValueError,
     "queries must have shape [B, 16], got [16]"),
    (WITH_ROWS, "embeddings", zeros(DIM), ValueError,
     "embeddings must have shape [N, D], got [16]"),
    (SCORED, "hits", torch.tensor([1]), ValueError, "hits must have shape [2, K], got [1]"),
    (HITS_FIRST, "hits", torch.tensor([1]), ValueError, "hits must have shape [B, K], got [1]"),
    (WITH_QUERIES, "queries", zeros(2, 15), ValueError,
     "queries must have shape [B, 16], got [2, 15]"),
    (SCORED, "hits", zeros(3, 3, dtype=i32), ValueError,
     "hits must have shape [2, K], got [3, 3]"),
    (JUDGED, "continuity", zeros(N), ValueError,
     "continuity must have shape [W, 5], got [5]"),
    (JUDGED, "continuity", zeros(2, N + 1), ValueError,
     "continuity must have shape [W, 5], got [2, 6]"),
    (WITH_QUERIES, "row_scale", zeros(N - 1), ValueError,
     "row_scale must have shape [5], got [4]"),
    (WITH_QUERIES, "row_scale", zeros(N, 1), ValueError,
     "row_scale must have shape [5], got [5, 1]"),
    (SCORED, "relevance", zeros(2, 4), ValueError, "relevance must have shape [2, 3], got [2, 4]"),
    (WITH_OFFSETS, "doc_offsets", zeros(2, 2, dtype=torch.int64), ValueError,
     "doc_offsets must have shape [num_docs + 1], got [2, 2]"),
    (WITH_OFFSETS, "doc_offsets", zeros(0, dtype=torch.int64), ValueError,
     "doc_offsets must have at least one entry, got none"),
    (SEARCHES, "row_ranges", zeros(3, 2, dtype=torch.int64), ValueError,
     "row_ranges must have shape [2, 2], got [3, 2]"),
    (SEARCHES, "row_ranges", zeros(2, 3, dtype=torch.int64), ValueError,
     "row_ranges must have shape [2, 2], got [2, 3]"),
    (SEARCHES, "min_scores", zeros(3), ValueError,
     "min_scores must have shape [2], got [3]"),
    (WITH_ROWS, "embeddings", zeros(DIM, N).t(), ValueError,
     "embeddings must have a contiguous last dimension, got (1, 5)"),
    (WITH_QUERIES, "embeddings", meta(N, DIM), ValueError,
     "queries must be on meta like embeddings, got cpu"),
    (JUDGED, "continuity", meta(2, N), ValueError,
     "continuity must be on cpu like embeddings, got meta"),
    (SCORED, "hits", meta(2, 3, dtype=i32), ValueError,
     "hits must be on cpu like embeddings, got meta"),
    (WITH_QUERIES, "row_scale", meta(N), ValueError,
     "row_scale must be on cpu like embeddings, got meta"),
    (SCORED, "relevance", meta(2, 3), ValueError,
     "relevance must be on cpu like embeddings, got meta"),
    (SEARCHES, "row_ranges", meta(2, 2, dtype=torch.int64), ValueError,
     "row_ranges must be on cpu like embeddings, got meta"),
    (SEARCHES, "min_scores", meta(2), ValueError,
     "min_scores must be on cpu like embeddings, got meta"),
    (("continuity",), "doc_offsets", meta(2, dtype=torch.int64), ValueError,
     "doc_offsets must be on cpu like embeddings, got meta"),
    (("window_expand",), "doc_offsets", meta(2, dtype=torch.int64), ValueError,
     "doc_offsets must be on cpu like hits, got meta"),
    (JUDGED, "lam", -1, ValueError, "lam must be >= 0, got -1"),
    (JUDGED, "lam", -1e-9, ValueError, "lam must be >= 0, got -1e-09"),
    (JUDGED, "lam", float("nan"), ValueError, "lam must be finite, got nan"),
    (JUDGED, "lam", float("inf"), ValueError, "lam must be finite, got inf"),
    (JUDGED, "lam", 1e39, ValueError, "lam must be finite in float32, got 1e+39"),
    (JUDGED, "gamma", float("nan"), ValueError, "gamma must be finite, got nan"),
    (JUDGED, "gamma", -1e39, ValueError, "gamma must be finite in float32, got -1e+39"),
    (JUDGED, "gamma", float("inf"), ValueError, "gamma must be finite, got inf"),
    (JUDGED, "gamma", float("-inf"), ValueError, "gamma must be finite, got -inf"),
    (WITH_ORDER, "order", "page", ValueError, "order must be 'rank' or 'document', got 'page'"),
    (("continuity",), "window", -1, ValueError, "window must be >= 0, got -1"),
    (("window_expand",), "before", -1, ValueError, "before must be >= 0, got -1"),
    (("window_expand",), "after", -2, ValueError, "after must be >= 0, got -2"),
    (SEARCHES, "k", 0, ValueError, "k must be >= 1, got 0"),
    (SEARCHES, "k", -3, ValueError, "k must be >= 1, got -3"),
    (("search_expand",), "k", 2**31 - 1, ValueError,
     f"k must keep k * (2W + 1) below 2^31, got {2**31 - 1} for W = 2"),
]  # fmt: skip

# Numbers and switches of types that PyTorch itself would convert.
ODD = (True, np.bool_(True), torch.tensor(1), torch.tensor([1]), "1", 1j)
TABLE += [
    *(
        (operations, name, value, TypeError, f"{name} must be a float, got {type(value).__name__}")
        for value in (*ODD, None)
        for operations, name in ((JUDGED, "lam"), (JUDGED, "gamma"))
    ),
    *(
        (operations, name, value, TypeError, f"{name} must be an int, got {type(value).__name__}")
        for value in (*ODD, 0.5, np.float32(0.5), torch.tensor(0.5), None)
        for operations, name in (
            (("continuity",), "window"), (("window_expand",), "before"),
            (("window_expand",), "after"), (SEARCHES, "k"), (("check_hits",), "n_chunks"),
        )
    ),
    *(
        (operations, name, value, TypeError,
         f"{name} must be a bool, got {type(value).__name__}")
        for value in (None, 1, 0.0, np.bool_(True), torch.tensor(True), "yes", 1j)
        for operations, name in (
            (JUDGED, "contiguous"), (("corpus_masks",), "return_relevance"),
        )
    ),
]  # fmt: skip

# Values that only the CPU kernel reads.
VALUES = [
    *(
        (SCORED, "hits", torch.tensor([[0, 1, -1], [4, 2, value]]), IndexError,
         f"hits[1, 2] must be -1 or in [0, 5), got {value}")
        for value in (5, -2, 2**40, -(2**40))
    ),
    (("window_expand", "check_hits"), "hits", torch.tensor([[0, 1, 7], [9, 2, 4]]), IndexError,
     "hits[0, 2] must be -1 or in [0, 5), got 7"),
    (("window_expand", "check_hits"), "hits", torch.tensor([[0, 1, -2]], dtype=i32), IndexError,
     "hits[0, 2] must be -1 or in [0, 5), got -2"),
    (("spans",), "expansion", expanded([[0, 5]]), IndexError,
     "ids[0, 1] must be -1 or in [0, 5), got 5"),
    (SEARCHES, "row_ranges", torch.tensor([[0, 5], [2, 6]]), IndexError,
     "row_ranges[1] must satisfy 0 <= start <= end <= 5, got [2, 6)"),
    (SEARCHES, "row_ranges", torch.tensor([[0, 5], [-1, 2]]), IndexError,
     "row_ranges[1] must satisfy 0 <= start <= end <= 5, got [-1, 2)"),
    (SEARCHES, "row_ranges", torch.tensor([[3, 2], [0, 5]]), IndexError,
     "row_ranges[0] must satisfy 0 <= start <= end <= 5, got [3, 2)"),
    (WITH_OFFSETS, "doc_offsets", torch.tensor([0, 4, 3, 5]), ValueError,
     "doc_offsets must not fall, got 4 then 3 at position 2"),
    (WITH_OFFSETS, "doc_offsets", torch.tensor([1, 5]), ValueError,
     "doc_offsets must start at 0, got 1"),
    (("continuity",), "doc_offsets", torch.tensor([0, 4]), ValueError,
     "doc_offsets must end at the number of chunks, 5, got 4"),
    (("continuity",), "doc_offsets", torch.tensor([0, 6]), ValueError,
     "doc_offsets must end at the number of chunks, 5, got 6"),
]  # fmt: skip


def rows_of(table):
    """One test for each operation of each row."""
    return [
        pytest.param(name, *rest, id=f"{name}-{rest[0]}-{rest[-1].split('got ')[-1]}")
        for operations, *rest in table
        for name in operations
    ]


@pytest.mark.parametrize(("name", "argument", "value", "exception", "message"), rows_of(TABLE))
def test_bad_argument(name, argument, value, exception, message):
    import scar_gpu

    arguments = good(name) | {argument: value}
    with pytest.raises(exception, match=f"^{re.escape(message)}$"):
        getattr(scar_gpu, name)(**arguments)


@pytest.mark.parametrize(
    ("wrong", "exception", "message"),
    [
        ({"relevance": zeros(2, 3, dtype=f64)}, TypeError,
         "relevance must be float32, got torch.float64"),
        ({"scores": zeros(2, 3, 4, dtype=torch.float16)}, TypeError,
         "scores must be float32, got torch.float16"),
        ({"mask": zeros(2, 3, 4)}, TypeError, "mask must be bool, got torch.float32"),
        ({"relevance": zeros(2, 2)}, ValueError, "relevance must have shape [2, 3], got [2, 2]"),
        ({"scores": zeros(2, 3)}, ValueError, "scores must have shape [2, 3, 2W], got [2, 3]"),
        ({"scores": zeros(2, 3, 3), "mask": zeros(2, 3, 3, dtype=torch.bool)}, ValueError,
         "scores must have an even last dimension, got 3"),
        ({"mask": zeros(2, 3, 2, dtype=torch.bool)}, ValueError,
         "mask must have shape [2, 3, 4], got [2, 3, 2]"),
        ({"scores": meta(2, 3, 4)}, ValueError, "scores must be on cpu like hits, got meta"),
    ],
)  # fmt: skip
def test_bad_neighbor_scores(wrong, exception, message):
    test_bad_argument("expand", "neighbor_scores", scored_by(**wrong), exception, message)


@pytest.mark.parametrize(
    ("name", "argument"), [("expand", "neighbor_scores"), ("spans", "expansion")]
)
@pytest.mark.parametrize("value", [zeros(2, 3), None], ids=["Tensor", "NoneType"])
def test_a_result_is_expected_and_something_else_given(name, argument, value):
    import scar_gpu

    message = f"^{argument} must be .+, got {type(value).__name__}$"
    with pytest.raises(TypeError, match=message):
        getattr(scar_gpu, name)(**(good(name) | {argument: value}))


@only_on("cpu")
@pytest.mark.parametrize(("name", "argument", "value", "exception", "message"), rows_of(VALUES))
def test_bad_value(name, argument, value, exception, message):
    test_bad_argument(name, argument, value, exception, message)


@pytest.mark.parametrize(
    "name", ["row_scale", *WITH_HITS, *WITH_OFFSETS, *SEARCHES, "corpus_masks"]
)
def test_the_good_arguments_are_good(name):
    """Or every row of the tables would pass for the wrong reason."""
    import scar_gpu

    getattr(scar_gpu, name)(**good(name))


def test_the_numbers_of_numpy_are_numbers():
    import scar_gpu

    scored = good("scar_expand")
    plain = scar_gpu.scar_expand(**scored, lam=0.5, gamma=1.0)
    options = {"lam": np.float32(0.5), "gamma": np.int64(1)}
    assert_same_bits(list(scar_gpu.scar_expand(**scored, **options)), list(plain))
    for name, option in (("continuity", "window"), ("window_expand", "before"), ("search", "k")):
        call = getattr(scar_gpu, name)
        assert_same_bits(
            list(call(**(good(name) | {option: np.int32(2)}))),
            list(call(**(good(name) | {option: 2}))),
        )
    with pytest.raises(ValueError, match="lam must be finite, got inf"):
        scar_gpu.scar_expand(**scored, lam=np.float32("inf"))


@only_on("cpu")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda gpu, t: gpu.search(t, t, 2**31), ValueError, f"k must be below 2^31, got {2**31}"),
        (lambda gpu, t: gpu.search(t, t, 2**63), ValueError, f"k must be below 2^31, got {2**63}"),
        (lambda gpu, t: gpu.search(t, t.to_sparse(), 1), TypeError,
         "embeddings must be a dense tensor, got layout torch.sparse_coo"),
        (lambda gpu, t: gpu.neighbor_scores(
            t, t, torch.zeros(1, 2), torch.zeros(2, 1).long(), lam=10**400), ValueError,
         f"lam must be finite, got {10**400}"),
        (lambda gpu, t: gpu.window_expand(
            torch.zeros(2, 1).long(), torch.tensor([0, 2]), order=t), TypeError,
         "order must be a str, got Tensor"),
    ],
)  # fmt: skip
def test_values_beyond_reason(call, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call(scar_gpu, torch.eye(2))


@only_on("cpu")
def test_raw_operations_refuse_other_ranks():
    vector, matrix, hits = torch.zeros(2), torch.eye(2), torch.zeros(2, 1).long()
    with pytest.raises(ValueError, match="queries must have 2 dimensions, got 1"):
        torch.ops.scar_gpu.search(vector, matrix, 1, None, None, None)
    with pytest.raises(ValueError, match="hits must have 2 dimensions, got 1"):
        torch.ops.scar_gpu.neighbor_scores(
            matrix, matrix, torch.zeros(1, 2), hits[0], 0.1, 0.8, False, None, None
        )
