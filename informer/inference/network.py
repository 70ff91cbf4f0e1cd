"""A batch through a network."""

from torch import Tensor, nn

from informer.data.windows import Batch


def model_forecast(model: nn.Module, batch: Batch) -> Tensor:
    """Scaled targets [b pred_len n_targets] of a batch; the one place that feeds a batch to a model."""
    return model(batch.enc_x, batch.enc_mark, batch.dec_x, batch.dec_mark)
