"""Rank fusion as known systems compute it, as contribution tables for `rank_fusion`.

Each function takes the lengths K_l of the lists and returns (contributions [L, max K_l] float64,
duplicates), to be passed on:

    >>> import torch, scar_gpu
    >>> from scar_gpu import presets
    >>> rankings = [torch.tensor([[5, 7]]), torch.tensor([[7, 9, 5]])]
    >>> contributions, duplicates = presets.haystack([2, 3])
    >>> scar_gpu.rank_fusion(rankings, contributions=contributions, duplicates=duplicates).scores
    tensor([[0.9919, 0.9841, 0.4919,   -inf,   -inf]])

The scores are those of the system up to its own rounding; where it leaves the order of equal
scores open, the order here is that of `rank_fusion`. Unlike in some of them, a list of weight 0 is
ignored altogether. `weights=None` stands for the system's own default.
"""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import torch
from torch import Tensor

from scar_gpu import checks

Preset = tuple[Tensor, str]


def cormack(
    lengths: Sequence[int], *, k: float = 60, weights: Sequence[float] | None = None
) -> Preset:
    """The original: weight / (k + rank), ranks from 1.

    Source:
        Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    return _reciprocal(lengths, k, 1, weights), "first"


def ranx(lengths: Sequence[int], *, k: float = 60) -> Preset:
    """The Python library ranx, `fuse(method="rrf")`: 1 / (k + rank), ranks from 1, no weights."""
    return _reciprocal(lengths, k, 1, None), "first"


def langchain(
    lengths: Sequence[int], *, k: float = 60, weights: Sequence[float] | None = None
) -> Preset:
    """LangChain `EnsembleRetriever`: weight / (k + rank), ranks from 1, repeats added.

    The default weights add up to 1.
    """
    given = _shares(lengths) if weights is None else weights
    return _reciprocal(lengths, k, 1, given), "sum"


def llamaindex(lengths: Sequence[int], *, k: float = 60) -> Preset:
    """LlamaIndex `QueryFusionRetriever`: 1 / (k + rank), ranks from 0, repeats added, no weights.

    It sorts each list by score first; lists are expected here in that order.
    """
    return _reciprocal(lengths, k, 0, None), "sum"


def haystack(
    lengths: Sequence[int], *, k: float = 61, weights: Sequence[float] | None = None
) -> Preset:
    """Haystack `DocumentJoiner`: weight * k / (k + rank), ranks from 0, repeats added.

    The weights are scaled to add up to 1, so that first everywhere scores 1.
    """
    given = _shares(lengths) if weights is None else list(weights)
    _check(lengths, k, given)
    if sum(given) == 0:
        checks.fail(ValueError, "weights", "not add up to 0", given)
    return _reciprocal(lengths, k, 0, [weight / sum(given) * k for weight in given]), "sum"


def elasticsearch(
    lengths: Sequence[int], *, k: float = 60, weights: Sequence[float] | None = None
) -> Preset:
    """Elasticsearch `rrf` retriever: weight / (k + rank), ranks from 1, in float32."""
    return _reciprocal(lengths, k, 1, weights).float().double(), "sum"


def opensearch(
    lengths: Sequence[int], *, k: int = 60, weights: Sequence[float] | None = None
) -> Preset:
    """OpenSearch `score-ranker-processor`: 1 / (k + rank) to ten decimals, times the weight."""
    given = [1.0] * len(lengths) if weights is None else list(weights)
    _check(lengths, k, given)
    step = Decimal(1).scaleb(-10)
    base = Decimal(repr(k))
    row = [
        float((1 / (base + rank)).quantize(step, ROUND_HALF_UP))
        for rank in range(1, max(lengths) + 1)
    ]
    weight = torch.tensor(given, dtype=torch.float64)
    return weight[:, None] * torch.tensor(row, dtype=torch.float64), "first"


def milvus(lengths: Sequence[int], *, k: float = 60) -> Preset:
    """Milvus `RRFRanker`: 1 / (k + rank), ranks from 1, in float32, repeats added, no weights."""
    return _reciprocal(lengths, k, 1, None).float().double(), "sum"


def weaviate(
    lengths: Sequence[int], *, k: float = 60, weights: Sequence[float] | None = None
) -> Preset:
    """Weaviate `rankedFusion`: weight / (k + rank), ranks from 0, in float32, repeats added.

    Its `alpha` is weights [1 - alpha, alpha] for the keyword and the vector list.
    """
    return _reciprocal(lengths, k, 0, weights).float().double(), "sum"


def qdrant(
    lengths: Sequence[int], *, k: float = 2, weights: Sequence[float] | None = None
) -> Preset:
    """Qdrant `rrf`: 1 / ((rank + 1) / weight + k - 1), ranks from 0, in float32, repeats added.

    A weight stretches the ranks of its list; k >= 1.
    """
    given = [1.0] * len(lengths) if weights is None else list(weights)
    _check(lengths, k, given)
    if k < 1:
        checks.fail(ValueError, "k", "be >= 1", k)
    weight = torch.tensor(given, dtype=torch.float64)[:, None]
    table = 1 / (torch.arange(1, max(lengths) + 1) / weight + (k - 1))
    return table.float().double(), "sum"


def _reciprocal(
    lengths: Sequence[int], k: float, first: int, weights: Sequence[float] | None
) -> Tensor:
    """Table of weight / (k + rank) with ranks from `first`."""
    given = [1.0] * len(lengths) if weights is None else list(weights)
    _check(lengths, k, given)
    ranks = torch.arange(first, max(lengths) + first, dtype=torch.float64)
    return torch.tensor(given, dtype=torch.float64)[:, None] / (k + ranks)


def _shares(lengths: Sequence[int]) -> list[float]:
    return [1 / max(1, len(lengths))] * len(lengths)


def _check(lengths: Sequence[int], k: float, weights: Sequence[float]) -> None:
    if len(lengths) == 0:
        checks.fail(ValueError, "lengths", "have at least one list", "none")
    for number, length in enumerate(lengths):
        checks.check_at_least(f"lengths[{number}]", length, 0)
    checks.check_rank_constant("k", k)
    checks.check_weights(list(weights), len(lengths))
