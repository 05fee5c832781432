"""The operations as PyTorch sees them: opcheck, fakes, torch.compile, autograd."""

import pytest
import torch

from tests.backends import OPERATIONS, only_on, tensors_in
from tests.closeness import assert_same_bits
from tests.corpora import LAYOUTS, ROW_LAYOUTS, random_corpus, random_hits, random_queries

# B, K, N, W of the checks, D = 24; each size is 0 once.
SIZES = {
    "plain": (2, 3, 9, 2),
    "larger": (5, 7, 31, 3),
    "no-queries": (0, 3, 9, 2),
    "no-hits": (2, 0, 9, 2),
    "no-chunks": (2, 3, 0, 2),
    "no-window": (2, 3, 9, 0),
}
DTYPES = {"plain": torch.float16}  # the rest: float32
SCALARS = {
    "continuity": {"window": 2},
    "neighbor_scores": {"lam": 0.25, "gamma": 0.5, "contiguous": True},
    "expand": {"document_order": True},
    "scar_expand": {"lam": 0.25, "gamma": 0.5, "contiguous": True, "document_order": True},
    "window_expand": {"before": 2, "after": 1, "document_order": True},
    "search": {"k": 4},
    "corpus_masks": {"lam": 0.25, "gamma": 0.5, "contiguous": True, "return_relevance": True},
    "search_expand": {
        "k": 4, "lam": 0.25, "gamma": 0.5, "contiguous": True, "document_order": True,
    },
}  # fmt: skip


