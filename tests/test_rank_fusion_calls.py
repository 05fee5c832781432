"""rank_fusion as PyTorch sees it, and bad input: the name, the rule, the value."""

import re

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.fusion_backend import install_triton_launcher

NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module", autouse=True)
def launcher(backend):
    """The Triton launcher under the CPU key, like those of the other operations."""
    import scar_gpu  # noqa: F401  (defines the operation)

    return install_triton_launcher() if backend == "triton" else None


def lists(device, lengths, n_queries=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(-1, 9, (n_queries, n), generator=generator).to(device) for n in lengths]


def raw_arguments(device, kind):
    """Arguments of the operator in the order of its schema."""
    rankings = lists(device, [3, 2])
    table = torch.rand(2, 4, dtype=torch.float64)
    return {
        "plain": (rankings, None, 60.0, None, None, None, False, False),
        "details": (rankings, None, 2.0, [1.0, 0.5], None, 4, True, True),
        "table": (rankings, None, 60.0, None, table, 9, False, True),
        "ranks": (rankings, [ids.clamp(min=1, max=3) for ids in rankings], 60.0, None, None, None,
                  False, True),
        "no-queries": (lists(device, [3, 2], 0), None, 60.0, None, None, 2, False, True),
        "no-entries": (lists(device, [0, 0]), None, 60.0, None, None, None, False, True),
        "transposed": ([ids.t().contiguous().t() for ids in rankings], None, 60.0, None, None, None,
                       False, True),
    }[kind]  # fmt: skip


KINDS = ("plain", "details", "table", "ranks", "no-queries", "no-entries", "transposed")


@pytest.mark.parametrize("kind", KINDS)
def test_opcheck(device, kind):
    operator = torch.ops.scar_gpu.rank_fusion.default
    arguments = raw_arguments(device, kind)
    tests = ["test_schema", "test_autograd_registration", "test_faketensor",
             "test_aot_dispatch_dynamic"]  # fmt: skip
    results = torch.library.opcheck(operator, arguments, test_utils=tests)
    assert results == dict.fromkeys(tests, "SUCCESS")


@pytest.mark.parametrize("kind", KINDS)
def test_the_fake_agrees_with_the_kernel(device, kind):
    operator = torch.ops.scar_gpu.rank_fusion.default
    rankings, ranks, *rest = raw_arguments(device, kind)
    real = operator(rankings, ranks, *rest)
    meta = [ids.to("meta") for ids in rankings]
    fake = operator(meta, None if ranks is None else [r.to("meta") for r in ranks], *rest)
    for one, other in zip(real, fake, strict=True):
        assert other.device.type == "meta"
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(device, dynamic):
    import scar_gpu

    def function(rankings):
        fused = scar_gpu.rank_fusion(rankings, weights=[1, 2.5], top_n=4, details=True)
        return [*fused, scar_gpu.scores_to_ranks(fused.scores)]

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for shape in ((2, [3, 2]), (5, [4, 7])):
        rankings = lists(device, shape[1], shape[0])
        assert_same_bits(compiled(rankings), function(rankings))
    torch.compiler.reset()


