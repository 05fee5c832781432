"""Document bounds by binary search in the offsets, on the device."""

import triton
import triton.language as tl
from torch import Tensor


def search_steps(doc_offsets: Tensor) -> int:
    """Halvings that tell any two documents apart."""
    return (doc_offsets.shape[0] - 1).bit_length()


@triton.jit
def document_bounds(doc_offsets_ptr, n_documents, n_steps, rows, is_row):
    """(first row, end) of the document that owns each of `rows`; (0, 0) where `is_row` is False."""
    low = rows * 0
    high = low + n_documents
    for _ in tl.range(0, n_steps):  # offsets[low] <= row < offsets[high]
        middle = (low + high) // 2
        is_right = tl.load(doc_offsets_ptr + middle, mask=is_row, other=0) <= rows
        low = tl.where(is_right, middle, low)
        high = tl.where(is_right, high, middle)
    first = tl.load(doc_offsets_ptr + low, mask=is_row, other=0)
    end = tl.load(doc_offsets_ptr + high, mask=is_row, other=0)
    return first, end
