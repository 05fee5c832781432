"""`ChunkIndex`: the chunk matrix with everything the operations derive from it."""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scar_gpu import api, checks
from scar_gpu.faiss_index import to_faiss
from scar_gpu.types import (
    CorpusMasks,
    Expansion,
    Hits,
    NeighborScores,
    SearchExpansion,
    Spans,
)

# Rows looked at together when a scale says that something is wrong with them.
_SUSPECTS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ChunkIndex:
    """A matrix of chunk embeddings, its documents, row scales and continuity table.

    The methods are the operations of the same names with the index's own tensors filled in.
    `window=` may be anything up to the index's own, so one index of window 2 serves both
    SCAR(+-1) and SCAR(+-2).

    Attributes:
        embeddings: [N, D] float32, float16 or bfloat16, documents' chunks in reading order.
        row_scale: [N] float32, 1 / |e_i|, 0 for a zero row.
        continuity: [W, N] float32, cos(e_i, e_{i+j}), NaN outside the document.
        doc_offsets: [num_docs + 1] int64.

    Example:
        >>> import torch
        >>> from scar_gpu import ChunkIndex
        >>> rows = torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]])
        >>> index = ChunkIndex.build(rows, doc_ids=["a", "a", "b"])
        >>> hits = index.search(torch.tensor([[1.0, 0.0]]), 1)
        >>> index.scar_expand(torch.tensor([[1.0, 0.0]]), hits.ids).ids
        tensor([[ 0,  1, -1]])
    """

    embeddings: Tensor
    row_scale: Tensor
    continuity: Tensor
    doc_offsets: Tensor

    @classmethod
    def build(
        cls,
        embeddings: Tensor | np.ndarray,
        doc_offsets: Tensor | np.ndarray | Sequence[int] | None = None,
        *,
        doc_ids: Sequence[Any] | Tensor | np.ndarray | None = None,
        window: int = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> "ChunkIndex":
        """Check the matrix and compute what the operations need.

        Args:
            embeddings: [N, D]; a NumPy array or memory map (read-only too) is used without a
                copy when dtype and device fit.
            doc_offsets: [num_docs + 1], non-decreasing from 0 to N.
            doc_ids: [N], the document of every row instead; equal ids must be consecutive. With
                neither, all rows are one document.
            window: W >= 0, the largest distance that can be asked for later.
            dtype: float32, float16 or bfloat16 to store; default as given.
            device: default: the embeddings' own.

        Returns:
            The index.

        Raises:
            TypeError: wrong dtypes.
            ValueError: wrong shapes; a row that is not finite, or whose length has no float32
                inverse (the first is named); offsets that fall, do not start at 0 or do not end
                at N; doc_ids that return to an earlier document; window < 0.

        Example:
            >>> import numpy as np
            >>> from scar_gpu import ChunkIndex
            >>> ChunkIndex.build(np.eye(3, dtype=np.float32), [0, 2, 3]).n_docs
            2
        """
        matrix = _as_tensor("embeddings", embeddings)
        if dtype is not None:
            if dtype not in checks.ROW_DTYPES:
                checks.fail(ValueError, "dtype", "be float32, float16 or bfloat16", dtype)
            if not matrix.is_floating_point():
                checks.fail(TypeError, "embeddings", "be a floating-point matrix", matrix.dtype)
        matrix = matrix.detach().to(device=device, dtype=dtype)
        checks.check_embeddings(matrix)
        checks.check_at_least("window", window, 0)
        if doc_offsets is not None and doc_ids is not None:
            raise ValueError("doc_offsets and doc_ids must not both be given, got both")
        n_chunks = matrix.shape[0]
        if doc_ids is not None:
            offsets = _offsets_of_ids(doc_ids, n_chunks)
        elif doc_offsets is not None:
            offsets = _checked_offsets(doc_offsets, n_chunks)
        else:
            offsets = torch.tensor([0, n_chunks])
        offsets = offsets.to(matrix.device)
        scale = api.row_scale(matrix)
        _check_rows(matrix, scale)
        table = api.continuity(matrix, offsets, window=window, row_scale=scale)
        return cls(matrix, scale, table, offsets)

    @property
    def n_chunks(self) -> int:
        """N, the number of rows."""
        return self.embeddings.shape[0]

    @property
    def dim(self) -> int:
        """D, the dimensions of an embedding."""
        return self.embeddings.shape[1]

    @property
    def n_docs(self) -> int:
        """The number of documents, empty ones included."""
        return self.doc_offsets.shape[0] - 1

    @property
    def window(self) -> int:
        """W, the largest window the continuity table serves."""
        return self.continuity.shape[0]

    def __repr__(self) -> str:
        dtype = str(self.embeddings.dtype).removeprefix("torch.")
        return (
            f"ChunkIndex(n_chunks={self.n_chunks}, dim={self.dim}, n_docs={self.n_docs}, "
            f"window={self.window}, dtype={dtype}, device={self.embeddings.device})"
        )

    def to(self, device: torch.device | str) -> "ChunkIndex":
        """Return the index with its tensors on `device`; those already there are shared."""
        return ChunkIndex(
            self.embeddings.to(device),
            self.row_scale.to(device),
            self.continuity.to(device),
            self.doc_offsets.to(device),
        )

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the tensors to a folder, whole or not at all: `scar_gpu.storage.save_index`."""
        from scar_gpu.storage import save_index

        save_index(path, self, overwrite=overwrite)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        mmap: bool = True,
        device: torch.device | str | None = None,
        verify: bool = False,
    ) -> "ChunkIndex":
        """Open the tensors of a saved index: `scar_gpu.storage.open_index`."""
        from scar_gpu.storage import open_index

        return open_index(path, mmap=mmap, device=device, verify=verify).index

    def neighbor_scores(
        self,
        queries: Tensor,
        hits: Tensor,
        *,
        lam: float = 0.1,
        gamma: float = 0.8,
        contiguous: bool = False,
        relevance: Tensor | None = None,
        window: int | None = None,
    ) -> NeighborScores:
        """Judge the neighbours of hits [B, K]: `scar_gpu.neighbor_scores` on this index."""
        return api.neighbor_scores(
            queries,
            self.embeddings,
            self._table(window),
            hits,
            lam=lam,
            gamma=gamma,
            contiguous=contiguous,
            row_scale=self.row_scale,
            relevance=relevance,
        )

    def scar_expand(
        self,
        queries: Tensor,
        hits: Tensor,
        *,
        lam: float = 0.1,
        gamma: float = 0.8,
        contiguous: bool = False,
        relevance: Tensor | None = None,
        order: str = "rank",
        window: int | None = None,
    ) -> Expansion:
        """Judge and unite: `scar_gpu.scar_expand` on this index."""
        return api.scar_expand(
            queries,
            self.embeddings,
            self._table(window),
            hits,
            lam=lam,
            gamma=gamma,
            contiguous=contiguous,
            row_scale=self.row_scale,
            relevance=relevance,
            order=order,
        )

    def window_expand(
        self, hits: Tensor, *, before: int = 1, after: int = 1, order: str = "rank"
    ) -> Expansion:
        """Add the rows around hits [B, K]: `scar_gpu.window_expand` on this index."""
        return api.window_expand(hits, self.doc_offsets, before=before, after=after, order=order)

    def spans(self, expansion: Expansion) -> Spans:
        """Join rows into runs: `scar_gpu.spans` on this index."""
        return api.spans(expansion, self.doc_offsets)

    def search(
        self,
        queries: Tensor,
        k: int,
        *,
        row_ranges: Tensor | None = None,
        min_scores: Tensor | None = None,
    ) -> Hits:
        """Find the k best rows: `scar_gpu.search` on this index."""
        return api.search(
            queries,
            self.embeddings,
            k,
            row_scale=self.row_scale,
            row_ranges=row_ranges,
            min_scores=min_scores,
        )

    def search_expand(
        self,
        queries: Tensor,
        k: int,
        *,
        lam: float = 0.1,
        gamma: float = 0.8,
        contiguous: bool = False,
        row_ranges: Tensor | None = None,
        min_scores: Tensor | None = None,
        order: str = "rank",
        window: int | None = None,
    ) -> SearchExpansion:
        """Find the k best rows and judge their neighbours: `scar_gpu.search_expand` here."""
        return api.search_expand(
            queries,
            self.embeddings,
            self._table(window),
            k,
            lam=lam,
            gamma=gamma,
            contiguous=contiguous,
            row_scale=self.row_scale,
            row_ranges=row_ranges,
            min_scores=min_scores,
            order=order,
        )

    def corpus_masks(
        self,
        queries: Tensor,
        *,
        lam: float = 0.1,
        gamma: float = 0.8,
        contiguous: bool = False,
        return_relevance: bool = False,
        window: int | None = None,
    ) -> CorpusMasks:
        """Judge the neighbours of all rows: `scar_gpu.corpus_masks` on this index."""
        return api.corpus_masks(
            queries,
            self.embeddings,
            self._table(window),
            lam=lam,
            gamma=gamma,
            contiguous=contiguous,
            row_scale=self.row_scale,
            return_relevance=return_relevance,
        )

    def to_faiss(self, description: str = "Flat", *, inner_product: bool = True) -> Any:
        """Build a FAISS index of the unit rows: `scar_gpu.faiss_index.to_faiss` on this index."""
        return to_faiss(self.embeddings, self.row_scale, description, inner_product=inner_product)

    def _table(self, window: int | None) -> Tensor:
        """The continuity table of a window up to the index's own, [window, N]."""
        if window is None:
            return self.continuity
        checks.check_at_least("window", window, 0)
        if window > self.window:
            checks.fail(ValueError, "window", f"be <= {self.window}, the index's own", window)
        return self.continuity[:window]


def _as_tensor(name: str, values: Any) -> Tensor:
    """A tensor that shares the memory of `values` where it can, read-only memory included."""
    if isinstance(values, Tensor):
        return values
    if not isinstance(values, np.ndarray):
        checks.fail(TypeError, name, "be a torch.Tensor or numpy.ndarray", type(values).__name__)
    if values.dtype.kind not in "fiu" or not values.dtype.isnative:
        checks.fail(TypeError, name, "be an array of native numbers", values.dtype)
    if min(values.strides, default=0) < 0:
        checks.fail(ValueError, name, "have positive strides", values.strides)
    if values.size == 0 or values.flags.writeable:
        return torch.from_numpy(values.view(np.ndarray))
    # from_numpy warns about read-only memory; nothing here ever writes to the matrix. The buffer
    # keeps the array, and so the memory map, alive.
    extent = values.itemsize + sum(
        (size - 1) * stride for size, stride in zip(values.shape, values.strides, strict=True)
    )
    buffer = (ctypes.c_char * extent).from_address(values.ctypes.data)
    buffer.owner = values
    return torch.from_numpy(np.ndarray(values.shape, values.dtype, buffer, strides=values.strides))


def _checked_offsets(doc_offsets: Any, n_chunks: int) -> Tensor:
    if isinstance(doc_offsets, Tensor | np.ndarray):
        offsets = _as_tensor("doc_offsets", doc_offsets).cpu()
    else:
        try:
            offsets = torch.tensor(list(doc_offsets))
        except (TypeError, ValueError, RuntimeError):
            checks.fail(TypeError, "doc_offsets", "be a sequence of int64", repr(doc_offsets)[:80])
    if offsets.dtype not in checks.ID_DTYPES and offsets.numel():
        checks.fail(TypeError, "doc_offsets", "be int32 or int64", offsets.dtype)
    offsets = offsets.long()
    checks.check_offsets(offsets)
    if offsets[0] != 0:
        checks.fail(ValueError, "doc_offsets", "start at 0", int(offsets[0]))
    falls = (offsets[1:] < offsets[:-1]).nonzero()
    if falls.shape[0]:
        at = int(falls[0]) + 1
        got = f"{int(offsets[at - 1])} then {int(offsets[at])} at position {at}"
        checks.fail(ValueError, "doc_offsets", "not fall", got)
    if offsets[-1] != n_chunks:
        checks.fail(ValueError, "doc_offsets", f"end at {n_chunks}, the rows", int(offsets[-1]))
    return offsets


def _offsets_of_ids(doc_ids: Any, n_chunks: int) -> Tensor:
    if isinstance(doc_ids, Tensor):
        ids = doc_ids.detach().cpu().numpy()
    elif isinstance(doc_ids, np.ndarray):
        ids = doc_ids
    else:  # one by one, since NumPy would make 1 and "1" equal
        ids = np.empty(len(doc_ids), dtype=object)
        for row, document in enumerate(doc_ids):
            ids[row] = document
    if ids.shape != (n_chunks,):
        checks.fail(ValueError, "doc_ids", f"have shape [{n_chunks}]", list(ids.shape))
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    bounds = np.concatenate([[0], starts, [n_chunks]] if n_chunks else [[0]]).astype(np.int64)
    seen = set()
    for row in bounds[:-1].tolist():
        document = ids[row].item() if isinstance(ids[row], np.generic) else ids[row]
        if document in seen:
            rule = "not return to an earlier document"
            checks.fail(ValueError, f"doc_ids[{row}]", rule, repr(document))
        seen.add(document)
    return torch.from_numpy(bounds)


def _check_rows(embeddings: Tensor, scale: Tensor) -> None:
    """Refuse rows whose scale is not a normal number, except zero rows."""
    limits = torch.finfo(torch.float32)
    suspects = (~((scale >= limits.tiny) & (scale <= limits.max))).nonzero()[:, 0]
    for some in suspects.split(_SUSPECTS):
        rows = embeddings[some].double()
        finite = rows.isfinite().all(1)
        wrong = (~finite | (rows != 0).any(1)).nonzero()
        if not wrong.shape[0]:
            continue
        first = int(wrong[0])
        name = f"embeddings[{int(some[first])}]"
        if not finite[first]:
            bad = rows[first][~rows[first].isfinite()][0].item()
            checks.fail(ValueError, name, "be finite", bad)
        rule = "have a length whose inverse is a normal float32"
        checks.fail(ValueError, name, rule, rows[first].norm().item())
