"""What every network of the package keeps: how it is built, what it reads and gives, which of its parts others ask for.

A family is one file here (a class with the dataclass of its configuration) and one yaml in `conf/model/`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.attention.base import Attention, AttentionSpec
from informer.config import families
from informer.config.model import ModelConfig
from informer.layers.attention_layer import AttentionLayer
from informer.layers.categories import CategoryLayout
from informer.ops.gaps import ObservedMask
from informer.quantiles import MEDIAN


@dataclass(kw_only=True, slots=True, frozen=True)
class ModelDims:
    """What the data decides of the network."""

    enc_in: int
    """Value columns of the history, which the decoder's input has too."""
    c_out: int
    """Forecast columns."""
    mark_sizes: tuple[int, ...]
    """One entry a calendar mark column: its vocabulary size (1 for real-valued marks)."""
    seq_len: int
    label_len: int
    pred_len: int
    targets: tuple[int, ...] = ()
    """Positions of the forecast columns among the value columns; empty: they are the first."""
    known: tuple[int, ...] = ()
    """Positions of the value columns that are given over the horizon."""
    n_series: int = 1
    """Series of training, which a network may tell apart."""
    categories: tuple[int, ...] = ()
    """One entry a value column: the number of its categories, 0 where it holds numbers; empty: all hold numbers. A code
    is from 1 to that number, or 0 for a category that training did not have."""
    masked: tuple[int, ...] | None = None
    """Positions of the value columns with gaps: for each there is one more column, behind all others, that is 1 where
    the value is observed and 0 where it is missing, as the value then is. None: no value is ever missing."""
    regressors: tuple[int, ...] = ()
    """Positions of the value columns of numbers that are given over the horizon and vary within a series."""
    holidays: tuple[int, ...] = ()
    """Positions of the marks that say which rows are holidays."""

    @property
    def n_masks(self) -> int:
        """Columns that say what is observed; they are the last of `enc_in`."""
        return len(self.masked or ())

    @property
    def masks(self) -> tuple[int, ...]:
        """Their positions, in the order of `masked`."""
        return tuple(range(self.enc_in - self.n_masks, self.enc_in))

    def to_plain(self) -> dict[str, Any]:
        """For a checkpoint: what is set."""
        return {name: size for name, size in asdict(self).items() if size is not None}

    @property
    def target_positions(self) -> tuple[int, ...]:
        """`targets`, written out."""
        return self.targets or tuple(range(self.c_out))

    @property
    def embedded(self) -> "ModelDims":
        """The sizes behind `CategoryColumns`, which has vectors in place of codes, without `masked`."""
        if not self.categories:
            return self
        layout = CategoryLayout(self.categories)
        return replace(
            self,
            enc_in=layout.width,
            targets=layout.positions(self.target_positions),
            known=layout.positions(self.known),
            categories=(),
            masked=None,
            regressors=(),
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of the value columns that hold numbers."""
        sizes = self.categories or (0,) * self.enc_in
        return tuple(place for place, size in enumerate(sizes) if not size and place not in self.masks)

    @property
    def dec_len(self) -> int:
        """Rows of the decoder's input: start token and horizon."""
        return self.label_len + self.pred_len


AttentionFactory = Callable[[AttentionSpec], Attention]

SLOT_OF = {"encoder": "attn", "decoder": "decoder_attn", "cross": "cross_attn"}
"""First word of an attention's place -> the node of the configuration that has its mechanism."""


class Attentions(NamedTuple):
    """The mechanisms of the three slots."""

    encoder: AttentionFactory
    decoder: AttentionFactory
    cross: AttentionFactory


class ForecastModel(nn.Module, ABC):
    """A network; a subclass with a `CONFIG` is a family and known by the default of `CONFIG.family`.

    The constructor of a family takes what this one takes. `forward` gives the same for a window whatever else is in the
    batch, and nothing random in eval mode.

    Args:
        config: sizes the user chose, an instance of `CONFIG`.
        dims: sizes the data decides.
        attentions: makers of the three kinds of attention; a family need not use them.
        quantiles: levels to forecast of each column, in increasing order, the median among them; none: one value each.
    """

    CONFIG: ClassVar[type[ModelConfig]]
    INPUT_PARTS: ClassVar[tuple[str, ...]] = ()
    """How the names of the tensors begin that belong to the value columns."""
    SERIES_PARTS: ClassVar[tuple[str, ...]] = ()
    """The same of the series of training."""
    CALENDAR_PARTS: ClassVar[tuple[str, ...]] = ()
    """The same of the calendar marks."""
    HEAD_PARTS: ClassVar[tuple[str, ...]] = ()
    """The same of the forecast columns and quantiles."""
    READS_CATEGORIES: ClassVar[bool] = False
    """Knows which value columns hold codes (`ModelDims.categories`), and takes none of them for a quantity."""
    LEARNS_FROM_ACTUAL: ClassVar[bool] = False
    """In training `forward` takes one more, the actual values in the horizon, scaled [b pred_len n]."""

    non_negative: tuple[int, ...] = ()
    """Places of the targets whose forecasts do not go below zero in data units; a batch then has center and scale."""
    observed: ObservedMask | None = None
    """What makes inputs of windows with missing values; None: no value is ever missing."""
    reads_series: bool = False
    """`forward` takes a fifth argument, `series` [b]: the number of each window's series among those of training, -1 of
    another."""

    @abstractmethod
    def __init__(self, config: Any, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()) -> None:
        super().__init__()
        self.quantiles = tuple(quantiles)
        if dims.masked is not None:
            known = tuple(place for place in dims.masked if place in dims.known)
            self.observed = ObservedMask(dims.masked, known, dims.label_len)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "CONFIG" in cls.__dict__:
            families.register(cls.CONFIG)
            _networks[cls.CONFIG] = cls

    @abstractmethod
    def forward(
        self,
        enc_x: Float[Tensor, "b seq_len c"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len c"],
        dec_mark: Float[Tensor, "b dec_len m"],
    ) -> Float[Tensor, "b pred_len n *q"]:
        """Forecast of the scaled targets, or all its quantiles where the network has any.

        Args:
            enc_x, enc_mark: history and its calendar marks; see `ModelDims.masked` for values that are missing.
            dec_x, dec_mark: the last label_len rows of the history, then the horizon, zeros but for the columns that
                are known ahead; marks of those rows.
        """

    def inputs(self, batch: "Inputs") -> tuple[Tensor, Tensor]:
        """Values that encoder and decoder read of a batch, with what says where they are missing."""
        return (batch.enc_x, batch.dec_x) if self.observed is None else self.observed(batch.enc_x, batch.dec_x)

    @property
    def family(self) -> str:
        """The name in configurations and reports."""
        return str(self.CONFIG.__dataclass_fields__["family"].default)

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """Every attention by its place, in the order in which they run; a place begins with a word of `SLOT_OF`."""
        return {}

    def begin_step(self, done: float) -> None:
        """Called before each step of training with the share of the run's steps that are done: 0 at the first."""

    def linear_skip(self) -> nn.Parameter | None:
        """The weight [pred_len seq_len] of the linear map added to the network; None without one."""
        return None


_networks: dict[type[ModelConfig], type[ForecastModel]] = {}


def network_class(config: ModelConfig) -> type[ForecastModel]:
    """The network that a configuration is of.

    Raises:
        InputError: see `informer.config.families.config_class`.
    """
    if type(config) not in _networks:
        families.load(config.family)
    return _networks[type(config)]


@runtime_checkable
class Inputs(Protocol):
    """The fields of a batch that a network reads, and the actual values."""

    @property
    def enc_x(self) -> Tensor: ...
    @property
    def enc_mark(self) -> Tensor: ...
    @property
    def dec_x(self) -> Tensor: ...
    @property
    def dec_mark(self) -> Tensor: ...
    @property
    def series(self) -> Tensor: ...
    @property
    def target(self) -> Tensor: ...


INPUTS = tuple(name for name in inspect.signature(ForecastModel.forward).parameters if name != "self")
"""Names of what `forward` takes of every family, in its order."""


def inputs_of(network: nn.Module) -> tuple[str, ...]:
    """Names of what a network, or what wraps it in training, takes, in its order."""
    inside = getattr(network, "module", network)
    return (*INPUTS, "series") if getattr(inside, "reads_series", False) else INPUTS


def model_output(network: nn.Module, batch: Inputs, *, with_actual: bool = False) -> Float[Tensor, "b pred_len n *q"]:
    """All that a network, or what wraps it in training, gives for a batch, scaled; the one place that feeds it one.

    `with_actual`: in training, of a network that learns from the actual values.
    """
    given = {name: getattr(batch, name) for name in inputs_of(network)}
    inside = getattr(network, "module", network)
    if isinstance(inside, ForecastModel) and inside.observed is not None:
        given["enc_x"], given["dec_x"] = inside.inputs(batch)
    inputs = tuple(given.values())
    if with_actual:
        return network(*inputs, batch.target)
    output, places = network(*inputs), getattr(network, "non_negative", ())
    return floored(output, batch, places) if places else output


def floored(output: Float[Tensor, "b pred_len n *q"], batch: Any, places: Sequence[int]) -> Tensor:
    """Scaled forecasts that are at least zero in data units for the targets at these places.

    Args:
        batch: with `center` and `scale` [b n].
    """
    kept = torch.zeros(output.shape[2], dtype=torch.bool, device=output.device)
    kept[list(places)] = True
    floor = (-batch.center / batch.scale).to(output).masked_fill(~kept, -torch.inf)
    shape = (len(floor), 1, floor.shape[1], *([1] * (output.dim() - 3)))
    return torch.maximum(output, floor.reshape(shape))


def model_forecast(model: nn.Module, batch: Inputs) -> Float[Tensor, "b pred_len n"]:
    """Scaled targets of a batch."""
    return point(model_output(model, batch), quantiles_of(model))


def quantiles_of(model: nn.Module) -> tuple[float, ...]:
    """Levels of the quantiles that a network gives; none of one that gives a single value for each column."""
    return model.quantiles if isinstance(model, ForecastModel) else ()


def point(output: Float[Tensor, "b pred_len n *q"], quantiles: Sequence[float]) -> Float[Tensor, "b pred_len n"]:
    """The forecast itself: the median, where a network of these quantiles gave `output`."""
    return output[..., quantiles.index(MEDIAN)] if quantiles else output
