"""A batch through a network."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from informer.data.windows import Batch
from informer.model import Informer
from informer.quantiles import MEDIAN


def model_output(model: nn.Module, batch: Batch) -> Float[Tensor, "b pred_len n *q"]:
    """All that a network says of a batch, scaled; the one place that feeds a batch to a model."""
    return model(batch.enc_x, batch.enc_mark, batch.dec_x, batch.dec_mark)


def model_forecast(model: nn.Module, batch: Batch) -> Float[Tensor, "b pred_len n"]:
    """Scaled targets of a batch."""
    return point(model_output(model, batch), quantiles_of(model))


def quantiles_of(model: nn.Module) -> tuple[float, ...]:
    """Levels of the quantiles that a network gives; none of one that gives a single value for each column."""
    return model.quantiles if isinstance(model, Informer) else ()


def point(output: Float[Tensor, "b pred_len n *q"], quantiles: Sequence[float]) -> Float[Tensor, "b pred_len n"]:
    """The forecast itself: the median, where a network of these quantiles gave `output`."""
    return output[..., quantiles.index(MEDIAN)] if quantiles else output
