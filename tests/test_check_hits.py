"""check_hits: the look at the ids that kernels on a GPU do not take."""

import pytest
import torch

from tests.corpora import LAYOUTS


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("hits", [[[0, 4], [-1, -1]], [[]], [[-1]]], ids=str)
def test_rows_of_the_matrix_and_padding_pass(device, hits, dtype):
    import scar_gpu

    scar_gpu.check_hits(torch.tensor(hits, dtype=dtype, device=device), 5)


def test_padding_alone_passes_where_there_are_no_rows(device):
    import scar_gpu

    scar_gpu.check_hits(torch.full((2, 2), -1, device=device), 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bad", [5, -2, 2**31, -(2**31), 2**62])
def test_the_first_bad_id_is_named(device, bad, layout):
    import scar_gpu

    hits = torch.tensor([[0, 1, 2, 3], [4, -1, bad, 99]], device=device)
    message = rf"^hits\[1, 2\] must be -1 or in \[0, 5\), got {bad}$"
    with pytest.raises(IndexError, match=message):
        scar_gpu.check_hits(LAYOUTS[layout](hits), 5)
