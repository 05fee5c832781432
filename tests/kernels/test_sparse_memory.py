"""Addresses beyond 2^31 elements in every input that a caller may stride.

The tensors lie in reserved memory whose untouched pages cost nothing. A 32-bit product would wrap
around and read another element, or leave the tensor.
"""

import mmap

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.errors import InterpreterError

from tests.backends import only_on
from tests.closeness import assert_same_bits
from tests.corpora import random_corpus, random_hits, random_offsets, random_queries, seeded
from tests.kernels.memory_guard import WrappedProductError

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


@only_on("triton")
@pytest.mark.parametrize("has_filter", [True, False], ids=["filter", "scan"])
def test_rows_and_queries_of_search(run, monkeypatch, has_filter):
    from scar_gpu.kernels import search

    plan = search.Plan(group=4, n_chosen=3 * has_filter, n_slices=2, n_queries=2)
    monkeypatch.setattr(search, "default_config", lambda *_: plan)
    data = random_corpus(18, 24)
    queries = random_queries(data.embeddings, 2)
    dense = run("search", queries, data.embeddings, 3, row_scale=data.row_scale)
    for stride in ((FAR, 1), (1, FAR)):
        args = (spread(queries, stride), spread(data.embeddings, (FAR, 1)), 3, data.row_scale, None)
        assert_same_bits(call("search", *args), list(dense))


@triton.jit
def _narrow_product_kernel(rows_ptr, ids_ptr, out_ptr, stride: tl.int64, n_rows: tl.constexpr):
    for i in tl.range(0, n_rows):  # as in a scan: the number of a row comes from a loop
        tl.store(out_ptr + i, tl.load(rows_ptr + tl.load(ids_ptr + i) * stride))


@triton.jit
def _wide_product_kernel(rows_ptr, ids_ptr, out_ptr, stride: tl.int64, n_rows: tl.constexpr):
    for i in tl.range(0, n_rows):
        row = tl.load(ids_ptr + i).to(tl.int64)
        tl.store(out_ptr + i, tl.load(rows_ptr + row * stride))


@only_on("triton")
def test_a_planted_32_bit_product_is_found():
    """Rows 2^29 apart: the fourth lies beyond 32 bits, whatever the annotation says."""
    rows, ids = spread(torch.arange(6.0).view(6, 1), (2**29, 1)), torch.arange(6).int()
    out = torch.empty(6)
    _wide_product_kernel[(1,)](rows, ids, out, rows.stride(0), 6)
    assert torch.equal(out, torch.arange(6.0))
    with pytest.raises(InterpreterError) as error:
        _narrow_product_kernel[(1,)](rows, ids, out, rows.stride(0), 6)
    assert isinstance(error.value.__cause__, WrappedProductError)


def call(name: str, *args):
    """The launcher itself: the suite's runner would copy its inputs."""
    import importlib

    module = importlib.import_module(f"scar_gpu.kernels.{name}")
    return getattr(module, f"launch_{name}")(*args)
