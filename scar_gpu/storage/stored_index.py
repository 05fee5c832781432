"""An index on disk, opened: its tensors, and its text and words when they are asked for."""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from scar_gpu.index import ChunkIndex
from scar_gpu.storage.errors import refuse_digest
from scar_gpu.storage.files import BLOCK_BYTES
from scar_gpu.storage.manifest import CHUNKS, DOCUMENTS, LEXICAL, Manifest

if TYPE_CHECKING:
    from scar_gpu.text.chunks import ChunkTable
    from scar_gpu.text.lexical import LexicalIndex


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
        maps: Mapping[str, mmap.mmap],
        doc_offsets: Tensor,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.index = index
        self._maps = maps
        self._doc_offsets = doc_offsets
        self._chunks: ChunkTable | None = None
        self._lexical: LexicalIndex | None = None
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
            if self._chunks is None and CHUNKS in self._maps:
                from scar_gpu.storage.chunks_file import read_chunks

                self._verify(CHUNKS, DOCUMENTS)
                self._chunks = read_chunks(
                    self.path / CHUNKS,
                    self._maps[CHUNKS],
                    self._maps[DOCUMENTS],
                    self._doc_offsets.numpy(),
                )
            return self._chunks

    @property
    def lexical(self) -> LexicalIndex | None:
        """The words of the chunks, None for an index without; read and checked at first use.

        Raises:
            IndexFormatError: the checksum differs, or the file holds no lexical lists.
            ImportError: pyarrow is missing; `scar_gpu[io]` brings it.
        """
        with self._lock:
            if self._lexical is None and LEXICAL in self._maps:
                from scar_gpu.storage.lexical_file import read_lexical

                self._verify(LEXICAL)
                self._lexical = read_lexical(
                    self.path / LEXICAL, self._maps[LEXICAL], self.index.n_chunks
                )
            return self._lexical

    def verify_text(self) -> None:
        """Check the checksums of the files with text and words."""
        self._verify(*self._maps)

    def _verify(self, *names: str) -> None:
        for name in names:
            memory = self._maps[name]
            digest = hashlib.sha256()
            with memoryview(memory) as view:
                for begin in range(0, len(memory), BLOCK_BYTES):
                    digest.update(view[begin : begin + BLOCK_BYTES])
            # What was only hashed need not stay in memory.
            memory.madvise(mmap.MADV_DONTNEED)
            if digest.hexdigest() != self.manifest.files[name].sha256:
                refuse_digest(self.path / name)
