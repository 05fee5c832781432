"""Optional packages: imported at first use, with an error that says what to install."""

from __future__ import annotations

import importlib
from types import ModuleType


def import_extra(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra of scar_gpu brings it.

    Args:
        module: dotted module name, such as `"sentence_transformers"`.
        extra: the extra of `scar_gpu` that depends on it, such as `"text"`.

    Returns:
        The imported module.

    Raises:
        ImportError: the module is not installed. A module that is installed and fails to
            import for a reason of its own raises that reason unchanged.

    Example:
        >>> import_extra("json", "text").__name__
        'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise ImportError(
            f"{module} must be installed for this, got no such package: "
            f"pip install 'scar_gpu[{extra}]'"
        ) from error
