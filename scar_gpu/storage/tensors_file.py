"""`tensors.safetensors`: the tensors of an index, streamed out, mapped or read back.

The format is eight bytes with the length of a JSON header, the header, the tensors' bytes
(https://github.com/huggingface/safetensors). It is written here rather than by its library
because that wants the whole matrix in memory as bytes, and leaves the matrix wherever the header
happens to end: here it begins a page, so that a row begins a cache line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import torch
from torch import Tensor

from scar_gpu.storage.errors import refuse, refuse_digest
from scar_gpu.storage.files import BLOCK_BYTES, ChecksummedFile, OpenFile
from scar_gpu.storage.manifest import TensorEntry

MATRIX = "embeddings"
NAMES = (MATRIX, "doc_offsets", "row_scale", "continuity")

_CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}
_PAGE = 4096
_LENGTH_BYTES = 8


def write_tensors(file: ChecksummedFile, tensors: Mapping[str, Tensor]) -> dict[str, TensorEntry]:
    """Write the tensors block by block, from any device and with any row stride.

    Returns:
        Their entries for the manifest, checksums included.
    """
    described = {
        name: TensorEntry(_dtype_name(tensor), tuple(tensor.shape), "")
        for name, tensor in tensors.items()
    }
    file.write(_header_bytes(described))
    entries = {}
    for name in _order(described):
        digest = hashlib.sha256()
        tensor = tensors[name].detach()
        rows = max(1, BLOCK_BYTES // max(1, tensor[:1].nbytes))
        for block in tensor.split(rows):
            data = block.cpu().contiguous().view(torch.uint8).numpy()
            digest.update(data.reshape(-1))
            file.write(data.reshape(-1))
        entries[name] = TensorEntry(
            described[name].dtype, described[name].shape, digest.hexdigest()
        )
    return entries


def read_small_tensors(file: OpenFile, entries: Mapping[str, TensorEntry]) -> dict[str, Tensor]:
    """Check size and header of the file against the manifest; read all but the matrix.

    Raises:
        IndexFormatError: another size or header, a checksum that differs, or document offsets
            that do not rise from 0 to the number of rows.
    """
    begin = _check_header(file, entries)
    tensors = {
        name: _read(file, name, entries[name], begin + first)
        for name, (first, _) in _offsets(entries).items()
        if name != MATRIX
    }
    n_chunks, offsets = entries[MATRIX].shape[0], tensors["doc_offsets"]
    if offsets[0] != 0 or offsets[-1] != n_chunks or (offsets.diff() < 0).any():
        refuse(file.path, f"hold doc_offsets that rise from 0 to {n_chunks}", "others")
    return tensors


def read_matrix(
    file: OpenFile, entries: Mapping[str, TensorEntry], *, mapped: bool, verify: bool
) -> Tensor:
    """Map the matrix of a file that `read_small_tensors` has checked, or read it.

    Raises:
        IndexFormatError: a checksum that differs; of a mapped matrix only with `verify`.
    """
    entry = entries[MATRIX]
    begin = len(_header_bytes(entries)) + _offsets(entries)[MATRIX][0]
    if not mapped:
        return _read(file, MATRIX, entry, begin)
    if verify and file.sha256(begin, entry.nbytes) != entry.sha256:
        refuse_digest(file.path, MATRIX)
    dtype = getattr(torch, entry.dtype)
    if not entry.nbytes:
        return torch.empty(entry.shape, dtype=dtype)
    count = entry.shape[0] * entry.shape[1]
    # The tensor keeps the map alive.
    return torch.frombuffer(file.map(), dtype=dtype, count=count, offset=begin).view(entry.shape)


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _order(entries: Mapping[str, TensorEntry]) -> tuple[str, ...]:
    """The matrix first, on its page, unless the eight-byte offsets would then be misaligned."""
    aligned = entries[MATRIX].nbytes % 8 == 0
    return NAMES if aligned else (*NAMES[1:], NAMES[0])


def _offsets(entries: Mapping[str, TensorEntry]) -> dict[str, tuple[int, int]]:
    offsets, position = {}, 0
    for name in _order(entries):
        offsets[name] = (position, position + entries[name].nbytes)
        position += entries[name].nbytes
    return offsets


def _header(entries: Mapping[str, TensorEntry]) -> dict[str, object]:
    return {
        name: {
            "dtype": _CODES[entries[name].dtype],
            "shape": list(entries[name].shape),
            "data_offsets": list(offsets),
        }
        for name, offsets in _offsets(entries).items()
    }


def _header_bytes(entries: Mapping[str, TensorEntry]) -> bytes:
    text = json.dumps(_header(entries), separators=(",", ":")).encode()
    size = -(-(len(text) + _LENGTH_BYTES) // _PAGE) * _PAGE - _LENGTH_BYTES
    return size.to_bytes(_LENGTH_BYTES, "little") + text.ljust(size)


def _check_header(file: OpenFile, entries: Mapping[str, TensorEntry]) -> int:
    """Where the tensors begin: the header must be the one that these entries give."""
    expected = _header_bytes(entries)
    total = len(expected) + sum(entry.nbytes for entry in entries.values())
    file.check_size(total)
    found = bytearray(len(expected))
    file.read_into(memoryview(found), 0)
    if found != expected:
        refuse(file.path, "have the header that its manifest describes", "another")
    return len(expected)


def _read(file: OpenFile, name: str, entry: TensorEntry, offset: int) -> Tensor:
    tensor = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
    digest = hashlib.sha256()
    if entry.nbytes:
        data = tensor.view(-1).view(torch.uint8).numpy().data
        for begin in range(0, entry.nbytes, BLOCK_BYTES):
            block = data[begin : begin + BLOCK_BYTES]
            file.read_into(block, offset + begin)
            digest.update(block)
    if digest.hexdigest() != entry.sha256:
        refuse_digest(file.path, name)
    return tensor
