"""The package from outside: names, imports, docstrings and their examples."""

import doctest
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends import OPERATIONS

FUNCTIONS = (
    *OPERATIONS,
    "check_hits",
    "faiss_search",
    "merge_hits",
    "parameter_sweep",
    "rank_fusion",
    "score_fusion",
    "scores_to_ranks",
    "unpack_masks",
)
TYPES = (
    "CorpusMasks",
    "Expansion",
    "Fusion",
    "Hits",
    "NeighborScores",
    "ParameterSweep",
    "SearchExpansion",
    "Spans",
)
NAMES = sorted([*FUNCTIONS, "ChunkIndex", *TYPES])


def test_all_is_pinned():
    import scar_gpu

    assert sorted(scar_gpu.__all__) == NAMES
    for name in scar_gpu.__all__:
        assert hasattr(scar_gpu, name)


def test_import_brings_torch_and_numpy_alone():
    """No Triton and no extra: what scar_gpu adds to torch and numpy is itself."""
    script = (
        "import json, sys, torch, numpy; before = set(sys.modules); import scar_gpu;"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True
    )
    added = set(json.loads(output.stdout)) - set(sys.stdlib_module_names)
    assert added <= {"scar_gpu", "torch", "numpy"}
    assert "scar_gpu" in added


def test_every_operation_has_a_triton_launcher():
    import scar_gpu

    kernels = Path(scar_gpu.__file__).parent / "kernels"
    written = {name for name in OPERATIONS if (kernels / f"{name}.py").exists()}
    assert written == set(OPERATIONS)


def test_results_are_named_tuples():
    import scar_gpu

    assert scar_gpu.NeighborScores._fields == ("relevance", "scores", "mask")
    assert scar_gpu.Expansion._fields == ("ids", "scores", "anchors", "lengths")
    assert scar_gpu.Spans._fields == ("start", "end", "first", "lengths")
    assert scar_gpu.Hits._fields == ("ids", "scores")
    assert scar_gpu.CorpusMasks._fields == ("bits", "relevance")
    assert scar_gpu.SearchExpansion._fields == ("hits", "neighbors", "expansion")


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_reference_has_the_signature_of_the_public_function(name):
    import scar_gpu
    from scar_gpu import reference

    def shape(function):
        return [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in inspect.signature(function).parameters.values()
        ]

    assert shape(getattr(reference, name)) == shape(getattr(scar_gpu, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_have_their_sections_and_an_example_that_runs(name):
    import scar_gpu

    function = getattr(scar_gpu, name)
    for section in ("Args", "Returns", "Raises"):
        assert f"{section}:" in function.__doc__
    names = dict(vars(sys.modules[function.__module__]))
    tests = doctest.DocTestFinder(recurse=False).find(function, name, globs=names)
    assert sum(len(test.examples) for test in tests) > 0
    for test in tests:
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        assert runner.run(test).failed == 0


@pytest.mark.parametrize(
    "module",
    [
        "api.fusion",
        "api.masks",
        "api.merging",
        "api.neighbors",
        "api.rows",
        "api.score_fusion",
        "api.search",
        "api.sweep",
        "api.windows",
        "faiss_index",
        "index",
        "large",
        "presets",
    ],
)
def test_all_examples_of_the_module_run(module):
    __import__(f"scar_gpu.{module}")
    result = doctest.testmod(sys.modules[f"scar_gpu.{module}"])
    assert result.attempted > 0
    assert result.failed == 0
