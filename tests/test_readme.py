"""The README says what is: its code runs, its table is the measured one, its tree is the files."""

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
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


@pytest.mark.slow
def test_the_commands_run(tmp_path):
    documents = {
        "peace.md": "# Treaty\n\n## Signature\n\nThe envoy of the north signs the treaty.\n",
        "law.txt": "The council meets in spring.\n\nIts members are elected.\n",
    }
    (tmp_path / "docs").mkdir()
    for name, text in documents.items():
        (tmp_path / "docs" / name).write_text(text)
    questions = [{"question": "who signs?"}, {"question": "when does the council meet?"}]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))
    folder = Path(sys.executable).parent
    for line in re.search(r"```sh\n(.*?)```", README, re.S)[1].splitlines():
        command, *arguments = shlex.split(line)
        run = subprocess.run(
            [folder / command, *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        if line.endswith('"who signs the treaty?"'):
            assert "The envoy of the north signs the treaty." in run.stdout
    assert (tmp_path / "contexts.parquet").exists()
    assert "<html" in (tmp_path / "page.html").read_text()


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
