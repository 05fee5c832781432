"""Results do not depend on how the work is cut: blocks, passes over the batch, loads in flight."""

import pytest
import torch

from tests.backends import only_on
from tests.closeness import assert_equal, assert_same_bits
from tests.corpora import random_corpus, random_hits, random_offsets, random_question, seeded

pytestmark = pytest.mark.usefixtures("run")  # defines the operations
ORDERS = ("rank", "document")


def judged(b=3, k=12, window=1, n=30):
    """Hits close to each other, and their scores: eighths, so that many are equal."""
    from scar_gpu import NeighborScores

    generator = seeded(b)
    hits = random_hits(n, b, k)
    scores = torch.randint(-8, 9, (b, k, 2 * window), generator=generator) / 8
    mask = torch.rand(b, k, 2 * window, generator=generator) < 0.7
    relevance = torch.rand(b, k, generator=generator).masked_fill(hits < 0, -torch.inf)
    return hits, NeighborScores(relevance, scores, mask)


def small_blocks(monkeypatch, *modules):
    """Several blocks per query, where one would do."""
    for module in modules:
        monkeypatch.setattr(module, "default_config", lambda *_, **__: {"BLOCK": 8, "num_warps": 1})


def small_passes(monkeypatch, programs=2**31 - 1, scratch=2**26):
    from scar_gpu.kernels import launch

    monkeypatch.setattr(launch, "MAX_PROGRAMS", programs)
    monkeypatch.setattr(launch, "SCRATCH_BYTES", scratch)


@only_on("triton")
@pytest.mark.parametrize("order", ORDERS)
def test_expand_in_several_blocks_and_passes(run, monkeypatch, order):
    from scar_gpu.kernels import expand

    hits, scores = judged()
    one_block = run("expand", hits, scores, order=order)
    small_blocks(monkeypatch, expand)
    assert_same_bits(run("expand", hits, scores, order=order), one_block)
    small_passes(monkeypatch, scratch=16 * 36 * 2)  # two of three queries
    assert_same_bits(run("expand", hits, scores, order=order), one_block)


@only_on("triton")
@pytest.mark.parametrize("order", ORDERS)
def test_more_candidates_than_the_largest_block(run, order):
    from scar_gpu import reference

    hits, scores = judged(b=1, k=400, n=700)
    actual = run("expand", hits, scores, order=order)
    for one, other in zip(actual, reference.expand(hits, scores, order=order), strict=True):
        assert_equal(one, other)


@only_on("triton")
@pytest.mark.parametrize("order", ORDERS)
def test_window_expand_in_several_blocks_and_passes(run, monkeypatch, order):
    from scar_gpu.kernels import window_expand

    hits, ends = random_hits(40, 3, 7), random_offsets(40, seeded(0))
    call = ("window_expand", hits, ends)
    options = {"before": 2, "after": 1, "order": order}
    one_block = run(*call, **options)
    small_blocks(monkeypatch, window_expand)
    assert_same_bits(run(*call, **options), one_block)
    small_passes(monkeypatch, scratch=16 * 28)
    assert_same_bits(run(*call, **options), one_block)


@only_on("triton")
def test_spans_in_several_blocks_and_passes(run, monkeypatch):
    from scar_gpu.kernels import spans

    ends = random_offsets(40, seeded(0))
    expansion = run("window_expand", random_hits(40, 3, 9), ends)
    one_block = run("spans", expansion, ends)
    small_blocks(monkeypatch, spans)
    assert_same_bits(run("spans", expansion, ends), one_block)
    small_passes(monkeypatch, scratch=16 * 27 * 2)
    assert_same_bits(run("spans", expansion, ends), one_block)


@only_on("triton")
def test_scar_expand_in_several_passes(run, monkeypatch):
    args, options = random_question((5, 3, 1, 20, 32))
    relevance = run("neighbor_scores", *args, **options).relevance
    for given in (None, relevance):
        at_once = run("scar_expand", *args, **options, relevance=given)
        with monkeypatch.context() as patch:
            small_passes(patch, scratch=21 * 9 * 2)
            assert_same_bits(run("scar_expand", *args, **options, relevance=given), at_once)


@only_on("triton")
def test_neighbor_scores_beyond_one_grid(run, monkeypatch):
    args, options = random_question((5, 3, 1, 20, 32))
    one_grid = run("neighbor_scores", *args, **options)
    small_passes(monkeypatch, programs=7)  # two queries of three hits
    assert_same_bits(run("neighbor_scores", *args, **options), one_grid)


@only_on("triton")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_loads_in_flight_do_not_change_a_bit(run, monkeypatch, dtype):
    from scar_gpu.kernels import continuity, neighbor_scores

    data = random_corpus(9, 1100, dtype=dtype)
    args, options = random_question((1, 3, 1, 9, 1100), dtype)

    def both():
        table = run("continuity", data.embeddings, data.doc_offsets, row_scale=data.row_scale)
        return [table, *run("neighbor_scores", *args, **options)]

    default = both()
    for unroll in (1, 2, 3):
        with monkeypatch.context() as patch:
            for module in (continuity, neighbor_scores):
                config = module.default_config
                patch.setattr(
                    module,
                    "default_config",
                    lambda *args, config=config, unroll=unroll: config(*args) | {"UNROLL": unroll},
                )
            assert_same_bits(both(), default)


@only_on("triton")
def test_passes_cover_the_batch_once(monkeypatch):
    from scar_gpu.kernels.launch import passes

    batch = (torch.arange(10), None, torch.arange(20).view(10, 2))
    (whole,) = passes(batch, programs=3, scratch=8)
    assert whole is batch
    small_passes(monkeypatch, programs=13, scratch=100)
    for options, step in (({"programs": 3}, 4), ({"scratch": 30}, 3), ({"programs": 99}, 1)):
        parts = list(passes(batch, **options))
        assert [len(part[0]) for part in parts[:-1]] == [step] * (len(parts) - 1)
        assert all(part[1] is None for part in parts)
        assert torch.equal(torch.cat([part[2] for part in parts]), batch[2])
    assert len(list(passes((torch.empty(0),)))) == 1
