"""The README says what is: its code runs, its table is the measured one, its tree is the files."""

import importlib
import json
import re
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_code_runs_and_its_equivalent_agrees():
    names: dict = {}
    torch.manual_seed(0)
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(block, names)
    judged = names["index"].neighbor_scores(names["queries"], names["hits"].ids)
    inside = ~judged.scores.isinf()
    torch.testing.assert_close(judged.scores[inside], names["S"][inside], atol=1e-6, rtol=0)
    far = inside & ((names["S"] - 0.8 * names["cosines"][..., 1:2]).abs() > 1e-5)
    assert far.sum() > 500
    assert torch.equal(judged.mask[far], names["admitted"][far])


def test_the_table_is_what_was_measured():
    table = importlib.import_module("table")
    report = json.loads((ROOT / "benchmarks/results/cpu.json").read_text())
    assert table.insert(README, table.markdown(report)) == README
    assert len(report["rows"]) > 10


def test_the_tree_is_complete():
    listing = subprocess.run(
        ["git", "ls-files", "scar_gpu", "csrc", "benchmarks"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    files = {path for path in listing if not path.endswith((".json", "py.typed"))}
    tree = README.split("## Where things are")[1]
    described, folder = set(), ""
    for line in re.findall(r"^    (\S.*|  \S.*)$", tree, re.M):
        name = line.split()[0]
        if name.endswith("/"):
            folder = name
        elif line.startswith("  "):
            described.add(folder + name)
    assert described == files


def test_every_operation_is_in_the_table_of_functions():
    import scar_gpu

    functions = {name for name in scar_gpu.__all__ if name.islower()}
    assert functions - set(re.findall(r"`(\w+)`", README)) == set()
