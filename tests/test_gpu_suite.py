"""The GPU suite without a GPU: its logic runs on CPU tensors with a timer that makes times up."""

import contextlib
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import scar_gpu
from benchmarks import gpu_suite, torch_versions
from benchmarks.gpu import (
    by_tiles,
    case_tables,
    comparisons,
    correctness,
    questions,
    speed,
    suite,
    targets,
)
from benchmarks.gpu import timing as gpu_timing
from benchmarks.gpu.timing import Measured
from benchmarks.measure import Timing, timing
from scar_gpu import large
from tests.backends import only_on, tensors_in
from tests.closeness import assert_close, assert_equal

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
TINY = correctness.Sizes(
    n_chunks=300, dims=(24,), n_queries=12, many_queries=40, widest_batch=50,
    most_elements=2**14, k=3, most_chunks=300,
)  # fmt: skip
DTYPES = (torch.float32, torch.float16)


class FakeTimer:
    """Runs every call once on the CPU; the times are 1, 2, 3, ... milliseconds."""

    device = CPU

    def __init__(self):
        self.times = (n / 1000 for n in itertools.count(1))

    def measure(self, calls, seconds=0.3):
        for call in calls:
            call()
        return Measured(Timing(next(self.times), 0.125), "graph")

    def python_call(self, call, rounds=200):
        call()
        return 2e-5

    def launches(self, call):
        call()
        return 2

    def free_bytes(self):
        return 2**30

    def capture(self, calls):
        def run():
            for call in calls:
                call()

        run()
        return run


class Clock:
    """A clock that a part of the suite moves on."""

    now = 100.0

    def __call__(self):
        return self.now


def row(**changes):
    """A row of neighbor_scores that meets its targets."""
    values = {
        "work": "neighbor_scores", "operation": "neighbor_scores", "dim": 768, "dtype": "float16",
        "n_chunks": 10**6, "n_queries": 8192, "k": 10, "seconds": 1e-4, "spread": 0.01,
        "method": "graph", "useful_bytes": 4e8, "bytes_per_second": 4e12, "share": 0.9,
        "launches": 1, "against": {"eager": 20.0, "compiled": 5.0}, "notes": [],
    }  # fmt: skip
    return values | changes