def arguments(size: str, device: torch.device, layout: str | None = None):
    """The tensors every operation takes, by name; rows stay dense in their last dimension."""
    b, k, n, window = SIZES[size]
    data = random_corpus(n, 24, window=window, dtype=DTYPES.get(size, torch.float32))
    hits = random_hits(n, b, k)
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "queries": random_queries(data.embeddings, b),
        "embeddings": data.embeddings,
        "continuity": data.continuity,
        "doc_offsets": data.doc_offsets,
        "row_scale": data.row_scale,
        "hits": hits,
        "ids": hits,
        "relevance": torch.rand(b, k, generator=generator),
        "scores": torch.rand(b, k, 2 * window, generator=generator),
        "mask": torch.rand(b, k, 2 * window, generator=generator) < 0.5,
        "row_ranges": torch.tensor([[n // 2, n]]).repeat(b, 1),
        "min_scores": torch.linspace(-1, 0.5, b),
    }
    arranged = {}
    for name, tensor in tensors.items():
        layouts = ROW_LAYOUTS if name == "embeddings" else LAYOUTS
        arrange = layouts.get(layout, lambda tensor: tensor)
        arranged[name] = arrange(tensor.to(device))
    return arranged


def raw_call(name: str, tensors: dict[str, torch.Tensor]):
    """The operator, and its arguments in the order of its schema."""
    operator = getattr(torch.ops.scar_gpu, name).default
    values = tensors | SCALARS.get(name, {})
    if name == "continuity":
        values["window"] = len(tensors["continuity"])
    return operator, tuple(values[argument.name] for argument in operator._schema.arguments)


def opcheck(operator, args):
    """All of opcheck; where NaN is a result, less the comparison that holds NaN unequal to NaN.

    test_compiles_without_a_graph_break compares those results bit for bit.
    """
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if operator is not torch.ops.scar_gpu.continuity.default:
        checks.append("test_aot_dispatch_dynamic")
    results = torch.library.opcheck(operator, args, test_utils=checks)
    assert results == dict.fromkeys(checks, "SUCCESS")


@pytest.mark.parametrize("layout", [None, "transposed", "wider", "every-other-column"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_opcheck_of_layouts(device, name, layout):
    opcheck(*raw_call(name, arguments("plain", device, layout)))


@pytest.mark.parametrize("size", sorted(SIZES.keys() - {"plain", "larger"}))
@pytest.mark.parametrize("name", OPERATIONS)
def test_opcheck_of_empty_inputs(device, name, size):
    opcheck(*raw_call(name, arguments(size, device)))


@pytest.mark.parametrize(
    "name", ["neighbor_scores", "scar_expand", "search", "search_expand", "continuity"]
)
def test_opcheck_without_the_optional_tensors(device, name):
    operator, args = raw_call(name, arguments("plain", device))
    optional = [isinstance(a.type, torch.OptionalType) for a in operator._schema.arguments]
    assert any(optional)
    args = tuple(None if skip else arg for arg, skip in zip(args, optional, strict=True))
    opcheck(operator, args)


@pytest.mark.parametrize("layout", [None, "transposed"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_fakes_agree_with_the_kernels(device, name, size, layout):
    """On meta tensors: the shapes, strides and dtypes of the real results."""
    operator, args = raw_call(name, arguments(size, device, layout))
    real = operator(*args)
    fake = operator(*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args))
    pairs = zip(real, fake, strict=True) if isinstance(real, tuple) else [(real, fake)]
    for one, other in pairs:
        assert other.device.type == "meta"
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)


def public_calls():
    """Every public function as a function of tensors alone, by name."""
    import scar_gpu

    def scored(function):
        return lambda t: function(
            t["queries"], t["embeddings"], t["continuity"], t["hits"], lam=0.25, gamma=0.5,
            row_scale=t["row_scale"],
        )  # fmt: skip

    return {
        "row_scale": lambda t: scar_gpu.row_scale(t["embeddings"]),
        "continuity": lambda t: scar_gpu.continuity(
            t["embeddings"], t["doc_offsets"], window=2, row_scale=t["row_scale"]
        ),
        "neighbor_scores": scored(scar_gpu.neighbor_scores),
        "scar_expand": scored(scar_gpu.scar_expand),
        "expand": lambda t: scar_gpu.expand(
            t["hits"], scar_gpu.NeighborScores(t["relevance"], t["scores"], t["mask"])
        ),
        "window_expand": lambda t: scar_gpu.window_expand(t["hits"], t["doc_offsets"]),
        "spans": lambda t: scar_gpu.spans(
            scar_gpu.window_expand(t["hits"], t["doc_offsets"]), t["doc_offsets"]
        ),
        "search": lambda t: scar_gpu.search(
            t["queries"], t["embeddings"], 3,
            row_scale=t["row_scale"], row_ranges=t["row_ranges"], min_scores=t["min_scores"],
        ),
        "corpus_masks": lambda t: scar_gpu.corpus_masks(
            t["queries"], t["embeddings"], t["continuity"], lam=0.25, gamma=0.5,
            row_scale=t["row_scale"], return_relevance=True,
        ),
        "search_expand": lambda t: scar_gpu.search_expand(
            t["queries"], t["embeddings"], t["continuity"], 3, lam=0.25, gamma=0.5,
            row_scale=t["row_scale"], row_ranges=t["row_ranges"], min_scores=t["min_scores"],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_compiles_without_a_graph_break(device, name, dynamic):
    function = public_calls()[name]
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    tensors = arguments("plain", device)
    assert_same_bits(compiled(tensors), function(tensors))
    other = arguments("larger", device)
    assert_same_bits(compiled(other), function(other))
    torch.compiler.reset()


@pytest.mark.parametrize("name", OPERATIONS)
def test_inputs_that_require_grad(device, name):
    """Accepted; the results are detached and the same."""
    function = public_calls()[name]
    tensors = arguments("plain", device)
    expected = function(tensors)
    for key, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[key] = tensor.clone().requires_grad_()
    result = function(tensors)
    assert not any(tensor.requires_grad for tensor in tensors_in(result))
    assert_same_bits(result, expected)


@only_on("cpu")
@pytest.mark.parametrize("name", ["neighbor_scores", "scar_expand", "window_expand"])
def test_a_bad_id_in_a_compiled_graph_is_an_error(device, name):
    """Of the kind that the version of PyTorch carries through the graph; the message stays."""
    function = public_calls()[name]
    tensors = arguments("plain", device)
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    compiled(tensors)
    tensors["hits"] = torch.full_like(tensors["hits"], 9)
    message = r"hits\[0, 0\] must be -1 or in \[0, 9\), got 9"
    with pytest.raises((IndexError, RuntimeError), match=message):
        compiled(tensors)
    torch.compiler.reset()
