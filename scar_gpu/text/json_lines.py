"""Tables of contexts as JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

# The encoder's own C function for one string; json.dumps spends as long on its arguments again.
_string: Callable[[str], str] = json.encoder.encode_basestring


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
    pattern = "{" + ", ".join(f"{_string(name)}: %s".replace("%s", "\0") for name in names) + "}"
    pattern = pattern.replace("%", "%%").replace("\0", "%s")
    lines = [pattern % values for values in zip(*columns, strict=True)]
    return ("\n".join(lines) + "\n").encode() if lines else b""


def _encoded(array: Any) -> list[Any]:
    """A column as what `%s` turns into JSON."""
    kind = str(array.type)
    if "list" in kind:
        return _lists(array)
    values = array.to_pylist()
    if array.null_count:
        return [json.dumps(value, ensure_ascii=False) for value in values]
    if "string" in kind:
        return list(map(_string, values))
    if "int" in kind:
        return list(values)
    if kind in ("float", "double", "halffloat"):
        return [value if math.isfinite(value) else "null" for value in values]
    return [json.dumps(value, ensure_ascii=False) for value in values]


def _lists(array: Any) -> list[str]:
    """Lists: their elements once, then joined by list."""
    if array.null_count:
        return [json.dumps(value, ensure_ascii=False) for value in array.to_pylist()]
    elements = list(map(str, _encoded(array.flatten())))
    bounds = array.value_lengths().to_numpy().cumsum().tolist()
    begins = [0, *bounds[:-1]]
    return [
        f"[{', '.join(elements[begin:end])}]" for begin, end in zip(begins, bounds, strict=True)
    ]
