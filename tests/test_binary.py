"""The compiled extension depends on nothing that changes between PyTorch or Python versions."""

import importlib
import re
import subprocess
from pathlib import Path

import torch

SHIMS = (
    "csrc/stable/c/shim.h",
    "csrc/inductor/aoti_torch/c/shim.h",
    "csrc/inductor/aoti_torch/generated/c_shim_aten.h",
)


def undefined_symbols() -> list[str]:
    binary = importlib.import_module("scar_gpu._C").__file__
    listing = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", binary], capture_output=True, text=True, check=True
    )
    return [line.split()[-1] for line in listing.stdout.splitlines() if " U " in line]


def test_the_binary_needs_only_the_stable_abi():
    headers = Path(torch.__file__).parent / "include" / "torch"
    declared = set()
    for shim in SHIMS:
        declared |= set(re.findall(r"\b(\w+)\s*\(", (headers / shim).read_text()))
    symbols = undefined_symbols()
    torch_symbols = [name for name in symbols if name.startswith(("torch_", "aoti_"))]
    assert len(torch_symbols) > 10
    assert set(torch_symbols) <= declared
    others = [name for name in symbols if name not in torch_symbols]
    # C and C++ run-time libraries (versioned, or in namespace std), Python's limited interface.
    system = re.compile(r".+@(GLIBC|GLIBCXX|CXXABI|GCC)_|_ZN[KOR]*St|_ZSt|_Py?|Py")
    assert [name for name in others if not system.match(name)] == []


def test_the_binary_is_for_every_python_from_the_oldest_supported():
    assert importlib.import_module("scar_gpu._C").__file__.endswith("_C.abi3.so")


def test_results_are_poisoned_while_tests_run():
    """A hole in a result of a CPU kernel would show: see `poisoned_outputs`."""
    kernels = importlib.import_module("scar_gpu._C")
    assert kernels.poison_results(False) is True
    assert kernels.poison_results(True) is False