@only_on("cpu")
def test_without_a_gpu_one_sentence_and_exit_3():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = subprocess.run(
        [sys.executable, "benchmarks/gpu_suite.py", "--quick"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, gpu_suite.NO_GPU + "\n", "")


@pytest.fixture
def small(monkeypatch):
    """Every kind of case, at sizes of a CPU."""
    monkeypatch.setattr(speed, "HIT_SIZES", [(1, 5), (8, 10)])
    monkeypatch.setattr(speed, "SEARCH_SIZES", [(6, questions.SEARCH_K), (1, questions.SEARCH_K)])
    monkeypatch.setattr(speed, "MASK_QUERIES", 7)
    monkeypatch.setattr(speed, "SWEEP_SIZES", [(6, 4), (1, 4)])
    monkeypatch.setattr(speed, "DIMS", (32, 48))
    monkeypatch.setattr(speed, "DTYPES", DTYPES)
    cases = [case._replace(is_compiled=False) for case in speed.cases() if case.n_queries < 500]
    monkeypatch.setattr(speed, "cases", lambda: cases)
    monkeypatch.setattr(speed, "MOST_SETS", 2)
    monkeypatch.setattr(speed, "EAGER_BYTES", 3 * 10 * 32 * 4 * 5)  # five queries at a time
    monkeypatch.setattr(correctness, "DTYPES", DTYPES)
    return cases


def run_suite(tmp_path, seconds=1e6, is_quick=True, **options):
    made = suite.Suite(tmp_path / "gpu.json", seconds, **options)
    gpu_suite.run(made, FakeTimer(), TINY, is_quick)
    assert json.loads(made.path.read_text()) == json.loads(json.dumps(made.report))
    return made


@only_on("cpu")
def test_every_part_runs_and_reports(small, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.gpu.timing.ceilings", lambda timer: {"copy": 4e12, "bf16": 8e14}
    )
    made = run_suite(tmp_path)
    assert made.report["failures"] == []
    assert made.exit_code == 0
    assert made.report["dropped"] == ["the tests of the repository: --quick"]
    assert len(made.report["checks"]) == 4 + 2 + 2 + 2
    assert [one["work"] for one in made.report["rows"]] == [case.label for case in small]
    assert {one["operation"] for one in made.report["rows"]} == set(questions.OPERATIONS)
    for one in made.report["rows"]:
        assert one["useful_bytes"] / one["seconds"] == one["bytes_per_second"]
        assert one["share"] == one["bytes_per_second"] / 4e12
        expected = {"eager", "torch.mm"} if one["operation"] in speed.PRODUCTS else {"eager"}
        if one["operation"] == "search_expand" and (one["dim"], one["dtype"]) == (32, "float32"):
            expected.add("by tiles")
            assert one["against"]["by tiles"] == 2e-5 / one["seconds"]
        assert set(one["against"]) == expected
        assert one["notes"] == []
        assert ("python_seconds" in one) == (one["n_queries"] == 1)
    text = targets.table(made.report)
    assert len(text.splitlines()) == 1 + 10 + 1 + len(small) + 1


@only_on("cpu")
def test_a_failing_part_is_recorded_and_the_rest_goes_on(small, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.gpu.timing.ceilings", lambda timer: {"copy": 4e12, "bf16": 8e14}
    )

    def broken(t):
        raise RuntimeError("planted")

    monkeypatch.setitem(questions.OPERATIONS, "spans", broken)
    made = run_suite(tmp_path)
    failed = {failure["part"] for failure in made.report["failures"]}
    assert "check CUDA graphs" in failed
    assert "time of spans B=8 K=10" in failed
    assert all("planted" in failure["error"] for failure in made.report["failures"])
    assert "broken" in made.report["failures"][0]["trace"]
    assert "reference, D=24 float32" in made.report["checks"]
    assert {one["operation"] for one in made.report["rows"]} == questions.OPERATIONS.keys() - {
        "spans"
    }
    assert made.exit_code == 1
    assert "FAILED: check CUDA graphs: RuntimeError: planted" in targets.table(made.report)


@only_on("cpu")
def test_an_unusable_device_ends_the_work(tmp_path):
    made = suite.Suite(tmp_path / "gpu.json", 100)
    made.is_usable = lambda: False
    made.attempt("first", lambda: 1 / 0)
    assert made.attempt("second", lambda: 1) is None
    assert made.report["dropped"] == ["second: the device is unusable"]


@only_on("cpu")
def test_the_budget_drops_the_last_parts_and_names_them(tmp_path):
    clock = Clock()
    made = suite.Suite(tmp_path / "gpu.json", 10, clock=clock)

    def work(seconds):
        clock.now += seconds
        return seconds

    assert made.attempt("a", lambda: work(4), kind="long") == 4
    assert made.attempt("b", lambda: work(1), kind="short") == 1
    assert made.attempt("c", lambda: work(2), kind="short") == 2
    assert made.attempt("d", lambda: work(4), kind="long") is None  # 3 s are left
    assert made.attempt("e", lambda: work(2), kind="short") == 2
    assert made.attempt("f", lambda: work(1), kind="short") is None
    assert made.report["dropped"] == ["d: no time left", "f: no time left"]
    assert json.loads(made.path.read_text())["seconds"] == 9
    assert made.exit_code == 0


@only_on("cpu")
def test_a_baseline_that_cannot_run_is_a_remark(monkeypatch):
    def broken(*args):
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr(torch_versions, "expand", broken)
    monkeypatch.setattr(FakeTimer, "launches", broken)
    case = speed.Case(0, "expand", 8, torch.float16, 4, 3)
    rates = {"copy": 4e12, "bf16": 8e14}
    one = speed.measure(case, FakeTimer(), speed.Inputs(FakeTimer(), 50), rates)
    assert one["against"] == {}
    assert one["launches"] is None
    assert one["notes"] == [f"{name}: OutOfMemoryError: planted" for name in ("launches", "eager")]
    assert "planted" in targets.table({"rows": [one], "failures": [], "dropped": []})


@only_on("cpu")
def test_important_cases_come_first():
    found = speed.cases()
    assert len(found) == len(set(found)) > 200
    assert {case.operation for case in found} == set(questions.OPERATIONS)
    assert [case.rank for case in found] == sorted(case.rank for case in found)
    hits = {case.n_queries * case.k for case in found if case.operation == "neighbor_scores"}
    assert min(hits) == 5
    assert max(hits) == 1_000_000
    for name in speed.PRODUCTS:
        assert {case.dim for case in found if case.operation == name} == {384, 768, 1024, 3072}
    first = {case.operation for case in found if case.rank == 0}
    assert first == {"neighbor_scores", "search", "rank_fusion"}


@only_on("cpu")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"share": 0.79}, ["0.79 of copy bandwidth < 0.8"]),
        ({"share": 0.79, "dim": 384}, []),
        ({"against": {"eager": 9.5, "compiled": 3.0}}, ["9.50 x eager < 10"]),
        ({"against": {"eager": 2.0}, "n_queries": 100}, []),
        ({"n_queries": 1, "k": 5, "seconds": 2.4e-5, "launches": 3},
         ["0.50 of 12 us < 1", "0.67 of two launches < 1"]),
        ({"operation": "search", "n_queries": 1024, "against": {"torch.mm": 0.6}},
         ["0.60 of torch.mm < 0.65"]),
        ({"operation": "search", "n_queries": 1024, "dim": 384, "against": {"torch.mm": 0.6}}, []),
        ({"operation": "rank_fusion", "n_queries": 2000, "launches": 2, "against": {}},
         ["0.50 of one launch < 1"]),
    ],
)  # fmt: skip
def test_targets_of_a_row(changes, expected):
    assert targets.missed(row(**changes)) == expected


