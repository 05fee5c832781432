"""Reciprocal rank fusion on the GPU, in integers: every order of evaluation gives the same bits."""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu import contributions as integers
from scar_gpu.kernels.launch import passes, warp_size
from scar_gpu.kernels.placement import append, pad
from scar_gpu.kernels.ranked_lists import find_in_list, gather_lists

MAX_LISTS = 16  # read through pointers of their own; more are copied together first


def default_config(n_entries: int, is_plain: bool = True, warp_size: int = 32) -> dict[str, int]:
    """One entry per thread; more than one block per query beyond 512 entries."""
    block = min(512, max(warp_size, triton.next_power_of_2(n_entries)))
    config = {"BLOCK": block, "num_warps": block // warp_size}
    # Sums of duplicates and details need more than the 32 registers at which every warp fits, and
    # the NVIDIA assembler would rather use the stack.
    return config if is_plain or warp_size != 32 else config | {"maxnreg": 64}


@triton.jit
def _collect(columns, ids_ptr, ranks_ptr, starts_ptr, table_ptr, n_lists, n_entries, n_ranks,
             SUMS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Write (id, sum, best rank << 32 | its list) of every document once; their number."""
    far: tl.constexpr = 2**62
    length = 0
    for begin in tl.range(0, n_entries, BLOCK):
        index = begin + tl.arange(0, BLOCK)
        own = tl.load(ids_ptr + index, mask=index < n_entries, other=-1)
        is_first = own >= 0  # the document's first entry stands for it
        total = tl.zeros([BLOCK], tl.int64)
        best = tl.full([BLOCK], far, tl.int64)
        for number in tl.range(0, n_lists):
            start = tl.load(starts_ptr + number)
            end = tl.load(starts_ptr + number + 1)
            row_ptr = table_ptr + tl.cast(number, tl.int64) * n_ranks
            rank, first, contribution = find_in_list(
                own, ids_ptr, ranks_ptr, row_ptr, start, end, n_ranks, SUMS
            )
            is_found = rank <= n_ranks
            is_first = is_first & (~is_found | (first >= index))
            total += contribution
            key = (rank.to(tl.int64) << 32) + number
            best = tl.where(is_found, tl.minimum(best, key), best)
        length = append(columns, (own, total, best), is_first, length)
    tl.debug_barrier()  # read by other threads from here on
    return length


@triton.jit
def _place(columns, index, is_document, length):
    """How many documents come before those at `index`, and their (id, sum, best)."""
    ids = tl.load(columns[0] + index, mask=is_document, other=-1)
    total = tl.load(columns[1] + index, mask=is_document, other=0)
    best = tl.load(columns[2] + index, mask=is_document, other=0)
    place = index * 0
    for other in tl.range(0, length):
        other_total = tl.load(columns[1] + other)
        other_best = tl.load(columns[2] + other)
        is_earlier = (other_best == best) & (tl.load(columns[0] + other) < ids)
        is_earlier = (other_best < best) | is_earlier
        place += ((other_total > total) | ((other_total == total) & is_earlier)).to(tl.int32)
    return place, ids, total, best


@triton.jit
def _store_ranks(
    out_ptr, is_kept, own, ids_ptr, ranks_ptr, starts_ptr, table_ptr, n_lists, n_ranks
):
    """Write the rank of the ids `own` [BLOCK] in every list, 0 where absent."""
    for number in tl.range(0, n_lists):
        start = tl.load(starts_ptr + number)
        end = tl.load(starts_ptr + number + 1)
        rank, _, _ = find_in_list(own, ids_ptr, ranks_ptr, table_ptr, start, end, n_ranks, False)
        tl.store(out_ptr + number, tl.where(rank <= n_ranks, rank, 0), mask=is_kept)


@triton.jit(do_not_specialize=["n_lists", "n_entries", "n_ranks", "width"])
def _rank_fusion_kernel(
    rankings, ranks, layouts, table_ptr, wide_scratch_ptr, scratch_ptr,
    ids_ptr, scores_ptr, lengths_ptr, best_list_ptr, best_rank_ptr, out_ranks_ptr,
    n_lists, n_entries, n_ranks, width: tl.int64,
    HAS_RANKS: tl.constexpr, SUMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program fuses one query: score[d] = sum over lists of table[list, rank of d].

    Every document's place is the count of those before it. See ranked_lists for the layouts.
    Grid: (n_queries,).
    """
    query = tl.program_id(0).to(tl.int64)
    scale = tl.load(table_ptr + n_lists.to(tl.int64) * n_ranks).to(tl.float64, bitcast=True)
    list_ids_ptr = wide_scratch_ptr + query * n_entries * 4
    column_ptr = list_ids_ptr + n_entries
    columns = (column_ptr, column_ptr + n_entries, column_ptr + n_entries + n_entries)
    list_ranks_ptr = scratch_ptr + query * (n_entries + n_lists + 1)
    starts_ptr = list_ranks_ptr + n_entries
    gather_lists(list_ids_ptr, list_ranks_ptr, starts_ptr, rankings, ranks, layouts, query,
                 n_ranks, HAS_RANKS, BLOCK)  # fmt: skip
    length = _collect(columns, list_ids_ptr, list_ranks_ptr, starts_ptr, table_ptr, n_lists,
                      n_entries, n_ranks, SUMS, BLOCK)  # fmt: skip
    for begin in tl.range(0, length, BLOCK):
        index = begin + tl.arange(0, BLOCK)
        place, ids, total, best = _place(columns, index, index < length, length)
        is_kept = (index < length) & (place < width)
        entry = query * width + place
        score = (total.to(tl.float32).to(tl.float64) * scale).to(tl.float32)
        tl.store(ids_ptr + entry, ids, mask=is_kept)
        tl.store(scores_ptr + entry, score, mask=is_kept)
        if out_ranks_ptr is not None:
            tl.store(best_rank_ptr + entry, (best >> 32).to(tl.int32), mask=is_kept)
            tl.store(best_list_ptr + entry, best.to(tl.int32), mask=is_kept)
            _store_ranks(out_ranks_ptr + entry * n_lists, is_kept, ids, list_ids_ptr,
                         list_ranks_ptr, starts_ptr, table_ptr, n_lists, n_ranks)  # fmt: skip
    length = tl.minimum(length, width)
    first = query * width
    pad((ids_ptr + first, scores_ptr + first), (-1, -float("inf")), 0, length, width, BLOCK)
    if out_ranks_ptr is not None:
        pad((best_list_ptr + first, best_rank_ptr + first), (-1, -1), 0, length, width, BLOCK)
        first *= n_lists
        pad((out_ranks_ptr + first,), (0,), 0, length * n_lists, width * n_lists, BLOCK)
    tl.store(lengths_ptr + query, length.to(tl.int32))


@lru_cache(maxsize=64)
def _device_table(
    n_lists: int,
    n_ranks: int,
    k: float,
    weights: tuple[float, ...] | None,
    contributions: bytes | None,
    device: torch.device,
) -> tuple[Tensor, integers.Contributions]:
    """The integers [L * R] and the bits of the scale, on the device and as they are on the host."""
    if contributions is None:
        host = integers.of_weights(n_lists, n_ranks, k, weights)
    else:
        table = torch.frombuffer(bytearray(contributions), dtype=torch.float64)
        host = integers.of_table(table.view(n_lists, n_ranks))
    scale = torch.tensor([host.scale], dtype=torch.float64).view(torch.int64)
    return torch.cat([host.table.flatten(), scale]).to(device, non_blocking=True), host


def launch_rank_fusion(
    rankings: list[Tensor],
    ranks: list[Tensor] | None,
    k: float,
    weights: list[float] | None,
    contributions: Tensor | None,
    top_n: int | None,
    sums_duplicates: bool,
    has_details: bool,
) -> list[Tensor]:
    """[ids, scores [B, T], lengths [B]], and with details best_list, best_rank, ranks [B, T, L].

    One launch while the scratch memory of all queries fits: 36 bytes per entry, thus some 9,000
    queries of two lists of 100. More are fused in passes of that size.
    """
    like, n_lists = rankings[0], len(rankings)
    n_queries = like.shape[0]
    lengths = [ids.shape[1] for ids in rankings]
    width = sum(lengths) if top_n is None else top_n
    n_ranks = max(lengths) if contributions is None else contributions.shape[1]
    table, host = _device_table(
        n_lists, n_ranks, k, None if weights is None else tuple(weights),
        None if contributions is None else contributions.detach().numpy().tobytes(), like.device,
    )  # fmt: skip
    if sums_duplicates:
        integers.check_sums(host, lengths, ranks is not None)
    results = [like.new_empty((n_queries, width), dtype=t) for t in (torch.int64, torch.float32)]
    results.append(like.new_empty(n_queries, dtype=torch.int32))
    if has_details:
        results += [like.new_empty((n_queries, width), dtype=torch.int32) for _ in range(2)]
        results.append(like.new_empty((n_queries, width, n_lists), dtype=torch.int32))
    if n_queries == 0:
        return results

    is_stacked = n_lists > MAX_LISTS
    scratch = 36 * sum(lengths) + 4 * (n_lists + 1)
    if is_stacked:
        scratch = (36 + 16) * n_lists * max(lengths) + 4 * (n_lists + 1)
    with torch.cuda.device_of(like):
        for part in passes((*results, *rankings, *(ranks or ())), scratch=scratch):
            ids, given = part[len(results) :][:n_lists], part[len(results) :][-n_lists:]
            if is_stacked:
                ids, given = (_stacked(ids, host.used),), (_stacked(given, host.used),)
            _launch(
                ids, given, host.used, table, part[: len(results)], n_ranks, ranks is not None,
                sums_duplicates,
            )  # fmt: skip
    return results


def _stacked(lists: tuple[Tensor, ...], used: list[bool]) -> Tensor:
    """[L, B, longest], padded with -1; lists that are not used are all padding."""
    longest = max(tensor.shape[1] for tensor in lists)
    stack = lists[0].new_full((len(lists), lists[0].shape[0], longest), -1, dtype=torch.int64)
    for level, tensor, is_used in zip(stack, lists, used, strict=True):
        if is_used:
            level[:, : tensor.shape[1]] = tensor
    return stack


def _launch(
    lists: tuple[Tensor, ...],
    given: tuple[Tensor, ...],
    used: list[bool],
    table: Tensor,
    results: tuple[Tensor, ...],
    n_ranks: int,
    has_ranks: bool,
    sums_duplicates: bool,
) -> None:
    """Fuse all queries of `results`; `lists` and the ranks `given` may be stacked."""
    layouts = []
    for ids, ranks, is_used in zip(lists, given, used, strict=False):
        if ids.dim() == 3:
            layouts.append((ids.shape[0], ids.shape[2], *ids.stride(), *ranks.stride()))
        else:
            length = ids.shape[1] if is_used else 0
            layouts.append((1, length, 0, *ids.stride(), 0, *ranks.stride()))
    n_queries, width = results[0].shape
    n_entries = sum(layout[0] * layout[1] for layout in layouts)
    scratch = (
        table.new_empty(n_queries * n_entries * 4),
        table.new_empty(n_queries * (n_entries + len(used) + 1), dtype=torch.int32),
    )
    details = results[3:] or (None, None, None)
    config = default_config(n_entries, not (sums_duplicates or results[3:]), warp_size())
    _rank_fusion_kernel[(n_queries,)](
        lists, given, tuple(layouts), table, *scratch, *results[:3], *details,
        len(used), n_entries, n_ranks, width,
        HAS_RANKS=has_ranks, SUMS=sums_duplicates, **config,
    )  # fmt: skip
