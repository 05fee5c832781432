"""SCAR in one call: judge the neighbours of the hits and unite what is admitted, on the GPU."""

from torch import Tensor

from scar_gpu.kernels.expand import expand_into
from scar_gpu.kernels.launch import passes
from scar_gpu.kernels.neighbor_scores import launch_neighbor_scores
from scar_gpu.kernels.placement import empty_expansion


def launch_scar_expand(
    queries: Tensor,
    embeddings: Tensor,
    continuity: Tensor,
    hits: Tensor,
    lam: float,
    gamma: float,
    contiguous: bool,
    row_scale: Tensor | None,
    relevance: Tensor | None,
    document_order: bool,
) -> tuple[Tensor, ...]:
    """Two launches: one program per hit for the scores, then one per query for the union.

    A single launch would score the hits of a query one after the other, in B programs instead of
    B * K, to save 14 bytes per hit where the rows take thousands. The bits are those of the two
    operations by construction.
    """
    width = hits.shape[1] * (2 * continuity.shape[0] + 1)
    results = empty_expansion(hits, width)
    # Judgements and the scratch of `expand` take at most 21 bytes per candidate.
    for part in passes((queries, hits, relevance, *results), scratch=21 * width):
        asked, found, given, *into = part
        known, scores, mask = launch_neighbor_scores(
            asked, embeddings, continuity, found, lam, gamma, contiguous, row_scale, given
        )
        expand_into(into, found, known, scores, mask, document_order)
    return results
