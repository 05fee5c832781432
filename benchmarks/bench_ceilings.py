"""What bounds the rest on this machine: reading, copying, multiplying.

The matrix that peers are compared on, the smallest where reading decides, is read again and again.
Were that faster than reading the largest one, it would be in a cache after all: virtual machines
share a last-level cache whose size says nothing.
"""

import torch
from measure import interleaved
from sizes import PEERS_OF

SIDE = 2048  # of the matrices multiplied


def test_ceilings(size, report, benchmark):
    small = PEERS_OF[size]
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(1 << 30, (size.n_chunks * size.dim,), generator=generator).int()
    part = numbers[: small.n_chunks * small.dim]
    half = numbers[: len(numbers) // 2]
    copied = torch.empty_like(half)
    a, b = torch.randn(2, SIDE, SIDE, generator=generator)
    product = torch.empty(SIDE, SIDE)
    functions = {
        "read": numbers.max,
        "small": part.max,
        "copy": lambda: copied.copy_(half),
        "multiply": lambda: torch.mm(a, b, out=product),
    }
    timings = interleaved(functions, size.rounds)
    assert numbers.max() >= part.max() > 0
    assert torch.equal(copied, half)
    torch.testing.assert_close(product[0].double(), a[0].double() @ b.double(), rtol=0, atol=1e-3)

    megabytes = f"{part.nbytes / 1e6:,.0f} MB"
    again = part.nbytes / numbers.nbytes * timings["read"].over(timings["small"])
    copy = 2 * half.nbytes / numbers.nbytes * timings["read"].over(timings["copy"])
    flops = 2 * SIDE**3 / numbers.nbytes * timings["read"].over(timings["multiply"])
    for work, against, ratio, target, name, moved in (
        (f"read {megabytes} repeatedly", "read bandwidth", again, 1.25, "small", part.nbytes),
        ("copy, bytes read and written", "read bandwidth", copy, None, "copy", 2 * half.nbytes),
        ("matrix product fp32", "flops per byte read", flops, None, "multiply", 0),
    ):
        report.add(
            benchmark,
            work=work,
            against=against,
            ratio=ratio,
            target=f"<= {target:.2f}" if target else "",
            met=ratio <= target if target else None,
            timing=timings[name],
            bytes_read=moved,
        )
    benchmark.pedantic(numbers.max, rounds=2)
