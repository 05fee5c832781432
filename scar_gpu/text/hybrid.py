"""Hybrid search: the ranked lists of vectors and of words, fused by reciprocal rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from scar_gpu import ChunkIndex, checks, rank_fusion
from scar_gpu.text.lexical import LexicalIndex
from scar_gpu.types import Fusion, Hits


def hybrid_search(
    index: ChunkIndex,
    lexical: LexicalIndex,
    vectors: Tensor,
    queries: Sequence[str],
    k: int,
    *,
    pool: int = 50,
    weights: Sequence[float] | None = None,
    rrf_k: float = 60.0,
    row_ranges: Tensor | None = None,
    search: Callable[..., Hits] | None = None,
) -> Fusion:
    """Fuse the `pool` best rows by cosine with the `pool` best by BM25.

    The ids are hits like any others. A fused score says nothing about relevance in SCAR's sense,
    so expand without `relevance=`: the kernel computes the cosines.

    Args:
        index: the chunks' embeddings.
        lexical: the same chunks' words, row for row.
        vectors: [B, D] the embedded queries.
        queries: the B texts.
        k: results per query.
        pool: length of each of the two lists; at most N of it is used.
        weights: of the dense and the lexical list; default 1 and 1.
        rrf_k: the k of `rank_fusion`.
        row_ranges: [B, 2] int64, half-open ranges of rows that each query is restricted to.
        search: does what `index.search`, the default, does.

    Returns:
        Fusion of ids [B, k], with details: list 0 is the dense one, list 1 the lexical one.

    Raises:
        TypeError: a query is no string.
        ValueError: index and lexical, or vectors and queries, do not belong together; a value out
            of range.

    Example:
        >>> fused = hybrid_search(index, lexical, vectors, texts, 5)  # doctest: +SKIP
        >>> expansion = index.scar_expand(vectors, fused.ids)  # doctest: +SKIP
    """
    if lexical.n_rows != index.n_chunks:
        rule = f"have one row per chunk of the index ({index.n_chunks})"
        checks.fail(ValueError, "lexical", rule, lexical.n_rows)
    checks.check_at_least("pool", pool, 1)
    pool = min(pool, max(index.n_chunks, 1))  # longer lists would end in padding
    # First the dense one, which refuses ranges that lie outside the index.
    dense = (search or index.search)(vectors, pool, row_ranges=row_ranges)
    ranges = None if row_ranges is None else row_ranges.cpu()
    found = lexical.search(queries, pool, row_ranges=ranges)
    if found.ids.shape[0] != vectors.shape[0]:
        rule = f"have one text per row of vectors ({vectors.shape[0]})"
        checks.fail(ValueError, "queries", rule, found.ids.shape[0])
    return rank_fusion(
        [dense.ids, found.ids.to(dense.ids.device)],
        k=rrf_k,
        weights=weights,
        top_n=k,
        details=True,
    )
