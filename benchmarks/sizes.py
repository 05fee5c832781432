"""Workload sizes in one place: full for the figures, quick for a look, tiny for the tests."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Shapes and repetitions of the benchmarks."""

    n_chunks: int
    dim: int
    n_queries: int
    k: int
    window: int
    rounds: int
    chunks_per_doc: int = 100


FULL = Size(n_chunks=1_000_000, dim=384, n_queries=8192, k=10, window=1, rounds=9)
QUICK = Size(n_chunks=200_000, dim=384, n_queries=2048, k=10, window=1, rounds=3)
TINY = Size(n_chunks=2_000, dim=32, n_queries=16, k=3, window=1, rounds=2)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}
# One call of an interactive user: everything is in cache and fixed costs decide. Many short rounds:
# most are over before anything interrupts them.
SMALL = Size(n_chunks=1_000, dim=384, n_queries=1, k=5, window=1, rounds=150)
# What slow peers can be asked for; the matrix is still larger than the cache.
PEERS = Size(n_chunks=200_000, dim=384, n_queries=4096, k=10, window=1, rounds=5)
QUICK_PEERS = Size(n_chunks=100_000, dim=384, n_queries=1024, k=10, window=1, rounds=2)
PEERS_OF = {FULL: PEERS, QUICK: QUICK_PEERS, TINY: TINY}
