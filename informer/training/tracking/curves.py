"""Curves and pictures after an epoch, on validation windows: interval and quantile scores, forecasts, attention maps,
weight norms, and the losses of the baselines."""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import nn

from informer.config.training import Extra
from informer.data.pipeline import Data
from informer.inference.attention_maps import attention_maps
from informer.inference.baselines import Baseline
from informer.inference.coverage import REPORTED_LEVELS, IntervalScores
from informer.inference.intervals import Calibration, residuals_of
from informer.metrics import pinball
from informer.models.base import ForecastModel, model_forecast, model_output, point, quantiles_of
from informer.plots import plot_attention, plot_windows
from informer.training.loss import Loss, observed_share
from informer.training.tracking.tracker import Tracker

MOST_WINDOWS = 512
"""Maximum number of windows per part on which intervals are tracked, evenly spaced; on a long validation part they
would otherwise take longer than the loss."""


def track_epoch(
    tracker: Tracker, model: ForecastModel, data: Data, epoch: int, *, extras: Sequence[Extra], batch_size: int
) -> None:
    """Write the curves and pictures of an epoch; leaves the model in eval mode.

    Args:
        tracker: receives them; what it does not keep is not computed.
        model: the network that is validated.
        data: its validation part is used.
        epoch: number of the epoch.
        extras: additional curves and pictures (`trainer.track_also`).
        batch_size: windows per batch.
    """
    if not tracker.is_recording:
        return
    model.eval()
    if tracker.takes_pictures:
        tracker.figure("val/forecast", forecast_figure(model, data), epoch)
    tracker.scalars(interval_curves(model, data, batch_size=batch_size), epoch)
    if Extra.weights in extras:
        norms = {f"weights/{name}": float(parameter.detach().norm()) for name, parameter in model.named_parameters()}
        tracker.scalars(norms, epoch)
    if Extra.attention in extras and tracker.takes_pictures:
        window = data.val.batch(torch.tensor([len(data.val) // 2]))
        for each in attention_maps(model, window):
            names = ["validation window"]
            figure = plot_attention(each.weights.numpy(), lengths=each.lengths, rows=names, layer_name=each.layer_name)
            tracker.figure(f"attention/{each.layer_name}", figure, epoch)


@torch.inference_mode()
def interval_curves(model: ForecastModel, data: Data, *, batch_size: int) -> dict[str, float]:
    """Coverage (percent), width and pinball loss on validation windows, scaled, by tag.

    Intervals are calibrated on the calibration windows, as at the end of the run; their pinball loss is that of their
    ends as quantiles. Empty without quantiles and calibration windows.
    """
    quantiles, calibration = quantiles_of(model), _calibration(model, data, batch_size)
    if not quantiles and calibration is None:
        return {}
    scores, losses, n = IntervalScores(quantiles, calibration), dict.fromkeys(map(str, REPORTED_LEVELS), 0.0), 0.0
    for batch in data.val.thinned(MOST_WINDOWS).batches(batch_size):
        output = model_output(model, batch).float()
        history = batch.enc_x[:, :, data.columns.positions(data.targets)]
        scores.add(output, batch.target, history, units=batch.units)
        forecast, counted = point(output, quantiles), observed_share(batch.target)
        n += counted
        observed = ~batch.target.isnan()
        for level in REPORTED_LEVELS:
            if calibration is not None and calibration.supports(level):
                half = calibration.half_width(level, history, forecast.shape[1]).to(forecast)
                ends = ((forecast - half, 0.5 - level / 200), (forecast + half, 0.5 + level / 200))
                has_ends = observed & half.isfinite()
                both = sum(pinball(end, batch.target, share)[has_ends].mean() for end, share in ends)
                losses[str(level)] += float(both) / 2 * counted
    curves: dict[str, float] = {}
    for name, means in scores.intervals.items():
        overall = means.overall()
        curves |= {f"val/coverage_{name}": overall["coverage"], f"val/width_{name}": overall["width"]}
        if name in losses:
            curves[f"val/pinball_{name}"] = losses[name] / n
    for name, means in scores.quantiles.items():
        curves[f"val/pinball_{name}"] = means.overall()["pinball"]
    return curves


@torch.inference_mode()
def forecast_figure(model: nn.Module, data: Data) -> Figure:
    """Plot forecasts and actual values of three evenly spaced validation windows, in scaled units."""
    model.eval()
    batch = data.val.batch(torch.linspace(0, len(data.val) - 1, 3).long())
    target_positions = [data.inputs.index(name) for name in data.targets]
    history, predicted, actual = (
        x.float().cpu().numpy()
        for x in (batch.enc_x[:, :, target_positions], model_forecast(model, batch), batch.target)
    )
    return plot_windows(history, predicted, actual, data.targets, target=data.columns.main)


def _calibration(model: ForecastModel, data: Data, batch_size: int) -> Calibration | None:
    if data.calibration is None:
        return None
    return residuals_of(data, batch_size)(model, data.calibration, most=MOST_WINDOWS, n_rolled=0).calibration()


@torch.inference_mode()
def reference_losses(
    baselines: Sequence[Baseline], data: Data, loss: Loss, *, n_quantiles: int, batch_size: int
) -> dict[str, float]:
    """Validation loss of each baseline, by name; with a quantile loss its forecast is scored as every quantile."""
    sums, n = dict.fromkeys((tag_of(baseline.name) for baseline in baselines), 0.0), 0.0
    for batch in data.val.batches(batch_size):
        counted = observed_share(batch.target) if data.val.store.has_gaps else len(batch.target)
        n += counted
        for baseline in baselines:
            forecast = baseline(batch)
            if n_quantiles:
                forecast = forecast.unsqueeze(-1).expand(*forecast.shape, n_quantiles)
            sums[tag_of(baseline.name)] += float(loss(forecast.float(), batch.target)) * counted
    return {name: value / n for name, value in sums.items()}


def tag_of(name: str) -> str:
    """The name without spaces, for use in a tag."""
    return name.replace(" ", "_")
