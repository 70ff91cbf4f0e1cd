"""Validation after an epoch: mean loss over the validation windows, and a figure."""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import nn

from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.models.base import model_forecast, model_output
from informer.plots import plot_windows
from informer.training.distributed import Processes
from informer.training.loss import Loss, observed_share


@torch.inference_mode()
def mean_loss(
    model: nn.Module,
    windows: Windows,
    loss: Loss,
    batch_size: int,
    *,
    processes: Processes,
    pause: Callable[[], None] = lambda: None,
) -> float:
    """Loss in eval mode with equal weight per observed value; `pause` is called between batches.

    Each process evaluates some of the batches; the result is bit-identical for any number of processes.
    """
    model.eval()
    batches = torch.arange(len(windows)).split(batch_size)
    sums = torch.zeros(len(batches), device=windows.starts.device)
    counts = torch.zeros_like(sums)
    for i in range(processes.rank, len(batches), processes.size):
        batch = windows.batch(batches[i])
        counted = observed_share(batch.target) if windows.store.has_gaps else len(batches[i])
        counts[i] = counted
        sums[i] = loss(model_output(model, batch).float(), batch.target) * counted
        pause()
    n = processes.sum(counts).sum().item() if windows.store.has_gaps else len(windows)
    return processes.sum(sums).sum().item() / n


@torch.inference_mode()
def picture(model: nn.Module, data: Data, n_windows: int = 3) -> Figure:
    """Plot forecasts and actual values of evenly spaced validation windows, in scaled units."""
    model.eval()
    batch = data.val.batch(torch.linspace(0, len(data.val) - 1, n_windows).long())
    own = [data.inputs.index(name) for name in data.targets]
    history, predicted, actual = (
        x.float().cpu().numpy() for x in (batch.enc_x[:, :, own], model_forecast(model, batch), batch.target)
    )
    return plot_windows(history, predicted, actual, data.targets, target=data.columns.main)
