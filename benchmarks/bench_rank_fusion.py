"""rank_fusion against ranx, a torch sort/scatter version and a Python dict version.

ranx is measured where it is installed (`make peers` does that), after a warm-up call and with its
run objects built beforehand.
"""

import pytest
import torch
from measure import interleaved
from peers import fusions
from peers.pins import is_installed
from torch import Tensor

import scar_gpu

# B, L, K; the first number of queries is what the slow versions are given as well.
SHAPES = {
    "full": [(2000, 2, 100), (100_000, 2, 100), (1000, 8, 1000)],
    "quick": [(2000, 2, 100), (20_000, 2, 100)],
    "tiny": [(20, 2, 10)],
}
SLOW_QUERIES = 2000


def random_lists(n_queries: int, n_lists: int, k: int) -> list[Tensor]:
    """Lists that share half of their documents; queries repeat beyond 2,000."""
    generator = torch.Generator().manual_seed(0)
    distinct = min(n_queries, 2000)
    lists = [
        torch.rand(distinct, 2 * k, generator=generator).argsort(1)[:, :k] for _ in range(n_lists)
    ]
    return [ids.repeat(-(-n_queries // distinct), 1)[:n_queries].contiguous() for ids in lists]


def with_torch(lists: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Sort by id, add up equal ids, sort by score."""
    ids = torch.cat(lists, 1)
    ranks = torch.cat([torch.arange(1, tensor.shape[1] + 1) for tensor in lists])
    contributions = (1 / (fusions.K_RRF + ranks.float())).expand(ids.shape)
    ids, order = ids.sort(1)
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    group = starts.cumsum(1) - 1
    sums = torch.zeros(ids.shape).scatter_add_(1, group, contributions.gather(1, order))
    documents = torch.full_like(ids, -1).scatter_(1, group, ids)
    scores, order = sums.sort(1, descending=True)
    return documents.gather(1, order), scores


@pytest.mark.filterwarnings("ignore")
def test_rank_fusion(size, report, benchmark, pytestconfig):
    for n_queries, n_lists, k in SHAPES[pytestconfig.getoption("--size")]:
        lists = random_lists(n_queries, n_lists, k)
        fused = scar_gpu.rank_fusion(lists)
        documents, scores = with_torch(lists)
        length = int(fused.lengths[0])
        torch.testing.assert_close(fused.scores[:, :1], scores[:, :1])
        assert set(fused.ids[0, :length].tolist()) == set(documents[0].tolist()) - {-1}

        slow = [tensor[:SLOW_QUERIES] for tensor in lists]
        functions = {
            "ours": lambda lists=lists: scar_gpu.rank_fusion(lists),
            "a torch sort/scatter version": lambda lists=lists: with_torch(lists),
            "a Python dict version": fusions.python_dict(slow),
        }
        is_small = n_queries * n_lists * k <= 400_000
        if is_small and is_installed("ranx"):
            functions["ranx"] = fusions.ranx(slow)
        timings = interleaved(functions, min(size.rounds, 9 if is_small else 3))
        ours = timings.pop("ours")
        targets = {"a torch sort/scatter version": 3, "a Python dict version": 10, "ranx": 60}
        for name, timing in timings.items():
            counted = n_queries if name == "a torch sort/scatter version" else len(slow[0])
            ratio = timing.median / counted / (ours.median / n_queries)
            report.add(
                benchmark,
                work=f"rank_fusion B={n_queries} L={n_lists} K={k}",
                against=name,
                ratio=ratio,
                target=f">= {targets[name]}",
                met=ratio >= targets[name],
                timing=ours,
            )
    benchmark.pedantic(lambda: scar_gpu.rank_fusion(lists), rounds=2)
