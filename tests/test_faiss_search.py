"""faiss_search: the hits of FAISS in this package's terms. Skipped where faiss is missing."""

import re
import subprocess
import sys

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import LAYOUTS, random_corpus, random_queries


def only_here(test):
    """What FAISS does depends on no backend."""
    return only_on("cpu", "cuda")(test)


@pytest.fixture(scope="module")
def faiss():
    torch.zeros(1)  # torch first
    return pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def index():
    from scar_gpu import ChunkIndex

    rows = random_corpus(301, 24).embeddings
    return ChunkIndex.build(torch.cat([rows[:3], rows[4:]]))  # row 3 is zero


@only_here
@pytest.mark.parametrize("inner_product", [True, False])
@pytest.mark.parametrize("description", ["Flat", "HNSW32", "IVF1,Flat"])
def test_agrees_with_search(faiss, index, description, inner_product):
    import scar_gpu

    queries = random_queries(index.embeddings, 7)
    exact = index.search(queries, 9)
    hits = scar_gpu.faiss_search(
        index.to_faiss(description, inner_product=inner_product), queries, 9
    )
    assert hits.ids.dtype == torch.int64
    assert hits.scores.dtype == torch.float32
    torch.testing.assert_close(hits.scores, exact.scores, rtol=0, atol=2e-6)
    same = hits.ids == exact.ids
    assert bool((same | ((hits.scores - exact.scores).abs() < 2e-6)).all())
    assert bool(same.float().mean() > 0.9)


@only_here
@pytest.mark.parametrize("inner_product", [True, False])
def test_hand_case_padding_ties_zero_and_nan(faiss, inner_product):
    """Cosines of (0, 2) with (1, 0), (0.6, 0.8), (0, 1), (0, 1): 0, 0.8, 1, 1."""
    import scar_gpu

    rows = torch.tensor([[2.0, 0.0], [0.6, 0.8], [0.0, 3.0], [0.0, 1.0]])
    index = scar_gpu.ChunkIndex.build(rows).to_faiss(inner_product=inner_product)
    nan, inf = float("nan"), float("inf")
    queries = torch.tensor([[0.0, 2.0], [0.0, 0.0], [nan, 0.0], [inf, 1.0]])
    ids, scores = scar_gpu.faiss_search(index, queries, 5)
    assert ids.tolist() == [[2, 3, 1, 0, -1], [0, 1, 2, 3, -1], [-1] * 5, [-1] * 5]
    expected = [[1, 1, 0.8, 0, -inf], [0, 0, 0, 0, -inf], [-inf] * 5, [-inf] * 5]
    torch.testing.assert_close(scores, torch.tensor(expected, dtype=torch.float32))


@only_here
def test_without_normalisation_scores_are_inner_products(faiss):
    import scar_gpu

    rows = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    for inner_product in (True, False):
        index = scar_gpu.ChunkIndex.build(rows).to_faiss(inner_product=inner_product)
        hits = scar_gpu.faiss_search(index, torch.tensor([[0.0, 2.0]]), 2, normalize=False)
        assert hits.ids.tolist() == [[1, 0]]
        torch.testing.assert_close(hits.scores, torch.tensor([[1.6, 0.0]]))


@only_here
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_dtypes(faiss, index, layout):
    import scar_gpu

    flat = index.to_faiss()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        queries = random_queries(index.embeddings, 3).to(dtype)
        before = queries.clone()
        plain = scar_gpu.faiss_search(flat, queries, 4)
        assert_same_bits(scar_gpu.faiss_search(flat, LAYOUTS[layout](queries), 4), plain)
        assert torch.equal(queries, before)


@only_here
def test_empty(faiss, index):
    import scar_gpu

    flat = index.to_faiss()
    assert scar_gpu.faiss_search(flat, torch.zeros(0, 24), 3).ids.shape == (0, 3)
    assert flat.ntotal == 300
    nothing = scar_gpu.ChunkIndex.build(torch.zeros(0, 24)).to_faiss()
    assert scar_gpu.faiss_search(nothing, torch.ones(1, 24), 2).ids.tolist() == [[-1, -1]]


@only_here
def test_half_precision_rows_and_zero_rows(faiss):
    import scar_gpu

    rows = random_corpus(50, 16, dtype=torch.float16).embeddings
    index = scar_gpu.ChunkIndex.build(rows)
    hits = scar_gpu.faiss_search(index.to_faiss(), rows[:4], 50)
    assert int((hits.ids == 3).sum()) == 4  # row 3 is zero, and found with cosine 0
    torch.testing.assert_close(hits.scores, index.search(rows[:4], 50).scores, rtol=0, atol=2e-6)


@only_here
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"index": 3}, TypeError, "index must be a faiss.Index, got int"),
        ({"queries": torch.zeros(1, 3)}, ValueError, "queries must have shape [B, 24], got [1, 3]"),
        ({"queries": torch.zeros(1, 24).long()}, TypeError,
         "queries must be bfloat16, float16 or float32, got torch.int64"),
        ({"k": 0}, ValueError, "k must be >= 1, got 0"),
        ({"normalize": 1}, TypeError, "normalize must be a bool, got int"),
    ],
)  # fmt: skip
def test_bad_input(faiss, index, arguments, error, message):
    import scar_gpu

    good = {"index": index.to_faiss(), "queries": torch.zeros(1, 24), "k": 1}
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.faiss_search(**(good | arguments))


@only_here
def test_other_metrics_are_refused(faiss):
    import scar_gpu

    index = faiss.IndexFlat(2, faiss.METRIC_L1)
    message = "index must have METRIC_INNER_PRODUCT or METRIC_L2, got metric"
    with pytest.raises(ValueError, match=message):
        scar_gpu.faiss_search(index, torch.zeros(1, 2), 1)


@only_here
def test_l2_refuses_zero_rows(faiss):
    import scar_gpu

    index = scar_gpu.ChunkIndex.build(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    message = r"^embeddings\[1\] must not be zero in an index of L2 distances, got 0$"
    with pytest.raises(ValueError, match=message):
        index.to_faiss(inner_product=False)


@only_here
def test_without_faiss_the_error_says_what_to_install():
    script = (
        "import sys; sys.modules['faiss'] = None; import torch, scar_gpu\n"
        "try: scar_gpu.faiss_search(None, torch.zeros(1, 2), 1)\n"
        "except ImportError as error: print(error)"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    expected = (
        "faiss must be installed for this, got no such package: pip install 'scar_gpu[faiss]'"
    )
    assert output.stdout.strip() == expected


@only_on("cpu")
def test_more_results_than_memory_holds_are_refused(faiss):
    import scar_gpu

    with pytest.raises(MemoryError, match=r"^k must give results that fit .*, got 2147483647: \["):
        scar_gpu.faiss_search(faiss.IndexFlatIP(3), torch.ones(1000, 3), 2**31 - 1)
