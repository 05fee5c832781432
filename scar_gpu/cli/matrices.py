"""Matrices of vectors and ids from .npy, .safetensors and .parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scar_gpu.text.extras import import_extra
from scar_gpu.text.parquet import ParquetReader

NUMPY_ERRORS = (ValueError, EOFError)


def check_file(path: Path, kind: str) -> None:
    """Raise a FileNotFoundError unless there is a file."""
    if not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"{path} must be {kind}, got {got}")


def read_npy(path: Path) -> np.ndarray:
    """A .npy file, memory-mapped.

    Raises:
        ValueError: no .npy file, cut short, or one that holds Python objects.
    """
    check_file(path, "a .npy file")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except NUMPY_ERRORS as error:
        raise ValueError(f"{path} must be a whole .npy file of numbers, got: {error}") from error


def npy_blocks(path: Path, size: int) -> Iterator[np.ndarray]:
    """The rows of a .npy file in blocks, each mapped while it is used and no longer.

    One map of the whole file would keep every page that was read in the process's memory.

    Yields:
        Arrays of `size` rows, the last of fewer; one without rows for an empty file.

    Raises:
        ValueError: as `read_npy`; also for a single number.
    """
    whole: Any = read_npy(path)
    if not whole.ndim:
        raise ValueError(f"{path} must hold rows, got one number")
    in_order = isinstance(whole, np.memmap) and whole.flags.c_contiguous
    row_bytes = whole[:1].nbytes
    for start in range(0, max(len(whole), 1), size):
        n = min(size, len(whole) - start)
        if not in_order or not n or not row_bytes:
            yield whole[start : start + n]
            continue
        yield np.memmap(
            path,
            dtype=whole.dtype,
            mode="r",
            offset=whole.offset + start * row_bytes,
            shape=(n, *whole.shape[1:]),
        )


def read_safetensors(path: Path, option: str, name: str | None, default: str) -> Any:
    """One tensor of a .safetensors file: `name`, else the only one, else `default`.

    Args:
        path: the file.
        option: what gave the name.
        name: the tensor.
        default: the tensor where no name is given and the file holds several.

    Raises:
        ValueError: no such file, or no such tensor.
    """
    safetensors = import_extra("safetensors", "io")
    check_file(path, "a .safetensors file")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            known = list(file.keys())
            wanted = name or (known[0] if len(known) == 1 else default)
            check_column(option, wanted, known, str(path))
            return file.get_tensor(wanted)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} must be a whole .safetensors file, got: {error}") from error


def open_parquet(path: Path) -> ParquetReader:
    """A Parquet file, open.

    Raises:
        ValueError: no Parquet file.
    """
    check_file(path, "a Parquet file")
    try:
        return ParquetReader(path)
    except import_extra("pyarrow", "io").ArrowInvalid as error:
        raise ValueError(f"{path} must be a whole Parquet file, got: {error}") from error


def check_column(option: str, column: str, known: list[str], where: str) -> None:
    """Raise a ValueError that lists the known columns unless `column` is one of them."""
    if column not in known:
        raise ValueError(
            f"{option} must be a column of {where} ({', '.join(known) or 'none'}), got {column!r}"
        )


def parquet_columns(path: Path, columns: dict[str, str], size: int) -> Iterator[list[Any]]:
    """Batches of some columns of a Parquet file.

    Args:
        path: the file.
        columns: the option that names a column -> the column.
        size: most rows of a batch.

    Yields:
        One pyarrow array per column.

    Raises:
        ValueError: no Parquet file, or a column that it lacks.
    """
    pyarrow = import_extra("pyarrow", "io")
    with open_parquet(path) as file:
        known = file.schema.names
        for option, column in columns.items():
            check_column(option, column, known, str(path))
        wanted = list(dict.fromkeys(columns.values()))
        try:
            for batch in file.batches(wanted, size):
                yield [batch.column(column) for column in columns.values()]
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path} must be a whole Parquet file, got: {error}") from error
        except OSError as error:
            raise ValueError(f"{path} must be a whole Parquet file, got: {error}") from error


def rows_of(array: Any, where: str, pad: float | None = None) -> np.ndarray:
    """The lists of a pyarrow array as a matrix.

    Args:
        array: lists of numbers.
        where: what to call them in an error.
        pad: fills up rows that are shorter than the longest; None forbids them.

    Raises:
        ValueError: no lists of numbers, a missing one, or lists of different lengths.
    """
    pyarrow = import_extra("pyarrow", "io")
    kind = array.type
    lists = (pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list)
    if not any(is_kind(kind) for is_kind in lists):
        raise ValueError(f"{where} must hold lists of numbers, got {kind}")
    if array.null_count:
        raise ValueError(f"{where} must hold a list in every row, got {array.null_count} without")
    values = array.flatten()
    if not (pyarrow.types.is_integer(values.type) or pyarrow.types.is_floating(values.type)):
        raise ValueError(f"{where} must hold lists of numbers, got {kind}")
    if values.null_count:
        raise ValueError(f"{where} must hold numbers only, got {values.null_count} missing ones")
    flat = values.to_numpy(zero_copy_only=False)
    if pyarrow.types.is_fixed_size_list(kind):
        return flat.reshape(len(array), kind.list_size)
    lengths = array.value_lengths().to_numpy(zero_copy_only=False)
    width = int(lengths.max(initial=0))
    if (lengths == width).all():
        return flat.reshape(len(array), width)
    if pad is None:
        raise ValueError(
            f"{where} must hold lists of one length, got {int(lengths.min())} and {width}"
        )
    matrix = np.full((len(array), width), pad, dtype=flat.dtype)
    matrix[np.arange(width) < lengths[:, None]] = flat
    return matrix
