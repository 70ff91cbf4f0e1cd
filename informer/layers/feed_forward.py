"""The position-wise part of a layer."""

from enum import Enum
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from informer.attention.dropout import Dropout
from informer.layers.linear import Linear


class Activation(Enum):
    """Nonlinearity of the feed-forward blocks."""

    gelu = "gelu"
    relu = "relu"


ACTIVATIONS: dict[Activation, type[nn.Module]] = {Activation.gelu: nn.GELU, Activation.relu: nn.ReLU}


@final
class FeedForward(nn.Module):
    """linear -> activation -> dropout -> linear -> dropout, row by row."""

    def __init__(self, *, d_model: int, d_ff: int, activation: Activation, dropout: float) -> None:
        super().__init__()
        self.expand = Linear(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]()
        self.contract = Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        """Transform each row."""
        return self.dropout(self.contract(self.dropout(self.activation(self.expand(x)))))
