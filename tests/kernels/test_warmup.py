"""warmup runs every operation on padding."""

import pytest
import torch

from tests.backends import only_on


@only_on("cpu", "triton", "cuda")
@pytest.mark.parametrize("order", ["rank", "document"])
@pytest.mark.parametrize("hits_dtype", [torch.int32, torch.int64], ids=str)
def test_warmup_runs_at_every_size(device, order, hits_dtype):
    import scar_gpu
    from scar_gpu.kernels.warmup import warmup

    index = scar_gpu.ChunkIndex.build(torch.randn(20, 8), [0, 5, 20], window=2).to(device)
    warmup(index, [0, 1, 3], [0, 2], query_dtype=torch.float16, hits_dtype=hits_dtype, order=order)
