"""Forecast without the network's contribution: the output of its head is set to zero.

For a model with a linear skip this is the linear map; with instance normalisation only, the mean of the window;
otherwise zero, the training mean in scaled units.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from informer.data.windows import Batch
from informer.models.base import model_forecast
from informer.models.informer import Informer


@torch.inference_mode()
def forecast_without_network(model: Informer, batch: Batch) -> Float[Tensor, "b pred_len n"]:
    """Scaled targets of a batch without the network's contribution; the model must be in eval mode."""
    with _silent_head(model):
        return model_forecast(model, batch)


@contextmanager
def _silent_head(model: Informer) -> Iterator[None]:
    hook = model.head.register_forward_hook(lambda module, inputs, output: torch.zeros_like(output))
    try:
        yield
    finally:
        hook.remove()
