"""The interface of all networks: how they are built, what they read and return, and which parts other code uses.

A family is one file in this package (a network and the dataclass of its configuration) and one yaml in `conf/model/`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.base.quantiles import MEDIAN
from informer.config import families
from informer.config.model import ModelConfig
from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.categories import CategoryLayout
from informer.networks.ops.gaps import ObservedMask


@dataclass(kw_only=True, slots=True, frozen=True)
class ModelDims:
    """Sizes of a network that depend on the data."""

    enc_in: int
    """Value columns of the encoder's and the decoder's input."""
    c_out: int
    """Forecast columns."""
    mark_sizes: tuple[int, ...]
    """Vocabulary size of each calendar mark column; 1 for real-valued marks."""
    seq_len: int
    label_len: int
    pred_len: int
    targets: tuple[int, ...] = ()
    """Positions of the forecast columns among the value columns. Empty: the first `c_out` columns."""
    known: tuple[int, ...] = ()
    """Positions of the value columns that are known over the horizon."""
    n_series: int = 1
    """Number of training series; a network may have parameters per series."""
    categories: tuple[int, ...] = ()
    """For each value column its number of categories, 0 if it is numeric. Empty: all are numeric. Codes run from 1 to
    this number; 0 is a category that training did not contain."""
    masked: tuple[int, ...] | None = None
    """Positions of the value columns with gaps. Each has a mask column after all other columns, which is 1 where the
    value is observed and 0 where it is missing; missing values are 0. None: no value is ever missing."""
    regressors: tuple[int, ...] = ()
    """Positions of the numeric value columns that are known over the horizon and vary within a series."""
    holidays: tuple[int, ...] = ()
    """Positions of the calendar marks for holidays."""
    known_codes: tuple[int, ...] = ()
    """Positions of the categorical value columns that are known over the horizon and vary within a series."""

    @property
    def n_masks(self) -> int:
        """Number of mask columns; they are the last ones of `enc_in`."""
        return len(self.masked or ())

    @property
    def masks(self) -> tuple[int, ...]:
        """Positions of the mask columns, in the order of `masked`."""
        return tuple(range(self.enc_in - self.n_masks, self.enc_in))

    def to_plain(self) -> dict[str, Any]:
        """Plain values for a checkpoint, without entries that are None."""
        return {name: size for name, size in asdict(self).items() if size is not None}

    @property
    def target_positions(self) -> tuple[int, ...]:
        """Positions of the forecast columns, also if `targets` is empty."""
        return self.targets or tuple(range(self.c_out))

    @property
    def embedded(self) -> "ModelDims":
        """Sizes after `CategoryColumns`, where vectors replace codes; without `masked`, `regressors`, `known_codes`."""
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
            known_codes=(),
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of the numeric value columns."""
        sizes = self.categories or (0,) * self.enc_in
        return tuple(position for position, size in enumerate(sizes) if not size and position not in self.masks)

    @property
    def dec_len(self) -> int:
        """Rows of the decoder's input: start token and horizon."""
        return self.label_len + self.pred_len


AttentionFactory = Callable[[AttentionSpec], Attention]

SLOT_OF = {"encoder": "attn", "decoder": "decoder_attn", "cross": "cross_attn"}
"""First word of an attention layer's place -> configuration node of its mechanism."""


class Attentions(NamedTuple):
    """Factories of the attention mechanisms in the three slots."""

    encoder: AttentionFactory
    decoder: AttentionFactory
    cross: AttentionFactory


class ForecastModel(nn.Module, ABC):
    """Base class of all networks. A subclass with a `CONFIG` is a family, named by the default of `CONFIG.family`.

    The constructor of a family takes the same arguments. In eval mode `forward` must be deterministic, and the forecast
    of a window must not depend on the other windows in the batch.

    Args:
        config: sizes that the user chooses, an instance of `CONFIG`.
        dims: sizes that depend on the data.
        attentions: factories of the three kinds of attention; a family need not use them.
        quantiles: quantile levels to forecast, in increasing order and including the median. Empty: point forecasts.
    """

    CONFIG: ClassVar[type[ModelConfig]]
    INPUT_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the value columns."""
    SERIES_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the training series."""
    CALENDAR_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the calendar marks."""
    HEAD_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the forecast columns and quantiles."""
    READS_CATEGORIES: ClassVar[bool] = False
    """Whether the network treats codes of categories (`ModelDims.categories`) as categories, not as numbers."""
    LEARNS_FROM_ACTUAL: ClassVar[bool] = False
    """Whether `forward` takes one more argument in training: the scaled actual values of the horizon [b pred_len n]."""

    non_negative: tuple[int, ...] = ()
    """Positions of the targets whose forecasts are at least zero in data units; batches then have center and scale."""
    observed: ObservedMask | None = None
    """Prepares the inputs of windows with missing values. None: no value is ever missing."""
    reads_series: bool = False
    """Whether `forward` takes a fifth argument `series` [b]: the number of each window's training series, -1 for a
    series that training did not contain."""

    @abstractmethod
    def __init__(self, config: Any, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()) -> None:
        super().__init__()
        self.quantiles, self.target_positions = tuple(quantiles), dims.target_positions
        if dims.masked is not None:
            known_masked = tuple(position for position in dims.masked if position in dims.known)
            self.observed = ObservedMask(dims.masked, known_masked, dims.label_len)

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
        """Forecast of the scaled targets, with a last axis of quantiles if the network has any.

        Args:
            enc_x, enc_mark: lookback window and its calendar marks; see `ModelDims.masked` for missing values.
            dec_x, dec_mark: last label_len rows of the lookback window followed by the horizon, and their marks. Over
                the horizon all columns are zero except those known ahead.
        """

    def inputs(self, batch: "Inputs") -> tuple[Tensor, Tensor]:
        """Encoder and decoder values of a batch, prepared for missing values."""
        return (batch.enc_x, batch.dec_x) if self.observed is None else self.observed(batch.enc_x, batch.dec_x)

    @property
    def family(self) -> str:
        """Name of the family in configurations and reports."""
        return str(self.CONFIG.__dataclass_fields__["family"].default)

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """Attention layers by place, in execution order; the first word of a place is a key of `SLOT_OF`."""
        return {}

    def begin_step(self, done: float) -> None:
        """Called before each training step with the share of all steps done so far, 0 at the first step."""

    def linear_skip(self) -> nn.Parameter | None:
        """Weight [pred_len seq_len] of the linear map added to the network's output; None if there is none."""
        return None


