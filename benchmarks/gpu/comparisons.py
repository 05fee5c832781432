"""Rules by which results are compared: to the bit, within rounding, and decisions of masks."""

import torch
from torch import Tensor

import scar_gpu
from benchmarks.gpu.questions import OPERATIONS, Tensors, outputs
from scar_gpu import reference

LAM, GAMMA = 0.1, 0.8  # the defaults, with which all operations are called


def require(is_true: bool, message: str) -> None:
    """Raise AssertionError with the message."""
    if not is_true:
        raise AssertionError(message)


def same_bits(actual: object, expected: object, what: str) -> None:
    """All tensors of two results are equal to the bit, wherever they lie."""
    for i, (one, other) in enumerate(zip(outputs(actual), outputs(expected), strict=True)):
        kinds = (one.shape, one.dtype), (other.shape, other.dtype)
        require(kinds[0] == kinds[1], f"{what}: result {i} is {kinds[0]}, not {kinds[1]}")
        n_wrong = int((as_integers(one) != as_integers(other)).sum())
        require(n_wrong == 0, f"{what}: result {i} differs in {n_wrong} of {one.numel()} entries")


def as_integers(tensor: Tensor) -> Tensor:
    """On the CPU, numbers as integers, all NaN as one."""
    tensor = tensor.cpu().contiguous()
    if not tensor.is_floating_point():
        return tensor
    return torch.where(tensor.isnan(), torch.nan, tensor.float()).view(torch.int32)


def near(actual: Tensor, exact: Tensor, allowed: float, what: str) -> None:
    """Within `allowed` of the reference; infinities and NaN in the same places."""
    actual, exact = actual.cpu().double(), exact.double()
    is_same = (actual == exact) | (actual.isnan() & exact.isnan())
    error = torch.where(is_same, 0.0, (actual - exact).abs())
    require(bool((error <= allowed).all()), f"{what}: off by {error.max():.3g} > {allowed:.3g}")


def known_masks(t: Tensors) -> scar_gpu.CorpusMasks:
    """`corpus_masks` with relevances, which are canonical, and so are the decisions."""
    return scar_gpu.corpus_masks(
        t["queries"], t["embeddings"], t["continuity"], row_scale=t["row_scale"],
        return_relevance=True,
    )  # fmt: skip


def open_margin(dim: int) -> float:
    """Up to which distance from the threshold the contract leaves a decision open."""
    return 4 * dim * 2.0**-24 * (1 + GAMMA)


def margins(relevance: Tensor, continuity: Tensor) -> Tensor:
    """S - gamma * relevance [B, 2W, N] with every row as the hit; NaN where no neighbour is."""
    relevance, continuity = relevance.double(), continuity.double()
    found: list[Tensor] = []
    for step in range(1, len(continuity) + 1):
        # What rolls in from the other end meets a continuity of NaN.
        left = relevance.roll(step, 1) - LAM * (1 - continuity[step - 1].roll(step))
        right = relevance.roll(-step, 1) - LAM * (1 - continuity[step - 1])
        found = [left, *found, right]
    return torch.stack(found, 1) - GAMMA * relevance[:, None]


def same_decisions(bits: Tensor, t: Tensors, what: str) -> None:
    """`bits` of `corpus_masks` decide as canonical relevances do, wherever the contract says so.

    They are made from a matrix product, whose rounding depends on batch and tile.
    """
    known = known_masks(t)
    n_chunks, dim = t["embeddings"].shape
    is_open = margins(known.relevance, t["continuity"]).abs() <= open_margin(dim)
    share = is_open.float().mean().item()
    require(share < 0.1, f"{what}: {share:.0%} of the decisions are open, which proves little")
    one, other = (scar_gpu.unpack_masks(each, n_chunks) for each in (bits, known.bits))
    n_wrong = int(((one != other) & ~is_open).sum())
    require(n_wrong == 0, f"{what}: {n_wrong} of {one.numel()} decisions differ")


def masks_against_reference(t: Tensors, allowed: float) -> None:
    """corpus_masks of all rows against its own canonical relevances, and of some, the reference.

    The relevances and decisions of the former are those of neighbor_scores.
    """
    same_decisions(OPERATIONS["corpus_masks"](t).bits, t, "corpus_masks")
    known, hits = known_masks(t), t["hits"].clamp(min=0)
    judged = OPERATIONS["neighbor_scores"](t | {"hits": hits})
    same_bits(known.relevance.gather(1, hits), judged.relevance, "relevance of corpus_masks")
    mask = scar_gpu.unpack_masks(known.bits, len(t["embeddings"])).movedim(1, 2)
    decided = mask.gather(1, hits[..., None].expand(-1, -1, mask.shape[2]))
    same_bits(decided, judged.mask, "corpus_masks against neighbor_scores")

    head = min(500, len(t["embeddings"]))  # whole documents
    names = ("embeddings", "row_scale")
    some = t | {name: t[name][:head] for name in names} | {"continuity": t["continuity"][:, :head]}
    bits = OPERATIONS["corpus_masks"](some).bits
    host = {name: tensor.cpu() for name, tensor in some.items()}
    rows = torch.arange(head).expand(len(host["queries"]), -1)
    exact = reference.neighbor_scores(
        host["queries"], host["embeddings"], host["continuity"], rows, row_scale=host["row_scale"]
    )
    distance = (exact.scores - GAMMA * exact.relevance[..., None]).abs()
    dim = t["embeddings"].shape[1]
    is_clear = ~(distance <= open_margin(dim) + allowed * (1 + GAMMA))
    is_wrong = (scar_gpu.unpack_masks(bits.cpu(), head).movedim(1, 2) != exact.mask) & is_clear
    require(not bool(is_wrong.any()), f"corpus_masks: {int(is_wrong.sum())} wrong")
