"""Evaluate a forecaster and two baselines on the same windows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from informer.data.pipeline import Data
from informer.data.store import row_blocks
from informer.data.windows import Batch, Windows
from informer.errors import InputError, listed
from informer.inference.baselines import Baseline, FittedBaseline, bounded, fit_ridge
from informer.inference.coverage import IntervalScores
from informer.inference.evaluation import Evaluation
from informer.inference.intervals import Calibration
from informer.inference.quantile_forecasts import CalibratedBaseline, calibrate, model_quantiles
from informer.inference.season import best_seasonal_naive
from informer.linear.fold import effects_of
from informer.metrics import Errors, MaseScale, seasonal_scale
from informer.models.base import ForecastModel, model_output, point

ForecastFunction = Callable[[Batch], Float[Tensor, "b pred_len n"]]
"""Scaled targets for a batch; must not use `batch.target` except for its shape."""


@torch.inference_mode()
def evaluate(
    forecast: ForecastFunction,
    windows: Windows,
    *,
    mase_scale: MaseScale,
    batch_size: int = 256,
) -> Errors:
    """Errors over all windows; the batch size affects speed and memory, not the result.

    Args:
        forecast: maps a batch to scaled targets; a model must already be in eval mode. Quantiles of a calibrated
            baseline are scored too.
        windows: windows to forecast.
        mase_scale: see `training_scale`.
        batch_size: windows per batch.

    Raises:
        InputError: there are no windows.
    """
    if not len(windows):
        raise InputError("evaluation: expected at least one window, found none; use more rows or a shorter seq_len")
    errors = Errors(mase_scale)
    for batch in windows.batches(batch_size):
        ahead = forecast(batch)
        quantiles = forecast.quantiles(batch, ahead) if isinstance(forecast, CalibratedBaseline) else None
        errors.add(ahead, batch.target, batch.units, quantiles)
    return errors


def training_scale(data: Data) -> MaseScale:
    """Denominators of MASE for each target, over the training rows of every series."""
    season, targets = data.frequency.season, data.columns.positions(data.targets)

    def rows(*, scaled: bool) -> Iterator[Tensor]:
        for series, split in zip(data.panel, data.splits, strict=True):
            training = series.values[split.train.start : split.train.stop]
            scaler = data.scaler.of(series.name, training)
            # blocks that overlap by a season, so that each seasonal difference is in one of them
            for block in row_blocks(training, shared=season):
                yield torch.from_numpy((scaler.standard(block) if scaled else block)[:, targets])

    return MaseScale(*(seasonal_scale(rows(scaled=scaled), season) for scaled in (True, False)))


def fit_baselines(data: Data) -> list[FittedBaseline]:
    """Fit the baselines on the training part; season and penalty are chosen on validation."""
    positions = data.columns.positions(data.targets)
    return [
        best_seasonal_naive(data),
        fit_ridge(data.train, data.val, positions, known=effects_of(data)),
    ]


def compare(
    forecast: ForecastFunction,
    windows: Windows,
    *,
    data: Data,
    name: str = "informer",
    batch_size: int = 256,
    baselines: Sequence[Baseline | CalibratedBaseline] | None = None,
) -> Evaluation:
    """Compare a forecaster with baselines on the same windows.

    Args:
        forecast: the model, in eval mode.
        windows: windows to score on, usually `data.test`.
        data: its training part fits the baselines and the denominators of MASE, its validation part selects season
            and penalty.
        name: name of the model in the report.
        batch_size: windows per batch.
        baselines: fitted baselines, whose quantiles are scored if they are calibrated; None: `fit_baselines(data)`.

    Raises:
        InputError: a part without windows.
    """
    baselines = fit_baselines(data) if baselines is None else baselines
    scale = training_scale(data)
    errors = evaluate(forecast, windows, mase_scale=scale, batch_size=batch_size)
    return _compared({name: errors}, windows, data=data, mase_scale=scale, batch_size=batch_size, baselines=baselines)


def _compared(
    own: dict[str, Errors],
    windows: Windows,
    *,
    data: Data,
    mase_scale: MaseScale,
    batch_size: int,
    baselines: Sequence[Baseline | CalibratedBaseline],
) -> Evaluation:
    """Compare the errors of a model, by its name, with those of baselines."""
    errors = {each.name: evaluate(each, windows, mase_scale=mase_scale, batch_size=batch_size) for each in baselines}
    several = len(data.panel) > 1
    return Evaluation(
        model=next(iter(own)),
        columns=data.targets,
        errors=own | errors,
        notes=(*(baseline.note for baseline in baselines), *_notes(data)),
        series=[series.name for series in data.panel] if several else (),
        owners=windows.series(torch.arange(len(windows))).cpu().numpy() if several else np.empty(0, dtype=np.int64),
        block=data.sizes.pred_len,
    )


def _notes(data: Data) -> Iterator[str]:
    """A note if targets are constant, and if roots of targets are modelled."""
    if note := data.scaler.constant_note(data.columns):
        yield note
    positions = data.columns.positions(data.targets)
    for root in data.scaler.roots(positions):
        names = [name for name, place in zip(data.targets, positions, strict=True) if data.scaler.root(place) == root]
        yield (
            f"fitted to the {root} of {listed(names)} (scaler.transform), whose fluctuations depend less on the level; "
            "forecasts, intervals and errors are of the values themselves"
        )


def score(
    model: ForecastModel,
    data: Data,
    *,
    batch_size: int,
    calibration: Calibration | None = None,
    baselines: Sequence[CalibratedBaseline] | None = None,
) -> Evaluation:
    """Score the model, its intervals and quantiles, and the baselines on the test part; sets eval mode.

    Args:
        model, data: the model and the data of its run.
        batch_size: windows per batch.
        calibration: calibration of the model's intervals, if any.
        baselines: see `baselines_for`, which is called without them.

    Raises:
        InputError: a part without windows.
    """
    model.eval()
    baselines = baselines_for(model, data) if baselines is None else baselines
    spread = IntervalScores(model.quantiles, calibration)
    scale, targets = training_scale(data), data.columns.positions(data.targets)
    errors = Errors(scale)
    with torch.inference_mode():
        for batch in data.test.batches(batch_size):
            output, history = model_output(model, batch), batch.enc_x[:, :, targets]
            spread.add(output, batch.target, history, units=batch.units)
            quantiles = model_quantiles(model, output, calibration, history, batch.units)
            errors.add(point(output, model.quantiles), batch.target, batch.units, quantiles)
    evaluation = _compared(
        {model.family: errors}, data.test, data=data, mase_scale=scale, batch_size=batch_size, baselines=baselines
    )
    return replace(evaluation, intervals=spread.intervals, quantiles=spread.quantiles)


def baselines_for(
    model: ForecastModel, data: Data, fitted: Sequence[FittedBaseline] | None = None
) -> list[CalibratedBaseline]:
    """Baselines for the comparison with a model: clipped at zero where it is, with quantiles of the same levels.

    Args:
        fitted: fitted baselines; None: `fit_baselines(data)`.
    """
    clipped = bounded(fit_baselines(data) if fitted is None else fitted, model)
    return calibrate(clipped, data, model.quantiles)
