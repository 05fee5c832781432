"""The hits of another retriever, read beside the queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scar_gpu.cli.matrices import npy_blocks, parquet_columns, rows_of

_PADDING = -1
# Rows that are read at a time.
_BATCH = 4096


class GivenHits:
    """Rows of hits, taken in the order of the queries.

    Args:
        path: `.npy` [Q, K] or `.parquet` with a column of lists; -1 is padding, best first.
        column: the column of the Parquet file.
        k: how many of each row to use; default: all.

    Raises:
        ValueError: a file that is not what its suffix says, or not of whole numbers.
    """

    def __init__(self, path: Path, column: str, k: int | None) -> None:
        self._path = path
        self._k = k
        self._pending = np.empty((0, 0), dtype=np.int64)
        self._taken = 0
        if not path.exists():
            raise FileNotFoundError(f"hits must be an existing file, got {path}")
        if path.suffix.lower() == ".npy":
            self._blocks = npy_blocks(path, _BATCH)
        elif path.suffix.lower() == ".parquet":
            where = f"{column} of {path}"
            self._blocks = (
                rows_of(array, where, pad=_PADDING)
                for (array,) in parquet_columns(path, {"hits-column": column}, _BATCH)
            )
        else:
            raise ValueError(f"hits must be a .npy or .parquet file, got {path}")

    def take(self, n: int, n_chunks: int) -> np.ndarray:
        """The next n rows as [n, K] int64.

        Raises:
            ValueError: fewer are left, or a number that is no row of an index of n_chunks.
        """
        while len(self._pending) < n:
            block = self._next()
            if block is None:
                raise ValueError(
                    f"hits must have one row per query, got {self._taken + len(self._pending)} "
                    f"rows in {self._path} for more queries"
                )
            self._pending = _stacked(self._pending, block) if len(self._pending) else block
        rows, self._pending = self._pending[:n, : self._k], self._pending[n:]
        wrong = np.argwhere((rows < _PADDING) | (rows >= n_chunks))
        if len(wrong):
            row, column = wrong[0]
            raise ValueError(
                f"hits must be rows of the index, below {n_chunks}, or {_PADDING}, "
                f"got {rows[row, column]} for query {self._taken + row} in {self._path}"
            )
        self._taken += n
        return np.ascontiguousarray(rows, dtype=np.int64)

    def check_finished(self) -> None:
        """Raise a ValueError if there are more hits than there were queries."""
        if len(self._pending) or self._next() is not None:
            raise ValueError(
                f"hits must have one row per query ({self._taken}), got more in {self._path}"
            )

    def _next(self) -> np.ndarray | None:
        block = next(self._blocks, None)
        if block is not None and (block.ndim != 2 or block.dtype.kind not in "iu"):
            got = f"{list(block.shape)} of {block.dtype}"
            raise ValueError(f"{self._path} must hold whole numbers [Q, K], got {got}")
        return block if block is None or len(block) else self._next()


def _stacked(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Both blocks, the narrower one padded."""
    width = max(upper.shape[1], lower.shape[1])
    blocks = (np.pad(b, ((0, 0), (0, width - b.shape[1])), constant_values=_PADDING)
              for b in (upper, lower))  # fmt: skip
    return np.concatenate(list(blocks))
