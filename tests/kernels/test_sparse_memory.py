"""Addresses beyond 2^31 elements in every input that a caller may stride.

The tensors lie in reserved memory whose untouched pages cost nothing. A 32-bit product would wrap
around and read another element, or leave the tensor.
"""

import mmap

import pytest
import torch
from torch import Tensor

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import random_corpus, random_hits, random_offsets, random_queries, seeded

pytestmark = pytest.mark.usefixtures("run")  # defines the operations
FAR = 2**31 + 16  # elements from one row to the next
MAP_NORESERVE = 0x4000  # Linux; Python names it from 3.13 on


def spread(tensor: Tensor, stride: tuple[int, int]) -> Tensor:
    """The same matrix with these strides, in memory that is only reserved."""
    size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, stride, strict=True))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = mmap.mmap(-1, size * tensor.element_size(), flags=flags)
    sparse = torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, stride)
    return sparse.copy_(tensor)


@only_on("triton")
def test_the_spread_matrix_is_the_same():
    matrix = torch.arange(12.0).view(3, 4)
    sparse = spread(matrix, (FAR, 1))
    assert sparse.stride() == (FAR, 1)
    assert torch.equal(sparse, matrix)


@only_on("triton")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_rows(run, dtype):
    data = random_corpus(7, 24, window=2, dtype=dtype)
    rows = spread(data.embeddings, (FAR, 1))
    ends, scale = data.doc_offsets, data.row_scale
    assert_same_bits(call("row_scale", rows), run("row_scale", data.embeddings))
    table = run("continuity", data.embeddings, ends, window=2, row_scale=scale)
    assert_same_bits(call("continuity", rows, ends, 2, scale), table)
    queries, hits = random_queries(data.embeddings, 2), random_hits(7, 2, 3)
    dense = run("neighbor_scores", queries, data.embeddings, table, hits, row_scale=scale)
    args = (queries, rows, table, hits, 0.1, 0.8, False, scale, None)
    assert_same_bits(call("neighbor_scores", *args), dense)


@only_on("triton")
@pytest.mark.parametrize("stride", [(FAR, 1), (1, FAR)], ids=["rows", "columns"])
def test_queries_hits_and_continuity(run, stride):
    data = random_corpus(9, 8, window=2)
    queries, hits = random_queries(data.embeddings, 3), random_hits(9, 3, 2).int()
    table, scale = data.continuity, data.row_scale
    dense = run("scar_expand", queries, data.embeddings, table, hits, row_scale=scale)
    args = (spread(queries, stride), data.embeddings, spread(table, (FAR, 1)))
    sparse = call("scar_expand", *args, spread(hits, stride), 0.1, 0.8, False, scale, None, False)
    assert_same_bits(sparse, dense)


@only_on("triton")
@pytest.mark.parametrize("stride", [(FAR, 1), (1, FAR)], ids=["rows", "columns"])
def test_hits_of_window_expand_and_rows_of_spans(run, stride):
    hits, ends = random_hits(20, 3, 4), random_offsets(20, seeded(0))
    dense = run("window_expand", hits, ends)
    assert_same_bits(call("window_expand", spread(hits, stride), ends, 1, 1, False), dense)
    result = run("spans", dense, ends)
    assert_same_bits(call("spans", spread(dense.ids, stride), ends), result)


def call(name: str, *args):
    """The launcher itself: the suite's runner would copy its inputs."""
    import importlib

    module = importlib.import_module(f"scar_gpu.kernels.{name}")
    return getattr(module, f"launch_{name}")(*args)
