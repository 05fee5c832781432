"""Static windows around hits, and the runs of consecutive rows in an expansion."""

import torch
from torch import Tensor

from scar_gpu import checks, operation_checks
from scar_gpu.types import Expansion, Spans

_window_expand = torch.ops.scar_gpu.window_expand.default
_spans = torch.ops.scar_gpu.spans.default


def window_expand(
    hits: Tensor, doc_offsets: Tensor, *, before: int = 1, after: int = 1, order: str = "rank"
) -> Expansion:
    """Add every chunk within a fixed distance of a hit: the static window baseline.

    A row reached by several hits goes to the best-ranked one. before = after = 0 gives the hits
    back, without repeats.

    Args:
        hits: [B, K] int32 or int64 rows, best first, -1 for padding.
        doc_offsets: [num_docs + 1] int64, as for `continuity`; windows end with the document.
        before: rows to add before every hit, >= 0.
        after: rows to add after every hit, >= 0.
        order: "rank" or "document", as for `expand`.

    Returns:
        Expansion(ids, scores, anchors [B, M], lengths [B]) with M = K * (before + after + 1);
        every score is 0.

    Raises:
        TypeError: wrong types or dtypes.
        ValueError: wrong shapes or devices; before or after negative; unknown order; on the CPU,
            doc_offsets that do not rise from 0.
        IndexError: on the CPU, a hit outside [-1, N).
        MemoryError: on the CPU, results larger than the machine's memory.

    Example:
        Hits c and a of one document a, b, c, d:

        >>> import torch, scar_gpu
        >>> scar_gpu.window_expand(torch.tensor([[2, 0]]), torch.tensor([0, 4])).ids
        tensor([[ 1,  2,  3,  0, -1, -1]])
    """
    if type(before) is not int or type(after) is not int:
        checks.check_at_least("before", before, 0)
        checks.check_at_least("after", after, 0)
    arguments = (hits, doc_offsets, before, after, checks.is_document_order(order))
    if before + after > checks.WIDE:
        operation_checks.window_expand(*arguments)
        name, wider = ("before", before) if before > after else ("after", after)
        width = hits.shape[1] * (before + after + 1)
        checks.check_fits(name, wider, hits, width, 16)
    try:
        return Expansion(*_window_expand(*arguments))
    except Exception as error:
        raise checks.explain(error, operation_checks.window_expand, *arguments) from None


def spans(expansion: Expansion, doc_offsets: Tensor) -> Spans:
    """Join the rows of an expansion into maximal runs within one document.

    A span takes the place of its row that comes first in the expansion, whatever the order of the
    expansion; `first` is that row's position, where score, anchor and rank can be read.

    Args:
        expansion: its ids [B, M] are read; repeats and padding are skipped.
        doc_offsets: [num_docs + 1] int64, as for `continuity`.

    Returns:
        Spans(start, end, first [B, M], lengths [B]): half-open row ranges.

    Raises:
        TypeError: wrong dtypes.
        ValueError: wrong shapes or devices; on the CPU, doc_offsets that do not rise from 0.
        IndexError: on the CPU, a row outside [-1, N).

    Example:
        Rows 5, 1, 2 with a document boundary between 4 and 5:

        >>> import torch, scar_gpu
        >>> bounds = torch.tensor([0, 5, 9])
        >>> hits = torch.tensor([[5, 1, 2]])
        >>> found = scar_gpu.spans(scar_gpu.window_expand(hits, bounds, before=0, after=0), bounds)
        >>> found.start, found.end
        (tensor([[ 5,  1, -1]]), tensor([[ 6,  3, -1]]))
    """
    checks.check_result("expansion", expansion, Expansion)
    try:
        return Spans(*_spans(expansion.ids, doc_offsets))
    except Exception as error:
        raise checks.explain(error, operation_checks.spans, expansion.ids, doc_offsets) from None
