"""Size: matrices beyond 2^31 elements, memory per call, calls from many threads at once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import LEVEL_DIM, level_rows, random_corpus, random_hits, random_queries

NAN = float("nan")


def mapped_zeros(n: int, dim: int, device: torch.device) -> torch.Tensor:
    """float16 zeros whose untouched pages cost nothing (on the CPU)."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros((n, dim), dtype=np.float16))
    return torch.zeros(n, dim, dtype=torch.float16, device=device)


@pytest.mark.parametrize("hits_dtype", [torch.int32, torch.int64], ids=str)
def test_neighbor_scores_beyond_2_to_the_31_elements(device, hits_dtype):
    """The last three rows are levels 2, 0, 3, repeated to 1,024 columns; all others are zero.

    A row number times the row stride leaves int32 from row 2^21 on.
    """
    import scar_gpu

    n, dim = 2**21 + 1024, 1024
    embeddings = mapped_zeros(n, dim, device)
    assert embeddings.numel() > 2**31
    embeddings[-3:] = level_rows([2, 0, 3]).repeat(1, dim // LEVEL_DIM)  # norm 32
    row_scale = torch.zeros(n, device=device)
    row_scale[-3:] = 1 / 32
    continuity = torch.zeros(1, n, device=device)
    continuity[0, -3:] = torch.tensor([6 / 8, 5 / 8, NAN])
    queries = level_rows([0]).repeat(1, dim // LEVEL_DIM).to(device)
    hits = torch.tensor([[n - 2, 1, n - 1]], dtype=hits_dtype, device=device)
    relevance, scores, mask = scar_gpu.neighbor_scores(
        queries, embeddings, continuity, hits, lam=0.5, gamma=0.5, row_scale=row_scale
    )
    assert_equal(relevance.cpu(), torch.tensor([[1.0, 0.0, 5 / 8]]))
    expected = [[0.625, 0.4375], [-0.5, -0.5], [1 - 0.5 * (1 - 5 / 8), -float("inf")]]
    assert_equal(scores.cpu(), torch.tensor([expected]))
    assert mask.tolist() == [[[True, False], [False, False], [True, False]]]


@only_on("cpu", "triton")
def test_every_row_operation_with_strides_beyond_2_to_the_31_elements():
    """1,100 rows of 16 columns, 2^21 elements apart; rows 2 and 1,097 to 1,099 are not zero."""
    import scar_gpu

    n = 1100
    storage = np.zeros((n, 2**21), dtype=np.float16)
    embeddings = torch.from_numpy(storage)[:, :LEVEL_DIM]
    embeddings[2] = level_rows([16], torch.float16)
    embeddings[-3:] = level_rows([2, 0, 3], torch.float16)
    doc_offsets = torch.tensor([0, 1000, n])
    scale = scar_gpu.row_scale(embeddings)
    assert scale.nonzero().flatten().tolist() == [2, 1097, 1098, 1099]
    assert_equal(scale[-3:], torch.full((3,), 1 / 4))
    table = scar_gpu.continuity(embeddings, doc_offsets, row_scale=scale)
    assert_equal(table[0, -4:], torch.tensor([0.0, 6 / 8, 5 / 8, NAN]))
    ids, scores = scar_gpu.search(level_rows([0]), embeddings, 4, row_scale=scale)
    assert ids.tolist() == [[1098, 1097, 1099, 0]]
    assert_equal(scores, torch.tensor([[1.0, 6 / 8, 5 / 8, 0.0]]))
    expansion = scar_gpu.scar_expand(
        level_rows([0]), embeddings, table, ids[:, :1], lam=0.5, gamma=0.5, row_scale=scale
    )
    assert expansion.ids.tolist() == [[1097, 1098, -1]]


@only_on("cpu", "cuda")
def test_concurrent_calls_share_nothing(device):
    """Eight threads, each with its own question, many times over: the bits of one call alone."""
    import scar_gpu

    data = random_corpus(500, 96, window=2)
    rows, table = data.embeddings.to(device), data.continuity.to(device)
    scale = data.row_scale.to(device)
    ends = data.doc_offsets.to(device)

    def answer(seed: int) -> list[torch.Tensor]:
        queries = random_queries(data.embeddings, 20, seed=seed).to(device)
        hits = random_hits(500, 20, 7, seed=seed).to(device)
        expansion = scar_gpu.scar_expand(queries, rows, table, hits, row_scale=scale)
        found = scar_gpu.search(queries, rows, 9, row_scale=scale)
        judged = scar_gpu.search_expand(queries, rows, table, 9, row_scale=scale)
        masks = scar_gpu.corpus_masks(queries, rows, table, row_scale=scale)
        spans = scar_gpu.spans(scar_gpu.window_expand(hits, ends), ends)
        return [
            tensor.cpu() for tensor in (*expansion, *found, *spans, *judged.neighbors, masks.bits)
        ]

    expected = [answer(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for result, alone in zip(pool.map(answer, range(8)), expected, strict=True):
                assert_same_bits(result, alone)


PEAK = r"""
import re
from pathlib import Path
import torch
import scar_gpu

def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

def question(n, dim, b, k):
    rows = torch.empty(n, dim, dtype=torch.float16).normal_()
    return {
        "rows": rows,
        "scale": scar_gpu.row_scale(rows),
        "table": torch.empty(1, n).uniform_(-1, 1),
        "ends": torch.arange(0, n + 1, 10),
        "queries": torch.empty(b, dim).normal_(),
        "hits": torch.randint(0, n, (b, k)),
    }

def call(t):
    return EXPRESSION

call(question(100, 16, 8, 10))
large = question(SIZES)
before = peak()
result = call(large)
print(peak() - before)
"""
SCORED = "scar_gpu.{}(t['queries'], t['rows'], t['table'], t['hits'], row_scale=t['scale'])"
NEAR = "(t['hits'][..., None] + torch.tensor([-1, 0, 1])).clamp(0, len(t['rows']) - 1)"
# What eager PyTorch does, the operations that replace it, and N, D, B, K. The first takes more than
# the limit, the rest less, their results included.
CALLS = [
    (
        f"torch.einsum('bd,bkod->bko', t['queries'], t['rows'][{NEAR}].float())",
        [SCORED.format("neighbor_scores"), SCORED.format("scar_expand")],
        (20_000, 384, 4096, 10),
        64,
    ),
    (
        "(t['rows'].float()[1:] * t['rows'].float()[:-1]).sum(1)",
        [
            "scar_gpu.continuity(t['rows'], t['ends'], row_scale=t['scale'])",
            "scar_gpu.row_scale(t['rows'])",
        ],
        (100_000, 384, 1, 1),
        64,
    ),
    (
        "(t['queries'] @ t['rows'].float().T).topk(10)",
        [
            "scar_gpu.search(t['queries'], t['rows'], 10, row_scale=t['scale'])",
            "scar_gpu.search_expand(t['queries'], t['rows'], t['table'], 10, row_scale=t['scale'])",
            "scar_gpu.corpus_masks(t['queries'], t['rows'], t['table'], row_scale=t['scale'])",
        ],
        (100_000, 16, 1024, 1),
        256,
    ),
]


def peak_growth(expression: str, sizes: tuple[int, ...]) -> int:
    """Bytes by which one call raises the peak of a fresh process, its results included."""
    script = PEAK.replace("EXPRESSION", expression).replace("SIZES", ", ".join(map(str, sizes)))
    output = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return int(output.stdout)


@only_on("cpu")
@pytest.mark.slow
@pytest.mark.parametrize(("eager", "calls", "sizes", "mib"), CALLS, ids=["hits", "rows", "search"])
def test_temporaries_stay_below_the_limit(eager, calls, sizes, mib):
    assert peak_growth(eager, sizes) > mib * 2**20
    for call in calls:
        assert peak_growth(call, sizes) <= mib * 2**20