@only_on("cpu")
def test_losing_rows_come_first_in_the_table():
    rows = [
        row(work="good"),
        row(work="slow", against={"eager": 0.5}, n_queries=100),
        row(work="late", share=0.1),
        row(work="product", operation="search", against={"torch.mm": 0.9}),
    ]
    report = {"rows": rows, "failures": [], "dropped": ["x: no time left"]}
    lines = targets.table(report).splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["MISSED", "late"], ["slower", "slow"]]
    assert [line.split()[0] for line in lines[3:5]] == ["good", "product"]
    assert lines[2].split()[2:7] == ["100.0", "1%", "4000", "90%", "0.50"]
    assert lines[5:] == ["dropped: x: no time left"]


@only_on("cpu")
def test_statistics_of_rounds():
    assert timing([3.0, 1.0, 2.0, 5.0, 4.0]) == Timing(3.0, (4.5 - 1.5) / 3.0)
    assert timing([7.0]) == Timing(7.0, 0.0)


OUTPUT = """
tests/test_a.py::test_one[float32-(3, 4)] PASSED [ 10%]
[gw1] [ 20%] PASSED tests/test_a.py::test_two
tests/test_b.py::test_three FAILED [ 30%]
[gw0] [ 40%] ERROR tests/test_b.py::test_four
tests/test_b.py::test_five SKIPPED (no GPU) [ 50%]
=========================== short test summary info ===========================
FAILED tests/test_b.py::test_three - AssertionError: PASSED is not a word
"""


@only_on("cpu")
def test_output_of_the_tests_is_understood():
    outcome = case_tables.read_outcome(OUTPUT, 1, 3.0)
    assert (outcome.is_finished, outcome.passed, outcome.is_good) == (True, 2, False)
    assert outcome.failed == ["tests/test_b.py::test_three", "tests/test_b.py::test_four"]
    stopped = case_tables.read_outcome("\n".join(OUTPUT.splitlines()[:3]), None, 3.0)
    assert (stopped.is_finished, stopped.passed, stopped.is_good) == (False, 2, True)
    assert not case_tables.read_outcome("usage error", 4, 0.1).is_good
    assert not case_tables.read_outcome("", None, 0.1).is_good


@only_on("cpu")
def test_the_tests_that_run_on_a_gpu_need_no_optional_package():
    optional = re.compile(
        r"^\s*(from|import) (scar_gpu\.(text|evaluation|cli)|faiss|peers)\b", re.M
    )
    elsewhere = [ROOT / path for path in case_tables.ELSEWHERE]
    assert all(path.exists() for path in elsewhere)
    tests = set((ROOT / "tests").rglob("test_*.py"))
    left_out = {test for test in tests if {test, *test.parents} & set(elsewhere)}
    assert len(tests - left_out) > 20
    assert [test.name for test in tests - left_out if optional.search(test.read_text())] == []
    assert any(optional.search(test.read_text()) for test in left_out)


