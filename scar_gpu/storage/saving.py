"""Saving an index: everything is checked, then written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scar_gpu
from scar_gpu.index import ChunkIndex
from scar_gpu.storage.atomic import new_folder
from scar_gpu.storage.files import ChecksummedFile
from scar_gpu.storage.manifest import (
    CHUNKS,
    DOCUMENTS,
    LEXICAL,
    MANIFEST,
    TENSORS,
    FileEntry,
    Manifest,
)
from scar_gpu.storage.tensors_file import NAMES, write_tensors

if TYPE_CHECKING:
    from scar_gpu.text.chunks import ChunkTable
    from scar_gpu.text.lexical import LexicalIndex

_FILES = frozenset({MANIFEST, TENSORS, CHUNKS, DOCUMENTS, LEXICAL})
_FULL = (errno.ENOSPC, errno.EDQUOT)


def save_index(
    path: str | os.PathLike[str],
    index: ChunkIndex,
    *,
    chunks: ChunkTable | None = None,
    lexical: LexicalIndex | None = None,
    embedder: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write an index to a folder, whole or not at all.

    It is written to a hidden sibling, put on disk, and renamed. With `overwrite`, the folder
    that was there is moved aside first and removed last, so a crash at any point leaves the old
    index or the new one; between the two renames the old one is at a sibling that the error of
    `open_index` names.

    Args:
        path: the folder to make.
        index: on any device.
        chunks: the texts of its rows, row for row; needs pyarrow.
        lexical: the words of its rows, for hybrid retrieval; needs pyarrow.
        embedder: the model behind the vectors: "name", "dim" and "hash" at least.
        overwrite: replace an index that is there; a folder with other files in it is not.

    Raises:
        FileExistsError: something stands at the path.
        OSError: the disk is full, and nothing is left of the new index.
        ValueError: chunks, lexical or embedder do not belong to the index.
        ImportError: pyarrow is missing; `scar_gpu[io]` brings it.

    Example:
        >>> save_index("index", index, chunks=chunks)  # doctest: +SKIP
    """
    path = Path(path)
    record = _checked_record(embedder, index)
    if chunks is not None:
        _check_chunks(chunks, index)
    if lexical is not None and lexical.n_rows != index.n_chunks:
        raise ValueError(f"lexical must have {index.n_chunks} rows, got {lexical.n_rows}")
    try:
        with new_folder(path, _FILES, overwrite=overwrite) as folder:
            _write(folder, index, chunks, lexical, record)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        reason = os.strerror(error.errno)
        message = f"{path} could not be saved, nothing that was there has changed: {reason}"
        raise OSError(error.errno, message) from error


def _checked_record(embedder: Mapping[str, Any] | None, index: ChunkIndex) -> dict[str, Any] | None:
    if embedder is None:
        return None
    missing = [key for key in ("name", "dim", "hash") if key not in embedder]
    if missing:
        raise ValueError(f"embedder must have name, dim and hash, got no {missing[0]}")
    if embedder["dim"] != index.dim:
        raise ValueError(f"embedder must have the index's dim {index.dim}, got {embedder['dim']}")
    try:
        record: dict[str, Any] = json.loads(json.dumps(dict(embedder)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"embedder must be what JSON can hold, got {error}") from error
    return record


def _check_chunks(chunks: ChunkTable, index: ChunkIndex) -> None:
    offsets = index.doc_offsets.cpu().numpy()
    if len(chunks) != index.n_chunks:
        raise ValueError(f"chunks must have {index.n_chunks} rows, got {len(chunks)}")
    if offsets.tolist() != chunks.doc_offsets.tolist():
        raise ValueError("chunks must have the documents of the index, got other boundaries")


def _write(
    folder: Path,
    index: ChunkIndex,
    chunks: ChunkTable | None,
    lexical: LexicalIndex | None,
    embedder: dict[str, Any] | None,
) -> None:
    files = {}
    with ChecksummedFile(folder / TENSORS) as file:
        tensors = write_tensors(file, {name: getattr(index, name) for name in NAMES})
    files[TENSORS] = FileEntry(file.size)
    if chunks is not None:
        from scar_gpu.storage.chunks_file import write_chunks

        with (
            ChecksummedFile(folder / CHUNKS) as chunks_file,
            ChecksummedFile(folder / DOCUMENTS) as documents_file,
        ):
            write_chunks(chunks_file, documents_file, chunks)
        files[CHUNKS] = FileEntry(chunks_file.size, chunks_file.sha256)
        files[DOCUMENTS] = FileEntry(documents_file.size, documents_file.sha256)
    if lexical is not None:
        from scar_gpu.storage.lexical_file import write_lexical

        with ChecksummedFile(folder / LEXICAL) as file:
            write_lexical(file, lexical)
        files[LEXICAL] = FileEntry(file.size, file.sha256)
    manifest = Manifest(tensors, files, embedder, f"scar_gpu {scar_gpu.__version__}")
    with ChecksummedFile(folder / MANIFEST) as file:
        file.write(manifest.to_json().encode())
