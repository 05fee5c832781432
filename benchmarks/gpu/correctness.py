"""Checks of one device against the definitions, at sizes that tests on a CPU cannot afford."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

import scar_gpu
from benchmarks.gpu import by_tiles, questions
from benchmarks.gpu.comparisons import (
    GAMMA,
    LAM,
    known_masks,
    masks_against_reference,
    near,
    require,
    same_bits,
    same_decisions,
)
from benchmarks.gpu.questions import (
    ON_ROWS,
    OPERATIONS,
    SEARCH_K,
    Tensors,
    batch,
    corpus,
    outputs,
    part,
    sweep_tensors,
)
from benchmarks.gpu.suite import DroppedError
from scar_gpu import reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CPU = torch.device("cpu")
# Turns calls into one that repeats them, as a CUDA graph does.
Capture = Callable[[list[Callable[[], object]]], Callable[[], object]]


@dataclass(frozen=True)
class Sizes:
    """How large the checks are."""

    n_chunks: int = 50_000
    dims: tuple[int, ...] = (384, 1000, 3072)
    n_queries: int = 300  # against the reference, which is written to be read
    many_queries: int = 20_000  # against the CPU kernels
    widest_batch: int = 70_001  # beyond 65,535
    most_elements: int = 2**31
    k: int = 10
    most_chunks: int = 1_000_000  # of the matrices that are timed


def against_reference(device: torch.device, sizes: Sizes, dim: int, dtype: torch.dtype) -> str:
    """Scores within rounding of float64, decisions equal where rounding cannot change them."""
    from tests.closeness import tolerance

    rows = corpus(sizes.n_chunks, dim, dtype, device, window=2)
    asked = batch(rows, sizes.n_queries, sizes.k)
    host = {name: tensor.cpu() for name, tensor in asked.items()}
    few = slice(0, max(1, sizes.n_queries // 10))
    allowed = tolerance(dim, dtype, LAM)
    args = (host["queries"], host["embeddings"], host["continuity"], host["hits"])

    exact = reference.row_scale(host["embeddings"])
    near(asked["row_scale"] / exact.to(device), torch.ones(len(exact)), 2.0**-23, "row_scale")
    head = min(sizes.n_chunks, 10_000)
    ends = host["doc_offsets"].clamp(max=head).unique()
    exact = reference.continuity(
        host["embeddings"][:head], ends, window=2, row_scale=host["row_scale"][:head]
    )
    near(asked["continuity"][:, :head], exact, allowed, "continuity")

    judged = OPERATIONS["neighbor_scores"](asked)
    exact = reference.neighbor_scores(*args, row_scale=host["row_scale"])
    near(judged.relevance, exact.relevance, allowed, "relevance")
    near(judged.scores, exact.scores, allowed, "scores")
    distance = (exact.scores - GAMMA * exact.relevance[..., None]).abs()
    is_clear = ~(distance <= allowed * (1 + GAMMA))  # NaN and infinity are clear
    is_wrong = (judged.mask.cpu() != exact.mask) & is_clear
    require(not bool(is_wrong.any()), f"mask: {int(is_wrong.sum())} wrong")

    found = OPERATIONS["search"](part(asked, few))
    exact = reference.search(
        host["queries"][few], host["embeddings"], SEARCH_K, row_scale=host["row_scale"]
    )
    near(found.scores, exact.scores, allowed, "search")
    again = scar_gpu.neighbor_scores(
        asked["queries"][few], rows["embeddings"], rows["continuity"], found.ids,
        row_scale=rows["row_scale"],
    )  # fmt: skip
    same_bits(found.scores, again.relevance, "search against neighbor_scores")
    in_one_call(part(asked, few))
    masks_against_reference(part(asked, slice(0, 5)), allowed)
    return f"{sizes.n_queries} queries, {sizes.n_chunks} rows"


def in_one_call(t: Tensors) -> None:
    """The bits of search_expand are those of the three operations one after the other."""
    hits = OPERATIONS["search"](t)
    judged = OPERATIONS["neighbor_scores"](t | {"hits": hits.ids})
    expected = scar_gpu.SearchExpansion(hits, judged, scar_gpu.expand(hits.ids, judged))
    same_bits(OPERATIONS["search_expand"](t), expected, "search_expand against three calls")


def against_cpu(device: torch.device, sizes: Sizes) -> str:
    """Operations without rounding: the bits of the reference and of the CPU kernels."""
    asked = batch(corpus(sizes.n_chunks, 64, torch.float16, device), sizes.many_queries, sizes.k)
    host = {name: tensor.cpu() for name, tensor in asked.items()}
    few = part(host, slice(0, sizes.n_queries))
    fewer = part(host, slice(0, max(1, sizes.n_queries // 10)))  # for a whole grid
    ids = scar_gpu.Expansion(*[few["ids"]] * 4)
    judged = scar_gpu.NeighborScores(few["relevance"], few["scores"], few["mask"])
    definitions = {
        "expand": lambda: reference.expand(few["hits"], judged),
        "window_expand": lambda: reference.window_expand(few["hits"], few["doc_offsets"]),
        "spans": lambda: reference.spans(ids, few["doc_offsets"]),
        "rank_fusion": lambda: reference.rank_fusion([few["first"], few["second"]]),
        "parameter_sweep": lambda: reference.parameter_sweep(
            *sweep_tensors(fewer), questions.LAM_GRID, questions.GAMMA_GRID
        ),
    }
    for name, definition in definitions.items():
        result = outputs(OPERATIONS[name](asked))
        same_bits(result, OPERATIONS[name](host), f"{name} against the CPU")
        exact = [
            one.to(other.dtype) for one, other in zip(outputs(definition()), result, strict=True)
        ]
        same_bits([t[: len(exact[0])] for t in result], exact, f"{name} against the reference")
    return f"{sizes.many_queries} queries"


def beyond_int32(device: torch.device, sizes: Sizes, free_bytes: int) -> str:
    """The last rows of a matrix of more than 2^31 elements: the bits they have on their own."""
    dim, tail = 1024, 2000
    n = sizes.most_elements // dim + tail
    if free_bytes < 3 * n * dim * 2:
        raise DroppedError(f"needs {3 * n * dim * 2 >> 30} GiB of free memory")
    small = corpus(tail, dim, torch.float16, device)
    embeddings = torch.zeros(n, dim, dtype=torch.float16, device=device)
    embeddings[-tail:] = small["embeddings"]
    first = n - tail
    doc_offsets = torch.cat([small["doc_offsets"].new_zeros(1), small["doc_offsets"] + first])
    scale = scar_gpu.row_scale(embeddings)
    same_bits(scale[-tail:], small["row_scale"], "row_scale")
    table = scar_gpu.continuity(embeddings, doc_offsets, row_scale=scale)
    same_bits(table[:, -tail:], small["continuity"], "continuity")
    near_end = batch(small, 50, sizes.k)
    large = near_end | {
        "embeddings": embeddings,
        "row_scale": scale,
        "continuity": table,
        "doc_offsets": doc_offsets,
        "hits": torch.where(near_end["hits"] >= 0, near_end["hits"] + first, -1),
    }
    for name in ("neighbor_scores", "scar_expand", "window_expand", "search", "search_expand"):
        actual, expected = OPERATIONS[name](large), OPERATIONS[name](near_end)
        same_bits(_counted_from(first, actual), expected, name)
    few = slice(0, 4)
    large, near_end = part(large, few), part(near_end, few)
    same_decisions(OPERATIONS["corpus_masks"](large).bits, large, "corpus_masks")
    actual, expected = known_masks(large), known_masks(near_end)
    same_bits(actual.relevance[:, first:], expected.relevance, "relevance of corpus_masks")
    decided = scar_gpu.unpack_masks(actual.bits, n)[..., first:]
    same_bits(decided, scar_gpu.unpack_masks(expected.bits, tail), "corpus_masks with relevance")
    return f"{n * dim} elements"


def _counted_from(first: int, result: object) -> object:
    """The result with row `first` as row 0."""
    if isinstance(result, scar_gpu.SearchExpansion):
        return [_counted_from(first, one) for one in result]
    if isinstance(result, (scar_gpu.Hits, scar_gpu.Expansion)):
        return result._replace(ids=torch.where(result.ids >= 0, result.ids - first, -1))
    return result


def same_alone(name: str, together: list[torch.Tensor], chosen: Tensors, what: str) -> None:
    """Queries `chosen` from a batch get what they got `together` with the rest of it."""
    alone = OPERATIONS[name](chosen)
    if name == "corpus_masks":
        same_decisions(alone.bits, chosen, f"{what} alone")
        same_decisions(together[0], chosen, f"{what} in the batch")
    else:
        same_bits(together, alone, what)


def wide_batch(device: torch.device, sizes: Sizes) -> str:
    """More queries than a grid has rows of blocks: each gets what it gets in a small batch."""
    asked = batch(corpus(5000, 64, torch.float16, device), sizes.widest_batch, 3)
    middle = min(65_530, sizes.widest_batch // 2)
    for name in OPERATIONS.keys() - set(ON_ROWS):
        everything = outputs(OPERATIONS[name](asked))
        for chosen in (slice(0, 5), slice(middle, middle + 10), slice(-5, None)):
            some = [t[chosen] for t in everything]
            same_alone(name, some, part(asked, chosen), f"{name} of {chosen}")
    return f"{sizes.widest_batch} queries"


def row_alone(device: torch.device, sizes: Sizes, dtype: torch.dtype) -> str:
    """A query alone gets the bits that it gets in a batch."""
    rows = corpus(sizes.n_chunks, 384, dtype, device)
    asked = batch(rows, 500, sizes.k)
    for name in OPERATIONS.keys() - set(ON_ROWS):
        together = outputs(OPERATIONS[name](asked))
        for b in (0, 77, 499):
            one = slice(b, b + 1)
            same_alone(name, [t[one] for t in together], part(asked, one), f"{name} of query {b}")
    together = outputs(known_masks(asked))
    for b in (0, 77, 499):
        one = slice(b, b + 1)
        alone = known_masks(part(asked, one))
        same_bits([t[one] for t in together], alone, f"corpus_masks with relevance of query {b}")
    head = sizes.n_chunks // 2 // 100 * 100
    few = rows | {"embeddings": rows["embeddings"][:head]}
    same_bits(OPERATIONS["row_scale"](few), rows["row_scale"][:head], "row_scale")
    return "batch of 500"


def graphs(device: torch.device, sizes: Sizes, capture: Capture) -> str:
    """Every operation, captured once and replayed with inputs of other values."""
    rows = corpus(sizes.n_chunks, 384, torch.float16, device)
    static, other = (batch(rows, 50, sizes.k, seed=seed) for seed in (1, 2))
    other = other | {"embeddings": rows["embeddings"].flip(0)}
    for name, operation in OPERATIONS.items():
        inputs = {key: tensor.clone() for key, tensor in static.items()}
        results = {}
        replay = capture([lambda: results.update(last=operation(inputs))])  # noqa: B023
        for key, tensor in inputs.items():
            tensor.copy_(other[key])
        replay()
        same_bits(results["last"], operation(other), f"{name} in a graph")
    return f"{len(OPERATIONS)} operations"


def checks(
    device: torch.device, sizes: Sizes, capture: Capture, free_bytes: Callable[[], int]
) -> dict[str, Callable[[], str]]:
    """Every check by name."""
    found: dict[str, Callable[[], str]] = {
        "CUDA graphs": lambda: graphs(device, sizes, capture),
        "operations without rounding": lambda: against_cpu(device, sizes),
        "a batch beyond 65,535": lambda: wide_batch(device, sizes),
        "more than 2^31 elements": lambda: beyond_int32(device, sizes, free_bytes()),
    }
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        found[f"by tiles, {name}"] = lambda dtype=dtype: by_tiles.check(
            device, sizes.n_chunks, sizes.n_queries, dtype
        )
        found[f"row alone, {name}"] = lambda dtype=dtype: row_alone(device, sizes, dtype)
        for dim in sizes.dims:
            found[f"reference, D={dim} {name}"] = lambda dim=dim, dtype=dtype: against_reference(
                device, sizes, dim, dtype
            )
    return found
