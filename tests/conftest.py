"""Options and fixtures of the whole suite: one backend per run, poisoned outputs everywhere."""

import pytest
import torch
from hypothesis import settings

from tests.backends import Runner, install_triton_launchers, prepare
from tests.cases import SHAPES

BACKENDS = ("cpu", "triton", "cuda")
# The interpreter takes milliseconds per program, so its properties see fewer examples.
EXAMPLES = {"cpu": 100, "triton": 6, "cuda": 100}

for name, count in EXAMPLES.items():
    settings.register_profile(
        name, max_examples=count, deadline=None, derandomize=True, database=None
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", choices=BACKENDS, default="cpu", help="what runs the operations")


def pytest_configure(config: pytest.Config) -> None:
    backend = config.getoption("--backend")
    config.scar_device = prepare(backend)
    if backend == "triton":
        import scar_gpu  # noqa: F401  (defines the operations that the launchers implement)

        config.scar_launchers = install_triton_launchers()
    settings.load_profile(backend)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A parameter named after a table of cases.SHAPES takes the rows meant for the backend."""
    backend = metafunc.config.getoption("--backend")
    for table in SHAPES.keys() & set(metafunc.fixturenames):
        rows = SHAPES[table]["triton" if backend == "triton" else "full"]
        metafunc.parametrize(table, rows, ids=lambda row: "-".join(map(str, row)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    backend = config.getoption("--backend")
    elsewhere = [
        item for item in items if backend not in getattr(item.function, "backends", BACKENDS)
    ]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


@pytest.fixture(scope="session")
def backend(pytestconfig: pytest.Config) -> str:
    return pytestconfig.getoption("--backend")


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> torch.device:
    return pytestconfig.scar_device


@pytest.fixture(scope="session")
def run(device: torch.device) -> Runner:
    return Runner(device)


@pytest.fixture(params=["public", "reference"])
def operation(request: pytest.FixtureRequest, run: Runner):
    """Calls an operation by name: hand-computed cases hold the definition to account as well."""
    from scar_gpu import reference

    if request.param == "public":
        return run
    return lambda name, *args, **kwargs: getattr(reference, name)(*args, **kwargs)


@pytest.fixture(autouse=True)
def poisoned_outputs():
    """Uninitialised memory is NaN or a large integer, so a hole in a result shows.

    The CPU kernels allocate past the dispatcher and have a switch of their own.
    """
    from scar_gpu import _C

    deterministic = torch.are_deterministic_algorithms_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    before = _C.poison_results(True)
    yield
    _C.poison_results(before)
    torch.utils.deterministic.fill_uninitialized_memory = fill
    torch.use_deterministic_algorithms(deterministic)


@pytest.fixture
def threads():
    """Restores the number of intra-operation threads."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
