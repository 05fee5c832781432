"""SCAR at every point of a grid, on the GPU, by PyTorch's own kernels: batched 0/1 products.

The union of rows is a product of two matrices of zeros and ones: row r is in the expansion when a
candidate that stands for it is admitted. All sums of zeros and ones are exact.
"""

import torch
from torch import Tensor

# Bytes of the matrices of a block of queries.
_BLOCK_BYTES = 64 << 20


def launch_parameter_sweep(
    hits: Tensor,
    relevance: Tensor,
    neighbor_relevance: Tensor,
    continuity: Tensor,
    gold_ranges: Tensor,
    gold_weights: Tensor,
    lam: list[float],
    gamma: list[float],
    contiguous: bool,
) -> tuple[Tensor, Tensor]:
    """Fill the grid block by block of queries. Inputs are validated by the caller."""
    n_queries, n_pieces, n_measures = gold_weights.shape
    grid = (len(lam), len(gamma))
    chunks = hits.new_empty((n_queries, *grid), dtype=torch.int32)
    covered = relevance.new_empty((n_queries, n_measures, *grid))
    n_candidates = hits.shape[1] * (continuity.shape[2] + 1)
    per_query = 4 * (n_candidates + n_pieces) * (n_candidates + 2 * len(gamma)) + 1
    step = max(1, _BLOCK_BYTES // per_query)
    for first in range(0, n_queries, step):
        some = slice(first, first + step)
        tensors = (hits, relevance, neighbor_relevance, continuity, gold_ranges, gold_weights)
        block = _Block(*(tensor[some] for tensor in tensors))
        for i, one_lam in enumerate(lam):
            block.fill(one_lam, gamma, contiguous, chunks[some, i], covered[some, :, i])
    return chunks, covered


class _Block:
    """Some queries. Candidates are numbered hit by hit, each among its neighbours: R = K(2W+1)."""

    def __init__(
        self,
        hits: Tensor,
        relevance: Tensor,
        neighbor_relevance: Tensor,
        continuity: Tensor,
        ranges: Tensor,
        weights: Tensor,
    ) -> None:
        window = continuity.shape[2] // 2
        self.relevance, self.neighbors, self.continuity = relevance, neighbor_relevance, continuity
        self.window, self.weights = window, weights
        offsets = torch.arange(-window, window + 1, device=hits.device)
        self.is_hit = (hits >= 0) & (relevance != -torch.inf)
        # [B, K, 2W + 1], the hit in the middle
        rows = hits.long()[:, :, None] + offsets
        exists = torch.ones_like(rows, dtype=torch.bool)
        exists[:, :, :window] = ~continuity[:, :, :window].isnan()
        exists[:, :, window + 1 :] = ~continuity[:, :, window:].isnan()
        self.exists = exists & self.is_hit[:, :, None] & (rows >= 0)
        rows, exists = rows.flatten(1), self.exists.flatten(1)
        # [B, R, R]: candidate u stands for the row of t, and t is the first that does
        same = (rows[:, :, None] == rows[:, None]) & exists[:, :, None] & exists[:, None]
        is_first = ~same.tril(-1).any(2)
        self.stands_for = (same & is_first[:, :, None]).float()
        # [B, P, R]
        first, end = ranges.unsqueeze(2).unbind(3)
        inside = (rows[:, None] >= first) & (rows[:, None] < end)
        self.covers = (inside & exists[:, None]).float()

    def fill(
        self, lam: float, gamma: list[float], contiguous: bool, chunks: Tensor, covered: Tensor
    ) -> None:
        """One row of the grid: chunks [B, G], covered [B, M, G]."""
        window = self.window
        scores = self.neighbors - lam * (1 - self.continuity)
        exceeds = torch.stack([scores > (self.relevance * one)[:, :, None] for one in gamma], 3)
        for step in range(1, window if contiguous else 1):
            near = (window + step - 1, window - step)
            for far, nearer in zip((window + step, window - 1 - step), near, strict=True):
                exceeds[:, :, far] &= exceeds[:, :, nearer]
        is_hit = self.is_hit[:, :, None, None].expand(-1, -1, 1, len(gamma))
        admitted = torch.cat((exceeds[:, :, :window], is_hit, exceeds[:, :, window:]), 2)
        admitted = (admitted & self.exists[..., None]).flatten(1, 2).float()  # [B, R, G]
        chunks.copy_((self.stands_for @ admitted > 0).sum(1))
        is_covered = (self.covers @ admitted > 0).double()  # [B, P, G]
        total = covered.new_zeros(covered.shape, dtype=torch.float64)
        for piece in range(is_covered.shape[1]):  # in the order in which the definition adds
            total += self.weights[:, piece, :, None] * is_covered[:, piece, None]
        covered.copy_(total)
