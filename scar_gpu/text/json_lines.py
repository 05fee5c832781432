"""Tables of contexts as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

# The encoder's own C function for one string; json.dumps spends as long on its arguments again.
_string: Callable[[str], str] = json.encoder.encode_basestring
_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "halffloat",
            "float", "double")  # fmt: skip


def json_lines(table: Any) -> bytes:
    r"""Write each row of a table as one JSON object on its own line, in UTF-8.

    Args:
        table: of `ContextTables.table`, or any with columns of strings, numbers and lists.

    Returns:
        The lines, each with its line end. A number that JSON cannot spell is null.

    Example:
        >>> import pyarrow
        >>> json_lines(pyarrow.table({"query": [0], "text": ["a\nb"], "hits": [[3, 5]]}))
        b'{"query": 0, "text": "a\\nb", "hits": [3, 5]}\n'
    """
    names = table.column_names
    columns = [_encoded(table[name].combine_chunks()) for name in names]
    fields = ", ".join(_string(name).replace("%", "%%") + ": %s" for name in names)
    pattern = f"{{{fields}}}"
    lines = [pattern % values for values in zip(*columns, strict=True)]
    return ("\n".join(lines) + "\n").encode() if lines else b""


def _encoded(array: Any) -> list[Any]:
    """A column as what `%s` turns into JSON."""
    kind = str(array.type)
    if "list" in kind:
        return _lists(array)
    if array.null_count or kind not in _NUMBERS:
        values = array.to_pylist()
        if "string" in kind and not array.null_count:
            return list(map(_string, values))
        return [json.dumps(value, ensure_ascii=False) for value in values]
    numbers = array.to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    if finite.all():
        return list(numbers.tolist())
    chosen = zip(numbers.tolist(), finite.tolist(), strict=True)
    return [value if is_finite else "null" for value, is_finite in chosen]


def _lists(array: Any) -> list[str]:
    """Lists: their elements once, then joined by list."""
    if array.null_count:
        return [json.dumps(value, ensure_ascii=False) for value in array.to_pylist()]
    elements = list(map(str, _encoded(array.flatten())))
    bounds = array.value_lengths().to_numpy().cumsum().tolist()
    begins = [0, *bounds][:-1]
    return [
        f"[{', '.join(elements[begin:end])}]" for begin, end in zip(begins, bounds, strict=True)
    ]