@only_on("cpu")
@pytest.mark.slow
def test_the_tests_run_in_a_process_of_their_own_and_are_stopped_in_time():
    outcome = case_tables.run_case_tables(300, "cpu", ("tests/test_check_hits.py",))
    assert outcome.is_finished
    assert outcome.is_good
    assert outcome.passed > 3
    stopped = case_tables.run_case_tables(1, "cpu")
    assert not stopped.is_finished
    assert stopped.seconds < 60


@only_on("cpu")
@pytest.mark.parametrize(
    "name", ["search", "search_expand", "neighbor_scores", "rank_fusion", "parameter_sweep"]
)
def test_checks_notice_a_result_that_depends_on_the_batch(monkeypatch, name):
    operation = questions.OPERATIONS[name]

    def planted(t):
        result = operation(t)
        if len(next(tensors_in(result))) > 20:
            questions.outputs(result)[1][3, 0] += 1e-3  # the scores of the fourth query
        return result

    monkeypatch.setitem(questions.OPERATIONS, name, planted)
    with pytest.raises(AssertionError, match=rf"{name} of .*: result 1 differs"):
        correctness.wide_batch(CPU, TINY)


@only_on("cpu")
@pytest.mark.parametrize(
    "check",
    [
        lambda: correctness.wide_batch(CPU, TINY),
        lambda: correctness.row_alone(CPU, TINY, torch.float16),
        lambda: correctness.against_reference(CPU, TINY, 24, torch.float32),
        lambda: correctness.beyond_int32(CPU, TINY, 2**30),
    ],
    ids=["batch", "row alone", "reference", "large"],
)
def test_checks_notice_a_wrong_decision_and_allow_one_within_rounding(monkeypatch, check):
    """One bit of the last query is flipped: the most certain one, then the least."""
    operation = questions.OPERATIONS["corpus_masks"]

    def planted(is_certain):
        def call(t):
            bits = operation(t).bits.clone()
            known = comparisons.known_masks(t)
            margin = comparisons.margins(known.relevance, t["continuity"])[-1].abs()
            margin = margin.nan_to_num(-1.0 if is_certain else torch.inf).flatten()
            at = int(margin.argmax() if is_certain else margin.argmin())
            if not is_certain:
                least = float(margin[at])
                monkeypatch.setattr(comparisons, "open_margin", lambda dim: least)
            offset, row = divmod(at, known.relevance.shape[1])
            bits[-1, offset, row // 32] ^= torch.tensor(1 << row % 32).int()
            return scar_gpu.CorpusMasks(bits, None)

        return call

    monkeypatch.setitem(questions.OPERATIONS, "corpus_masks", planted(True))
    with pytest.raises(AssertionError, match=r"corpus_masks.*: 1 of \d+ decisions differ"):
        check()
    monkeypatch.setitem(questions.OPERATIONS, "corpus_masks", planted(False))
    assert check()


@only_on("cpu")
def test_margins_are_those_of_neighbor_scores():
    """Powers of two: relevances 1/2, 1, 1/4, 1/2 in two documents of two rows."""
    relevance = torch.tensor([[0.5, 1.0, 0.25, 0.5]])
    table = torch.tensor([[0.5, torch.nan, 0.75, torch.nan]])
    nan, lam, gamma = torch.nan, comparisons.LAM, comparisons.GAMMA
    left = [nan, 0.5 - lam * 0.5 - gamma, nan, 0.25 - lam * 0.25 - gamma * 0.5]
    right = [1.0 - lam * 0.5 - gamma * 0.5, nan, 0.5 - lam * 0.25 - gamma * 0.25, nan]
    found = comparisons.margins(relevance, table)
    assert_close(found, torch.tensor([[left, right]], dtype=torch.float64), 1e-15)


@only_on("cpu")
@pytest.mark.parametrize("has_git", [True, False])
def test_a_machine_without_git_or_repository_is_described(monkeypatch, tmp_path, has_git):
    if not has_git:
        monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu_suite, "ROOT", tmp_path)
    properties = SimpleNamespace(
        name="a GPU", major=9, minor=0, total_memory=1, multi_processor_count=1
    )
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    described = gpu_suite.machine()
    assert described["device"] == "a GPU"
    assert (described["revision"], described["changed_files"]) == (None, None)