_networks: dict[type[ModelConfig], type[ForecastModel]] = {}


def network_class(config: ModelConfig) -> type[ForecastModel]:
    """The network class of a configuration. Errors as in `informer.config.families.config_class`."""
    if type(config) not in _networks:
        families.load(config.family)
    return _networks[type(config)]


@runtime_checkable
class Inputs(Protocol):
    """Fields of a batch that a network reads, and the actual values."""

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
"""Argument names of `ForecastModel.forward`, in order."""


def inputs_of(network: nn.Module) -> tuple[str, ...]:
    """Argument names of a network's `forward`, in order; `network` may be wrapped, as for distributed training."""
    inside = getattr(network, "module", network)
    return (*INPUTS, "series") if getattr(inside, "reads_series", False) else INPUTS


def model_output(network: nn.Module, batch: Inputs, *, with_actual: bool = False) -> Float[Tensor, "b pred_len n *q"]:
    """Scaled output of a network for a batch; all code calls networks through this function.

    Args:
        network: a network, or its wrapper for distributed training.
        batch: windows of data.
        with_actual: pass the actual values too, for training of a network with `LEARNS_FROM_ACTUAL`.
    """
    arguments = {name: getattr(batch, name) for name in inputs_of(network)}
    inside = getattr(network, "module", network)
    if isinstance(inside, ForecastModel) and inside.observed is not None:
        arguments["enc_x"], arguments["dec_x"] = inside.inputs(batch)
    inputs = tuple(arguments.values())
    if with_actual:
        return network(*inputs, batch.target)
    output, positions = network(*inputs), getattr(network, "non_negative", ())
    if isinstance(inside, ForecastModel):
        output = constants_held(output, batch, inside.target_positions)
    return at_least_zero(output, batch, positions) if positions else output


def constants_held(output: Float[Tensor, "b pred_len n *q"], batch: Any, targets: Sequence[int]) -> Tensor:
    """Scaled forecasts, where targets that are constant in training keep their last observed value.

    Args:
        output: scaled forecasts.
        batch: has `enc_x` [b seq_len c], with NaN where missing, and perhaps `constant` [b n].
        targets: positions of the targets in `enc_x`.
    """
    constant = getattr(batch, "constant", None)
    if constant is None:
        return output
    history = batch.enc_x[:, :, list(targets)]
    last = (~history.isnan()).cumsum(dim=1).argmax(dim=1, keepdim=True)
    value = history.gather(1, last).nan_to_num(0.0).to(output)
    shape = (len(value), 1, value.shape[2], *([1] * (output.dim() - 3)))
    return torch.where(constant.reshape(shape), value.reshape(shape), output)


def at_least_zero(output: Float[Tensor, "b pred_len n *q"], batch: Any, positions: Sequence[int]) -> Tensor:
    """Scaled forecasts, raised to at least zero in data units for the given targets.

    Args:
        output: scaled forecasts.
        batch: has the scaler's `center` and `scale` [b n].
        positions: positions of the targets.
    """
    is_bounded = torch.zeros(output.shape[2], dtype=torch.bool, device=output.device)
    is_bounded[list(positions)] = True
    floor = (-batch.center / batch.scale).to(output).masked_fill(~is_bounded, -torch.inf)
    shape = (len(floor), 1, floor.shape[1], *([1] * (output.dim() - 3)))
    return torch.maximum(output, floor.reshape(shape))


def model_forecast(model: nn.Module, batch: Inputs) -> Float[Tensor, "b pred_len n"]:
    """Point forecasts of the scaled targets of a batch."""
    return point(model_output(model, batch), quantiles_of(model))


def quantiles_of(model: nn.Module) -> tuple[float, ...]:
    """Quantile levels of a network; empty for point forecasts."""
    return model.quantiles if isinstance(model, ForecastModel) else ()


def point(output: Float[Tensor, "b pred_len n *q"], quantiles: Sequence[float]) -> Float[Tensor, "b pred_len n"]:
    """Point forecast in a network's output: the median if it has quantiles."""
    return output[..., quantiles.index(MEDIAN)] if quantiles else output
