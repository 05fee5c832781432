"""What is wrong with the arguments of an operation, in the words: name, rule, value.

The kernels refuse on their own whatever they cannot read, in nanoseconds; only when one has
refused does a public function on the CPU come here to find out why. The exception is a number or
switch of another type than expected, which PyTorch might convert: it is looked at first. The CUDA
launchers and the fakes, which cannot refuse so cheaply, always look here first. Nothing but
`check_ranges` reads a tensor's values.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

_INTS = (int, np.integer, torch.SymInt)
_NUMBERS = (float, np.floating, torch.SymFloat, *_INTS)
# Of the second version of control groups, as seen from within one.
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
# Results of fewer columns are allocated without a look at their size.
WIDE = 2**20
_FLOAT32_MAX = float(np.finfo(np.float32).max)
ROW_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ID_DTYPES = (torch.int64, torch.int32)


def machine_memory() -> int:
    """Bytes that the machine has, or that a container may use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if CONTAINER_LIMIT.exists():
        limit = CONTAINER_LIMIT.read_text().strip()
        memory = min(memory, int(limit)) if limit.isdigit() else memory  # else "max"
    return memory


MEMORY = machine_memory()


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
    """Check that an argument is an index, or the result of another operation."""
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


def check_float32(name: str, value: float) -> None:
    """Check a real argument that kernels calculate with in float32."""
    check_number(name, value)
    if not -_FLOAT32_MAX <= value <= _FLOAT32_MAX:
        fail(ValueError, name, "be finite in float32", value)


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


def check_fits(name: str, value: int, like: Tensor, width: int, entry_bytes: int) -> None:
    """Refuse a `value` whose padded results, [B, width], could never fit the CPU's memory.

    The system grants more memory than there is and ends the process that uses it, so an error
    must come before. `like` is a tensor [B, ...] on the device of the results.
    """
    if like.device.type != "cpu":  # a GPU's allocator refuses in time
        return
    size = like.shape[0] * width * entry_bytes
    if size > MEMORY:
        rule = f"give results that fit the {MEMORY / 2**30:.0f} GiB of this machine"
        got = f"{value}: [{like.shape[0]}, {width}] are {size / 2**30:.0f} GiB"
        fail(MemoryError, name, rule, got)


def check_judgement(lam: float, gamma: float, contiguous: bool) -> None:
    """Check what decides whether a neighbour is admitted."""
    check_float32("lam", lam)
    if lam < 0:
        fail(ValueError, "lam", "be >= 0", lam)
    check_float32("gamma", gamma)
    check_bool("contiguous", contiguous)


def check_ranges(row_ranges: Tensor, n_chunks: int) -> None:
    """Check the values of half-open ranges of rows [B, 2]; waits for the device."""
    start, end = row_ranges.unbind(1)
    wrong = ((start < 0) | (start > end) | (end > n_chunks)).nonzero()
    if wrong.shape[0]:
        b = int(wrong[0])
        got = f"[{int(start[b])}, {int(end[b])})"
        rule = f"satisfy 0 <= start <= end <= {n_chunks}"
        fail(IndexError, f"row_ranges[{b}]", rule, got)


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
