"""Presets against the systems themselves, on random lists with repeats, weights and empty lists.

`make peers` installs them all and runs this; a system that is not installed is skipped. Documents
whose scores differ by less than the system's own rounding may come in any order.
"""

import itertools
import random

import pytest
import torch

from scar_gpu import presets, rank_fusion

pytestmark = pytest.mark.filterwarnings("ignore")  # what the other systems warn about


def random_lists(seed: int, n_lists: int, *, repeats: bool, longest: int = 12) -> list[list[int]]:
    """Lists of ids below 16; the first of several is empty in every third case."""
    generator = random.Random(seed)
    lists = []
    for number in range(n_lists):
        length = (
            0 if seed % 3 == 0 and number == 0 and n_lists > 1 else generator.randint(1, longest)
        )
        ids = generator.choices(range(16), k=length) if repeats else None
        lists.append(ids or generator.sample(range(16), length))
    return lists


def fused(lists: list[list[int]], preset: presets.Preset) -> dict[int, float]:
    """id: score, in the order of the result."""
    contributions, duplicates = preset
    rankings = [torch.tensor([ids], dtype=torch.int64) for ids in lists]
    result = rank_fusion(rankings, contributions=contributions, duplicates=duplicates)
    n = int(result.lengths)
    return dict(zip(result.ids[0, :n].tolist(), result.scores[0, :n].tolist(), strict=True))


def assert_same_fusion(ours: dict[int, float], theirs: dict[int, float]) -> None:
    """The same documents with the same scores, and in the same order up to ties."""
    assert ours.keys() == theirs.keys()
    for document, score in theirs.items():
        assert ours[document] == pytest.approx(score, rel=1e-6)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other or theirs[mine] == pytest.approx(theirs[other], rel=1e-6)


def weights_of(seed: int, n_lists: int) -> list[float]:
    generator = random.Random(1000 + seed)
    return [generator.choice([0.25, 0.5, 1.0, 3.0]) for _ in range(n_lists)]


cases = pytest.mark.parametrize("n_lists", [1, 2, 3, 5])
seeds = pytest.mark.parametrize("seed", range(12))


@cases
@seeds
@pytest.mark.parametrize("is_weighted", [False, True])
def test_langchain(seed, n_lists, is_weighted):
    ensemble = pytest.importorskip("langchain_classic.retrievers.ensemble")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Given(BaseRetriever):
        texts: list[str]

        def _get_relevant_documents(self, query, *, run_manager):
            return [Document(page_content=text) for text in self.texts]

    lists = random_lists(seed, n_lists, repeats=True)
    weights = weights_of(seed, n_lists) if is_weighted else None
    retrievers = [Given(texts=[str(i) for i in ids]) for ids in lists]
    options = {"weights": weights} if weights else {}
    system = ensemble.EnsembleRetriever(retrievers=retrievers, **options)
    order = [int(document.page_content) for document in system.invoke("query")]
    ours = fused(lists, presets.langchain([len(ids) for ids in lists], weights=weights))
    # It returns no scores: ours stand in, and its order must fall.
    theirs = {document: ours[document] for document in order}
    scores = [*theirs.values()]
    assert all(a >= b * (1 - 1e-6) for a, b in itertools.pairwise(scores))
    assert_same_fusion(ours, theirs)


@cases
@seeds
def test_llamaindex(seed, n_lists):
    fusion_retriever = pytest.importorskip("llama_index.core.retrievers.fusion_retriever")
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import NodeWithScore, TextNode

    lists = random_lists(seed, n_lists, repeats=True)
    system = fusion_retriever.QueryFusionRetriever(
        [None] * n_lists, llm=MockLLM(), mode="reciprocal_rerank", num_queries=1
    )
    nodes = {
        ("query", number): [
            NodeWithScore(node=TextNode(text=str(i), id_=str(i)), score=100.0 - place)
            for place, i in enumerate(ids)
        ]
        for number, ids in enumerate(lists)
    }
    results = system._reciprocal_rerank_fusion(nodes)
    theirs = {int(result.node.text): result.score for result in results}
    assert_same_fusion(fused(lists, presets.llamaindex([len(ids) for ids in lists])), theirs)


@cases
@seeds
@pytest.mark.parametrize("is_weighted", [False, True])
def test_haystack(seed, n_lists, is_weighted):
    joiners = pytest.importorskip("haystack.components.joiners")
    from haystack import Document

    lists = random_lists(seed, n_lists, repeats=True)
    weights = weights_of(seed, n_lists) if is_weighted else None
    system = joiners.DocumentJoiner(join_mode="reciprocal_rank_fusion", weights=weights)
    documents = [[Document(id=str(i), content=str(i)) for i in ids] for ids in lists]
    results = system.run(documents=documents)["documents"]
    theirs = {int(document.id): document.score for document in results}
    ours = fused(lists, presets.haystack([len(ids) for ids in lists], weights=weights))
    assert_same_fusion(ours, theirs)


@pytest.mark.parametrize("n_lists", [2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("k", [10, 60])
def test_ranx(seed, n_lists, k):
    """A ranx run has no repeats, and no query without documents."""
    ranx = pytest.importorskip("ranx")
    lists = random_lists(3 * seed + 1, n_lists, repeats=False)
    runs = [
        ranx.Run({"q": {str(i): float(100 - place) for place, i in enumerate(ids)}})
        for ids in lists
    ]
    result = ranx.fuse(runs, norm=None, method="rrf", params={"k": k}).to_dict()["q"]
    theirs = {int(i): score for i, score in sorted(result.items(), key=lambda item: -item[1])}
    assert_same_fusion(fused(lists, presets.ranx([len(ids) for ids in lists], k=k)), theirs)