IDS = torch.tensor([[1, 2], [3, 4]])
GOOD = {"rankings": [IDS, IDS]}
TABLE = torch.ones(2, 2, dtype=torch.float64)
META = torch.empty(2, 2, dtype=torch.int64, device="meta")
BAD = [
    ({"rankings": []}, ValueError, "rankings must have at least one list, got none"),
    ({"rankings": IDS}, ValueError, "rankings must have shape [L, B, K], got [2, 2]"),
    ({"rankings": 3}, TypeError, "rankings must be a sequence of torch.Tensor, got int"),
    ({"rankings": [IDS, [1]]}, TypeError, "rankings[1] must be a torch.Tensor, got list"),
    ({"rankings": [IDS, IDS[:1]]}, ValueError,
     "rankings[1] must have shape [2, K], got [1, 2]"),
    ({"rankings": [IDS, IDS[0]]}, ValueError, "rankings[1] must have shape [2, K], got [2]"),
    ({"rankings": [IDS, IDS.float()]}, TypeError,
     "rankings[1] must be int32 or int64, got torch.float32"),
    ({"rankings": [META, IDS]}, ValueError,
     "rankings[1] must be on meta like rankings[0], got cpu"),
    ({"k": 0}, ValueError, "k must be > 0 and <= 1000000, got 0"),
    ({"k": -1.5}, ValueError, "k must be > 0 and <= 1000000, got -1.5"),
    ({"k": 1000001}, ValueError, "k must be > 0 and <= 1000000, got 1000001"),
    ({"k": NAN}, ValueError, "k must be finite, got nan"),
    ({"k": "60"}, TypeError, "k must be a float, got str"),
    *(({"k": value}, TypeError, f"k must be a float, got {type(value).__name__}")
      for value in (True, None, torch.tensor(60.0), 1j)),
    *(({"weights": [1, value]}, TypeError,
       f"weights[1] must be a float, got {type(value).__name__}")
      for value in (True, None, torch.tensor(1.0))),
    *(({"top_n": value}, TypeError, f"top_n must be an int, got {type(value).__name__}")
      for value in (True, torch.tensor(2), torch.tensor([2]))),
    *(({"details": value}, TypeError, f"details must be a bool, got {type(value).__name__}")
      for value in (None, 1, 0.0, torch.tensor(True))),
    ({"weights": [1, -1]}, ValueError, "weights[1] must be >= 0, got -1"),
    ({"weights": [NAN, 1]}, ValueError, "weights[0] must be finite, got nan"),
    ({"weights": [INF, 1]}, ValueError, "weights[0] must be finite, got inf"),
    ({"weights": [1, "1"]}, TypeError, "weights[1] must be a float, got str"),
    ({"weights": [1, 1, 1]}, ValueError, "weights must have one entry per list (2), got 3"),
    ({"weights": []}, ValueError, "weights must have one entry per list (2), got 0"),
    ({"weights": torch.ones(2)}, TypeError, "weights must be a sequence of floats, got Tensor"),
    ({"top_n": 0}, ValueError, "top_n must be >= 1, got 0"),
    ({"top_n": -3}, ValueError, "top_n must be >= 1, got -3"),
    ({"top_n": 1.5}, TypeError, "top_n must be an int, got float"),
    ({"duplicates": "max"}, ValueError, "duplicates must be 'first' or 'sum', got 'max'"),
    ({"details": "yes"}, TypeError, "details must be a bool, got str"),
    ({"ranks": [IDS]}, ValueError, "ranks must have one tensor per list (2), got 1"),
    ({"ranks": [IDS, IDS.float()]}, TypeError,
     "ranks[1] must be int32 or int64, got torch.float32"),
    ({"ranks": [IDS, IDS[:, :1]]}, ValueError, "ranks[1] must have shape [2, 2], got [2, 1]"),
    ({"contributions": TABLE.float()}, TypeError,
     "contributions must be float64, got torch.float32"),
    ({"contributions": TABLE[:1]}, ValueError, "contributions must have shape [2, R], got [1, 2]"),
    ({"contributions": TABLE[:, :1]}, ValueError,
     "contributions must have a column for each of 2 ranks, got 1"),
    ({"contributions": TABLE.to("meta")}, ValueError,
     "contributions must be on the CPU, got meta"),
    ({"contributions": TABLE, "k": 2}, ValueError,
     "contributions must not be given together with k or weights, got k=2, weights=None"),
    ({"contributions": TABLE, "weights": [1, 1]}, ValueError,
     "contributions must not be given together with k or weights, got k=60.0, weights=[1, 1]"),
]  # fmt: skip


@only_on("cpu", "cuda")
@pytest.mark.parametrize(("wrong", "error", "message"), BAD, ids=lambda value: str(value)[:60])
def test_bad_input(wrong, error, message):
    import scar_gpu

    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.rank_fusion(**(GOOD | wrong))


