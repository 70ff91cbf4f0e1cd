"""What a family of networks is: how it is built, what it reads and returns, and which parts other code uses.

A family is one file in this package (a network and the dataclass of its configuration) and one yaml in `conf/model/`.
`informer.members.network` does the same for every family: windows to inputs, linear maps, bounds.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.quantile_head import MEDIAN
from informer.networks.models.config import ModelConfig, families
from informer.networks.ops.gaps import with_masks

# shapes of a network's inputs, named once
EncValues = Float[Tensor, "b seq_len c"]
EncMarks = Float[Tensor, "b seq_len m"]
DecValues = Float[Tensor, "b dec_len c"]
DecMarks = Float[Tensor, "b dec_len m"]


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
    mask_positions: tuple[int, ...] | None = None
    """Positions of the mask columns of a network inside a transform, in the order of `masked`; None: the last ones."""
    regressors: tuple[int, ...] = ()
    """Positions of the numeric value columns that are known over the horizon and vary within a series."""
    holidays: tuple[int, ...] = ()
    """Positions of the calendar marks for holidays."""
    known_codes: tuple[int, ...] = ()
    """Positions of the categorical value columns that are known over the horizon and vary within a series."""

    @property
    def n_masks(self) -> int:
        """Number of mask columns."""
        return len(self.masked or ())

    @property
    def masks(self) -> tuple[int, ...]:
        """Positions of the mask columns, in the order of `masked`."""
        last = tuple(range(self.enc_in - self.n_masks, self.enc_in))
        return last if self.mask_positions is None else self.mask_positions

    @property
    def target_positions(self) -> tuple[int, ...]:
        """Positions of the forecast columns, also if `targets` is empty."""
        return self.targets or tuple(range(self.c_out))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of the numeric value columns."""
        sizes = self.categories or (0,) * self.enc_in
        return tuple(position for position, size in enumerate(sizes) if not size and position not in self.masks)

    @property
    def dec_len(self) -> int:
        """Rows of the decoder's input: start token and horizon."""
        return self.label_len + self.pred_len

    def values(self, enc_x: EncValues, dec_x: DecValues) -> tuple[Tensor, Tensor]:
        """Values of windows as a network reads them: with gaps in training, NaN is replaced and masks are appended."""
        if self.masked is None:
            return enc_x, dec_x
        return with_masks(enc_x, dec_x, self.masked, known=self.known, label_len=self.label_len)


AttentionFactory = Callable[[AttentionSpec], Attention]

SLOT_OF = {"encoder": "attn", "decoder": "decoder_attn", "cross": "cross_attn"}
"""First word of an attention layer's place -> configuration node of its mechanism."""


class Attentions(NamedTuple):
    """Factories of the attention mechanisms in the three slots."""

    encoder: AttentionFactory
    decoder: AttentionFactory
    cross: AttentionFactory


class Network(nn.Module, ABC):
    """Base class of all networks. A subclass with a `CONFIG` is a family, named by the default of `CONFIG.family`.

    The constructor of a family takes the same arguments. In eval mode `forward` must be deterministic, and the forecast
    of a window must not depend on the other windows in the batch.

    Args:
        config: sizes that the user chooses, an instance of `CONFIG`.
        dims: sizes that depend on the data. All columns are numeric: codes have become vectors.
        attentions: factories of the three kinds of attention; a family need not use them.
        quantiles: quantile levels to forecast, in increasing order and including the median. Empty: point forecasts.
    """

    CONFIG: ClassVar[type[ModelConfig]]
    INPUT_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the value columns."""
    CALENDAR_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the calendar marks."""
    HEAD_PARTS: ClassVar[tuple[str, ...]] = ()
    """Name prefixes of the tensors that depend on the forecast columns and quantiles."""
    LEARNS_FROM_ACTUAL: ClassVar[bool] = False
    """Whether `forward` takes one more argument in training: the actual values of the horizon [b pred_len n]."""

    head: nn.Module
    """With `CONFIG.HAS_SKIP`: the last layer; the output is zero if its parameters are."""

    @abstractmethod
    def __init__(self, config: Any, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()) -> None:
        super().__init__()
        self.quantiles = tuple(quantiles)
        self.point_at = self.quantiles.index(MEDIAN) if quantiles else None
        """Position of the point forecast in the last axis; None: the output has no such axis."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "CONFIG" in cls.__dict__:
            name = cls.CONFIG.family
            if families.setdefault(name, cls.CONFIG) is not cls.CONFIG:
                raise ValueError(f"{cls.CONFIG.__name__}.family: another family is called {name!r}")
            networks[name] = cls

    @abstractmethod
    def forward(
        self, enc_x: EncValues, enc_mark: EncMarks, dec_x: DecValues, dec_mark: DecMarks
    ) -> Float[Tensor, "b pred_len n *q"]:
        """Forecast of the targets, in the scale of the inputs, with a last axis of quantiles if the network has any.

        Args:
            enc_x, enc_mark: lookback window and its calendar marks; see `ModelDims.masked` for missing values.
            dec_x, dec_mark: last label_len rows of the lookback window followed by the horizon, and their marks. Over
                the horizon all columns are zero except those known ahead.
        """

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """Attention layers by place, in execution order; the first word of a place is a key of `SLOT_OF`."""
        return {}

    def point(self, output: Float[Tensor, "b l n *q"]) -> Float[Tensor, "b l n"]:
        """The point forecast in the output."""
        return output if self.point_at is None else output[..., self.point_at]

    def begin_step(self, done: float) -> None:
        """Called before each training step with the share of all steps done so far, 0 at the first step."""


networks: dict[str, type[Network]] = {}
"""Classes of networks by family."""


def network_class(config: ModelConfig) -> type[Network] | None:
    """The network class of a configuration; None if its models are linear maps only."""
    if config.CLOSED_FORM:
        return None
    if config.family not in networks:  # other configurations come with their networks
        importlib.import_module("informer.networks.models.informer")
    return networks[config.family]


def point(output: Float[Tensor, "b pred_len n *q"], quantiles: Sequence[float]) -> Float[Tensor, "b pred_len n"]:
    """Point forecast in a model's output: the median if it has quantiles, the mean if one follows them."""
    if not quantiles:
        return output
    return output[..., -1 if output.shape[-1] > len(quantiles) else quantiles.index(MEDIAN)]


def at_levels(
    output: Float[Tensor, "b pred_len n q"], quantiles: Sequence[float]
) -> Iterator[tuple[float, Float[Tensor, "b pred_len n"]]]:
    """Each level with its quantiles in a model's output."""
    return zip(quantiles, output.unbind(-1), strict=False)  # counts have their mean after the quantiles
