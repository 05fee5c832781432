"""Opening and describing an index on disk."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from scar_gpu.index import ChunkIndex
from scar_gpu.storage.atomic import leftovers
from scar_gpu.storage.errors import IndexFormatError, IndexNotFoundError, refuse
from scar_gpu.storage.files import OpenFolder
from scar_gpu.storage.manifest import (
    CHUNKS,
    DOCUMENTS,
    LEXICAL,
    MANIFEST,
    MANIFEST_BYTES,
    TENSORS,
    parse_manifest,
)
from scar_gpu.storage.stored_index import StoredIndex
from scar_gpu.storage.tensors_file import (
    MATRIX,
    read_matrix,
    read_small_tensors,
)

# How long a reader waits for an overwrite that is between its two renames.
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.05


def open_index(
    path: str | os.PathLike[str],
    *,
    mmap: bool = True,
    device: torch.device | str | None = None,
    verify: bool = False,
) -> StoredIndex:
    """Open an index.

    File sizes are checked against the manifest before anything is mapped, then the header, the
    document offsets, and the checksums of everything but the matrix (those of the text when it
    is first used).

    Args:
        path: the folder.
        mmap: leave the matrix in the file, which is then read on demand; else read it now.
        device: where the tensors go; default: the CPU.
        verify: check all checksums now.

    Returns:
        The opened index; it stays usable when the folder is overwritten.

    Raises:
        IndexNotFoundError: nothing there; the error names what an interrupted save left.
        IndexFormatError: truncated, edited, foreign, or of a later version.

    Example:
        >>> open_index("index").index  # doctest: +SKIP
        ChunkIndex(n_chunks=4, dim=384, n_docs=3, window=1, dtype=float32, device=cpu)
    """
    path = Path(path)
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        try:
            folder = OpenFolder(path)
        except FileNotFoundError:
            if last or not any(".replaced-" in found.name for found in leftovers(path)):
                raise IndexNotFoundError(_missing(path)) from None
            time.sleep(_PAUSE_SECONDS)
            continue
        except NotADirectoryError:
            refuse(path, "be the folder of an index", "a file")
        with folder:
            try:
                return _open(folder, mmap, device, verify)
            except IndexFormatError:
                # An overwrite may have removed this version's files while they were opened.
                if last or not folder.was_replaced():
                    raise
    raise AssertionError("the last attempt returns or raises")


def describe(path: str | os.PathLike[str], *, verify: bool = False) -> dict[str, Any]:
    """What is in an index's folder, checked as `open_index` checks it, and the text too.

    Args:
        path: the folder.
        verify: check the matrix's checksum as well.

    Returns:
        path, version, created_by, n_chunks, dim, n_docs, window, dtype, embedder, text and
        lexical (whether it has any), files (bytes by name), bytes (their sum), verified, and
        leftovers: what interrupted saves have left beside it.

    Raises:
        IndexFormatError: see `open_index`.
    """
    stored = open_index(path, verify=verify)
    if not verify:
        stored.verify_text()
    manifest = stored.manifest
    files = {name: entry.nbytes for name, entry in manifest.files.items()}
    return {
        "path": str(path),
        "version": manifest.version,
        "created_by": manifest.created_by,
        "n_chunks": manifest.n_chunks,
        "dim": manifest.dim,
        "n_docs": manifest.n_docs,
        "window": manifest.window,
        "dtype": manifest.dtype,
        "embedder": stored.embedder,
        "text": CHUNKS in files,
        "lexical": LEXICAL in files,
        "files": files,
        "bytes": sum(files.values()),
        "verified": verify,
        "leftovers": [str(found) for found in leftovers(Path(path))],
    }


def _open(
    folder: OpenFolder, mmap: bool, device: torch.device | str | None, verify: bool
) -> StoredIndex:
    with folder.file(MANIFEST) as file:
        if file.size > MANIFEST_BYTES:
            refuse(file.path, f"have at most {MANIFEST_BYTES} bytes", file.size)
        data = bytearray(file.size)
        file.read_into(memoryview(data), 0)
        manifest = parse_manifest(file.path, bytes(data))
    if set(manifest.files) - {LEXICAL} not in ({TENSORS}, {TENSORS, CHUNKS, DOCUMENTS}):
        refuse(folder.path, "have the files of an index", ", ".join(sorted(manifest.files)))
    with ExitStack() as stack:
        files = {name: stack.enter_context(folder.file(name)) for name in manifest.files}
        for name, file in files.items():
            file.check_size(manifest.files[name].nbytes)
        tensors = read_small_tensors(files[TENSORS], manifest.tensors)
        offsets = tensors["doc_offsets"]
        tensors[MATRIX] = read_matrix(files[TENSORS], manifest.tensors, mapped=mmap, verify=verify)
        text = {name: file for name, file in files.items() if name != TENSORS}
        for name, file in text.items():
            if verify:
                file.check_sha256(manifest.files[name].sha256)
        maps = {name: file.map() for name, file in text.items()}
    index = ChunkIndex(**tensors)
    if device is not None:
        index = index.to(device)
    return StoredIndex(folder.path, manifest, index, maps, offsets)


def _missing(path: Path) -> str:
    found = leftovers(path)
    if not found:
        return f"{path} must be the folder of an index, got none there"
    kind = "the index it was to replace" if ".replaced-" in found[0].name else "an unfinished one"
    return (
        f"{path} must be the folder of an index, got none there: "
        f"an interrupted save has left {kind} at {found[0]}"
    )
