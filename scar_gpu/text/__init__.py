"""Text in, contexts out: documents, chunks, embeddings, retrieval.

Needs `scar_gpu[text]`; the models load at first use.
"""

from scar_gpu.text.chunks import Chunk, ChunkTable, Passage, chunk_documents
from scar_gpu.text.context import Context, assemble
from scar_gpu.text.documents import Document, read_documents
from scar_gpu.text.embedder import Embedder
from scar_gpu.text.embedding_cache import CachedEmbedder
from scar_gpu.text.headings import heading_paths, headings
from scar_gpu.text.json_lines import json_lines
from scar_gpu.text.layout import Heading
from scar_gpu.text.retriever import Retriever
from scar_gpu.text.sentence_transformer import SentenceTransformerEmbedder
from scar_gpu.text.splitter import split_text

__all__ = [
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
