"""Fuse lists by their scores, brought to one scale."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from scar_gpu import checks
from scar_gpu.api.arguments import as_lists, as_numbers
from scar_gpu.contributions import LARGEST_ID
from scar_gpu.types import Fusion

_NORMALIZATIONS = ("minmax", "zscore", "none")
# A query's largest contribution takes this many bits; those of so many lists add up in int64.
_BITS = 45
_MOST_LISTS = 2**17
# Beyond a float32 on either side, whatever sum of contributions it is multiplied with.
_LAST_EXPONENT = 300
_LARGEST_SCORE = torch.finfo(torch.float32).max
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
    order of the lists does not matter and equal sums tie exactly. No finite score or weight is too
    large or too small for this; a sum beyond float32 is returned as float32's largest number.

    Args:
        ids: one [B, K_l] int32 or int64 tensor per list, or one [L, B, K]; -1 is padding,
            other ids are in [0, 2**62].
        scores: the scores, higher is better, in the shapes of `ids`; any float dtype.
        weights: one host float >= 0 per list, default 1. A list of weight 0 is ignored.
        normalize: "minmax" = (s - min) / (max - min), 1 where all scores of a list are equal;
            "zscore" = (s - mean) / standard deviation, 0 where they are equal; "none" = as given.
        top_n: results per query; default: all, T = the sum of the K_l.

    Returns:
        Fusion(ids [B, T], scores [B, T], lengths [B]), padded with -1 and -inf; no details.

    Raises:
        TypeError: wrong dtypes.
        ValueError: no list, or more than 2**17; shapes, sizes or devices that differ; weights that
            are negative, not finite, or not one per list; top_n < 1; an unknown normalisation.
        IndexError: on the CPU, an id outside [-1, 2**62]. On a GPU such an entry is padding.
        MemoryError: on the CPU, results larger than the machine's memory.

    Example:
        Document 7 has (8 - 4) / (8 - 4) = 1 in the first list and, alone there, 1 in the second:

        >>> import torch, scar_gpu
        >>> ids = [torch.tensor([[7, 5, 6]]), torch.tensor([[7]])]
        >>> scores = [torch.tensor([[8.0, 5.0, 4.0]]), torch.tensor([[0.3]])]
        >>> scar_gpu.score_fusion(ids, scores)[:2]
        (tensor([[ 7,  5,  6, -1]]), tensor([[2.0000, 0.2500, 0.0000,   -inf]]))
    """
    ids, scores = as_lists("ids", ids), as_lists("scores", scores)
    if len(ids) > _MOST_LISTS:
        checks.fail(ValueError, "ids", f"have at most {_MOST_LISTS} lists", len(ids))
    checks.check_lists("ids", ids, checks.ID_DTYPES)
    checks.check_lists("scores", scores, _SCORE_DTYPES, like=ids, owner="ids[0]")
    numbers = None if weights is None else as_numbers("weights", weights)
    checks.check_weights(numbers, len(ids))
    if normalize not in _NORMALIZATIONS:
        rule = "be 'minmax', 'zscore' or 'none'"
        checks.fail(ValueError, "normalize", rule, repr(normalize))
    if top_n is not None:
        checks.check_at_least("top_n", top_n, 1)
        if top_n > checks.WIDE:
            checks.check_fits("top_n", top_n, ids[0], top_n, 12)

    parts = []
    for number, (list_ids, list_scores) in enumerate(zip(ids, scores, strict=True)):
        weight = 1.0 if numbers is None else float(numbers[number])
        list_ids, numeric = list_ids.long(), list_scores.detach().double()
        is_document = _is_document(f"ids[{number}]", list_ids)
        valid = is_document & numeric.isfinite() & (weight > 0)
        if list_ids.shape[1]:
            numeric = _normalized(numeric, valid, normalize)
        values = torch.where(valid, numeric, 0.0)
        parts.append((torch.where(valid, list_ids, -1), *_product(values, weight)))
    documents, mantissas, exponents = zip(*parts, strict=True)
    return _fused(documents, torch.cat(mantissas, 1), torch.cat(exponents, 1), top_n)


