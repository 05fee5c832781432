"""Reciprocal rank fusion on the GPU, in integers: every order of evaluation gives the same bits."""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from scar_gpu import contributions as integers
from scar_gpu.kernels.launch import SCRATCH_BYTES, passes, warp_size
from scar_gpu.kernels.placement import append, pad
from scar_gpu.kernels.ranked_lists import find_in_list, load_entries, query_entries

MAX_LISTS = 16  # read through pointers of their own; more are copied together first


def default_config(n_entries: int, warp_size: int = 32) -> dict[str, int]:
    """Two entries per thread; more than one block per query beyond 512 entries."""
    block = min(512, max(warp_size, triton.next_power_of_2(n_entries)))
    return {"BLOCK": block, "num_warps": max(1, block // (2 * warp_size))}


@triton.jit
def _collect(columns, rankings, ranks, layouts, query, table_ptr, n_entries, n_ranks,
             HAS_RANKS: tl.constexpr, SUMS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Write (id, sum, best rank << 32 | its list) of every document once; their number."""
    far: tl.constexpr = 2**62
    length = 0
    for begin in tl.range(0, n_entries, BLOCK):
        entry = begin + tl.arange(0, BLOCK)
        own = tl.full([BLOCK], -1, tl.int64)
        start = 0
        for i in tl.static_range(len(rankings)):
            for part in tl.range(0, layouts[i][0]):
                ids_ptr, ranks_ptr = query_entries(rankings[i], ranks[i], layouts[i], query, part)
                is_here = (entry >= start) & (entry < start + layouts[i][1])
                ids, _ = load_entries(
                    ids_ptr, ranks_ptr, layouts[i], entry - start, is_here, n_ranks, HAS_RANKS
                )
                own = tl.where(is_here, ids, own)
                start += layouts[i][1]
        # The document's first entry stands for it.
        is_first = own >= 0
        total = tl.zeros([BLOCK], tl.int64)
        best = tl.full([BLOCK], far, tl.int64)
        start = 0
        for i in tl.static_range(len(rankings)):
            for part in tl.range(0, layouts[i][0]):
                ids_ptr, ranks_ptr = query_entries(rankings[i], ranks[i], layouts[i], query, part)
                row_ptr = table_ptr + tl.cast(i + part, tl.int64) * n_ranks
                rank, position, contribution = find_in_list(
                    own, ids_ptr, ranks_ptr, layouts[i], row_ptr, n_ranks, HAS_RANKS, SUMS
                )
                is_found = rank <= n_ranks
                is_first = is_first & (~is_found | (start + position >= entry))
                total += contribution
                key = (rank.to(tl.int64) << 32) + (i + part)
                best = tl.where(is_found, tl.minimum(best, key), best)
                start += layouts[i][1]
        length = append(columns, (own, total, best), is_first, length)
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
def _store_ranks(out_ptr, is_kept, own, rankings, ranks, layouts, query, table_ptr, n_ranks,
                 HAS_RANKS: tl.constexpr):  # fmt: skip
    """Write the rank of the ids `own` [BLOCK] in every list, 0 where absent."""
    for i in tl.static_range(len(rankings)):
        for part in tl.range(0, layouts[i][0]):
            ids_ptr, ranks_ptr = query_entries(rankings[i], ranks[i], layouts[i], query, part)
            rank, _, _ = find_in_list(
                own, ids_ptr, ranks_ptr, layouts[i], table_ptr, n_ranks, HAS_RANKS, False
            )
            tl.store(out_ptr + i + part, tl.where(rank <= n_ranks, rank, 0), mask=is_kept)


@triton.jit(do_not_specialize=["n_queries", "n_lists", "n_entries", "n_ranks", "width"])
def _rank_fusion_kernel(
    rankings, ranks, layouts, table_ptr, scratch_ptr,
    ids_ptr, scores_ptr, lengths_ptr, best_list_ptr, best_rank_ptr, out_ranks_ptr,
    n_queries, n_lists: tl.int64, n_entries, n_ranks, width: tl.int64,
    HAS_RANKS: tl.constexpr, SUMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program fuses one query after another: score[d] = sum over lists of table[list, rank].

    Each of `rankings` holds one list, or all of them stacked. Its layout: the number of lists,
    their length, the strides of the ids (list, query, position), those of the ranks. Grid:
    (programs,).
    """
    scale = tl.load(table_ptr + n_lists * n_ranks).to(tl.float64, bitcast=True)
    query = tl.program_id(0).to(tl.int64)
    scratch_ptr += query * n_entries * 3
    columns = (scratch_ptr, scratch_ptr + n_entries, scratch_ptr + n_entries * tl.cast(2, tl.int64))
    while query < n_queries:
        length = _collect(columns, rankings, ranks, layouts, query, table_ptr, n_entries, n_ranks,
                          HAS_RANKS, SUMS, BLOCK)  # fmt: skip
        tl.debug_barrier()  # the columns were written by other threads
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
                _store_ranks(
                    out_ranks_ptr + entry * n_lists, is_kept, ids, rankings, ranks, layouts,
                    query, table_ptr, n_ranks, HAS_RANKS,
                )  # fmt: skip
        length = tl.minimum(length, width)
        first = query * width
        pad((ids_ptr + first, scores_ptr + first), (-1, -float("inf")), 0, length, width, BLOCK)
        if out_ranks_ptr is not None:
            pad((best_list_ptr + first, best_rank_ptr + first), (-1, -1), 0, length, width, BLOCK)
            first *= n_lists
            pad((out_ranks_ptr + first,), (0,), 0, length * n_lists, width * n_lists, BLOCK)
        tl.store(lengths_ptr + query, length.to(tl.int32))
        tl.debug_barrier()  # the next query writes over the columns
        query += tl.num_programs(0)


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

    One launch; more than MAX_LISTS lists are copied together first, in passes over the queries.
    """
    like, n_lists = rankings[0], len(rankings)
    n_queries = like.shape[0]
    lengths = [ids.shape[1] for ids in rankings]
    width = sum(lengths) if top_n is None else top_n
    n_ranks = max(lengths) if contributions is None else contributions.shape[1]
    table, host = _device_table(
        n_lists, n_ranks, k, None if weights is None else tuple(weights),
        None if contributions is None else contributions.numpy().tobytes(), like.device,
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
    copied = 16 * n_lists * max(lengths) if is_stacked else 0
    with torch.cuda.device_of(like):
        for part in passes((*results, *rankings, *(ranks or ())), scratch=copied):
            lists = part[len(results) :]
            lists = (lists[:n_lists], lists[n_lists:] if ranks is not None else lists[:n_lists])
            if is_stacked:
                lists = tuple((_stacked(some, host.used),) for some in lists)
            _launch(lists, host.used, table, part[: len(results)], n_ranks, ranks is not None,
                    sums_duplicates)  # fmt: skip
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
    lists: tuple[tuple[Tensor, ...], ...],
    used: list[bool],
    table: Tensor,
    results: tuple[Tensor, ...],
    n_ranks: int,
    has_ranks: bool,
    sums_duplicates: bool,
) -> None:
    """As many programs as fit the scratch memory, each for one query after the other."""
    layouts = []
    for ids, ranks, is_used in zip(*lists, used, strict=False):
        if ids.dim() == 3:
            layouts.append((ids.shape[0], ids.shape[2], *ids.stride(), *ranks.stride()))
        else:
            length = ids.shape[1] if is_used else 0
            layouts.append((1, length, 0, *ids.stride(), 0, *ranks.stride()))
    n_queries, width = results[0].shape
    n_entries = sum(layout[0] * layout[1] for layout in layouts)
    scratch_bytes = 24 * max(1, n_entries)
    n_programs = max(1, min(n_queries, SCRATCH_BYTES // scratch_bytes))
    scratch = table.new_empty(n_programs * scratch_bytes // 8)
    details = results[3:] or (None, None, None)
    _rank_fusion_kernel[(n_programs,)](
        *lists, tuple(layouts), table, scratch, *results[:3], *details,
        n_queries, len(used), n_entries, n_ranks, width,
        HAS_RANKS=has_ranks, SUMS=sums_duplicates, **default_config(n_entries, warp_size()),
    )  # fmt: skip
