"""Other systems' static windows, one query at a time, on documents in memory.

Each function sets up a store with the chunks of `index` and returns a function that expands
[B, K] hits by `before` = `after` = 1 and gives one set of row numbers per query.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

import scar_gpu

Expand = Callable[[], list[set[int]]]


def document_of_row(index: scar_gpu.ChunkIndex) -> np.ndarray:
    sizes = np.diff(index.doc_offsets.numpy())
    return np.repeat(np.arange(sizes.size), sizes)


def llama_index(index: scar_gpu.ChunkIndex, hits: Tensor) -> Expand:
    """LlamaIndex: PrevNextNodePostprocessor(mode="both") over a SimpleDocumentStore."""
    from llama_index.core.postprocessor import PrevNextNodePostprocessor
    from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
    from llama_index.core.storage.docstore import SimpleDocumentStore

    documents = document_of_row(index)
    nodes = [TextNode(text="", id_=str(row)) for row in range(index.n_chunks)]
    for row in range(1, index.n_chunks):
        if documents[row] == documents[row - 1]:
            this, last = RelatedNodeInfo(node_id=str(row)), RelatedNodeInfo(node_id=str(row - 1))
            nodes[row].relationships[NodeRelationship.PREVIOUS] = last
            nodes[row - 1].relationships[NodeRelationship.NEXT] = this
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    expander = PrevNextNodePostprocessor(docstore=store, num_nodes=1, mode="both")
    queries = [[NodeWithScore(node=nodes[row], score=1.0) for row in ids] for ids in hits.tolist()]

    def expand() -> list[set[int]]:
        return [
            {int(found.node.node_id) for found in expander.postprocess_nodes(query)}
            for query in queries
        ]

    return expand


def haystack(index: scar_gpu.ChunkIndex, hits: Tensor) -> Expand:
    """Haystack: SentenceWindowRetriever over an InMemoryDocumentStore."""
    from haystack import Document
    from haystack.components.retrievers import SentenceWindowRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    owners = document_of_row(index)
    documents = [
        Document(id=str(row), content="", meta={"source_id": str(owner), "split_id": row})
        for row, owner in enumerate(owners.tolist())
    ]
    store = InMemoryDocumentStore()
    store.write_documents(documents)
    retriever = SentenceWindowRetriever(document_store=store, window_size=1)
    queries = [[documents[row] for row in ids] for ids in hits.tolist()]

    def expand() -> list[set[int]]:
        results = (retriever.run(query)["context_documents"] for query in queries)
        return [{int(document.id) for document in found} for found in results]

    return expand


def python(index: scar_gpu.ChunkIndex, hits: Tensor) -> Expand:
    """A plain loop over lists and a set."""
    owners = document_of_row(index).tolist()
    queries = hits.tolist()
    last = index.n_chunks - 1

    def expand() -> list[set[int]]:
        results = []
        for ids in queries:
            rows = set(ids)
            for row in ids:
                if row > 0 and owners[row - 1] == owners[row]:
                    rows.add(row - 1)
                if row < last and owners[row + 1] == owners[row]:
                    rows.add(row + 1)
            results.append(rows)
        return results

    return expand


WINDOWS = {
    "LlamaIndex PrevNextNodePostprocessor": ("llama-index-core", llama_index),
    "Haystack SentenceWindowRetriever": ("haystack-ai", haystack),
    "a Python loop": (None, python),
}
