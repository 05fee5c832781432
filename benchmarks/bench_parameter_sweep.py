"""parameter_sweep against a loop over the grid with the ordinary functions; and the bootstrap."""

import torch
from measure import interleaved

import scar_gpu
from scar_gpu.evaluation.bootstrap import estimates
from scar_gpu.evaluation.sweep import neighborhood

# B, K, W, N, D, points of lam and of gamma, points that the loop is given
SHAPES = {
    "full": (1000, 10, 2, 20_000, 384, 50, 50, 25),
    "quick": (200, 10, 2, 5_000, 384, 20, 20, 10),
    "tiny": (8, 3, 1, 200, 16, 3, 4, 4),
}
UNITS = {"full": (1000, 8, 10_000), "quick": (500, 8, 2_000), "tiny": (20, 2, 50)}


def gold_of(hits: torch.Tensor, n_chunks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ten pieces a question, of up to two rows, near its best hit, in two measures."""
    generator = torch.Generator().manual_seed(0)
    first = hits[:, :1] + torch.randint(-5, 6, (len(hits), 10), generator=generator)
    first = first.clamp(0, n_chunks - 1)
    length = torch.randint(1, 3, first.shape, generator=generator)
    weights = torch.full((*first.shape, 2), 0.1, dtype=torch.float64)
    return torch.stack([first, first + length], 2), weights


def test_parameter_sweep(report, benchmark, pytestconfig, size):
    b, k, window, n, dim, n_lam, n_gamma, n_points = SHAPES[pytestconfig.getoption("--size")]
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n, dim, generator=generator)
    rows = rows + rows.roll(1, 0)  # like their neighbours
    index = scar_gpu.ChunkIndex.build(rows, list(range(0, n + 1, 100)), window=window)
    queries = rows[torch.randint(n, (b,), generator=generator)]
    queries = queries + torch.randn(b, dim, generator=generator)
    hits = index.search(queries, k).ids
    around = neighborhood(index, queries, hits, window)
    ranges, weights = gold_of(hits, n)
    lam, gamma = torch.linspace(0, 0.5, n_lam).tolist(), torch.linspace(0.2, 1.1, n_gamma).tolist()
    points = [(x, y) for x in lam for y in gamma]
    points = points[:: max(1, len(points) // n_points)][:n_points]

    def ours():
        return scar_gpu.parameter_sweep(hits, *around, ranges, weights, lam, gamma)

    def loop():
        found = []
        for one_lam, one_gamma in points:
            expansion = index.scar_expand(queries, hits, lam=one_lam, gamma=one_gamma)
            ids = expansion.ids.sort(1).values
            covers = torch.searchsorted(ids, ranges[..., 0].contiguous()) < torch.searchsorted(
                ids, ranges[..., 1].contiguous()
            )
            covered = torch.einsum("bp,bpm->bm", covers.double(), weights)
            found.append((expansion.lengths, covered))
        return found

    swept = ours()
    for (one_lam, one_gamma), (lengths, covered) in zip(points, loop(), strict=True):
        at = (slice(None), lam.index(one_lam), gamma.index(one_gamma))
        assert torch.equal(swept.chunks[at], lengths)
        torch.testing.assert_close(swept.covered[at[0], :, at[1], at[2]], covered.float())

    timings = interleaved({"ours": ours, "loop": loop}, min(size.rounds, 5))
    ratio = timings["loop"].over(timings["ours"]) / len(points) * len(lam) * len(gamma)
    for against, figure, target, met in (
        ("the ordinary functions in a loop", ratio, ">= 50", ratio >= 50),
        ("milliseconds", timings["ours"].median * 1e3, "<= 2000", timings["ours"].median <= 2),
    ):
        report.add(
            benchmark,
            work=f"parameter_sweep {n_lam} x {n_gamma}, B={b} K={k} W={window}",
            against=against,
            ratio=figure,
            target=target,
            met=met,
            timing=timings["ours"],
        )
    benchmark.pedantic(ours, rounds=2)


def test_bootstrap(report, benchmark, pytestconfig):
    n_units, n_methods, n_resamples = UNITS[pytestconfig.getoption("--size")]
    values = torch.rand(n_units, n_methods, generator=torch.Generator().manual_seed(0))

    def ours():
        return estimates(values, n_resamples)

    assert all(one.low <= one.mean <= one.high for one in ours())
    timing = interleaved({"ours": ours}, 5)["ours"]
    report.add(
        benchmark,
        work=f"bootstrap of {n_resamples} x {n_units} x {n_methods}",
        against="milliseconds",
        ratio=timing.median * 1e3,
        target="<= 500",
        met=timing.median <= 0.5,
        timing=timing,
    )
    benchmark.pedantic(ours, rounds=2)
