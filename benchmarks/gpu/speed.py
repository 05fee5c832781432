"""Every operation over sizes: time, bandwidth, and what else does the same work."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from benchmarks import torch_versions, traffic
from benchmarks.gpu import by_tiles
from benchmarks.gpu.questions import (
    GAMMA_GRID,
    LAM_GRID,
    MOST_PIECES,
    OPERATIONS,
    SEARCH_K,
    Tensors,
    batch,
    corpus,
    sweep_tensors,
)
from benchmarks.gpu.timing import Measured
from benchmarks.traffic import Traffic

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
N_CHUNKS = 1_000_000
LIST_LENGTH = 100
PRODUCTS = ("search", "search_expand", "corpus_masks")  # of queries with all rows
WITHOUT_ROWS = ("expand", "window_expand", "spans", "rank_fusion", "parameter_sweep")
MOST_SETS = 32  # questions per CUDA graph
EAGER_BYTES = 2**32  # of one gather; more queries are answered one part after the other


class Timer(Protocol):
    """What is asked of timing.GpuTimer."""

    device: torch.device

    def measure(self, calls: list[Callable[[], object]]) -> Measured: ...
    def python_call(self, call: Callable[[], object], rounds: int = 200) -> float: ...
    def launches(self, call: Callable[[], object]) -> int | None: ...
    def free_bytes(self) -> int: ...


class Case(NamedTuple):
    """One operation at one size; the smaller `rank`, the more important."""

    rank: int
    operation: str
    dim: int
    dtype: torch.dtype
    n_queries: int = 0
    k: int = 0
    is_compiled: bool = False  # torch.compile is measured as well: it compiles for seconds
    is_tiled: bool = False  # so is the search of the matrix in the host's memory

    @property
    def label(self) -> str:
        """The case in words."""
        name = str(self.dtype).removeprefix("torch.")
        words = [self.operation]
        if self.operation not in WITHOUT_ROWS:
            words.append(f"D={self.dim} {name}")
        if self.n_queries:
            words.append(f"B={self.n_queries}" + f" K={self.k}" * (self.k > 0))
        return " ".join(words)


# B, K: from one question of an interactive user to a batch job of 1,000,000 hits.
HIT_SIZES = [(1, 5), (8192, 10), (16, 10), (100, 10), (2000, 10), (100_000, 10)]
SEARCH_SIZES = [(1024, SEARCH_K), (1, SEARCH_K), (64, SEARCH_K)]
MASK_QUERIES = 256  # of all rows, whatever the hits
SWEEP_SIZES = [(1000, 10), (1, 10)]
# The fourth, fp32 last, costs most memory and says least.
DIMS, DTYPES = (768, 384, 1024, 3072), (F16, F32, BF16)


def cases() -> list[Case]:
    """Most important first: what a budget cuts off is named by the suite."""
    found = []
    for d, dim in enumerate(DIMS):
        for t, dtype in enumerate(DTYPES):
            is_first = d == 0 or (d, t) == (1, 1)
            for s, (n_queries, k) in enumerate(HIT_SIZES):
                rank = d + t + 2 * (s > 1)
                is_compiled = s == 1 and is_first
                for name in ("neighbor_scores", "scar_expand"):
                    late = 2 * (name == "scar_expand")
                    found.append(Case(rank + late, name, dim, dtype, n_queries, k, is_compiled))
            for s, (n_queries, k) in enumerate(SEARCH_SIZES):
                rank, is_compiled = d + t + s, s == 0 and is_first
                found.append(Case(rank, "search", dim, dtype, n_queries, k, is_compiled))
                is_compiled = (d, t, s) == (0, 0, 0)
                judged = Case(rank + 1, "search_expand", dim, dtype, n_queries, k, is_compiled)
                found.append(judged._replace(is_tiled=(d, t) == (0, 0)))
            is_compiled = (d, t) == (0, 0)
            masks = Case(2 + d + t, "corpus_masks", dim, dtype, MASK_QUERIES)
            found.append(masks._replace(is_compiled=is_compiled))
            for name in ("row_scale", "continuity"):
                found.append(Case(1 + d + t, name, dim, dtype, is_compiled=is_compiled))
    for s, (n_queries, k) in enumerate(HIT_SIZES):
        for name in ("expand", "window_expand", "spans"):
            found.append(Case(1 + 2 * (s > 1), name, 8, F16, n_queries, k, s == 1))
    for s, n_queries in enumerate((2000, 1, 100, 100_000)):
        found.append(Case(s, "rank_fusion", 8, F16, n_queries, LIST_LENGTH, s == 0))
    for s, (n_queries, k) in enumerate(SWEEP_SIZES):
        found.append(Case(2 + s, "parameter_sweep", 8, F16, n_queries, k, s == 0))
    return sorted(found, key=lambda case: case.rank)  # stable


def moved_bytes(case: Case, n_chunks: int, window: int = 1) -> Traffic:
    """What a case must move."""
    row, query = case.dim * case.dtype.itemsize, 4 * case.dim
    b, k = case.n_queries, case.k
    scores = traffic.neighbor_scores(b, max(k, 1), window, row, query)
    union = traffic.expand(b, k, window)
    return {
        "row_scale": lambda: traffic.row_scale(n_chunks, row),
        "continuity": lambda: traffic.continuity(n_chunks, row, window),
        "neighbor_scores": lambda: scores,
        "expand": lambda: union,
        "scar_expand": lambda: Traffic(scores.useful + union.useful, scores.moved + union.moved),
        "window_expand": lambda: traffic.window_expand(b, k, window, window),
        "spans": lambda: traffic.spans(b, k * (2 * window + 1)),
        "search": lambda: traffic.search(b, n_chunks, k, row, query),
        "search_expand": lambda: traffic.search_expand(b, n_chunks, k, window, row, query),
        "corpus_masks": lambda: traffic.corpus_masks(b, n_chunks, window, row, query),
        "parameter_sweep": lambda: traffic.parameter_sweep(
            b, k, window, min(MOST_PIECES, k + 1), 2, (len(LAM_GRID), len(GAMMA_GRID))
        ),
        "rank_fusion": lambda: traffic.rank_fusion(b, 2 * k),
    }[case.operation]()


def arguments(case: Case, t: Tensors) -> tuple[object, ...]:
    """Of the function of the same name in torch_versions."""
    judged = ("queries", "embeddings", "continuity", "hits", "row_scale")
    return {
        "row_scale": lambda: (t["embeddings"],),
        "continuity": lambda: (t["embeddings"], t["doc_offsets"], 1, t["row_scale"]),
        "neighbor_scores": lambda: tuple(t[name] for name in judged),
        "expand": lambda: (t["hits"], t["relevance"], t["scores"], t["mask"]),
        "scar_expand": lambda: tuple(t[name] for name in judged),
        "window_expand": lambda: (t["hits"], t["doc_offsets"]),
        "spans": lambda: (t["ids"], t["doc_offsets"]),
        "search": lambda: (t["queries"], t["embeddings"], case.k, t["row_scale"]),
        "search_expand": lambda: (*(t[name] for name in judged[:3]), case.k, t["row_scale"]),
        "corpus_masks": lambda: tuple(t[name] for name in (*judged[:3], "row_scale")),
        "parameter_sweep": lambda: (*sweep_tensors(t), LAM_GRID, GAMMA_GRID),
        "rank_fusion": lambda: ([t["first"], t["second"]],),
    }[case.operation]()


def eager(case: Case, t: Tensors) -> object:
    """The same in eager PyTorch, as many queries at a time as its temporary tensors allow."""
    function = getattr(torch_versions, case.operation)
    args = arguments(case, t)
    step = max(1, EAGER_BYTES // max(1, 3 * case.k * case.dim * 4))
    if case.operation not in ("neighbor_scores", "scar_expand") or case.n_queries <= step:
        return function(*args)
    queries, rows, table, hits, scale = args
    return [
        function(some, rows, table, few, scale)
        for some, few in zip(queries.split(step), hits.split(step), strict=True)
    ]


class Inputs:
    """The tensors of one case after the other; those of a matrix are kept while it is the same."""

    def __init__(self, timer: Timer, n_chunks: int = N_CHUNKS) -> None:
        self.timer, self.n_chunks = timer, n_chunks
        self.key: object = None
        self.rows: Tensors = {}

    def of(self, case: Case) -> list[Tensors]:
        """Several questions, so that each call reads rows of its own."""
        key = (case.dim, case.dtype)
        if key != self.key:
            self.key, self.rows = None, {}
            most = self.timer.free_bytes() // 8 // (case.dim * case.dtype.itemsize)
            n_chunks = min(self.n_chunks, max(1000, most))
            self.rows, self.key = corpus(n_chunks, *key, self.timer.device), key
        if not case.n_queries:
            return [self.rows]
        sets = 1 if case.operation in PRODUCTS else min(MOST_SETS, max(1, 4096 // case.n_queries))
        return [
            batch(self.rows, case.n_queries, case.k, length=case.k, seed=seed)
            for seed in range(sets)
        ]


def _median(timer: Timer, function: Callable[[Tensors], object], sets: list[Tensors]) -> float:
    return timer.measure([lambda t=t: function(t) for t in sets]).timing.median


def _times(case: Case, timer: Timer, sets: list[Tensors]) -> dict[str, Callable[[], float]]:
    """What the operation is compared with, by name: seconds per call."""

    def compiled() -> float:
        torch.compiler.reset()
        function = torch.compile(getattr(torch_versions, case.operation))
        return _median(timer, lambda t: function(*arguments(case, t)), sets)

    def product() -> float:
        rows = sets[0]["embeddings"]
        queries = sets[0]["queries"].to(rows.dtype)
        out = rows.new_empty(len(queries), len(rows))
        return timer.measure([lambda: torch.mm(queries, rows.T, out=out)]).timing.median

    found = {"eager": lambda: _median(timer, lambda t: eager(case, t), sets)}
    if case.is_compiled:
        found["compiled"] = compiled
    if case.operation in PRODUCTS:
        found["torch.mm"] = product
    if case.is_tiled:
        found["by tiles"] = lambda: by_tiles.seconds(sets[0], timer.python_call)
    return found


def measure(case: Case, timer: Timer, inputs: Inputs, ceilings: dict[str, float]) -> dict[str, Any]:
    """One row of the table."""
    sets = inputs.of(case)
    operation = OPERATIONS[case.operation]
    n_chunks = len(sets[0]["embeddings"])
    ours = timer.measure([lambda t=t: operation(t) for t in sets])
    seconds = ours.timing.median
    useful = moved_bytes(case, n_chunks).useful
    row: dict[str, Any] = {
        "work": case.label,
        "operation": case.operation,
        "dim": case.dim,
        "dtype": str(case.dtype).removeprefix("torch."),
        "n_chunks": n_chunks,
        "n_queries": case.n_queries,
        "k": case.k,
        "seconds": seconds,
        "spread": ours.timing.spread,
        "method": ours.method,
        "useful_bytes": useful,
        "bytes_per_second": useful / seconds,
        "share": useful / seconds / ceilings["copy"],
        "launches": None,
        "against": {},
        "notes": [] if ours.method == "graph" else [f"timed by {ours.method}"],
    }
    if case.operation in PRODUCTS:
        flops = 2 * case.n_queries * n_chunks * case.dim
        row["product_share"] = flops / seconds / ceilings["bf16"]
    if case.n_queries == 1:
        row["python_seconds"] = timer.python_call(lambda: operation(sets[0]))
        row["eager_python_seconds"] = timer.python_call(lambda: eager(case, sets[0]))

    def attempt(name: str, work: Callable[[], Any]) -> Any:
        """What a baseline or the profiler cannot do is a remark, not a failure."""
        try:
            return work()
        except Exception as error:
            row["notes"].append(f"{name}: {type(error).__name__}: {str(error)[:200]}")

    row["launches"] = attempt("launches", lambda: timer.launches(lambda: operation(sets[0])))
    for name, time in _times(case, timer, sets).items():
        if (other := attempt(name, time)) is not None:
            row["against"][name] = other / seconds
    return row
