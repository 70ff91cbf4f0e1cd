"""Imports point one way, as the picture in the package's docstring has it; importing the package costs little."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from entry_points import ROOT

import informer

PACKAGE = ROOT / "informer"

# what a module may import of the package, directly; a name stands for the module or the folder
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "runtime": {"errors"},
    "metrics": set(),
    "plots": {"files"},
    "quantiles": set(),
    "attention": {"attention"},
    "layers": {"attention", "layers", "quantiles"},
    "model": {"attention", "layers"},
    "compat": {"build", "model", "layers", "errors"},
    "data": {"files", "data", "errors", "runtime"},
    "archive": {"errors"},
    "checkpoint": {"archive", "errors", "files"},
    "build": {"model", "attention", "data", "errors", "runtime"},
    "restore": {"build", "checkpoint", "data", "model", "errors"},
    "inference": {"inference", "restore", "checkpoint", "data", "metrics", "model", "attention", "plots"}
    | {"files", "quantiles", "runtime", "errors"},
    "training": {"training", "inference", "data", "plots", "quantiles", "files", "errors"},
    "config": {"training", "inference", "model", "layers", "data", "errors"},
    "conversion": {"config", "errors"},
    "warm_start": {"checkpoint", "model", "errors"},
    "cli": {"conversion", "build", "files", "runtime", "errors"},
    "run_folder": {"config", "conversion", "checkpoint", "files", "errors"},
    "search": {
        "search",
        "run_folder",
        "config",
        "conversion",
        "training",
        "inference",
        "build",
        "model",
        "layers",
        "data",
    }
    | {"runtime", "files", "errors"},
    "train": {
        "cli",
        "search",
        "run_folder",
        "warm_start",
        "config",
        "conversion",
        "training",
        "inference",
        "build",
        "restore",
        "checkpoint",
        "data",
        "model",
    }
    | {"layers", "runtime", "errors"},
    "eval": {"cli", "config", "conversion", "inference", "build", "restore", "checkpoint", "data", "model", "plots"}
    | {"runtime", "errors"},
    "inspect": {"cli", "config", "data", "errors"},
    "export": {"cli", "config", "inference", "checkpoint", "files", "errors"},
    "forecaster": {"train", "run_folder", "cli", "inference", "data", "checkpoint", "files", "errors"},
    "predict": {"cli", "config", "forecaster", "inference", "checkpoint", "data", "files", "errors"},
    "__init__": {"forecaster"},
}

# type hints alone: nothing is imported when the program runs
HINTS = {("build", "config")}

TORCH_ONLY = ("attention", "layers", "model")
OUTSIDE = {"torch", "einops", "jaxtyping"}


def part(path: Path) -> str:
    """The line of the picture that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Dotted names of every module that a file imports, wherever in it; relative imports are not used here."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            names = [alias.name for alias in node.names] if node.module == "informer" else [""]
            yield from (f"{node.module}.{name}".rstrip(".") for name in names)


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    own = part(path)
    assert own in ALLOWED, f"{path.name}: a part of the package that the picture does not show"
    inner = {name.split(".")[1] for name in imported(path) if name.startswith("informer.")}
    assert {other for other in inner - ALLOWED[own] if (own, other) not in HINTS} == set()


@pytest.mark.parametrize("path", [path for path in FILES if part(path) in TORCH_ONLY], ids=lambda path: path.stem)
def test_the_network_needs_torch_alone(path: Path) -> None:
    outside = {name.split(".")[0] for name in imported(path)} - {"informer"} - sys.stdlib_module_names
    assert outside <= OUTSIDE


def test_the_picture_has_no_circle() -> None:
    left = {name: others - {name} for name, others in ALLOWED.items()}
    while left:
        free = {name for name, others in left.items() if not others & set(left)}
        assert free, f"a circle among {sorted(left)}"
        left = {name: others for name, others in left.items() if name not in free}


@pytest.mark.parametrize("name", sorted({part(path) for path in FILES} - {"__init__"}))
def test_the_picture_in_the_docstring_names_every_part(name: str) -> None:
    assert informer.__doc__ is not None
    assert name in informer.__doc__.replace("|", " ").split()


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, informer\n"
        "assert informer.__version__ and 'Forecaster' in dir(informer)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__main__", "informer"]


def test_the_forecaster_comes_when_it_is_asked_for() -> None:
    from informer.forecaster import Forecaster

    assert informer.Forecaster is Forecaster
    assert set(informer.__all__) <= set(dir(informer))
    with pytest.raises(AttributeError, match="no attribute 'Forecasters'"):
        informer.Forecasters  # noqa: B018 (the access is the test)


def test_the_version_is_the_projects() -> None:
    assert f'version = "{informer.__version__}"' in (ROOT / "pyproject.toml").read_text()