def _is_document(name: str, ids: Tensor) -> Tensor:
    """Where the ids [B, K] are neither padding nor, on a GPU, out of range; the CPU refuses."""
    is_document = (ids >= 0) & (ids <= LARGEST_ID)
    if ids.device.type == "cpu":
        outside = ~is_document & (ids != -1)
        if torch.compiler.is_compiling():  # whose graphs hold no exception of ours
            rule = f"{name} must be -1 or in [0, {LARGEST_ID + 1})"
            torch._assert_async(~outside.any(), rule)
        elif outside.any():
            row, column = outside.nonzero()[0].tolist()
            rule = f"be -1 or in [0, {LARGEST_ID + 1})"
            checks.fail(IndexError, f"{name}[{row}, {column}]", rule, int(ids[row, column]))
    return is_document


def _normalized(scores: Tensor, valid: Tensor, normalize: str) -> Tensor:
    """The scores [B, K] of one list on the common scale; anything where not valid."""
    if normalize == "none":
        return scores
    low = torch.where(valid, scores, torch.inf).amin(1, keepdim=True)
    high = torch.where(valid, scores, -torch.inf).amax(1, keepdim=True)
    # Where the difference of two numbers is beyond float64, that of their halves is not.
    unit = torch.where((high - low).isfinite(), 1.0, 0.5)
    share = (scores * unit - low * unit) / (high * unit - low * unit)
    # Not by the standard deviation: the mean of equal numbers may differ from them by a rounding.
    is_level = high <= low
    if normalize == "minmax":
        return torch.where(is_level, 1.0, share)
    # A z-score is the same whatever the origin and the unit; of shares nothing can overflow, and
    # their mean is exact to a rounding of the span.
    count = valid.sum(1, keepdim=True)
    away = share - torch.where(valid, share, 0.0).sum(1, keepdim=True) / count
    variance = torch.where(valid, away * away, 0.0).sum(1, keepdim=True) / count
    return torch.where(is_level, 0.0, away / variance.sqrt())


def _product(values: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """The products as (mantissa, exponent), for which no product is too large or small."""
    weight_mantissa, weight_exponent = math.frexp(weight)
    mantissa, exponent = torch.frexp(values)
    mantissa, carry = torch.frexp(mantissa * weight_mantissa)
    # A zero has no say in the largest exponent.
    exponent = torch.where(mantissa == 0, -(2**14), exponent + carry + weight_exponent)
    return mantissa, exponent.long()


def _power_of_two(exponent: Tensor) -> Tensor:
    """2.0 ** exponent, exact on every device, for exponents of normal numbers."""
    return ((exponent + 1023) << 52).view(torch.float64)


def _fused(
    documents: Sequence[Tensor], mantissa: Tensor, exponent: Tensor, top_n: int | None
) -> Fusion:
    """The sums of mantissa * 2**exponent by document; ids of -1 are padding."""
    ids = torch.cat(list(documents), 1)
    n_queries, n_entries = ids.shape
    width = n_entries if top_n is None else top_n
    if n_entries == 0:
        empty = mantissa.new_full((n_queries, width), -torch.inf, dtype=torch.float32)
        lengths = ids.new_zeros(n_queries, dtype=torch.int32)
        return Fusion(ids.new_full((n_queries, width), -1), empty, lengths)
    largest = exponent.amax(1, keepdim=True)
    shift = (_BITS + exponent - largest).clamp(min=-_LAST_EXPONENT)
    units = (mantissa * _power_of_two(shift)).round().long()

    # By id, then list, then score: what counts is the first entry of an (id, list). Stable, since
    # the largest size at the end of one list equals that at the head of the next.
    number = torch.cat([torch.full_like(part, i) for i, part in enumerate(documents)], 1)
    order = ((number << (_BITS + 1)) - units).argsort(dim=1, stable=True)
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
    unit = _power_of_two((largest - _BITS).clamp(-_LAST_EXPONENT, _LAST_EXPONENT))
    scores = (total.double() * unit).clamp(-_LARGEST_SCORE, _LARGEST_SCORE).float()
    return Fusion(
        _fit(torch.where(is_result, ids.gather(1, order), -1), width, -1),
        _fit(torch.where(is_result, scores, -torch.inf), width, -torch.inf),
        lengths[:, 0].int(),
    )


def _fit(tensor: Tensor, width: int, fill: float) -> Tensor:
    """The first `width` columns, filled up where there are fewer."""
    missing = max(0, width - tensor.shape[1])
    return torch.nn.functional.pad(tensor[:, :width], (0, missing), value=fill).contiguous()
