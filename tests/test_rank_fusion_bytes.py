"""rank_fusion on the CPU and on a GPU, the C++ kernel beside the Triton kernel: the same bytes."""

import pytest
import torch

from tests.backends import only_on
from tests.cases_fusion import FUSION_CASES, LENGTHS, as_options, random_call, tensors
from tests.corpora import LAYOUTS, seeded


def arguments(rankings, options, device):
    """The arguments of the operation in the order of its schema."""
    ranks = options.get("ranks")
    return (
        [ids.to(device) for ids in rankings],
        None if ranks is None else [given.to(device) for given in ranks],
        float(options.get("k", 60.0)),
        options.get("weights"),
        options.get("contributions"),
        options.get("top_n"),
        options.get("duplicates") == "sum",
        True,
    )


def assert_same_bytes(rankings, options, device):
    """All six results, details included, of both kernels."""
    from scar_gpu.kernels.rank_fusion import launch_rank_fusion

    cpu = torch.ops.scar_gpu.rank_fusion(*arguments(rankings, options, "cpu"))
    gpu = launch_rank_fusion(*arguments(rankings, options, device))
    assert len(cpu) == len(gpu) == 6
    for one, other in zip(cpu, gpu, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert one.numpy().tobytes() == other.cpu().numpy().tobytes()


@only_on("triton", "cuda")
def test_these_are_two_kernels(device):
    """The one refuses what is padding for the other."""
    from scar_gpu.kernels.rank_fusion import launch_rank_fusion

    ids = [torch.tensor([[-7, 5]])]
    with pytest.raises(IndexError, match="must be -1 or in"):
        torch.ops.scar_gpu.rank_fusion(*arguments(ids, {}, "cpu"))
    assert launch_rank_fusion(*arguments(ids, {}, device))[0].tolist() == [[5, -1]]


@only_on("triton", "cuda")
@pytest.mark.parametrize("case", FUSION_CASES, ids=lambda case: case.name)
def test_hand_cases(device, case):
    assert_same_bytes(tensors(case.lists), as_options(case.options), device)


@only_on("triton", "cuda")
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_random_lists(device, lengths):
    """Repeats, padding, ids up to 2**62, weights, ranks, tables, top_n, sums of duplicates."""
    for seed in range(100, 104):
        assert_same_bytes(*random_call(seed, lengths), device)


@only_on("triton", "cuda")
@pytest.mark.parametrize("name", ["cormack", "langchain", "llamaindex", "haystack",
                                  "elasticsearch", "opensearch", "milvus", "weaviate", "qdrant",
                                  "ranx"])  # fmt: skip
def test_presets(device, name):
    from scar_gpu import presets

    lengths, generator = [6, 0, 4], seeded(len(name))
    rankings = [torch.randint(-1, 7, (2, n), generator=generator) for n in lengths]
    weights = {} if name in ("llamaindex", "milvus", "ranx") else {"weights": [1, 2.5, 0.3]}
    table, duplicates = getattr(presets, name)(lengths, **weights)
    options = {"contributions": table, "duplicates": duplicates}
    assert_same_bytes(rankings, options, device)


@only_on("triton", "cuda")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_both_widths(device, layout):
    rankings = [torch.randint(-1, 9, (3, n), generator=seeded(n)) for n in (5, 4)]
    rankings = [LAYOUTS[layout](ids) for ids in (rankings[0].int(), rankings[1])]
    assert_same_bytes(rankings, {"weights": [0.1, 3.0]}, device)