@only_on("cpu")
@pytest.mark.parametrize(
    ("name", "place", "message"),
    [("neighbor_scores", 1, "scores: off by"), ("search", 1, "search: off by"),
     ("neighbor_scores", 2, "mask: .* wrong")],
)  # fmt: skip
def test_checks_notice_a_wrong_result(monkeypatch, name, place, message):
    operation = questions.OPERATIONS[name]

    def planted(t):
        result = list(operation(t))
        if place == 2:
            result[2] = ~result[2]
        else:
            result[place] = result[place] + 1e-3
        return type(operation(t))(*result)

    monkeypatch.setitem(questions.OPERATIONS, name, planted)
    with pytest.raises(AssertionError, match=message):
        correctness.against_reference(CPU, TINY, 24, torch.float32)


@only_on("cpu")
@pytest.mark.parametrize(
    ("name", "check", "message"),
    [("parameter_sweep", lambda: correctness.against_cpu(CPU, TINY), "reference: result 0 differs"),
     ("search_expand", lambda: correctness.against_reference(CPU, TINY, 24, torch.float32),
      "three calls: result 0 differs in 1 of"),
     ("search_expand", lambda: correctness.beyond_int32(CPU, TINY, 2**30), "result 0 differs")],
)  # fmt: skip
def test_checks_notice_a_wrong_number(monkeypatch, name, check, message):
    operation = questions.OPERATIONS[name]

    def planted(t):
        result = operation(t)
        questions.outputs(result)[0][0, 0].sub_(len(t["embeddings"]))
        return result

    monkeypatch.setitem(questions.OPERATIONS, name, planted)
    with pytest.raises(AssertionError, match=f"{name}.*{message}"):
        check()


@only_on("cpu")
@pytest.mark.parametrize("name", ["search", "search_expand"])
def test_checks_notice_a_wrong_search_by_tiles(monkeypatch, name):
    search = getattr(large, name)

    def planted(index, queries, k, **options):
        result = search(index, queries, k, **options)
        questions.outputs(result)[0][3, -1] -= 1
        return result

    assert by_tiles.check(CPU, 300, 12, torch.float32) == "12 queries, 300 rows, 20 tiles"
    monkeypatch.setattr(large, name, planted)
    with pytest.raises(AssertionError, match=f"{name} by tiles: result 0 differs in 1 of"):
        by_tiles.check(CPU, 300, 12, torch.float32)
    if name == "search_expand":
        rows = questions.batch(questions.corpus(300, 24, torch.float32, CPU), 5, 3)
        with pytest.raises(AssertionError, match="by tiles: result 0 differs in 1 of"):
            by_tiles.seconds(rows, FakeTimer().python_call)


@only_on("cpu")
def test_checks_notice_a_graph_that_keeps_its_first_inputs():
    with pytest.raises(AssertionError, match=r"in a graph: result \d differs"):
        correctness.graphs(CPU, TINY, lambda calls: [call() for call in calls] and (lambda: None))


class FakeCuda(SimpleNamespace):
    """torch.cuda with names for streams; a capture fails as PyTorch's does, and stays there."""

    current = "default"

    def __init__(self):
        super().__init__(CUDAGraph=object)

    def Stream(self, device):
        return SimpleNamespace(wait_stream=lambda other: None)

    def current_stream(self, device):
        return SimpleNamespace(name=self.current, wait_stream=lambda other: None)

    def stream(self, stream):
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def graph(self, graph, stream):
        self.current = "side"
        yield

    def set_stream(self, stream):
        self.current = stream.name


@only_on("cpu")
def test_a_capture_that_fails_leaves_the_stream_as_it_was(monkeypatch):
    cuda = FakeCuda()
    timer = gpu_timing.GpuTimer.__new__(gpu_timing.GpuTimer)
    timer.device = CPU
    waits = itertools.chain([None], itertools.repeat(RuntimeError("waits for the device")))

    def call():
        if error := next(waits):
            assert cuda.current == "side"
            raise error

    monkeypatch.setattr(torch, "cuda", cuda)
    with pytest.raises(RuntimeError, match="waits for the device"):
        timer.capture([call])
    assert cuda.current == "default"


