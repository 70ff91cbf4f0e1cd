"""Sizes and parts of the network, the node `model`, and lengths of a window; model families by name.

A family is a module of `informer.networks.models`, imported only when it is chosen, or is defined by a module that has
been imported (`informer.base.extensions`). A configuration may come from an untrusted checkpoint, so it names a family
and never a module.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from informer.base.errors import InputError, one_of
from informer.base.extensions import OPTION
from informer.config.fields import Checked, Count, default_of, fields_of, setting, settings

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


class Activation(Enum):
    """Nonlinearity of the feed-forward blocks."""

    gelu = "gelu"
    relu = "relu"


class CalendarEmbed(Enum):
    """How calendar marks enter the model; `informer.data.calendar` computes the marks of the same name."""

    timeF = "timeF"
    """Real numbers in [-0.5, 0.5], embedded by one linear map."""
    fixed = "fixed"
    """Integer fields, each embedded by a sinusoidal table."""
    learned = "learned"
    """Integer fields, each embedded by a learned table."""
    none = "none"
    """No marks: the model knows positions in the window but no dates, so it cannot memorise events by date."""


class EmbedPadding(Enum):
    """Which rows the embedding of a row reads besides it."""

    circular = "circular"
    """The row before and the row after, where the first and the last row are neighbours, as in the authors' code."""
    causal = "causal"
    """The two rows before."""


MOST_ROWS = 8192
"""Longest window (lookback window and horizon) for linear maps; their moments have this many rows squared."""


class LinearSkip(Enum):
    """A linear map from each target's lookback window to its forecast, added to the network's output.

    ridge: fitted before training and fixed, so that the network learns the residuals.
    """

    none = "none"
    ridge = "ridge"


class Shortening(Enum):
    """How the sequence is halved between encoder layers; defined in `informer.networks.layers.encoder`."""

    conv = "conv"
    max = "max"
    avg = "avg"
    strided = "strided"
    none = "none"
    funnel = "funnel"
    eliminate = "eliminate"


class Decoding(Enum):
    """How the decoder forecasts the rows of the horizon."""

    one_pass = "one_pass"
    """All rows in one pass, from the start token and the calendar marks of the horizon."""
    step = "step"
    """One token after the other, each with the forecasts before it appended to the start token."""


@settings
class ModelConfig(Checked):
    """Keys of the node `model` that all families have; each family has a subclass with its own sizes."""

    NODE: ClassVar[str] = "model."

    family: str = setting("informer", "Family of networks; chosen with model=NAME.")
    embed: CalendarEmbed = setting(CalendarEmbed.timeF, "How calendar marks are embedded; none: no calendar.")
    offset: int = setting(0, "Rows between lookback window and horizon, which are neither read nor forecast.")
    skip: LinearSkip = setting(LinearSkip.none, "ridge: the network learns the residuals of ridge regression.")
    instance_norm: bool = setting(False, "Normalise each window by its own mean and deviation, and undo it afterwards.")
    patch_len: int = setting(1, "Rows per token; must divide seq_len, label_len and pred_len.", ge=1)
    series_embedding: int = setting(0, "Width of a learned vector per series, appended to every row; 0: none.", ge=0)
    channel_independent: bool = setting(False, "Forecast each target from its own lookback window, with one network.")

    HAS_SKIP: ClassVar[bool] = False
    """Whether the family has a linear skip."""
    CLOSED_FORM: ClassVar[bool] = False
    """Whether the family is fitted in closed form and needs no training steps."""

    @property
    def is_fitted_first(self) -> bool:
        """Whether something is fitted before the first step that can forecast without the network."""
        return self.CLOSED_FORM or self.skip is LinearSkip.ridge

    @property
    def fed_rows(self) -> int:
        """Rows of the horizon that are forecast at a time and then fed back to the network; 0: all at once."""
        return 0

    @property
    def n_layers(self) -> int:
        """Number of layers; a checkpoint contains at least as many weights."""
        return 0

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        if self.skip is not LinearSkip.none and not self.HAS_SKIP:
            yield f"model.skip: expected none with model.family={self.family}, found {self.skip.value}"
        for name in ("instance_norm", "patch_len", "series_embedding", "channel_independent"):
            value, usual = getattr(self, name), default_of(fields_of(ModelConfig)[name])
            if self.CLOSED_FORM and value != usual:
                expected, found = str(usual).lower(), str(value).lower()
                yield f"model.{name}: expected {expected} with model.family={self.family}, found {found}"

    def length_problems(self, seq_len: int, label_len: int, pred_len: int) -> list[str]:
        """One sentence for each problem with these lengths of lookback window, start token and horizon."""
        lengths = {"seq_len": seq_len, "label_len": label_len, "pred_len": pred_len}
        return [
            f"model.patch_len: expected a divisor of {name}={length}, found {self.patch_len}"
            for name, length in lengths.items()
            if length % self.patch_len
        ]


