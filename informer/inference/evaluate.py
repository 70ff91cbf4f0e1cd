"""Errors of a forecaster over windows, and of two baselines over exactly the same windows."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.data.pipeline import Data
from informer.data.store import row_blocks
from informer.data.windows import Batch, Windows
from informer.errors import InputError
from informer.inference.baselines import RidgeForecast, SeasonalNaive, fit_ridge, seasonal_naive
from informer.inference.conformal import Calibration
from informer.inference.coverage import Spread
from informer.inference.network import model_output, point, quantiles_of
from informer.inference.report import Evaluation
from informer.metrics import Errors, MaseScale, seasonal_scale

Forecast = Callable[[Batch], Float[Tensor, "b pred_len n"]]
"""Scaled targets for a batch; must not look at `batch.target` but for its shape."""


@torch.inference_mode()
def evaluate(
    forecast: Forecast,
    windows: Windows,
    *,
    mase_scale: MaseScale,
    batch_size: int = 256,
) -> Errors:
    """Errors over every window once, in order; the batch size changes speed and memory, not the result.

    Args:
        forecast: from a batch to scaled targets; a model must be in eval mode already.
        windows: what to forecast.
        mase_scale: see `training_scale`.
        batch_size: windows at once.

    Raises:
        InputError: there are no windows.
    """
    if not len(windows):
        raise InputError("evaluation: expected at least one window, found none; use more rows or a shorter seq_len")
    errors = Errors(mase_scale)
    for batch in windows.batches(batch_size):
        errors.add(forecast(batch), batch.target, center=batch.center, scale=batch.scale)
    return errors


def training_scale(data: Data) -> MaseScale:
    """Denominators of MASE for each target, over the training rows of every series."""
    season, targets = data.frequency.season, data.columns.positions(data.targets)

    def rows(*, scaled: bool) -> Iterator[Tensor]:
        for series, split in zip(data.panel, data.splits, strict=True):
            training = series.values[split.train.start : split.train.stop]
            scaler = data.scaler.of(series.name, training)
            # blocks that share a season, so that each step back is in one of them
            for block in row_blocks(training, shared=season):
                yield torch.from_numpy((scaler.transform(block) if scaled else block)[:, targets])

    return MaseScale(*(seasonal_scale(rows(scaled=scaled), season) for scaled in (True, False)))


def compare(
    forecast: Forecast, windows: Windows, *, data: Data, name: str = "informer", batch_size: int = 256
) -> Evaluation:
    """The forecaster beside a seasonal naive and a ridge baseline, all on `windows`.

    Args:
        forecast: the model, in eval mode.
        windows: what to score on, as a rule `data.test`.
        data: its training part fits ridge and gives MASE its scale, its validation part chooses the penalty.
        name: what to call the model in the report.
        batch_size: windows at once.

    Raises:
        InputError: a part without windows.
    """
    positions = data.columns.positions(data.targets)
    baselines: list[SeasonalNaive | RidgeForecast] = [
        seasonal_naive(data.frequency.season, positions, seq_len=data.sizes.seq_len),
        fit_ridge(data.train, data.val, positions),
    ]
    forecasts: dict[str, Forecast] = {name: forecast} | {baseline.name: baseline for baseline in baselines}
    scale = training_scale(data)
    errors = {key: evaluate(each, windows, mase_scale=scale, batch_size=batch_size) for key, each in forecasts.items()}
    return Evaluation(
        model=name, columns=data.targets, errors=errors, notes=tuple(baseline.note for baseline in baselines)
    )


def score(model: nn.Module, data: Data, *, batch_size: int, calibration: Calibration | None = None) -> Evaluation:
    """The model, its intervals and quantiles, and the baselines on the test part; the model is put into eval mode."""
    model.eval()
    quantiles = quantiles_of(model)
    spread = Spread(quantiles, calibration)

    def forecast(batch: Batch) -> Tensor:
        output = model_output(model, batch)
        spread.add(output, batch.target)
        return point(output, quantiles)

    evaluation = compare(forecast, data.test, data=data, batch_size=batch_size)
    return replace(evaluation, intervals=spread.intervals, quantiles=spread.quantiles)
