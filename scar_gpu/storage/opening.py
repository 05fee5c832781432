"""Opening and describing an index on disk."""

from __future__ import annotations

import hashlib
import mmap as memory_map
import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scar_gpu.index import ChunkIndex
from scar_gpu.storage.atomic import leftovers
from scar_gpu.storage.errors import IndexFormatError, IndexNotFoundError, refuse, refuse_digest
from scar_gpu.storage.files import BLOCK_BYTES, OpenFolder
from scar_gpu.storage.manifest import (
    CHUNKS,
    DOCUMENTS,
    MANIFEST,
    MANIFEST_BYTES,
    TENSORS,
    Manifest,
    parse_manifest,
)
from scar_gpu.storage.tensors_file import (
    MATRIX,
    read_matrix,
    read_small_tensors,
)

if TYPE_CHECKING:
    from scar_gpu.text.chunks import ChunkTable

# How long a reader waits for an overwrite that is between its two renames.
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.05


class StoredIndex:
    """An index on disk, opened.

    Attributes:
        path: its folder.
        manifest: what the folder's files are.
        index: the tensors; the matrix is mapped unless asked otherwise.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        index: ChunkIndex,
        maps: Mapping[str, memory_map.mmap],
        doc_offsets: Tensor,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.index = index
        self._maps = maps
        self._doc_offsets = doc_offsets
        self._chunks: ChunkTable | None = None
        self._lock = threading.Lock()

    @property
    def embedder(self) -> dict[str, Any] | None:
        """Name, dim and hash of the model that made the vectors; None where not known."""
        return None if self.manifest.embedder is None else dict(self.manifest.embedder)

    @property
    def chunks(self) -> ChunkTable | None:
        """The chunk table, None for an index without text.

        Read and checked at first use; the texts of chunks only when they are asked for.

        Raises:
            IndexFormatError: a checksum differs, or a file is no chunk table.
            ImportError: pyarrow is missing; `scar_gpu[io]` brings it.
        """
        with self._lock:
            if self._chunks is None and self._maps:
                from scar_gpu.storage.chunks_file import read_chunks

                self.verify_text()
                self._chunks = read_chunks(
                    self.path / CHUNKS,
                    self._maps[CHUNKS],
                    self._maps[DOCUMENTS],
                    self._doc_offsets.numpy(),
                )
            return self._chunks

    def verify_text(self) -> None:
        """Check the checksums of the files with text."""
        for name, memory in self._maps.items():
            digest = hashlib.sha256()
            with memoryview(memory) as view:
                for begin in range(0, len(memory), BLOCK_BYTES):
                    digest.update(view[begin : begin + BLOCK_BYTES])
            # What was only hashed need not stay in memory.
            memory.madvise(memory_map.MADV_DONTNEED)
            if digest.hexdigest() != self.manifest.files[name].sha256:
                refuse_digest(self.path / name)


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
        path, version, created_by, n_chunks, dim, n_docs, window, dtype, embedder, text (whether
        it has any), files (bytes by name), bytes (their sum), verified, and leftovers: what
        interrupted saves have left beside it.

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
    if set(manifest.files) not in ({TENSORS}, {TENSORS, CHUNKS, DOCUMENTS}):
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
