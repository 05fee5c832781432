"""The best rows, the judgement of their neighbours, and the union of both, in one call."""

from torch import Tensor

from scar_gpu.kernels.expand import launch_expand
from scar_gpu.kernels.neighbor_scores import launch_neighbor_scores
from scar_gpu.kernels.search import launch_search


def launch_search_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    k: int,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    row_ranges: Tensor | None,
    min_scores: Tensor | None,
    document_order: bool,
) -> tuple[Tensor, ...]:
    """The results of the three operations, one after the other; nothing waits for the device.

    The scores found are not handed on as relevance, though that would save a row per hit: where
    a relevance is -0.0 the search has made it 0.0, and the bits are to be those of three calls.
    """
    hits, scores = launch_search(queries, embeddings, k, row_scale, row_ranges, min_scores)
    relevance, judged, mask = launch_neighbor_scores(
        queries, embeddings, continuity, hits, lam, gamma, contiguous, row_scale, None
    )
    expansion = launch_expand(hits, relevance, judged, mask, document_order)
    return (hits, scores, relevance, judged, mask, *expansion)
