"""What is wrong with the arguments of an operation, in the words: name, rule, value.

The kernels refuse on their own whatever they cannot read, in nanoseconds; only when one has
refused does a public function on the CPU come here to find out why. The exception is a number or
switch of another type than expected, which PyTorch might convert: it is looked at first. The CUDA
launchers and the fakes, which cannot refuse so cheaply, always look here first. Nothing here reads
a tensor's values.
"""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

_INTS = (int, np.integer, torch.SymInt)
_NUMBERS = (float, np.floating, torch.SymFloat, *_INTS)
ROW_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ID_DTYPES = (torch.int64, torch.int32)


def fail(error: type[Exception], name: str, rule: str, got: object) -> NoReturn:
    """Raise `error` with the message "`name` must `rule`, got `got`"."""
    raise error(f"{name} must {rule}, got {got}")


def check_tensor(
    name: str,
    value: Any,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | str, ...],
    device: torch.device | None = None,
    owner: str = "embeddings",
) -> None:
    """Check type, dtype, rank, sizes (a str stands for any size), and `owner`'s device."""
    if not isinstance(value, Tensor):
        fail(TypeError, name, "be a torch.Tensor", type(value).__name__)
    if value.layout is not torch.strided or value.is_nested:
        fail(TypeError, name, "be a dense tensor", f"layout {value.layout}")
    if value.dtype not in dtypes:
        fail(TypeError, name, f"be {_either(dtypes)}", value.dtype)
    actual = value.shape
    if len(actual) != len(shape):
        fail(ValueError, name, f"have shape {_sizes(shape)}", _sizes(tuple(actual)))
    for size, expected in zip(actual, shape, strict=True):
        if expected.__class__ is not str and size != expected:
            fail(ValueError, name, f"have shape {_sizes(shape)}", _sizes(tuple(actual)))
    if device is not None and value.device != device:
        fail(ValueError, name, f"be on {device} like {owner}", value.device)


def check_embeddings(embeddings: Tensor) -> None:
    """Check the chunk matrix: [N, D], a float dtype, adjacent elements within a row."""
    check_tensor("embeddings", embeddings, ROW_DTYPES, ("N", "D"))
    if embeddings.stride(1) != 1 and embeddings.shape[1] > 1:
        fail(ValueError, "embeddings", "have a contiguous last dimension", embeddings.stride())


def check_scale(row_scale: Tensor | None, n_chunks: int, device: torch.device) -> None:
    """Check the optional row scale: [N] float32."""
    if row_scale is not None:
        check_tensor("row_scale", row_scale, (torch.float32,), (n_chunks,), device)


def check_offsets(
    doc_offsets: Tensor, device: torch.device | None = None, owner: str = "embeddings"
) -> None:
    """Check the document bounds: [num_docs + 1] int64, at least one entry."""
    check_tensor("doc_offsets", doc_offsets, (torch.int64,), ("num_docs + 1",), device, owner)
    if doc_offsets.shape[0] == 0:
        fail(ValueError, "doc_offsets", "have at least one entry", "none")


def check_result(name: str, value: Any, expected: type) -> None:
    """Check that an argument is the result of another operation."""
    if not isinstance(value, expected):
        fail(TypeError, name, f"be a {expected.__name__}", type(value).__name__)


