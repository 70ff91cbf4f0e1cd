"""Shape types are checked while tests run: every jaxtyping annotation of the package becomes a runtime check.

Only the modules that have such annotations: checks of plain types in all others double the time of their import.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
_WITH_SHAPES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "informer").rglob("*.py"))
    if "from jaxtyping import" in path.read_text(encoding="utf-8")
]
install_import_hook(_WITH_SHAPES, "beartype.beartype")

from entry_points import SMALL, Trained, call  # noqa: E402 (the hook comes first)


@pytest.fixture(autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as own:  # not the test's, which may undo its changes halfway
        own.delenv("INFORMER_DATA_DIR", raising=False)
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run on the sample data, two epochs; for reading, not for writing into."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    outcome = call("train", "dataset=sample", *SMALL, "trainer.max_epochs=2", f"run_dir={run_dir}")
    assert outcome.status == 0, outcome.err
    return Trained(run_dir, outcome.out)


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes | None]]:
    """Every path below a folder with its content (None for folders), to compare before and after."""
    return lambda top: {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None for path in sorted(top.rglob("*"))
    }
