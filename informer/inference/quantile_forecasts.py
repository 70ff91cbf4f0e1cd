"""Quantile forecasts, of networks with quantiles and of calibrated intervals, and the calibration of baselines.

Quantile q of a calibrated forecaster is the end of its interval of level |2 q - 1|, the median the forecast itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from informer.data.pipeline import Data
from informer.data.windows import Batch, Windows
from informer.inference.baselines import Baseline, NonNegative, SeasonalNaive
from informer.inference.intervals import Calibration, lag_of, residuals
from informer.metrics import QuantileForecast
from informer.models.base import ForecastModel, at_least_zero
from informer.quantiles import MEDIAN
from informer.units import Units

DECILES = tuple(n / 10 for n in range(1, 10))
"""Levels at which forecasters without own quantiles are scored."""

MOST_WINDOWS, MOST_VALUES, LEAST_WINDOWS = 2000, 1 << 20, 100
"""Windows on which baselines are calibrated: at most so many, or so many values in total, but not fewer than the third;
of more, evenly spaced ones are used."""

COMPARED = 1 << 17
"""Number of errors from which the power of their variation is selected, which takes most of the time."""

BATCH = 256


def model_quantiles(
    model: ForecastModel,
    output: Float[Tensor, "b within n *q"],
    calibration: Calibration | None,
    history: Float[Tensor, "b seq_len n"],
    units: Units,
) -> QuantileForecast | None:
    """Quantiles that a model forecasts, or deciles from its intervals; None without either.

    Args:
        output: output of the model.
        calibration, history, units: see `calibrated_quantiles`.
    """
    if model.quantiles:
        return lambda windows: zip(model.quantiles, output[windows].unbind(-1), strict=True)
    return calibrated_quantiles(calibration, output, history, units, non_negative=model.non_negative)


def calibrated_quantiles(
    calibration: Calibration | None,
    forecast: Float[Tensor, "b within n"],
    history: Float[Tensor, "b seq_len n"],
    units: Units,
    *,
    levels: Sequence[float] = DECILES,
    non_negative: Sequence[int] = (),
) -> QuantileForecast | None:
    """Quantiles from intervals; None if the calibration lacks windows, or intervals of whole percentages, for them.

    Args:
        calibration: half widths for at least as many steps as there are in `forecast`.
        forecast, history: scaled forecast and history of the targets.
        units: units of the targets.
        levels: levels of the quantiles.
        non_negative: positions of the targets whose quantiles are at least zero in data units.
    """
    percents = [round(abs(200 * level - 100), 4) for level in levels]
    intervals = {percent: int(percent) for percent in percents if percent}
    if calibration is None or any(
        percent != level or not calibration.supports(level) for percent, level in intervals.items()
    ):
        return None
    steps = forecast.shape[1]
    halves = {
        percent: calibration.half_width(level, history, steps).to(forecast) for percent, level in intervals.items()
    }

    def quantiles(windows: slice) -> Iterator[tuple[float, Tensor]]:
        center, part = forecast[windows], units.mapped(itemgetter(windows))
        for level, percent in zip(levels, percents, strict=True):
            if not percent:
                yield level, center
                continue
            half = halves[percent][windows]
            values = torch.where(half.isfinite(), center + half if level > MEDIAN else center - half, center)
            yield level, at_least_zero(values, part, non_negative) if non_negative else values

    return quantiles


@final
@dataclass(frozen=True, eq=False, slots=True)
class CalibratedBaseline:
    """A baseline with quantiles.

    Args:
        baseline: the fitted baseline, clipped like the model.
        calibration: of its errors on windows that it was not fitted on; None: no quantiles.
        levels: levels of its quantiles.
    """

    baseline: Baseline
    calibration: Calibration | None = None
    levels: Sequence[float] = DECILES

    @property
    def name(self) -> str:
        """Name in reports."""
        return self.baseline.name

    @property
    def note(self) -> str:
        """How it was fitted."""
        return self.baseline.note

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        return self.baseline(batch)

    def quantiles(self, batch: Batch, forecast: Float[Tensor, "b within n"]) -> QuantileForecast | None:
        """Quantiles around its forecast."""
        fitted, places = (
            (self.baseline.baseline, self.baseline.places)
            if isinstance(self.baseline, NonNegative)
            else (self.baseline, ())
        )
        return calibrated_quantiles(
            self.calibration, forecast, batch.enc_x[:, :, list(fitted.positions)], batch.units,
            levels=self.levels, non_negative=places,
        )  # fmt: skip


def calibrate(baselines: Sequence[Baseline], data: Data, levels: Sequence[float] = ()) -> list[CalibratedBaseline]:
    """Calibrate baselines of `fit_baselines` on windows that they were not fitted on: those of validation and
    calibration, and for the seasonal naive, whose season is all that is fitted, those of training too.

    Args:
        baselines: clipped like the model.
        data: the data they were fitted on.
        levels: levels of the model's own quantiles; empty: DECILES.
    """
    later = [data.val] if data.calibration is None else [data.val, data.calibration]
    return calibrated(baselines, [data.train], later, season=data.frequency.season, levels=levels)


def calibrated(
    baselines: Sequence[Baseline],
    fitted_on: Sequence[Windows],
    later: Sequence[Windows],
    *,
    season: int,
    levels: Sequence[float] = (),
) -> list[CalibratedBaseline]:
    """See `calibrate`.

    Args:
        fitted_on, later: windows of one store, on which ridge was fitted and not.
        season: usual season of the time step.
    """
    result = []
    for baseline in baselines:
        fitted = baseline.baseline if isinstance(baseline, NonNegative) else baseline
        parts = [*fitted_on, *later] if isinstance(fitted, SeasonalNaive) else later
        calibration = None
        if sum(map(len, parts)):
            windows = _evenly_spaced(parts, len(fitted.positions))
            lag = lag_of(season, windows.sizes.seq_len)
            errors = residuals(baseline, windows, batch_size=BATCH, lag=lag, targets=fitted.positions)
            calibration = errors.calibration(COMPARED)
        result.append(CalibratedBaseline(baseline, calibration, tuple(levels) or DECILES))
    return result


def _evenly_spaced(parts: Sequence[Windows], n: int) -> Windows:
    """Windows of these parts; `n` is the number of targets."""
    windows = parts[0].at(torch.cat([part.starts for part in parts]))
    most = MOST_VALUES // (windows.sizes.pred_len * n)
    return windows.thinned(min(max(most, LEAST_WINDOWS), MOST_WINDOWS))
