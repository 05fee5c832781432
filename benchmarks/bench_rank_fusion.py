"""rank_fusion against ranx, a torch sort/scatter version and a Python dict version.

ranx is measured where it is installed (`make peers` does that), after a warm-up call and with its
run objects built beforehand.
"""

import pytest
import torch
import torch_versions
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


@pytest.mark.filterwarnings("ignore")
def test_rank_fusion(size, report, benchmark, pytestconfig):
    for n_queries, n_lists, k in SHAPES[pytestconfig.getoption("--size")]:
        lists = random_lists(n_queries, n_lists, k)
        fused = scar_gpu.rank_fusion(lists)
        documents, scores = torch_versions.rank_fusion(lists)
        length = int(fused.lengths[0])
        torch.testing.assert_close(fused.scores[:, :1], scores[:, :1])
        assert set(fused.ids[0, :length].tolist()) == set(documents[0].tolist()) - {-1}

        slow = [tensor[:SLOW_QUERIES] for tensor in lists]
        functions = {
            "ours": lambda lists=lists: scar_gpu.rank_fusion(lists),
            "a torch sort/scatter version": lambda lists=lists: torch_versions.rank_fusion(lists),
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
            ratio = timing.over(ours) / counted * n_queries
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
