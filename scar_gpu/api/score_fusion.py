"""Fuse lists by their scores, brought to one scale."""

from collections.abc import Sequence

import torch
from torch import Tensor

from scar_gpu import checks
from scar_gpu.api.arguments import as_lists, as_numbers
from scar_gpu.types import Fusion

_NORMALIZATIONS = ("minmax", "zscore", "none")
# A query's largest contribution takes this many bits; 2**17 of them still add up in int64.
_BITS = 45
_SCORE_DTYPES = (*checks.ROW_DTYPES, torch.float64)


def score_fusion(
    ids: Sequence[Tensor] | Tensor,
    scores: Sequence[Tensor] | Tensor,
    *,
    weights: Sequence[float] | None = None,
    normalize: str = "minmax",
    top_n: int | None = None,
) -> Fusion:
    """Add up the scores of each document over several lists, each list normalised by query.

        score(d) = sum over the lists l that hold d of weight_l * normalised score of d in l

    An entry is padding when its id is -1 or its score is not finite. An id repeated in one list
    counts once, at its highest score. Ordered by score, then by smaller id. Contributions are
    rounded to integers of 45 bits, relative to the query's largest, before they are added, so the
    order of the lists does not matter and equal sums tie exactly.

    Args:
        ids: one [B, K_l] int32 or int64 tensor per list, or one [L, B, K]; -1 is padding.
        scores: the scores, higher is better, in the shapes of `ids`; any float dtype.
        weights: one host float >= 0 per list, default 1. A list of weight 0 is ignored.
        normalize: "minmax" = (s - min) / (max - min), 1 where all scores of a list are equal;
            "zscore" = (s - mean) / standard deviation, 0 where they are equal; "none" = as given.
        top_n: results per query; default: all, T = the sum of the K_l.

    Returns:
        Fusion(ids [B, T], scores [B, T], lengths [B]), padded with -1 and -inf; no details.

    Raises:
        TypeError: wrong dtypes.
        ValueError: no list; shapes, sizes or devices that differ; weights that are negative, not
            finite, or not one per list; top_n < 1; an unknown normalisation.

    Example:
        Document 7 has (8 - 4) / (8 - 4) = 1 in the first list and, alone there, 1 in the second:

        >>> import torch, scar_gpu
        >>> ids = [torch.tensor([[7, 5, 6]]), torch.tensor([[7]])]
        >>> scores = [torch.tensor([[8.0, 5.0, 4.0]]), torch.tensor([[0.3]])]
        >>> scar_gpu.score_fusion(ids, scores)[:2]
        (tensor([[ 7,  5,  6, -1]]), tensor([[2.0000, 0.2500, 0.0000,   -inf]]))
    """
    ids, scores = as_lists("ids", ids), as_lists("scores", scores)
    checks.check_lists("ids", ids, checks.ID_DTYPES)
    checks.check_lists("scores", scores, _SCORE_DTYPES, like=ids, owner="ids[0]")
    numbers = None if weights is None else as_numbers("weights", weights)
    checks.check_weights(numbers, len(ids))
    if normalize not in _NORMALIZATIONS:
        rule = "be 'minmax', 'zscore' or 'none'"
        checks.fail(ValueError, "normalize", rule, repr(normalize))
    if top_n is not None:
        checks.check_at_least("top_n", top_n, 1)

    documents, values = [], []
    for number, (list_ids, list_scores) in enumerate(zip(ids, scores, strict=True)):
        weight = 1.0 if numbers is None else numbers[number]
        numeric = list_scores.detach().double()
        valid = (list_ids >= 0) & numeric.isfinite()
        if weight == 0:
            valid = torch.zeros_like(valid)
        documents.append(torch.where(valid, list_ids.long(), -1))
        if list_ids.shape[1]:
            numeric = _normalized(numeric, valid, normalize)
        values.append(torch.where(valid, numeric * weight, 0.0))
    return _fused(documents, values, top_n)


def _normalized(scores: Tensor, valid: Tensor, normalize: str) -> Tensor:
    """The scores [B, K] of one list on the common scale; anything where not valid."""
    if normalize == "none":
        return scores
    low = torch.where(valid, scores, torch.inf).amin(1, keepdim=True)
    high = torch.where(valid, scores, -torch.inf).amax(1, keepdim=True)
    # Not by the standard deviation: the mean of equal numbers may differ from them by a rounding.
    is_level = high <= low
    if normalize == "minmax":
        return torch.where(is_level, 1.0, (scores - low) / (high - low))
    count = valid.sum(1, keepdim=True)
    mean = torch.where(valid, scores, 0.0).sum(1, keepdim=True) / count
    away = torch.where(valid, scores - mean, 0.0)
    deviation = ((away * away).sum(1, keepdim=True) / count).sqrt()
    return torch.where(is_level, 0.0, away / deviation)


def _fused(documents: list[Tensor], values: list[Tensor], top_n: int | None) -> Fusion:
    """The sums by document; ids of -1 are padding."""
    ids, contributions = torch.cat(documents, 1), torch.cat(values, 1)
    n_queries, n_entries = ids.shape
    width = n_entries if top_n is None else top_n
    if n_entries == 0:
        empty = contributions.new_full((n_queries, width), -torch.inf, dtype=torch.float32)
        lengths = ids.new_zeros(n_queries, dtype=torch.int32)
        return Fusion(ids.new_full((n_queries, width), -1), empty, lengths)
    exponent = torch.frexp(contributions.abs().amax(1, keepdim=True)).exponent
    units = torch.ldexp(contributions, _BITS - exponent).round().long()

    # By id, then list, then score: what counts is the first entry of an (id, list).
    number = torch.cat([torch.full_like(part, i) for i, part in enumerate(documents)], 1)
    order = ((number << (_BITS + 1)) - units).argsort(1)
    order = order.gather(1, ids.gather(1, order).argsort(dim=1, stable=True))
    ids, number, units = (tensor.gather(1, order) for tensor in (ids, number, units))
    starts_document = torch.ones_like(ids, dtype=torch.bool)
    starts_document[:, 1:] = ids[:, 1:] != ids[:, :-1]
    starts_list = starts_document.clone()
    starts_list[:, 1:] |= number[:, 1:] != number[:, :-1]

    # The sum over a document's entries is the difference of two running sums.
    running = torch.zeros_like(ids[:, :1]).expand(-1, n_entries + 1).clone()
    running[:, 1:] = torch.where(starts_list, units, 0).cumsum(1)
    place = torch.arange(n_entries, device=ids.device).expand_as(ids)
    following = torch.full_like(ids, n_entries)
    following[:, :-1] = torch.where(starts_document, place, n_entries)[:, 1:]
    following = following.flip(1).cummin(1).values.flip(1)
    total = running.gather(1, following) - running[:, :-1]

    is_result = starts_document & (ids >= 0)
    lowest = torch.iinfo(torch.int64).min
    total, order = torch.where(is_result, total, lowest).sort(dim=1, descending=True, stable=True)
    lengths = is_result.sum(1, keepdim=True).clamp(max=width)
    is_result = place < lengths
    scores = torch.ldexp(total.double(), exponent - _BITS).float()
    return Fusion(
        _fit(torch.where(is_result, ids.gather(1, order), -1), width, -1),
        _fit(torch.where(is_result, scores, -torch.inf), width, -torch.inf),
        lengths[:, 0].int(),
    )


def _fit(tensor: Tensor, width: int, fill: float) -> Tensor:
    """The first `width` columns, filled up where there are fewer."""
    missing = max(0, width - tensor.shape[1])
    return torch.nn.functional.pad(tensor[:, :width], (0, missing), value=fill).contiguous()
