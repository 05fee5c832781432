"""parameter_sweep: the ordinary functions at every point of a grid, exactly."""

import functools
import inspect
import math

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import LAYOUTS, random_corpus, random_hits, random_queries, seeded, sign_corpus
from tests.fusion_backend import install_triton_launcher

NAN, INF = math.nan, math.inf
LAM, GAMMA = (0.0, 0.1, 0.5), (0.9, 0.25, -0.5, 1.1)

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module", autouse=True)
def launcher(backend):
    """The GPU path below the public function; it is made of PyTorch's own kernels."""
    return install_triton_launcher("parameter_sweep") if backend == "triton" else None


def on_cpu(name, *args, **options):
    import scar_gpu

    return getattr(scar_gpu, name)(*args, **options)


def around(index_tensors, hits, window, call):
    """What is gathered once: relevance, and relevance and continuity of the neighbours."""
    queries, data = index_tensors
    judged = call(
        "neighbor_scores", queries, data.embeddings, data.continuity, hits, lam=0.0,
        row_scale=data.row_scale,
    )  # fmt: skip
    continuity = torch.full(judged.scores.shape, NAN)
    n = len(data.row_scale)
    for b, k, j in judged.scores.isfinite().nonzero().tolist():
        offset = j - window + (j >= window)
        row = int(hits[b, k])
        if 0 <= row + offset < n:
            continuity[b, k, j] = data.continuity[abs(offset) - 1, min(row, row + offset)]
    return judged.relevance, judged.scores, continuity


def random_gold(n, b, pieces, measures):
    generator = seeded(3)
    first = torch.randint(0, n + 1, (b, pieces), generator=generator)
    length = torch.randint(0, 4, (b, pieces), generator=generator)
    weights = torch.rand(b, pieces, measures, generator=generator).double()
    return torch.stack([first, first + length], 2), weights


def random_case(b, k, window, n, dim=24, make=random_corpus, call=on_cpu):
    data = make(n, dim, window=window)
    hits = random_hits(n, b, k)
    queries = random_queries(data.embeddings, b)
    gold = random_gold(n, b, 6, 3)
    return (queries, data), (hits, *around((queries, data), hits, window, call), *gold)


@pytest.fixture
def swept(run):
    """The public function on the backend's device."""
    return functools.partial(run, "parameter_sweep")


@pytest.fixture(params=["public", "reference"])
def sweep(request, swept):
    """Hand-computed cases hold the definition to account as well."""
    from scar_gpu import reference

    return swept if request.param == "public" else reference.parameter_sweep


def by_hand(hits, relevance, neighbors, continuity, pieces):
    """Tensors of one query; pieces are (first, end, weight)."""
    ranges = torch.tensor([[piece[:2] for piece in pieces]]).view(1, -1, 2)
    weights = torch.tensor([[[float(piece[2])] for piece in pieces]], dtype=torch.float64)
    return (
        torch.tensor([hits]),
        torch.tensor([relevance]),
        torch.tensor([neighbors]),
        torch.tensor([continuity]),
        ranges,
        weights.view(1, -1, 1),
    )


def test_by_hand(sweep):
    # Hits 4 and 6 share the neighbour 5. S(4, 5) = 0.5 - lam * 0.5, S(6, 5) = 0.25 - lam * 0.25,
    # S(4, 3) = 0.125 - lam * 0.875; row 7 would lie in another document.
    case = by_hand(
        [4, 6],
        [0.5, 0.25],
        [[0.125, 0.5], [0.25, -INF]],
        [[0.125, 0.5], [0.75, NAN]],
        [(5, 6, 0.25), (2, 4, 0.5), (6, 7, 1), (7, 9, 64)],
    )
    found = sweep(*case, [0.0, 0.5], [0.5, 0.99, 1.0, 0.2])
    # lam 0: against 0.25, 0.125: 5 twice, counted once. 0.99: both still. 1: neither, since equal
    # is not more. 0.2: row 3 as well, 0.125 > 0.1.
    # lam 0.5: S = 0.25, 0.125, -0.3125: equal to the thresholds at 0.5, more than those at 0.2.
    assert_equal(found.chunks, torch.tensor([[[3, 3, 2, 4], [2, 2, 2, 3]]]))
    one = 1.0  # row 6, a hit
    covered = [[one + 0.25, one + 0.25, one, one + 0.25 + 0.5], [one, one, one, one + 0.25]]
    assert_equal(found.covered, torch.tensor([[covered]]))


def test_a_hit_counts_once_and_needs_no_neighbour(sweep):
    nothing = [[-INF, -INF]] * 3
    case = by_hand([2, 2, -1], [0.5, 0.5, -INF], nothing, [[NAN, NAN]] * 3, [(2, 3, 1), (-1, 0, 8)])
    found = sweep(*case, [0.1], [0.8])
    assert found.chunks.tolist() == [[[1]]]
    assert found.covered.tolist() == [[[[1]]]]


