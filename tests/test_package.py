"""The package from outside: names, imports, docstrings and their examples."""

import doctest
import inspect
import json
import re
import subprocess
import sys
import tomllib
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


def test_every_extra_is_installed_by_the_makefile():
    """By its name in a stamp or in brackets, or as part of one that is."""
    root = Path(__file__).parents[1]
    if not (root / "Makefile").is_file():
        pytest.skip("runs in the source tree alone")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    makefile = (root / "Makefile").read_text()
    named = re.findall(r"\$\(VENV\)/([a-z-]+)|\"\.\[([a-z,]+)\]\"", makefile)
    installed = {name for pair in named for name in re.split("[-,]", "".join(pair))} & set(extras)
    waiting = list(installed)
    while waiting:
        for dependency in extras[waiting.pop()]:
            if part := re.fullmatch(rf"{project['name']}\[([a-z]+)\]", dependency):
                installed.add(part[1])
                waiting.append(part[1])
    assert installed == set(extras)


def test_the_benchmarks_rivals_are_pinned_and_in_no_extra():
    root = Path(__file__).parents[1]
    pinned = root / "benchmarks" / "peers" / "requirements.txt"
    if not pinned.is_file():
        pytest.skip("runs in the source tree alone")
    lines = [line for line in pinned.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", line) for line in lines)
    rivals = {line.split("==")[0] for line in lines} - {"faiss-cpu"}  # which is an extra, too
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = {name for extra in project["optional-dependencies"].values() for name in extra}
    assert not rivals & extras
