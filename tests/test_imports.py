"""Imports point one way, as the table in CONTRIBUTING.md has it; importing the package costs little."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from entry_points import ROOT

import informer

PACKAGE = ROOT / "informer"

ROOMS = (
    ("__main__", "train", "eval", "predict"),
    ("commands",),
    ("mlflow", "sktime"),
    ("service", "forecaster"),
    ("report",),
    ("inference",),
    ("training",),
    ("scoring",),
    ("checkpoint",),
    ("members",),
    ("data", "pretrained"),
    ("read",),
    ("config",),
    ("networks", "base"),
)
"""Modules and folders of the package; each imports from rooms further down only."""

TORCH_ONLY = ("networks", "pretrained")
OUTSIDE = {"torch", "einops", "jaxtyping", "safetensors"}


def part(path: Path) -> str:
    """The room that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path: Path) -> list[str]:
    """Dotted names of every module that a file imports, wherever in it; relative imports are not used here."""
    names = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_imports_point_one_way() -> None:
    """Red when a module imports from its own level or from above, or is in no room."""
    rank = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
    wrong = []
    for path in FILES:
        own = part(path)
        others = {name.split(".")[1] for name in imported(path) if name.startswith("informer.")} - {own}
        wrong += [f"{path.relative_to(PACKAGE)}: {other}" for other in others if rank[other] <= rank[own]]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Red when two modules need each other, also for type hints only."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
    graph = {}
    for name, path in names.items():
        imports = {one if one in names else one.rpartition(".")[0] for one in imported(path)} & set(names)
        graph[name] = imports - {name}
    TopologicalSorter(graph).prepare()


def test_the_network_needs_only_torch() -> None:
    """Red when a network's module imports pandas, numpy, Hydra or any other package, or another room."""
    wrong = []
    for path in FILES:
        if part(path) in TORCH_ONLY:
            outside = {name.split(".")[0] for name in imported(path)} - {"informer"} - sys.stdlib_module_names
            wrong += [f"{path.relative_to(PACKAGE)}: {name}" for name in outside - OUTSIDE]
    assert wrong == []
    names = {name for path in FILES if part(path) == "networks" for name in imported(path)}
    assert [name for name in names if name.startswith("informer.") and not name.startswith("informer.networks.")] == []


def test_only_the_configuration_needs_hydra() -> None:
    """Red when another room composes or reads yaml itself."""
    names = {(part(path), name.split(".")[0]) for path in FILES for name in imported(path)}
    assert {room for room, name in names if name in ("hydra", "omegaconf", "yaml")} == {"config"}


def test_the_table_of_rooms_is_complete_and_in_order() -> None:
    """Red when a room is added to the package or to ROOMS without a row in CONTRIBUTING.md, or the rows promise more
    lines than the package is to have."""
    _, _, section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| room |")
    rows = [line.split("|")[1:4] for line in section.partition("\n\n")[0].splitlines()[2:]]
    named = [room for names, _, _ in rows for room in re.findall("`(.*?)`", names)]
    level = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
    assert sorted(named) == sorted(level) == sorted({part(path) for path in FILES})
    assert sorted(named, key=lambda room: level[room]) == named
    assert sum(int(budget.replace(",", "")) for _, _, budget in rows if budget.strip()) <= 29_000


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, informer\n"
        "assert informer.__version__ and 'Forecaster' in dir(informer)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__main__", "informer"]


def test_the_forecaster_comes_when_it_is_asked_for() -> None:
    assert (informer.Forecaster.__name__, informer.InputError.__name__) == ("Forecaster", "InputError")
    assert set(informer.__all__) <= set(dir(informer))
    with pytest.raises(AttributeError, match="no attribute 'Forecasters'"):
        informer.Forecasters  # noqa: B018 (the access is the test)


def test_the_version_is_the_projects() -> None:
    assert f'version = "{informer.__version__}"' in (ROOT / "pyproject.toml").read_text()


FRONTS = ("informer", "informer.checkpoint", "informer.data", "informer.networks")
"""What tests import, with names by their addresses in docs/reference; each lists names that are documented there."""

MOST_INSIDE = 5_808
"""Lines of test files that import modules behind the fronts; the number only falls."""


def addresses() -> list[str]:
    """Of everything that the reference documents."""
    return re.findall(r"^::: ([\w.]+)$", (ROOT / "docs/reference/python.md").read_text(), re.M)


def test_fronts_list_what_is_documented() -> None:
    """Red if a front lists a name that is not there, or that the reference does not have."""
    documented = {name.rpartition(".")[2] for name in addresses()}
    for front in map(importlib.import_module, FRONTS):
        names = {name for name in front.__all__ if not name.isupper() and name != "__version__"}
        assert [name for name in names if not hasattr(front, name)] == []
        assert names <= documented


def test_tests_import_what_users_import() -> None:
    """Red if more lines of test files than today import modules inside the package, helpers included."""
    files = {path: imported(path) for path in sorted((ROOT / "tests").rglob("*.py"))}
    named = {f"{front}.{name}" for front in FRONTS for name in importlib.import_module(front).__all__} | {*FRONTS}
    named |= {*addresses()}
    inside = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for path, names in files.items()
        if any(name.startswith("informer.") and name not in named for name in names)
    }
    assert sum(inside.values()) <= MOST_INSIDE, sorted(inside.items(), key=lambda each: -each[1])[:20]