def check_number(name: str, value: float) -> None:
    """Check a finite real argument."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        fail(TypeError, name, "be a float", type(value).__name__)
    if isinstance(value, np.floating):
        value = float(value)  # whose range is that of the bounds
    if not -sys.float_info.max <= value <= sys.float_info.max:
        fail(ValueError, name, "be finite", value)


def check_bool(name: str, value: bool) -> None:
    """Check a switch."""
    if not isinstance(value, bool):
        fail(TypeError, name, "be a bool", type(value).__name__)


def check_at_least(name: str, value: int, least: int) -> None:
    """Check an integer argument against its smallest legal value."""
    if isinstance(value, bool) or not isinstance(value, _INTS):
        fail(TypeError, name, "be an int", type(value).__name__)
    if value < least:
        fail(ValueError, name, f"be >= {least}", value)
    if value >= 2**31:
        fail(ValueError, name, "be below 2^31", value)


def check_judgement(lam: float, gamma: float, contiguous: bool) -> None:
    """Check what decides whether a neighbour is admitted."""
    check_number("lam", lam)
    if lam < 0:
        fail(ValueError, "lam", "be >= 0", lam)
    check_number("gamma", gamma)
    check_bool("contiguous", contiguous)


def row_scale(embeddings: Tensor) -> None:
    """Check the arguments of the operation `row_scale`."""
    check_embeddings(embeddings)


def continuity(
    embeddings: Tensor, doc_offsets: Tensor, window: int, row_scale: Tensor | None
) -> None:
    """Check the arguments of the operation `continuity`."""
    check_embeddings(embeddings)
    check_offsets(doc_offsets, embeddings.device)
    check_at_least("window", window, 0)
    check_scale(row_scale, embeddings.shape[0], embeddings.device)


def neighbor_scores(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    relevance: Tensor | None,
) -> None:
    """Check the arguments of the operation `neighbor_scores`."""
    check_embeddings(embeddings)
    n_chunks, dim = embeddings.shape
    device = embeddings.device
    check_tensor("queries", queries, ROW_DTYPES, ("B", dim), device)
    n_queries = queries.shape[0]
    check_tensor("continuity", continuity, (torch.float32,), ("W", n_chunks), device)
    check_tensor("hits", hits, ID_DTYPES, (n_queries, "K"), device)
    check_scale(row_scale, n_chunks, device)
    if relevance is not None:
        check_tensor("relevance", relevance, (torch.float32,), (n_queries, hits.shape[1]), device)
    check_judgement(lam, gamma, contiguous)


def expand(
    hits: Tensor, relevance: Tensor, scores: Tensor, mask: Tensor, document_order: bool
) -> None:
    """Check the arguments of the operation `expand`."""
    check_tensor("hits", hits, ID_DTYPES, ("B", "K"))
    n_queries, k = hits.shape
    check_tensor("relevance", relevance, (torch.float32,), (n_queries, k), hits.device, "hits")
    check_tensor("scores", scores, (torch.float32,), (n_queries, k, "2W"), hits.device, "hits")
    check_tensor("mask", mask, (torch.bool,), tuple(scores.shape), hits.device, "hits")
    if scores.shape[2] % 2:
        fail(ValueError, "scores", "have an even last dimension", scores.shape[2])


def scar_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    relevance: Tensor | None,
    document_order: bool,
) -> None:
    """Check the arguments of the operation `scar_expand`."""
    neighbor_scores(
        queries, embeddings, continuity, hits, lam, gamma, contiguous, row_scale, relevance
    )


def window_expand(
    hits: Tensor, doc_offsets: Tensor, before: int, after: int, document_order: bool
) -> None:
    """Check the arguments of the operation `window_expand`."""
    check_tensor("hits", hits, ID_DTYPES, ("B", "K"))
    check_offsets(doc_offsets, hits.device, "hits")
    check_at_least("before", before, 0)
    check_at_least("after", after, 0)
    if hits.shape[1] * (before + after + 1) >= 2**31:
        got = f"{before} + {after} for K = {hits.shape[1]}"
        fail(ValueError, "before + after", "keep K * (before + after + 1) below 2^31", got)


def spans(ids: Tensor, doc_offsets: Tensor) -> None:
    """Check the arguments of the operation `spans`."""
    check_tensor("ids", ids, ID_DTYPES, ("B", "M"))
    check_offsets(doc_offsets, ids.device, "ids")


def search(
    queries: Tensor,
    embeddings: Tensor,
    k: int,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
) -> None:
    """Check the arguments of the operation `search`."""
    check_embeddings(embeddings)
    n_chunks, dim = embeddings.shape
    check_tensor("queries", queries, ROW_DTYPES, ("B", dim), embeddings.device)
    check_at_least("k", k, 1)
    check_scale(row_scale, n_chunks, embeddings.device)
    if row_ranges is not None:
        shape = (queries.shape[0], 2)
        check_tensor("row_ranges", row_ranges, (torch.int64,), shape, embeddings.device)


def search_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    k: int,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
    document_order: bool,
) -> None:
    """Check the arguments of the operation `search_expand`."""
    search(queries, embeddings, k, row_scale, row_ranges)
    shape = ("W", embeddings.shape[0])
    check_tensor("continuity", continuity, (torch.float32,), shape, embeddings.device)
    if k * (2 * continuity.shape[0] + 1) >= 2**31:
        got = f"{k} for W = {continuity.shape[0]}"
        fail(ValueError, "k", "keep k * (2W + 1) below 2^31", got)
    check_judgement(lam, gamma, contiguous)


def corpus_masks(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    return_relevance: bool,
) -> None:
    """Check the arguments of the operation `corpus_masks`."""
    check_embeddings(embeddings)
    n_chunks, dim = embeddings.shape
    check_tensor("queries", queries, ROW_DTYPES, ("B", dim), embeddings.device)
    shape = ("W", n_chunks)
    check_tensor("continuity", continuity, (torch.float32,), shape, embeddings.device)
    check_scale(row_scale, n_chunks, embeddings.device)
    check_judgement(lam, gamma, contiguous)
    check_bool("return_relevance", return_relevance)


def rank_fusion(
    rankings: list[Tensor],
    ranks: list[Tensor] | None,
    k: float,
    weights: list[float] | None,
    contributions: Tensor | None,
    top_n: int | None,
    sums_duplicates: bool,
    has_details: bool,
) -> None:
    """Check the arguments of the operation `rank_fusion`."""
    check_lists("rankings", rankings, ID_DTYPES)
    n_lists = len(rankings)
    if ranks is not None:
        check_lists("ranks", ranks, ID_DTYPES, like=rankings)
    check_rank_constant("k", k)
    check_weights(weights, n_lists)
    if contributions is not None:
        shape = (n_lists, "R")
        check_tensor("contributions", contributions, (torch.float64,), shape)
        if not contributions.is_cpu:
            fail(ValueError, "contributions", "be on the CPU", contributions.device)
        longest = max(ids.shape[1] for ids in rankings)
        if ranks is None and contributions.shape[1] < longest:
            got = contributions.shape[1]
            fail(ValueError, "contributions", f"have a column for each of {longest} ranks", got)
    if top_n is not None:
        check_at_least("top_n", top_n, 1)
    check_bool("details", has_details)


def parameter_sweep(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: list[float],
    gamma: list[float],
    contiguous: bool,
) -> None:
    """Check the arguments of the operation `parameter_sweep`."""
    check_tensor("hits", hits, ID_DTYPES, ("B", "K"))
    (n_queries, k), device = hits.shape, hits.device
    floats = (torch.float32,)
    check_tensor("relevance", relevance, floats, (n_queries, k), device, "hits")
    check_tensor("continuity", continuity, floats, (n_queries, k, "2W"), device, "hits")
    n_neighbors = continuity.shape[2]
    if n_neighbors % 2:
        fail(ValueError, "continuity", "have an even last dimension", n_neighbors)
    shape = (n_queries, k, n_neighbors)
    check_tensor("neighbor_relevance", neighbor_relevance, floats, shape, device, "hits")
    check_tensor("gold_ranges", gold_ranges, (torch.int64,), (n_queries, "P", 2), device, "hits")
    shape_of_weights = (n_queries, gold_ranges.shape[1], "M")
    check_tensor("gold_weights", gold_weights, (torch.float64,), shape_of_weights, device, "hits")
    for name, values in (("lam", lam), ("gamma", gamma)):
        if len(values) == 0:
            fail(ValueError, name, "have at least one value", "none")
        for number, value in enumerate(values):
            check_number(f"{name}[{number}]", value)
            if name == "lam" and value < 0:
                fail(ValueError, f"lam[{number}]", "be >= 0", value)
    check_bool("contiguous", contiguous)


def check_lists(
    name: str,
    lists: list[Tensor],
    dtypes: tuple[torch.dtype, ...],
    like: list[Tensor] | None = None,
    owner: str = "rankings[0]",
) -> None:
    """Check a tensor [B, K_l] per list; of the shapes of `like`, owned by `owner`, if given."""
    if len(lists) == 0:
        fail(ValueError, name, "have at least one list", "none")
    if like is not None and len(lists) != len(like):
        fail(ValueError, name, f"have one tensor per list ({len(like)})", len(lists))
    for number, tensor in enumerate(lists):
        shape: tuple[int | str, ...] = ("B", "K") if number == 0 else (lists[0].shape[0], "K")
        if like is not None:
            shape = tuple(like[number].shape)
        if like is None:
            device, owner = (lists[0].device if number else None), f"{name}[0]"
        else:
            device = like[0].device
        check_tensor(f"{name}[{number}]", tensor, dtypes, shape, device, owner)


def check_rank_constant(name: str, k: float) -> None:
    """Check the k of 1 / (k + rank)."""
    check_number(name, k)
    if not 0 < k <= 1e6:
        fail(ValueError, name, "be > 0 and <= 1000000", k)


def check_weights(weights: list[float] | None, n_lists: int) -> None:
    """Check the optional host weights, one per list."""
    if weights is None:
        return
    if len(weights) != n_lists:
        fail(ValueError, "weights", f"have one entry per list ({n_lists})", len(weights))
    for number, weight in enumerate(weights):
        check_number(f"weights[{number}]", weight)
        if weight < 0:
            fail(ValueError, f"weights[{number}]", "be >= 0", weight)


def explain(error: Exception, check: Callable[..., None], *arguments: Any) -> Exception:
    """Return what `check` finds wrong with the arguments, or `error` when it finds nothing."""
    try:
        check(*arguments)
    except (TypeError, ValueError) as finding:
        return finding
    return error


def is_document_order(order: str) -> bool:
    """Tell `order="document"` from `order="rank"`; anything else is an error."""
    if not isinstance(order, str):
        fail(TypeError, "order", "be a str", type(order).__name__)
    if order == "rank":
        return False
    if order == "document":
        return True
    fail(ValueError, "order", "be 'rank' or 'document'", repr(order))


def _either(dtypes: tuple[torch.dtype, ...]) -> str:
    names = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _sizes(shape: tuple[int | str, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
