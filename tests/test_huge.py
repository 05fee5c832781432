"""Sizes that no machine can hold: refused before anything is allocated, or never allocated."""

import re

import pytest
import torch

from tests.backends import only_on
from tests.corpora import level_corpus, level_rows

pytestmark = pytest.mark.usefixtures("run")  # defines the operations
HUGE = 2**31 - 1
B = 1000  # terabytes of results


def call(name: str, size: int, n_queries: int = B):
    import scar_gpu

    data = level_corpus([0, 1, 2, 3])
    queries, rows = level_rows([0]).expand(n_queries, -1), data.embeddings
    ids = torch.tensor([[0]]).expand(n_queries, -1)
    scores = torch.tensor([[1.0]]).expand(n_queries, -1)
    return {
        "search": lambda: scar_gpu.search(queries, rows, size),
        "search_expand": lambda: scar_gpu.search_expand(queries, rows, data.continuity, size),
        "rank_fusion": lambda: scar_gpu.rank_fusion([ids], top_n=size),
        "score_fusion": lambda: scar_gpu.score_fusion([ids], [scores], top_n=size),
        "window_expand": lambda: scar_gpu.window_expand(ids, data.doc_offsets, after=size),
    }[name]()


# The largest legal size of each, the columns it makes, and the bytes of a column.
SIZES = {
    "search": ("k", HUGE, HUGE, 12),
    "search_expand": ("k", HUGE // 3, HUGE // 3, 32 + 42),
    "rank_fusion": ("top_n", HUGE, HUGE, 12),
    "score_fusion": ("top_n", HUGE, HUGE, 12),
    "window_expand": ("after", HUGE - 2, HUGE, 16),
}


@only_on("cpu", "triton")
@pytest.mark.parametrize("name", SIZES)
def test_results_that_fit_no_memory(name):
    option, size, width, entry = SIZES[name]
    gib = B * width * entry / 2**30
    rule = rf"{option} must give results that fit the \d+ GiB of this machine, "
    got = re.escape(f"got {size}: [{B}, {width}] are {gib:.0f} GiB")
    with pytest.raises(MemoryError, match=f"^{rule}{got}$"):
        call(name, size)
    with pytest.raises(ValueError, match=f"^{option} must be below 2\\^31, got {2**31}$"):
        call(name, 2**31)


@only_on("cpu", "triton")
@pytest.mark.parametrize("name", SIZES)
def test_exactly_what_fits_is_tried(name, monkeypatch):
    """The limit is the memory itself: one column more is refused. Nothing that large is made."""
    from scar_gpu import checks

    option, *_ = SIZES[name]
    monkeypatch.setattr(checks, "WIDE", 3)
    sizes = []
    fits = checks.check_fits

    def seen(option, value, like, width, entry_bytes):
        sizes.append(like.shape[0] * width * entry_bytes)
        fits(option, value, like, width, entry_bytes)

    monkeypatch.setattr(checks, "check_fits", seen)
    result = call(name, 5, 2)
    made = [part for item in result for part in (item if isinstance(item, tuple) else [item])]
    bytes_made = sum(part.numel() * part.element_size() for part in made if part is not None)
    (size,) = sizes
    # But for the lengths, every byte of the results was counted.
    assert bytes_made == size + (0 if name == "search" else 4 * 2)
    monkeypatch.setattr(checks, "MEMORY", size)
    call(name, 5, 2)
    monkeypatch.setattr(checks, "MEMORY", size - 1)
    with pytest.raises(MemoryError, match=f"^{option} must"):
        call(name, 5, 2)
