"""`manifest.json`: what the files of an index are, and their checksums."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scar_gpu.storage.errors import IndexFormatError, refuse

MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
CHUNKS = "chunks.parquet"
DOCUMENTS = "documents.parquet"
LEXICAL = "lexical.parquet"
FORMAT = "scar_gpu.index"
VERSION = 1
# A manifest has a fixed number of entries; whatever is larger is some other file.
MANIFEST_BYTES = 1 << 20

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8}
_RANKS = {"embeddings": 2, "row_scale": 1, "continuity": 2, "doc_offsets": 1}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor: its dtype by name, its shape, the SHA-256 of its bytes."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: its size, and its SHA-256 unless the tensors in it have their own."""

    nbytes: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is in an index's folder.

    Attributes:
        tensors: embeddings, row_scale, continuity and doc_offsets.
        files: every file but the manifest, by name.
        embedder: name, dim and hash of the model behind the vectors, and what else its owner
            put there; None where that is not known.
        created_by: the release that wrote it.
        version: of the format.
    """

    tensors: Mapping[str, TensorEntry]
    files: Mapping[str, FileEntry]
    embedder: Mapping[str, Any] | None
    created_by: str
    version: int = VERSION

    @property
    def n_chunks(self) -> int:
        return self.tensors["embeddings"].shape[0]

    @property
    def dim(self) -> int:
        return self.tensors["embeddings"].shape[1]

    @property
    def n_docs(self) -> int:
        return self.tensors["doc_offsets"].shape[0] - 1

    @property
    def window(self) -> int:
        return self.tensors["continuity"].shape[0]

    @property
    def dtype(self) -> str:
        return self.tensors["embeddings"].dtype

    def to_json(self) -> str:
        """The text of the file; its last entry is the checksum of all others."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "created_by": self.created_by,
            "tensors": {
                name: {"dtype": entry.dtype, "shape": list(entry.shape), "sha256": entry.sha256}
                for name, entry in self.tensors.items()
            },
            "files": {
                name: {"bytes": entry.nbytes}
                | ({} if entry.sha256 is None else {"sha256": entry.sha256})
                for name, entry in self.files.items()
            },
            "embedder": None if self.embedder is None else dict(self.embedder),
        }
        return json.dumps(fields | {"sha256": _digest(fields)}, indent=2) + "\n"


def parse_manifest(path: Path, text: bytes) -> Manifest:
    """Read a manifest.

    Args:
        path: of the file, for messages.
        text: its bytes.

    Raises:
        IndexFormatError: another kind of file, a later version, or an edited manifest.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        refuse(path, "be JSON", "something else")
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        refuse(path, f"be the manifest of an index (format {FORMAT})", "another file")
    version = fields.get("version")
    if type(version) is not int or version < 1:
        refuse(path, "have a version", repr(version))
    if version > VERSION:
        refuse(path, f"be of format version {VERSION} or before for this release", version)
    if fields.pop("sha256", None) != _digest(fields):
        refuse(path, "be as it was written", "an edited one (its checksum differs)")
    try:
        manifest = _manifest(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, IndexFormatError):
            raise
        refuse(path, "have the fields of its format", f"{type(error).__name__}: {error}")
    problem = _inconsistency(manifest)
    if problem:
        refuse(path, "describe an index", problem)
    return manifest


def _digest(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _manifest(fields: Mapping[str, Any]) -> Manifest:
    return Manifest(
        tensors={
            name: TensorEntry(entry["dtype"], tuple(map(_size, entry["shape"])), entry["sha256"])
            for name, entry in fields["tensors"].items()
        },
        files={
            name: FileEntry(_size(entry["bytes"]), entry.get("sha256"))
            for name, entry in fields["files"].items()
        },
        embedder=None if fields["embedder"] is None else dict(fields["embedder"]),
        created_by=fields["created_by"],
        version=fields["version"],
    )


def _size(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"a size must be a number >= 0, got {value!r}")
    return value


def _inconsistency(manifest: Manifest) -> str | None:
    """What the entries contradict, if anything."""
    tensors = manifest.tensors
    ranks = {name: len(entry.shape) for name, entry in tensors.items()}
    if ranks != _RANKS:
        return f"tensors of ranks {ranks}"
    n_chunks = manifest.n_chunks
    if tensors["row_scale"].shape != (n_chunks,):
        return f"{n_chunks} rows with {tensors['row_scale'].shape[0]} scales"
    if tensors["continuity"].shape[1] != n_chunks:
        return f"{n_chunks} rows with continuity for {tensors['continuity'].shape[1]}"
    if manifest.n_docs < 0:
        return "no document offsets"
    dtypes = [tensors[name].dtype for name in ("row_scale", "continuity", "doc_offsets")]
    if dtypes != ["float32", "float32", "int64"] or manifest.dtype not in (
        "float32",
        "float16",
        "bfloat16",
    ):
        return f"tensors of {manifest.dtype}, {', '.join(dtypes)}"
    if any("/" in name or name.startswith(".") for name in manifest.files):
        return "files outside its folder"
    if not isinstance(manifest.created_by, str):
        return f"a release named {manifest.created_by!r}"
    return None if manifest.embedder is None else _wrong_record(manifest.embedder, manifest.dim)


def _wrong_record(embedder: Mapping[str, Any], dim: int) -> str | None:
    name, own_dim, digest = (embedder.get(key) for key in ("name", "dim", "hash"))
    if not isinstance(name, str) or not isinstance(digest, str | None):
        return f"an embedder of name {name!r} and hash {digest!r}"
    if own_dim != dim:
        return f"vectors of dim {dim} from an embedder of dim {own_dim!r}"
    return None
