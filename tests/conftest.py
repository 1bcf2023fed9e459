"""Shapes in the types are checked while the tests run; float64 is switched on where a test asks for it. A program
that two tests compile, or a process that a test starts, is compiled once for all of them."""

import atexit
import gc
import os
import shutil
import sys
import tempfile

from .flags import quick

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="occamax-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # to read one is quicker than any compiling

# Programs here are small and run a few times: nine tenths of the time went into making them fast. `benchmarks/` and
# every run of the package have them as fast as they get.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ["XLA_FLAGS"] = quick(os.environ.get("XLA_FLAGS", ""))

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import config, install_import_hook

from .checking import jaxtyped

gc.disable()  # until all is imported, which is left alone from then on
assert not any(name.partition(".")[0] == "occamax" for name in sys.modules), "imported before it could be checked"
# Left installed: whatever a test imports, and whenever, is checked. A whole number is a float, as in type checkers.
jaxtyping.jaxtyped = jaxtyped
install_import_hook("occamax", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# The same cases in every run; a fixture such as `x64` serves all cases of a test.
settings.register_profile(
    "tests",
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("tests")

# The files that take longest, which begin first: none is left to one worker while the others have nothing to do.
LONG = (
    "test_survival",
    "test_devices",
    "test_docs",
    "test_examples",
    "test_fit",
    "test_cli",
    "test_states",
    "test_reproduction",
    "test_reference",
    "test_text",
    "test_fuzz",
    "test_guard",
    "test_stream",
    "test_front_door",
    "test_compaction",
    "test_pruning",
    "test_package",
)


def pytest_collection_finish():
    """What is imported stays: it need not be searched for garbage again and again, and the rest not as often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="session", autouse=True)
def hurried():
    """Exports time their files; no test looks at how long, so they do it briefly."""
    from occamax.export import exporting, unit_times

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "TIMED_SECONDS", 0.01)
        patch.setattr(unit_times, "SECONDS", 0.01)
        yield


@pytest.fixture
def x64():
    """Double precision for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked():
    """As a user has it: a wrong kind of thing meets the package's own refusal, not the checks of these tests."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def key():
    return jax.random.key(0)