@settings
class InformerConfig(ModelConfig):
    """The Informer; the defaults are the paper's size."""

    HAS_SKIP: ClassVar[bool] = True

    d_model: int = setting(512, "Width of every layer.", ge=1)
    n_heads: int = setting(8, "Attention heads; must divide d_model.", ge=1)
    d_ff: int = setting(2048, "Hidden width of the feed-forward blocks.", ge=1)
    encoder_stacks: list[Count] = setting(lambda: [2], "Layers of each encoder stack; [3,2,1]: the pyramid.")
    stack_fractions: list[float] | None = setting(
        None, "Share of the lookback window that each stack reads, such as [1,0.25]; null: 1, 1/2, 1/4, ..."
    )
    decoder_layers: int = setting(1, "Number of decoder layers.", ge=1)
    decoding: Decoding = setting(
        Decoding.one_pass,
        "one_pass: the whole horizon at once. step: token by token, each fed the forecasts before it.",
    )
    dropout: float = setting(0.05, "Share of values set to zero in training.", ge=0, lt=1)
    activation: Activation = setting(Activation.gelu, "Nonlinearity of the feed-forward blocks.")
    distil: Shortening = setting(Shortening.conv, "How the sequence is halved between encoder layers.")
    distil_norm: bool = setting(
        True, "BatchNorm in distil=conv, as in the authors' code; the paper's formula has none."
    )
    global_tokens: int = setting(
        0, "Learned tokens of each encoder stack; needs attn=etc or bigbird_etc with attn.n_global=0.", ge=0
    )
    embed_padding: EmbedPadding = setting(
        EmbedPadding.circular, "Rows that the embedding of a row reads: with causal, none after it."
    )
    mix: bool = setting(False, "Merge the heads of decoder self-attention in transposed order, as the authors' code.")
    gate: bool = setting(False, "Gate the output of every attention layer, by a sigmoid of the rows that ask.")
    activation_checkpointing: bool = setting(
        False, "Store only the input of every layer and compute it again backward: less memory, slower."
    )

    @property
    def fed_rows(self) -> int:
        """See `ModelConfig`."""
        return self.patch_len if self.decoding is Decoding.step else 0

    @property
    def n_layers(self) -> int:
        """Layers of encoder stacks and decoder together."""
        return sum(self.encoder_stacks) + self.decoder_layers

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        yield from super().problems()
        if not self.encoder_stacks:
            yield "model.encoder_stacks: expected at least one stack, found []"
        if self.d_model % self.n_heads:
            yield f"model.d_model: expected a multiple of model.n_heads={self.n_heads}, found {self.d_model}"
        if (shares := self.stack_fractions) is not None:
            n_stacks = len(self.encoder_stacks)
            if len(shares) != n_stacks or not all(0 < share <= 1 for share in shares):
                expected = f"expected a number above 0 and at most 1 for each of {n_stacks} stacks"
                yield f"model.stack_fractions: {expected}, found {list(shares)}"

    def length_problems(self, seq_len: int, label_len: int, pred_len: int) -> list[str]:
        """One sentence for each problem with these lengths of lookback window, start token and horizon."""
        problems = super().length_problems(seq_len, label_len, pred_len)
        least = 2 ** (len(self.encoder_stacks) - 1) * self.patch_len
        if self.encoder_stacks and self.stack_fractions is None and seq_len < least:
            problems.append(
                f"seq_len: expected at least {least} for {len(self.encoder_stacks)} encoder stacks, found {seq_len}"
            )
        return problems


FOLDER = Path(__file__).parents[1] / "networks" / "models"

_configs: dict[str, type[ModelConfig]] = {"informer": InformerConfig}


def register_family(config: type[ModelConfig]) -> None:
    """Register a family by its class of settings; the name is the default of its field `family`.

    Raises:
        ValueError: another family has the name.
    """
    name = default_of(fields_of(config)["family"])
    if not isinstance(name, str) or _configs.setdefault(name, config) is not config:
        raise ValueError(f"{config.__name__}.family: another family is called {name!r}")


def config_class(family: Any) -> type[ModelConfig]:
    """The class of settings of a family.

    Raises:
        InputError: unknown family.
    """
    if not isinstance(family, str) or family not in _configs:
        load_family(family)
    return _configs[family]


def load_family(family: Any) -> None:
    """Import the module of a family. Errors as in `config_class`."""
    if family in package_families():
        importlib.import_module(f"informer.networks.models.{family}")
        return
    setting = f"model.family (for one of another module: {OPTION}MODULE)"
    raise one_of(setting, family, sorted({*package_families(), *_configs}))


def family_of(node: Any) -> Any:
    """The family of a `model` node, by default the Informer."""
    return node.get("family", "informer") if isinstance(node, Mapping) else "informer"


def package_families() -> list[str]:
    """Names of the families in this package."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "base"))