def test_contiguous_stops_at_the_first_refusal(sweep):
    # Two rows on either side: refused then admitted to the left, admitted twice to the right.
    case = by_hand([5], [0.5], [[0.9, 0.1, 0.9, 0.9]], [[1.0] * 4], [(3, 4, 1), (7, 8, 2)])
    assert sweep(*case, [0.0], [0.8]).chunks.tolist() == [[[4]]]
    found = sweep(*case, [0.0], [0.8], contiguous=True)
    assert found.chunks.tolist() == [[[3]]]
    assert found.covered.tolist() == [[[[2]]]]


def test_nan_admits_nothing(sweep):
    case = by_hand([5, 8], [NAN, 0.5], [[0.9, 0.9], [NAN, 0.9]], [[1.0, 1.0]] * 2, [(9, 10, 1)])
    found = sweep(*case, [0.0], [0.8])
    assert found.chunks.tolist() == [[[3]]]  # two hits and row 9
    assert found.covered.tolist() == [[[[1]]]]


@only_on("cpu", "cuda")  # the interpreter would take minutes for the expansions
@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("make", [random_corpus, sign_corpus])
@pytest.mark.parametrize(
    "shape", [(0, 3, 1, 9), (2, 0, 1, 9), (4, 3, 0, 9), (1, 1, 1, 1), (5, 7, 3, 31), (33, 5, 2, 64)]
)
def test_counts_are_those_of_the_ordinary_functions(run, swept, shape, make, contiguous):
    (queries, data), case = random_case(*shape, make=make, call=run)
    found = swept(*case, LAM, GAMMA, contiguous=contiguous)
    ranges, weights = case[4:]
    for i, lam in enumerate(LAM):
        for j, gamma in enumerate(GAMMA):
            expansion = run(
                "scar_expand",
                queries,
                data.embeddings,
                data.continuity,
                case[0],
                lam=lam,
                gamma=gamma,
                contiguous=contiguous,
                row_scale=data.row_scale,
            )
            assert_equal(found.chunks[:, i, j], expansion.lengths)
            for b, ids in enumerate(expansion.ids.tolist()):
                covers = [any(f <= row < e for row in ids) for f, e in ranges[b].tolist()]
                total = weights[b, torch.tensor(covers)].sum(0)
                torch.testing.assert_close(found.covered[b, :, i, j], total.float())


@pytest.mark.parametrize("contiguous", [False, True])
def test_the_reference_agrees(swept, contiguous):
    from scar_gpu import reference

    _, case = random_case(9, 6, 2, 40)
    ours = swept(*case, LAM, GAMMA, contiguous=contiguous)
    exact = reference.parameter_sweep(*case, LAM, GAMMA, contiguous=contiguous)
    assert_equal(ours.chunks, exact.chunks)
    # Both add up in float64 in the order of the pieces; ours rounds once.
    assert_equal(ours.covered, exact.covered.float())
    assert len(set(ours.chunks.flatten().tolist())) > 5


def test_a_score_at_its_threshold_is_decided_in_float32(swept):
    """The threshold rounds to S or away from it; a quotient would decide otherwise."""
    from scar_gpu import reference

    relevance = torch.rand(1, 500, generator=seeded(0))
    gamma = 0.7
    hits = 10 * torch.arange(500)[None]
    at = torch.tensor(gamma, dtype=torch.float32) * relevance
    neighbors = torch.stack([at, torch.nextafter(at, torch.tensor(2.0))], 2)
    case = (hits, relevance, neighbors, torch.ones(1, 500, 2))
    gold = (torch.zeros(1, 0, 2, dtype=torch.int64), torch.zeros(1, 0, 1, dtype=torch.float64))
    assert swept(*case, *gold, [0.3], [gamma]).chunks.item() == 1000
    assert reference.parameter_sweep(*case, *gold, [0.3], [gamma]).chunks.item() == 1000
    by_quotient = (neighbors / relevance[:, :, None] > gamma).sum().item()
    assert by_quotient != 500


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_dtypes_of_hits(swept, device, layout):
    """`run` checks that inputs are kept."""
    _, case = random_case(4, 5, 2, 40)
    expected = swept(*case, LAM, GAMMA)
    arranged = [LAYOUTS[layout](tensor.to(device)) for tensor in (case[0].int(), *case[1:])]
    assert_same_bits(swept(*arranged, LAM, GAMMA), expected)


def test_grid_points_and_queries_stand_alone(swept, threads):
    _, case = random_case(40, 5, 2, 60)
    threads(2)
    whole = swept(*case, LAM, GAMMA)
    threads(1)
    assert_same_bits(swept(*case, LAM, GAMMA), whole)
    for i, j, b in ((0, 3, 7), (2, 1, 39)):
        alone = swept(*(t[b : b + 1] for t in case), LAM[i : i + 1], [GAMMA[j]])
        assert alone.chunks.item() == whole.chunks[b, i, j]
        assert_same_bits(alone.covered[0, :, 0, 0].clone(), whole.covered[b, :, i, j].clone())


