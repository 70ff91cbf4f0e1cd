"""Sizes and parts of a network that a user chooses: what all families have, and those of the Informer.

A family's other sizes stand next to its network. Nothing here imports torch, so that lists of settings need none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal


def size(default: Any, help: str = "", **bounds: float) -> Any:
    """A field of a configuration.

    Args:
        default: its value if it is not set, or a function that makes one.
        help: one line for the user.
        bounds: `ge`, `gt`, `le` and `lt` bound a number.
    """
    made = {"default_factory" if callable(default) else "default": default}
    return field(**made, metadata={"description": help, **bounds})


Activation = Literal["gelu", "relu"]
"""Nonlinearity of the feed-forward blocks."""


CalendarEmbed = Literal["timeF", "fixed", "learned", "none"]
"""How calendar marks enter the model. timeF: real numbers in [-0.5, 0.5], embedded by one linear map. fixed: integer
fields, each embedded by a sinusoidal table. learned: by a learned table. none: no marks, so the model knows positions
in the window but no dates, and cannot memorise events by date."""


EmbedPadding = Literal["circular", "causal"]
"""Which rows the embedding of a row reads besides it. circular: the row before and the row after, where the first and
the last row are neighbours, as in the authors' code. causal: the two rows before."""


LinearSkip = Literal["none", "ridge"]
"""A linear map from each target's lookback window to its forecast, added to the network's output. ridge: fitted before
training and fixed, so that the network learns the residuals."""


Shortening = Literal["conv", "max", "avg", "strided", "none", "funnel", "eliminate"]
"""How the sequence is halved between encoder layers; defined in `informer.networks.layers.encoder`."""


Decoding = Literal["one_pass", "step"]
"""How the decoder forecasts the rows of the horizon. one_pass: all in one pass, from the start token and the calendar
marks of the horizon. step: one token after the other, each with the forecasts before it appended to the start token."""


@dataclass(kw_only=True)
class ModelConfig:
    """Keys of the node `model` that all families have; each family has a subclass with its own sizes."""

    family: str = size("informer", "Family of networks; chosen with model=NAME.")
    embed: CalendarEmbed = size("timeF", "How calendar marks are embedded; none: no calendar.")
    offset: int = size(0, "Rows between lookback window and horizon, which are neither read nor forecast.")
    skip: LinearSkip = size("none", "ridge: the network learns the residuals of ridge regression.")
    instance_norm: bool = size(False, "Normalise each window by its own mean and deviation, and undo it afterwards.")
    patch_len: int = size(1, "Rows per token; must divide seq_len, label_len and pred_len.", ge=1)
    series_embedding: int = size(0, "Width of a learned vector per series, appended to every row; 0: none.", ge=0)
    channel_independent: bool = size(False, "Forecast each target from its own lookback window, with one network.")

    HAS_SKIP: ClassVar[bool] = False
    """Whether the family has a linear skip."""
    CLOSED_FORM: ClassVar[bool] = False
    """Whether the family is fitted in closed form and needs no training steps."""

    @property
    def is_fitted_first(self) -> bool:
        """Whether something is fitted before the first step that can forecast without the network."""
        return self.CLOSED_FORM or self.skip == "ridge"

    @property
    def step_rows(self) -> int:
        """Rows of the horizon in a step of decoding, whose forecasts the next step reads; 0: all rows at once."""
        return 0

    @property
    def n_layers(self) -> int:
        """Number of layers; a checkpoint contains at least as many weights."""
        return 0

    def problems(self) -> Iterator[str]:
        """One sentence for each problem of several sizes together, and those that no range describes."""
        if self.skip != "none" and not self.HAS_SKIP:
            yield f"model.skip: expected none with model.family={self.family}, found {self.skip}"
        for name in ("instance_norm", "patch_len", "series_embedding", "channel_independent"):
            value, usual = getattr(self, name), getattr(ModelConfig, name)
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


@dataclass(kw_only=True)
class InformerConfig(ModelConfig):
    """The Informer; the defaults are the paper's size."""

    HAS_SKIP: ClassVar[bool] = True

    d_model: int = size(512, "Width of every layer.", ge=1)
    n_heads: int = size(8, "Attention heads; must divide d_model.", ge=1)
    d_ff: int = size(2048, "Hidden width of the feed-forward blocks.", ge=1)
    encoder_stacks: list[int] = size(lambda: [2], "Layers of each encoder stack; [3,2,1]: the pyramid.")
    stack_fractions: list[float] | None = size(
        None, "Share of the lookback window that each stack reads, such as [1,0.25]; null: 1, 1/2, 1/4, ..."
    )
    decoder_layers: int = size(1, "Number of decoder layers.", ge=1)
    decoding: Decoding = size(
        "one_pass",
        "one_pass: the whole horizon at once. step: token by token, each fed the forecasts before it.",
    )
    dropout: float = size(0.05, "Share of values set to zero in training.", ge=0, lt=1)
    activation: Activation = size("gelu", "Nonlinearity of the feed-forward blocks.")
    distil: Shortening = size("conv", "How the sequence is halved between encoder layers.")
    distil_norm: bool = size(True, "BatchNorm in distil=conv, as in the authors' code; the paper's formula has none.")
    global_tokens: int = size(
        0, "Learned tokens of each encoder stack; needs attn=etc or bigbird_etc with attn.n_global=0.", ge=0
    )
    embed_padding: EmbedPadding = size(
        "circular", "Rows that the embedding of a row reads: with causal, none after it."
    )
    mix: bool = size(False, "Merge the heads of decoder self-attention in transposed order, as the authors' code.")
    gate: bool = size(False, "Gate the output of every attention layer, by a sigmoid of the rows that ask.")
    activation_checkpointing: bool = size(
        False, "Store only the input of every layer and compute it again backward: less memory, slower."
    )

    @property
    def step_rows(self) -> int:
        """See `ModelConfig`."""
        return self.patch_len if self.decoding == "step" else 0

    @property
    def n_layers(self) -> int:
        """Layers of encoder stacks and decoder together."""
        return sum(self.encoder_stacks) + self.decoder_layers

    def problems(self) -> Iterator[str]:
        """See `ModelConfig`."""
        yield from super().problems()
        if not self.encoder_stacks:
            yield "model.encoder_stacks: expected at least one stack, found []"
        if any(n < 1 for n in self.encoder_stacks):
            yield f"model.encoder_stacks: expected at least 1 layer in each stack, found {list(self.encoder_stacks)}"
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


families: dict[str, type[ModelConfig]] = {"informer": InformerConfig}
"""Configurations by family; those of other families are here once their networks are imported."""
