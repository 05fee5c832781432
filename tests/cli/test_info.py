"""`scar-gpu info`: what an index holds, and whether it is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scar_gpu.storage import open_index
from tests.cli.conftest import Run
from tests.text.word_embedder import WordEmbedder


def test_info_shows_what_the_index_holds(index: Path, succeed: Run) -> None:
    found = dict(line.split("  ", 1) for line in succeed("info", index).stdout.splitlines() if line)
    shown = {name: value.strip() for name, value in found.items()}
    n_chunks = open_index(index).index.n_chunks
    assert (shown["documents"], shown["chunks"]) == ("2", str(n_chunks))
    assert shown["vectors"] == "32 dimensions, float32"
    assert (shown["model"], shown["model's hash"]) == ("words", WordEmbedder.content_hash)
    size = (index / "tensors.safetensors").stat().st_size
    assert shown["tensors.safetensors"] == f"{size:,} bytes"
    assert shown["checked"] == "all but the vectors (--verify)"


def test_verify_reads_the_vectors_too(
    index: Path, succeed: Run, refused: Callable[..., str]
) -> None:
    assert "every byte" in succeed("info", index, "--verify").stdout
    path = index / "tensors.safetensors"
    data = bytearray(path.read_bytes())
    start = data.index(open_index(index).index.embeddings[0].numpy().tobytes())
    data[start] ^= 1
    path.write_bytes(bytes(data))
    succeed("info", index)
    assert "tensors.safetensors" in refused("info", index, "--verify")
    assert "gone must be the folder of an index" in refused("info", index.parent / "gone")