@only_on("cpu")
def test_signature_fake_opcheck_and_compile():
    import scar_gpu
    from scar_gpu import reference

    public, definition = scar_gpu.parameter_sweep, reference.parameter_sweep
    assert list(inspect.signature(public).parameters) == list(
        inspect.signature(definition).parameters
    )
    _, case = random_case(3, 4, 2, 30)
    operator = torch.ops.scar_gpu.parameter_sweep.default
    torch.library.opcheck(operator, (*case, list(LAM), list(GAMMA), True))
    torch.compiler.reset()
    compiled = torch.compile(
        lambda *tensors: public(*tensors, LAM, GAMMA), fullgraph=True, backend="aot_eager"
    )
    assert_same_bits(compiled(*case), public(*case, LAM, GAMMA))
    torch.compiler.reset()


GOOD = dict(zip(("hits", "relevance", "neighbor_relevance", "continuity", "gold_ranges",
                 "gold_weights"), random_case(2, 3, 1, 9)[1], strict=True))  # fmt: skip


@only_on("cpu")
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"lam": []}, ValueError, "lam must have at least one value, got none"),
        ({"gamma": []}, ValueError, "gamma must have at least one value, got none"),
        ({"lam": [0.1, -0.5]}, ValueError, r"lam\[1\] must be >= 0, got -0.5"),
        ({"gamma": [0.1, INF]}, ValueError, r"gamma\[1\] must be finite, got inf"),
        ({"lam": [NAN]}, ValueError, r"lam\[0\] must be finite, got nan"),
        ({"lam": 0.1}, TypeError, "lam must be a sequence of floats, got float"),
        ({"gamma": torch.ones(2)}, TypeError, "gamma must be a sequence of floats, got Tensor"),
        ({"contiguous": 1}, TypeError, "contiguous must be a bool, got int"),
        ({"hits": torch.ones(2, 3)}, TypeError, "hits must be int32 or int64, got torch.float32"),
        ({"hits": torch.full((2, 3), -2)}, IndexError, r"hits\[0, 0\] must be -1 or in .* got -2"),
        ({"relevance": torch.ones(2, 4)}, ValueError, r"relevance must have shape \[2, 3\]"),
        ({"continuity": torch.ones(2, 3, 3)}, ValueError, "continuity must have an even last"),
        (
            {"neighbor_relevance": torch.ones(2, 3, 4)},
            ValueError,
            r"neighbor_relevance must have shape \[2, 3, 2\], got \[2, 3, 4\]",
        ),
        (
            {"gold_ranges": torch.ones(2, 6, 3, dtype=torch.int64)},
            ValueError,
            r"gold_ranges must have shape \[2, P, 2\], got \[2, 6, 3\]",
        ),
        ({"gold_weights": torch.ones(2, 6, 3)}, TypeError, "gold_weights must be float64, got"),
        (
            {"gold_weights": torch.ones(2, 5, 3, dtype=torch.float64)},
            ValueError,
            r"gold_weights must have shape \[2, 6, M\], got \[2, 5, 3\]",
        ),
    ],
)
def test_bad_input(wrong, error, message):
    import scar_gpu

    arguments = GOOD | {"lam": [0.1], "gamma": [0.8]} | wrong
    with pytest.raises(error, match=message):
        scar_gpu.parameter_sweep(**arguments)


@only_on("cpu")
@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize(
    "shape", [(0, 3, 1, 9), (2, 0, 1, 9), (4, 3, 0, 9), (5, 7, 3, 31), (33, 5, 2, 64)]
)
def test_the_gpu_path_has_the_same_bits(shape, contiguous, monkeypatch):
    """It is made of PyTorch's own kernels, which run here as well."""
    import scar_gpu
    from scar_gpu.kernels import parameter_sweep as module

    for make in (random_corpus, sign_corpus):
        _, case = random_case(*shape, make=make)
        expected = scar_gpu.parameter_sweep(*case, LAM, GAMMA, contiguous=contiguous)
        arguments = (*case, list(LAM), list(GAMMA), contiguous)
        assert_same_bits(module.launch_parameter_sweep(*arguments), tuple(expected))
        monkeypatch.setattr(module, "_BLOCK_BYTES", 1)  # a query at a time
        assert_same_bits(module.launch_parameter_sweep(*arguments), tuple(expected))


@only_on("cpu")
def test_the_gpu_path_is_the_one_registered():
    from scar_gpu.kernels.parameter_sweep import launch_parameter_sweep
    from scar_gpu.library import launcher

    assert launcher("parameter_sweep") is launch_parameter_sweep


@pytest.mark.parametrize("contiguous", [False, True])
def test_the_gpu_path_looks_at_no_value(contiguous):
    """Nothing waits for the device: tensors without values will do."""
    from scar_gpu.kernels.parameter_sweep import launch_parameter_sweep

    tensors = [tensor.to("meta") for tensor in random_case(5, 4, 2, 40)[1]]
    chunks, covered = launch_parameter_sweep(*tensors, list(LAM), list(GAMMA), contiguous)
    assert (chunks.shape, covered.shape) == ((5, 3, 4), (5, 3, 3, 4))
    for look in (lambda t: t[0, 0].item(), lambda t: t.tolist(), lambda t: t[t > 0],
                 lambda t: t.nonzero(), lambda t: bool(t.any())):  # fmt: skip
        with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
            look(tensors[0])
