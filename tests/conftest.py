"""Settings and fixtures of all tests; shape types are checked, see `shape_checks.py`."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis  # noqa: F401 (it looks up objects when it is imported, which a command called here leaves out)
import pytest
import shape_checks

shape_checks.install()
gc.set_threshold(100_000, 20, 20)  # collections of garbage take a sixth of the time at Python's 700

from entry_points import SMALL, TENSORBOARD, Trained, call  # noqa: E402 (the checks come first)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, then those with many tests: one process must not be left with a long file."""
    slow, sizes = {item.path for item in items if item.get_closest_marker("slow")}, Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -sizes[item.path]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of a test."""
    shape_checks.switch(item.path)


@pytest.fixture(autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as own:  # not the test's, which may undo its changes halfway
        own.delenv("INFORMER_DATA_DIR", raising=False)
        yield


@pytest.fixture
def usual_collector() -> Iterator[None]:
    """Garbage is collected as often as in a program, for tests of its memory."""
    rare = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*rare)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run on the sample data, two epochs; for reading, not for writing into."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    arguments = ["dataset=sample", *SMALL, TENSORBOARD, "trainer.max_epochs=2", f"run_dir={run_dir}"]
    outcome = call("train", *arguments, checked=True)
    assert outcome.status == 0, outcome.err
    return Trained(run_dir, outcome.out)


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes | None]]:
    """Every path below a folder with its content (None for folders), to compare before and after."""
    return lambda top: {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None for path in sorted(top.rglob("*"))
    }
