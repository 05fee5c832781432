"""How far calls drive up a process's memory beyond their inputs and results, in bytes.

python benchmarks/peak_memory.py '[["search", {"N": 1000, "B": 8, "K": 3, "D": 16, "W": 1}], ...]'
prints a JSON list with one figure per case; a case may also name its number of "threads".

Every call is the only one of its size in its process, which is forked from one that has imported
everything but run nothing: what an allocator or a BLAS keeps of an earlier call would hide what a
later one needs. A small call before it loads the code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial

import torch
from bench_rank_fusion import random_lists
from corpus import Corpus
from sizes import Size

import scar_gpu

SMALL = {"N": 1000, "B": 16, "K": 2, "D": 16, "W": 1}


def call(operation: str, case: dict[str, int]) -> Callable[[], object]:
    """An operation on inputs of the sizes of `case`."""
    if operation == "rank_fusion":
        return partial(scar_gpu.rank_fusion, random_lists(case["B"], 2, 10 * case["K"]))
    size = Size(
        n_chunks=case["N"], dim=case["D"], n_queries=case["B"], k=case["K"], window=case["W"],
        rounds=0,
    )  # fmt: skip
    corpus = Corpus.random(size, torch.float32, "fp32")
    index, queries, hits = corpus.index, corpus.queries, corpus.hits
    if operation == "continuity":
        rows, offsets = index.embeddings, index.doc_offsets
        return partial(
            scar_gpu.continuity, rows, offsets, window=case["W"], row_scale=index.row_scale
        )
    more = {"corpus_masks": (), "search": (case["K"],), "search_expand": (case["K"],)}
    return partial(getattr(index, operation), queries, *more.get(operation, (hits,)))


def bytes_of(result: object) -> int:
    """Bytes of all tensors of nested results."""
    if isinstance(result, tuple):
        return sum(map(bytes_of, result))
    return result.nbytes if isinstance(result, torch.Tensor) else 0


def memory(name: str) -> int:
    """VmRSS, what is resident now, or VmHWM, its peak."""
    with open("/proc/self/status") as file:
        return int(file.read().split(f"{name}:")[1].split()[0]) * 1024


def beyond(operation: str, case: dict[str, int]) -> int:
    """The growth of the peak by one call, less its results."""
    torch.set_num_threads(case.get("threads", torch.get_num_threads()))
    call(operation, SMALL)()
    function = call(operation, case)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    before = memory("VmRSS")
    result = function()
    return max(memory("VmHWM") - before - bytes_of(result), 0)


def in_a_child(operation: str, case: dict[str, int]) -> int:
    """`beyond` in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, str(beyond(operation, case)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        figure = file.read()
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"{operation} must end, did not with {case}")
    return int(figure)


if __name__ == "__main__":
    print(json.dumps([in_a_child(*case) for case in json.loads(sys.argv[1])]))
