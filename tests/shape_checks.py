"""Shape types are checked while tests run: every jaxtyping annotation of the package becomes a runtime check.

Only in modules that have such annotations: checks of plain types in all others double the time of their import.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import jaxtyping
from beartype import beartype

ROOT = Path(__file__).parents[1]

CHECKED = {
    "attention", "data", "inference", "layers", "linear", "models", "ops", "scoring", "watching",
    "test_quantiles.py",
}  # fmt: skip
"""Folders and files of tests that call functions with arrays; the others run whole commands, which take half as long
again with checks. Two of those have them too: the `trained` run and `models/test_families.py`."""

Kind = TypeVar("Kind", bound=Callable[..., object])
_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """Let every module of the package with shape annotations be imported with checks."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "informer").rglob("*.py"))
        if "from jaxtyping import" in path.read_text(encoding="utf-8")
    ]
    jaxtyping.jaxtyped = lambda typechecker: _checked  # what the hook writes above each function and class
    jaxtyping.install_import_hook(modules, None)


def _checked(kind: Kind) -> Kind:
    """With checks if it has shapes; functions inside functions would be decorated at every call."""
    has_shapes = "jaxtyping" in repr(kind.__annotations__) and "<locals>" not in kind.__qualname__
    return _jaxtyped(typechecker=beartype)(kind) if has_shapes else kind


def switch(path: Path) -> None:
    """Checks on or off, for the tests of this file."""
    wanted = CHECKED & set(path.relative_to(ROOT / "tests").parts)
    jaxtyping.config.update("jaxtyping_disable", not wanted)


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """Checks on or off within the block."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", not on)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
