"""Kernels in a forked process: OpenMP's threads stay behind with the parent."""

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable

import pytest
import torch

from tests.backends import OPERATIONS, only_on
from tests.corpora import random_corpus, random_queries, seeded

pytestmark = pytest.mark.usefixtures("run")  # defines the operations
SECONDS = 60
N, B, K = 9000, 600, 8


def in_child(check: Callable[[], None]) -> bool:
    """Whether `check` passes in a forked child; one that hangs is killed."""
    with warnings.catch_warnings():
        # What Python 3.12 says of any fork beside threads is what is looked into here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if (status := os.waitpid(child, os.WNOHANG))[0]:
            return status[1] == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def flat(result) -> list[bytes]:
    """The bytes of all tensors of a result: PyTorch's own comparisons would wait for threads."""
    if result is None:
        return []
    if isinstance(result, torch.Tensor):
        return [result.numpy().tobytes()]
    return [part for item in result for part in flat(item)]


def calls() -> dict[str, Callable]:
    """A call of each operation that takes more than one thread."""
    import scar_gpu

    data = random_corpus(N, 64, window=2)
    queries = random_queries(data.embeddings, B)
    hits = torch.randint(-1, N, (B, K), generator=seeded(1))
    others = torch.randint(-1, N, (B, K), generator=seeded(2))
    known = {"row_scale": data.row_scale}
    matrix = (queries, data.embeddings)
    scored = (*matrix, data.continuity)
    judged = scar_gpu.neighbor_scores(*scored, hits, **known)
    expansion = scar_gpu.expand(hits, judged)
    near = torch.zeros(B, K, 4)
    gold = (torch.tensor([[[0, N]]]).repeat(B, 1, 1), torch.ones(B, 1, 1).double())
    swept = (hits, judged.relevance, near, near, *gold)
    return {
        "row_scale": lambda: scar_gpu.row_scale(data.embeddings),
        "continuity": lambda: scar_gpu.continuity(
            data.embeddings, data.doc_offsets, window=2, **known
        ),
        "neighbor_scores": lambda: scar_gpu.neighbor_scores(*scored, hits, **known),
        "expand": lambda: scar_gpu.expand(hits, judged),
        "scar_expand": lambda: scar_gpu.scar_expand(*scored, hits, **known),
        "window_expand": lambda: scar_gpu.window_expand(hits, data.doc_offsets),
        "spans": lambda: scar_gpu.spans(expansion, data.doc_offsets),
        "search": lambda: scar_gpu.search(*matrix, 10, **known),
        "search_expand": lambda: scar_gpu.search_expand(*scored, 10, **known),
        "corpus_masks": lambda: scar_gpu.corpus_masks(*scored, **known),
        "rank_fusion": lambda: scar_gpu.rank_fusion([hits, others]),
        "parameter_sweep": lambda: scar_gpu.parameter_sweep(*swept, [0.1], [0.8]),
    }


@only_on("cpu")
@pytest.mark.parametrize("name", [*OPERATIONS, "rank_fusion", "parameter_sweep"])
def test_a_child_gets_what_its_parent_got(threads, name):
    threads(2)
    call = calls()[name]
    expected = flat(call())

    def check() -> None:
        assert flat(call()) == expected

    assert in_child(check)
    assert flat(call()) == expected


@only_on("cpu")
@pytest.mark.parametrize("batch", [1, 16])
def test_a_few_queries_search_in_parts_of_the_rows(threads, batch):
    import scar_gpu

    threads(2)
    rows = random_corpus(N, 64).embeddings
    queries = random_queries(rows, batch)
    expected = flat(scar_gpu.search(queries, rows, 10))

    def check() -> None:
        assert flat(scar_gpu.search(queries, rows, 10)) == expected

    assert in_child(check)


@only_on("cpu")
def test_a_childs_child_and_a_child_of_one_thread(threads):
    threads(2)
    call = calls()["search"]
    expected = flat(call())

    def alone() -> None:
        torch.set_num_threads(1)
        assert flat(call()) == expected

    def check() -> None:
        assert flat(call()) == expected
        assert in_child(alone)
        assert in_child(lambda: pytest.fail("seen") if flat(call()) != expected else None)

    assert in_child(check)


@only_on("cpu")
def test_errors_in_a_child(threads):
    threads(2)
    import scar_gpu

    calls()["window_expand"]()
    hits, offsets = torch.tensor([[0, 7]]), torch.tensor([0, 7])

    def check() -> None:
        with pytest.raises(IndexError, match=r"hits\[0, 1\] must be -1 or in \[0, 7\), got 7"):
            scar_gpu.window_expand(hits, offsets)

    assert in_child(check)


@only_on("cpu")
def test_a_failing_check_is_seen():
    assert not in_child(lambda: pytest.fail("as it should"))
