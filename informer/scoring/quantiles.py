"""Quantile forecasts, of networks and of calibrated intervals; what they are scored by; baselines that have them.

Quantile q of a calibrated forecaster is the end of its interval of level |2 q - 1|, the median the forecast itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from informer.base.quantiles import MEDIAN, central_pairs, quantile_name
from informer.data.windows import Batch, DataUnits, Windows
from informer.members.baselines import FittedBaseline, SeasonalNaive
from informer.members.network import ForecastModel, at_least_zero
from informer.networks.models.base import at_levels, point
from informer.scoring.intervals import Calibration
from informer.scoring.residuals import lag_of, residuals

DECILES = tuple(n / 10 for n in range(1, 10))
"""Levels at which forecasters without own quantiles are scored."""
MOST_WINDOWS, MOST_VALUES, LEAST_WINDOWS = 2000, 1 << 20, 100
"""Windows on which baselines are calibrated: at most so many, or so many values in total, but not fewer than the third;
of more, evenly spaced ones are used."""
COMPARED_FOR_QUANTILES = 1 << 17
"""Number of errors from which the power of their variation is selected, which takes most of the time."""
BATCH = 256
QuantileForecast = Callable[[slice], Iterable[tuple[float, Float[Tensor, "k within n"]]]]
"""Level and scaled values of each quantile for these windows of a batch, one level at a time, since all of them need
several times the memory of the forecast. There may be fewer steps than in the forecast."""


def band_cells(
    output: Float[Tensor, "b pred_len n *q"],
    actual: Float[Tensor, "b pred_len n"],
    quantiles: Sequence[float],
    halves: Mapping[int, Float[Tensor, "b steps n"]],
    units: DataUnits,
) -> dict[str, dict[str, Float[Tensor, "b pred_len n"]]]:
    """What intervals and quantiles are scored by, in scaled units before any transform of the targets; NaN where there
    is no interval or no actual value.

    Coverage in percent and width of conformal intervals by level (`80`) and of central ones by their quantiles
    (`q10_q90`); of quantiles (`q10`) pinball loss and coverage, the percentage of actual values not above.

    Args:
        output: output of the model.
        actual: actual values.
        quantiles: levels that the model forecasts.
        halves: half widths by level in percent.
        units: units of the targets.
    """
    standard, forecast, cells = units.standard, point(output, quantiles), {}

    def inside(is_inside: Tensor, width: Tensor, missing: Tensor) -> dict[str, Tensor]:
        found = {"coverage": 100.0 * is_inside.double(), "width": width.expand(is_inside.shape)}
        return {name: values.masked_fill(missing, torch.nan) for name, values in found.items()}

    for level, widths in halves.items():
        half = widths[:, : forecast.shape[1]].to(forecast)
        width = standard(forecast + half) - standard(forecast - half)
        missing = actual.isnan() | ~half.isfinite()
        cells[str(level)] = inside((forecast - actual).abs() <= half, width, missing)
    if units.constant is not None:  # these have no quantiles
        actual = actual.masked_fill(units.constant[:, None], torch.nan)
    by_level = dict(at_levels(output, quantiles)) if quantiles else {}
    for low, high in central_pairs(quantiles):
        name, ends = f"{quantile_name(low)}_{quantile_name(high)}", (by_level[low], by_level[high])
        is_inside, width = (ends[0] <= actual) & (actual <= ends[1]), standard(ends[1]) - standard(ends[0])
        cells[name] = inside(is_inside, width, actual.isnan())
    for share, values in by_level.items():
        error = standard(actual) - standard(values)
        below = (100.0 * (actual <= values).double()).masked_fill(actual.isnan(), torch.nan)
        cells[quantile_name(share)] = {"pinball": torch.maximum(share * error, (share - 1) * error), "coverage": below}
    return cells


def model_quantiles(
    model: ForecastModel,
    output: Float[Tensor, "b within n *q"],
    calibration: Calibration | None,
    history: Float[Tensor, "b seq_len n"],
    units: DataUnits,
    series: Int[Tensor, " b"],
) -> QuantileForecast | None:
    """Quantiles that a model forecasts, or deciles from its intervals; None without either.

    Args:
        output: output of the model.
        calibration, history, units, series: see `calibrated_quantiles`.
    """
    if model.quantiles:
        return lambda windows: at_levels(output[windows], model.quantiles)
    return calibrated_quantiles(calibration, output, history, units, series, non_negative=model.non_negative)


def calibrated_quantiles(
    calibration: Calibration | None,
    forecast: Float[Tensor, "b within n"],
    history: Float[Tensor, "b seq_len n"],
    units: DataUnits,
    series: Int[Tensor, " b"] | None = None,
    *,
    levels: Sequence[float] = DECILES,
    non_negative: Sequence[int] = (),
) -> QuantileForecast | None:
    """Quantiles from intervals; None if the calibration lacks windows, or intervals of whole percentages, for them.

    Args:
        calibration: half widths for at least as many steps as there are in `forecast`.
        forecast, history: scaled forecast and history of the targets.
        units: units of the targets.
        series: see `Calibration.half_width`.
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
        percent: calibration.half_width(level, history, steps, series=series).to(forecast)
        for percent, level in intervals.items()
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
class Baseline:
    """A baseline next to a model, clipped at zero like it so that clipping does not decide the comparison.

    Args:
        fitted: the fitted baseline.
        places: indices of the targets whose forecasts are at least zero in data units.
        calibration: of its errors on windows that it was not fitted on; None: no quantiles.
        levels: levels of its quantiles.
    """

    fitted: FittedBaseline
    places: tuple[int, ...] = ()
    calibration: Calibration | None = None
    levels: Sequence[float] = DECILES

    @property
    def name(self) -> str:
        """Name in reports."""
        return self.fitted.name

    @property
    def note(self) -> str:
        """How it was fitted, and the clipping."""
        return f"{self.fitted.note}; not below zero where the model is not" if self.places else self.fitted.note

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        forecast = self.fitted(batch)
        return at_least_zero(forecast, batch.units, self.places) if self.places else forecast

    def quantiles(self, batch: Batch, forecast: Float[Tensor, "b within n"]) -> QuantileForecast | None:
        """Quantiles around its forecast."""
        history = batch.enc_x[:, :, list(self.fitted.positions)]
        return calibrated_quantiles(
            self.calibration, forecast, history, batch.units, batch.series, levels=self.levels,
            non_negative=self.places,
        )  # fmt: skip

    def calibrated(self, fitted_on: Sequence[Windows], later: Sequence[Windows], *, season: int) -> "Baseline":
        """The same with a calibration from windows that it was not fitted on: the later ones, and for the seasonal
        naive, whose season is all that is fitted, the others too.

        Args:
            fitted_on, later: windows of one store, on which ridge was fitted and not.
            season: usual season of the time step.
        """
        parts = [*fitted_on, *later] if isinstance(self.fitted, SeasonalNaive) else later
        if not sum(map(len, parts)):
            return self
        windows, positions = parts[0].at(torch.cat([part.starts for part in parts])), self.fitted.positions
        most = MOST_VALUES // (windows.sizes.pred_len * len(positions))
        windows = windows.thinned(min(max(most, LEAST_WINDOWS), MOST_WINDOWS))
        lag = lag_of(season, windows.sizes.seq_len)
        errors = residuals(self, windows, batch_size=BATCH, lag=lag, targets=positions)
        return replace(self, calibration=errors.calibration(COMPARED_FOR_QUANTILES))
