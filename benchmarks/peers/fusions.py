"""Reciprocal rank fusion by other systems, with their own objects built beforehand.

Each function returns a function that fuses [B, K] lists and gives one list of ids per query,
best first, ties as the system likes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch_versions import K_RRF

from scar_gpu import presets

Fuse = Callable[[], Any]


def python_dict(lists: list[Tensor]) -> Fuse:
    """A dict of scores per query, sorted."""
    rows = [tensor.tolist() for tensor in lists]

    def fuse() -> list[list[int]]:
        results = []
        for query in zip(*rows, strict=True):
            scores: dict[int, float] = {}
            for ids in query:
                for rank, document in enumerate(ids, 1):
                    scores[document] = scores.get(document, 0.0) + 1 / (K_RRF + rank)
            results.append(sorted(scores, key=lambda document: -scores[document]))
        return results

    return fuse


def ranx(lists: list[Tensor]) -> Fuse:
    """ranx.fuse(method="rrf"); its result stays a Run until `read_ranx`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ranx import Run
        from ranx import fuse as ranx_fuse
    runs = []
    for tensor in lists:
        k = tensor.shape[1]
        rows = enumerate(tensor.tolist())
        runs.append(
            Run({f"{b:09}": {str(i): float(k - t) for t, i in enumerate(ids)} for b, ids in rows})
        )

    def fuse() -> Any:
        return ranx_fuse(runs, norm=None, method="rrf", params={"k": K_RRF})

    return fuse


def langchain(lists: list[Tensor]) -> Fuse:
    """LangChain: EnsembleRetriever.weighted_reciprocal_rank over lists of documents."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Nothing(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return []

    weights = [1.0] * len(lists)
    ensemble = EnsembleRetriever(retrievers=[Nothing()] * len(lists), weights=weights, c=K_RRF)
    rows = [[[Document(str(i)) for i in ids] for ids in tensor.tolist()] for tensor in lists]
    queries = [list(query) for query in zip(*rows, strict=True)]

    def fuse() -> list[list[int]]:
        fused = (ensemble.weighted_reciprocal_rank(query) for query in queries)
        return [[int(document.page_content) for document in found] for found in fused]

    return fuse


def llama_index(lists: list[Tensor]) -> Fuse:
    """LlamaIndex: QueryFusionRetriever's reciprocal rerank of lists of nodes."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    retriever = QueryFusionRetriever([None] * len(lists), llm=MockLLM(), num_queries=1)
    queries = []
    for rows in zip(*(tensor.tolist() for tensor in lists), strict=True):
        nodes = [[TextNode(text=str(i), id_=str(i)) for i in ids] for ids in rows]
        queries.append(
            {("", n): [NodeWithScore(node=node) for node in nodes[n]] for n in range(len(lists))}
        )

    def fuse() -> list[list[int]]:
        results = []
        for query in queries:
            for nodes in query.values():  # the fusion writes its own scores into its input
                for place, node in enumerate(nodes):
                    node.score = float(-place - 1)
            fused = retriever._reciprocal_rerank_fusion(query)
            results.append([int(found.node.node_id) for found in fused])
        return results

    return fuse


def haystack(lists: list[Tensor]) -> Fuse:
    """Haystack: DocumentJoiner(join_mode="reciprocal_rank_fusion")."""
    from haystack import Document
    from haystack.components.joiners import DocumentJoiner

    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion")
    rows = [
        [[Document(id=str(i), content="") for i in ids] for ids in tensor.tolist()]
        for tensor in lists
    ]
    queries = [list(query) for query in zip(*rows, strict=True)]

    def fuse() -> list[list[int]]:
        fused = (joiner.run(query)["documents"] for query in queries)
        return [[int(document.id) for document in found] for found in fused]

    return fuse


def read_ranx(run: Any) -> list[list[int]]:
    """The ids of a ranx Run, in the order of its queries."""
    results = run.to_dict()
    return [
        [int(i) for i in sorted(scores, key=lambda i: -scores[i])]
        for _, scores in sorted(results.items())
    ]


def as_given(result: list[list[int]]) -> list[list[int]]:
    return result


# name: (package, how to set it up, how to read its result, the preset it equals)
FUSIONS = {
    "a Python dict": (None, python_dict, as_given, presets.cormack),
    "ranx": ("ranx", ranx, read_ranx, presets.ranx),
    "LangChain EnsembleRetriever": ("langchain-classic", langchain, as_given, presets.langchain),
    "LlamaIndex QueryFusionRetriever": (
        "llama-index-core",
        llama_index,
        as_given,
        presets.llamaindex,
    ),
    "Haystack DocumentJoiner": ("haystack-ai", haystack, as_given, presets.haystack),
}