@pytest.mark.parametrize("shape", [(2, 0), (0, 2)], ids=["no-entries", "no-queries"])
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [row for row in BAD if not row[0].keys() & {"rankings", "ranks", "contributions"}],
    ids=lambda value: str(value)[:60],
)
def test_bad_input_with_empty_lists(device, shape, wrong, error, message):
    import scar_gpu

    ids = torch.zeros(shape, dtype=torch.int64, device=device)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        scar_gpu.rank_fusion([ids, ids], **wrong)


VALUES = [
    ({"rankings": [IDS, IDS - 3]}, "rankings[1][0, 0] must be -1 or in [0, 4611686018427387905), "
     "got -2"),
    ({"rankings": [torch.tensor([[2**62 + 1]])]},
     "rankings[0][0, 0] must be -1 or in [0, 4611686018427387905), got 4611686018427387905"),
    ({"ranks": [IDS - 1, IDS]}, "ranks[0][0, 0] must be in [1, 2], got 0"),
    ({"ranks": [IDS.clamp(max=2), IDS]}, "ranks[1][1, 0] must be in [1, 2], got 3"),
]  # fmt: skip


@only_on("cpu")
@pytest.mark.parametrize(("wrong", "message"), VALUES)
def test_bad_values_on_the_cpu(wrong, message):
    import scar_gpu

    with pytest.raises(IndexError, match=re.escape(message)):
        scar_gpu.rank_fusion(**(GOOD | wrong))


@only_on("triton", "cuda")
def test_bad_values_are_padding_on_a_gpu(device):
    import scar_gpu

    ids = torch.tensor([[-7, 5, 2**62 + 1, 6]], device=device)
    assert scar_gpu.rank_fusion([ids]).ids.tolist() == [[5, 6, -1, -1]]
    ranks = torch.tensor([[1, 9, 1, 2]], device=device)
    assert scar_gpu.rank_fusion([ids], ranks=[ranks]).ids.tolist() == [[6, -1, -1, -1]]


@pytest.mark.parametrize("value", [-1.0, NAN, INF])
def test_bad_contributions(device, value):
    import scar_gpu

    table = TABLE.clone()
    table[1, 0] = value
    message = rf"contributions\[1, 0\] must be >= 0 and finite, got {value:g}"
    with pytest.raises(ValueError, match=message):
        scar_gpu.rank_fusion([IDS.to(device)] * 2, contributions=table)


def test_sums_beyond_the_integers_are_refused(device):
    import scar_gpu

    ids = torch.zeros(1, 2**19, dtype=torch.int64, device=device)
    message = "contributions must add up to less than 2\\*\\*62 with duplicates='sum'"
    with pytest.raises(ValueError, match=message):
        scar_gpu.rank_fusion([ids], ranks=[ids + 1], k=1e-9, duplicates="sum")


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        ([1.0], TypeError, "scores must be a torch.Tensor, got list"),
        (IDS, TypeError, "scores must be floating-point, got torch.int64"),
        (torch.zeros(2, 0).long(), TypeError, "scores must be floating-point, got torch.int64"),
        (torch.tensor(1.0), ValueError, "scores must have at least one dimension, got none"),
    ],
)
def test_bad_scores(scores, error, message):
    import scar_gpu

    with pytest.raises(error, match=re.escape(message)):
        scar_gpu.scores_to_ranks(scores)


@only_on("cpu")
@pytest.mark.parametrize(
    ("rankings", "ranks", "table", "message"),
    [
        ([IDS, IDS[:1]], None, None, "rankings[1] must have 2 rows like rankings[0], got 1"),
        ([IDS, IDS], [IDS], None, "ranks must have one tensor per list (2), got 1"),
        ([IDS], [IDS[:, :1]], None, "ranks[0] must have shape [2, 2], got [2, 1]"),
        ([IDS, IDS], None, TABLE[:, :1], "contributions must have shape [2, R >= 2], got [2, 1]"),
    ],
)
def test_the_raw_operation_names_what_it_got(rankings, ranks, table, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        torch.ops.scar_gpu.rank_fusion(rankings, ranks, 60.0, None, table, None, False, False)
