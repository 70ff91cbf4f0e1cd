"""Lengths of a window; model families by name, and their configurations as settings, the node `model`.

A family is a module of `informer.networks.models`, imported only when it is chosen, or is defined by a module that has
been imported (`informer.base.extensions`). A configuration may come from an untrusted checkpoint, so it names a family
and never a module.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from informer.base.errors import InputError, one_of
from informer.base.extensions import OPTION
from informer.config.fields import Checked, settings
from informer.networks.models.config import ModelConfig, families

LONGEST = 10_000_000
"""Largest number of rows of a part of a window; more could exceed the range of timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSizes:
    """Numbers of rows of a window.

    Args:
        seq_len: lookback window, at least 1.
        label_len: start token of the decoder (the end of the lookback window), 0 to seq_len.
        pred_len: forecast horizon, at least 1.
        offset: rows between lookback window and horizon, which are neither read nor forecast.

    Raises:
        InputError: a length out of range.
    """

    seq_len: int
    label_len: int
    pred_len: int
    offset: int = 0

    def __post_init__(self) -> None:
        lengths = (("seq_len", 1), ("label_len", 0), ("pred_len", 1), ("offset", 0))
        for name, least in lengths:
            length = getattr(self, name)
            if not least <= length <= LONGEST:
                key = "model.offset" if name == "offset" else name
                bound = f"at least {least}" if length < least else f"at most {LONGEST}"
                raise InputError(f"{key}: expected {bound}, found {length}")
        if self.label_len > self.seq_len:
            raise InputError(
                f"label_len: expected at most seq_len={self.seq_len} (the start token is the end of the history), "
                f"found {self.label_len}"
            )

    @property
    def first(self) -> int:
        """Index in a window of the first row of the horizon."""
        return self.seq_len + self.offset

    @property
    def reach(self) -> int:
        """Rows from the end of the lookback window to the end of the horizon."""
        return self.offset + self.pred_len

    @property
    def rows(self) -> int:
        """Rows of one window."""
        return self.seq_len + self.reach

    def starts(self, rows: range) -> range:
        """First rows of the windows whose horizon lies in `rows`; their lookback window may start before it."""
        return range(max(rows.start - self.first, 0), max(rows.stop - self.rows + 1, 0))

    def least_rows(self, first_row: int) -> int:
        """Rows that a part starting at `first_row` needs for one window."""
        return self.pred_len + max(self.first - first_row, 0)


MOST_ROWS = 8192
"""Longest window (lookback window and horizon) for linear maps; their moments have this many rows squared."""


@dataclass(kw_only=True)
class LinearModelConfig(ModelConfig):
    """The closed-form fit has no options: blocks of training and validation rows decide what is used."""

    CLOSED_FORM: ClassVar[bool] = True

    family: str = "linear"

    def length_problems(self, seq_len: int, label_len: int, pred_len: int) -> list[str]:
        """One sentence for each problem with these numbers of rows."""
        rows = seq_len + pred_len
        if rows <= MOST_ROWS:
            return []
        return [f"seq_len + pred_len: expected at most {MOST_ROWS} with model.family=linear, found {rows}"]


families["linear"] = LinearModelConfig


def _settings_of(config: type) -> Any:
    def reduced(self: Any) -> tuple[Any, ...]:  # pickle cannot find a class that is made here
        return checked, (config(**vars(self)),)

    facts = {"NODE": "model.", "__module__": __name__, "__doc__": config.__doc__, "__reduce__": reduced}
    return settings(type(config.__name__, (config, Checked), facts))


settings_of: Callable[[type], Any] = cache(_settings_of)
"""The configuration of a family as a class of settings: a subclass whose values are checked by its fields."""


def checked(config: ModelConfig) -> Any:
    """The same configuration as settings. Raises an InputError for values of another type or out of range."""
    return config if isinstance(config, Checked) else settings_of(type(config))(**vars(config))


FOLDER = Path(__file__).parents[1] / "networks" / "models"


def config_class(family: Any) -> Any:
    """The class of settings of a family.

    Raises:
        InputError: unknown family.
    """
    if not isinstance(family, str) or family not in families:
        load_family(family)
    return settings_of(families[family])


def load_family(family: Any) -> None:
    """Import the module of a family. Errors as in `config_class`."""
    if family in package_families() and family not in families:
        importlib.import_module(f"informer.networks.models.{family}")
        return
    setting = f"model.family (for one of another module: {OPTION}MODULE)"
    raise one_of(setting, family, sorted({*package_families(), *families}))


def family_of(node: Any) -> Any:
    """The family of a `model` node, by default the Informer."""
    return node.get("family", "informer") if isinstance(node, Mapping) else "informer"


def package_families() -> list[str]:
    """Names of the families in this package."""
    return sorted(["linear", *(path.stem for path in FOLDER.glob("[!_]*.py") if path.stem not in ("base", "config"))])