@only_on("cpu")
def test_a_small_device_drops_the_large_matrix():
    with pytest.raises(suite.DroppedError, match="needs 0 GiB of free memory"):
        correctness.beyond_int32(CPU, TINY, 1000)


@only_on("cpu")
@pytest.mark.parametrize("window", [1, 2])
def test_torch_versions_are_the_same_operations(window):
    from scar_gpu import reference

    rows = questions.corpus(300, 64, torch.float32, CPU, window=window)
    t = questions.batch(rows, 30, 8)
    assert_close(torch_versions.row_scale(t["embeddings"]), rows["row_scale"].double(), 1e-7)
    table = torch_versions.continuity(t["embeddings"], t["doc_offsets"], window, t["row_scale"])
    assert_close(table, t["continuity"].double(), 1e-6)
    args = (t["queries"], t["embeddings"], t["continuity"], t["hits"])
    judged = torch_versions.neighbor_scores(*args, t["row_scale"])
    exact = reference.neighbor_scores(*args, row_scale=t["row_scale"])
    assert_close(judged.relevance, exact.relevance, 1e-6)
    assert_close(judged.scores, exact.scores, 1e-6)
    assert_equal(judged.mask, exact.mask)
    for actual, expected in zip(
        torch_versions.expand(t["hits"], *judged), reference.expand(t["hits"], judged), strict=True
    ):
        assert_equal(actual, expected)
    for actual, expected in zip(
        torch_versions.window_expand(t["hits"], t["doc_offsets"], window, 1),
        reference.window_expand(t["hits"], t["doc_offsets"], before=window, after=1),
        strict=True,
    ):
        assert_equal(actual, expected)
    runs = reference.spans(questions.expansion(t["ids"]), t["doc_offsets"])
    for actual, expected in zip(
        torch_versions.spans(t["ids"], t["doc_offsets"]), runs, strict=True
    ):
        assert_equal(actual, expected)
    found = torch_versions.search(t["queries"], t["embeddings"], 5, t["row_scale"])
    expected = reference.search(t["queries"], t["embeddings"], 5, row_scale=t["row_scale"])
    assert_close(found.scores, expected.scores, 1e-6)
    assert_equal(found.ids, expected.ids)
    lists = [t["first"], t["second"]]
    one_call = torch_versions.search_expand(*args[:3], 5, t["row_scale"])
    united = reference.expand(one_call.hits.ids, one_call.neighbors)
    assert_equal(one_call.hits.ids, expected.ids)
    assert_equal(one_call.expansion.ids, united.ids)
    masks = torch_versions.corpus_masks(*args[:3], t["row_scale"])
    assert_equal(masks, reference.corpus_masks(*args[:3], row_scale=t["row_scale"]).bits)
    sweep = (*questions.sweep_tensors(t), questions.LAM_GRID, questions.GAMMA_GRID)
    counted, summed = torch_versions.parameter_sweep(*sweep)
    exact = reference.parameter_sweep(*sweep)
    assert_equal(counted, exact.chunks)
    assert_close(summed, exact.covered, 1e-6)
    assert len(counted.unique()) > 5
    _, scores = torch_versions.rank_fusion(lists)
    best = reference.rank_fusion(lists).scores[:, :3]
    assert_close(scores[:, :3], best.double(), 1e-7)


@only_on("cpu")
@pytest.mark.parametrize("name", questions.OPERATIONS)
def test_torch_versions_compile_without_a_graph_break(name):
    rows = questions.corpus(100, 16, torch.float32, CPU)
    t = questions.batch(rows, 5, 4)
    args = speed.arguments(speed.Case(0, name, 16, torch.float32, 5, 4), t)
    torch.compiler.reset()
    function = getattr(torch_versions, name)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for actual, expected in zip(
        tensors_in(compiled(*args)), tensors_in(function(*args)), strict=True
    ):
        assert_equal(actual, expected)
    torch.compiler.reset()
