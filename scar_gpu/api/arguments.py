"""Arguments that come one per ranked list."""

from collections.abc import Sequence

from torch import Tensor

from scar_gpu import checks


def as_lists(name: str, lists: Sequence[Tensor] | Tensor) -> list[Tensor]:
    """One tensor per list; of a stack [L, B, K] the views."""
    if isinstance(lists, Tensor):
        if lists.dim() != 3:
            checks.fail(ValueError, name, "have shape [L, B, K]", list(lists.shape))
        return list(lists.unbind())
    if not isinstance(lists, Sequence):
        checks.fail(TypeError, name, "be a sequence of torch.Tensor", type(lists).__name__)
    return list(lists)


def as_numbers(name: str, values: Sequence[float]) -> list[float]:
    """One host number per list; their values are checked elsewhere."""
    if isinstance(values, Tensor) or not isinstance(values, Sequence):
        checks.fail(TypeError, name, "be a sequence of floats", type(values).__name__)
    for number, value in enumerate(values):
        if type(value) is not float:
            checks.check_number(f"{name}[{number}]", value)
    return list(values)
