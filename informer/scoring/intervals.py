"""Intervals around a forecast by conformal prediction with locally scaled errors (Lei et al. 2018, "Distribution-Free
Predictive Inference for Regression", section 5.2).

The half width of a level is, for each step and column, the ceil((n + m) level)-th smallest of n absolute errors on
calibration windows, which are used neither for fitting nor for model selection, or the largest. m is 1 for windows far
apart; k steps ahead those less than INDEPENDENT k rows apart have similar errors, and m is the number of windows that
count as one. Errors are divided by how much each window's history varies, and by how large those of its series are. The
interval covers the level's share of actual values if these are distributed as in the calibration windows; drifting
series make this approximate. Errors are scaled, so each series has intervals in its own units.

Windows whose history does not vary are calibrated separately (Mondrian conformal prediction, V. Vovk et al. 2005,
"Algorithmic Learning in a Random World", section 4.5): before a product is launched every error is zero, which says
nothing about the time after it. A column without any error has no intervals.

Coverage and width of intervals, coverage and pinball loss of quantiles, over many windows.

Quantile forecasts, of networks with quantiles and of calibrated intervals, and the calibration of baselines.

Quantile q of a calibrated forecaster is the end of its interval of level |2 q - 1|, the median the forecast itself.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from operator import itemgetter
from typing import TypeVar, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from informer.base.errors import InputError
from informer.base.quantiles import MEDIAN, central_pairs, quantile_name
from informer.checkpoint.format import Checkpoint
from informer.data.dataset import Data
from informer.data.windows import Batch, DataUnits, Windows
from informer.networks.forecast_model import ForecastModel, at_least_zero, model_forecast
from informer.networks.models.base import at_levels, point
from informer.scoring.baselines import FittedBaseline, SeasonalNaive
from informer.scoring.recursion import with_forecast_history

DOES_NOT_FIT = "checkpoint: its calibration does not fit the model"
NOTHING_LEARNED = "no calibration window with a varying history had an error, so the widths are not known"

LEVELS = range(1, 100)
"""Percent; whole numbers, so that a checkpoint can store all of them."""

MAX_NUMBERS = 1 << 27
"""Number of errors sorted at once; more windows are thinned evenly."""


POWERS = (0.5, 0.25, 0.75, 0.0, 1.0)
"""Candidate powers of a window's variation."""

CHOSEN_AT = (80, 95)
"""Levels of the intervals whose score selects the power."""

COMPARED = 1 << 23
"""Number of errors from which the power is selected; of more, of a thousand columns, evenly spaced windows are used."""

LEAST = 0.05
"""Added to the variation of every window, relative to the usual one: errors after a constant history are not zero."""

ROUNDING = 1e-6
"""Scaled errors up to this size are rounding errors."""

MOST_RECENT = 1000
"""Maximum number of test windows in the calibration of forecasts after the end of the data."""

MOST_ROLLED, ROLLED_ROWS, ROLLED_BLOCKS = 256, 64, 4
"""Calibration windows that are forecast recursively; this many rows, or blocks of pred_len rows if that is more."""

MOST_HALF_WIDTHS = 1 << 22
"""Maximum number of half widths that include recursive steps, 16 MiB; a larger model has fewer such steps, or none."""

INDEPENDENT = 2
"""Rows between windows with independent errors, per step ahead."""

PSEUDO_WINDOWS = 4
"""Windows with errors of the usual size that are added to those of each series, to find how large its errors are."""

RECENT = "recent."
"""Prefix, in a scored checkpoint, of the calibration that includes test errors."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Unit of a window's errors: how much its history varies, relative to the usual variation.

    unit = factor ((mean |x_t - x_(t - lag)| + LEAST usual) / ((1 + LEAST) usual))^power over the window's history. The
    mean is the error of a seasonal naive forecast, in which seasons cancel. Above the largest variation of the
    calibration windows the unit is proportional to the variation, since nothing is known there but the scale.

    Args:
        lag: rows of a season; 1 if the history does not contain two seasons.
        power: 0: the same widths for all windows; 1: widths proportional to the variation.
        median, largest: median and maximum of the variation of each target over the calibration windows that vary,
            scaled; 0 without such windows.
        factors: factor of each training series, by number. None: 1, as for series that training did not contain.
    """

    lag: int
    power: float
    median: Float[Tensor, " n"]
    largest: Float[Tensor, " n"]
    factors: Float[Tensor, "s n"] | None = None

    def unit(
        self, differences: Float[Tensor, "b n"], series: Int[Tensor, " b"] | None = None
    ) -> Float[Tensor, "b 1 n"]:
        """Units of windows with these `differences`, of these training series; 1 where no difference is observed."""
        usual, largest = self.median.to(differences), self.largest.to(differences)
        known = differences.minimum(largest)
        relative = (known + LEAST * usual) / ((1 + LEAST) * usual)
        unit = relative**self.power * (differences / known).nan_to_num(1.0)
        unit = torch.where((usual > 0) & ~differences.isnan(), unit, 1.0)
        if series is not None and self.factors is not None:
            factors = F.pad(self.factors, (0, 0, 0, 1), value=1.0).to(unit)
            last = len(self.factors)
            unit = unit * factors[torch.where((series >= 0) & (series < last), series, last).to(unit.device)]
        return unit[:, None]


def differences(history: Float[Tensor, "b seq_len n"], lag: int) -> Float[Tensor, "b n"]:
    """Mean absolute difference of observed rows `lag` apart; NaN without any."""
    absolute = (history[:, lag:] - history[:, :-lag]).abs()
    means = absolute.mean(dim=1)
    return torch.where(means.isnan(), absolute.nanmean(dim=1), means)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Half widths of conformal intervals, for pred_len rows and, with enough windows, for rows forecast recursively.

    Args:
        windows: largest number n of errors of a column, at its first step.
        half_widths: scaled half widths by level, for a window of usual variation; infinite where there is no interval:
            n is too small for the level, or the column has no errors to learn from.
        variation: scales the half widths by window.
        still: half widths after a history without variation, which are not scaled.
    """

    windows: int
    half_widths: Float[Tensor, "99 steps n"]
    variation: Variation
    still: Float[Tensor, "99 steps n"]

    def half_width(
        self,
        level: int,
        history: Float[Tensor, "b seq_len n"],
        steps: int | None = None,
        constant: Bool[Tensor, "b n"] | None = None,
        series: Int[Tensor, " b"] | None = None,
    ) -> Float[Tensor, "b steps n"]:
        """Scaled half widths of the interval of a level in percent, after this scaled history of the targets.

        Args:
            level: in percent; see `check`.
            history: on any device, which is that of the result.
            steps: only the first steps.
            constant: targets without intervals as long as they do not vary; see `DataUnits`.
            series: numbers of the training series, see `Batch`; None: new series.
        """
        variation = differences(history, self.variation.lag)
        varying, still = (table[level - 1, :steps].to(variation) for table in (self.half_widths, self.still))
        if constant is not None:
            still = still.where(~constant[:, None], torch.inf)
        return torch.where((variation == 0)[:, None], still, varying * self.variation.unit(variation, series))

    def check(self, level: int) -> None:
        """Raise an InputError if the level is not a whole percentage, or no column has an interval of this level."""
        if not isinstance(level, Integral) or level not in LEVELS:
            raise InputError(f"intervals: expected whole percentages from 1 to 99, found {level}")
        if self.supports(level):
            return
        if not self.is_learned.any():
            raise InputError(f"intervals={level}: {NOTHING_LEARNED}; leave intervals out, or train on rows that vary")
        raise InputError(
            f"intervals={level}: expected at least {min_windows(level)} calibration windows, the model had "
            f"{self.windows}; choose a lower level, or train with a longer validation part (dataset.split.val)"
        )

    def supports(self, level: int) -> bool:
        """Whether some column has intervals of this level."""
        return bool(self._finite[level - 1, 0].any())

    @property
    def _finite(self) -> Bool[Tensor, "99 steps n"]:
        return self.half_widths.isfinite() | self.still.isfinite()

    @property
    def is_learned(self) -> Bool[Tensor, " n"]:
        """Which columns have intervals."""
        return self._finite[0, 0]

    def steps(self, level: int) -> int:
        """Number of steps with intervals of a level."""
        return int(self._finite[level - 1].any(dim=1).sum())

    def state(self) -> dict[str, Tensor]:
        """Tensors to store in a checkpoint."""
        return {
            "windows": torch.tensor(self.windows),
            "half_widths": self.half_widths,
            "still": self.still,
            "lag": torch.tensor(self.variation.lag),
            "power": torch.tensor(self.variation.power),
            "usual": self.variation.median,
            "largest": self.variation.largest,
            **({} if self.variation.factors is None else {FACTORS: self.variation.factors}),
        }


FACTORS = "factors"
"""Entry of the state with the factors of a panel's series."""
Count = TypeVar("Count", int, Tensor)
QuantileForecast = Callable[[slice], Iterable[tuple[float, Float[Tensor, "k within n"]]]]
"""Level and scaled values of each quantile for these windows of a batch, one level at a time, since all of them need
several times the memory of the forecast. There may be fewer steps than in the forecast."""


def rank(level: Count, n: Count, overlap: int | Tensor = 1) -> Count:
    """Rank of the half width among n errors, from 1; above n if n is too small for the level.

    Args:
        overlap: m, see above.
    """
    return -(-(n + overlap) * level // 100)  # type: ignore[return-value]


def min_windows(level: int) -> int:
    """Minimum number of errors for a level."""
    return next(n for n in range(1, 100) if rank(level, n) <= n)


def validation_rows(level: int, pred_len: int, share: float) -> int:
    """Minimum number of validation rows so that their last share calibrates an interval of this level.

    Args:
        level: in percent.
        pred_len: rows of a forecast.
        share: `trainer.calibration`.
    """
    return math.ceil((min_windows(level) + pred_len - 1) / share)


def saved_calibration(checkpoint: Checkpoint, *, recent: bool = False) -> Calibration | None:
    """The calibration in a checkpoint; None without one.

    Args:
        recent: the one for forecasts after the end of the data, which includes errors on test rows.

    Raises:
        InputError: it does not fit the model.
    """
    state = checkpoint.calibration
    if not state:
        return None
    newer = {name.removeprefix(RECENT): tensor for name, tensor in state.items() if name.startswith(RECENT)}
    state = {name: tensor for name, tensor in state.items() if not name.startswith(RECENT)}
    state = newer if recent and newer else state
    found = state["half_widths"].shape[1:2] if "half_widths" in state else ()
    n, steps = len(checkpoint.targets), max([checkpoint.config["pred_len"], *found])
    table, number, by_target = (len(LEVELS), steps, n), (), (n,)
    expected = {
        "windows": (torch.int64, number),
        "half_widths": (torch.float32, table),
        "still": (torch.float32, table),
        "lag": (torch.int64, number),
        "power": (torch.float32, number),
        "usual": (torch.float32, by_target),
        "largest": (torch.float32, by_target),
    }
    if FACTORS in state and state[FACTORS].ndim == 2:
        expected[FACTORS] = torch.float32, (len(state[FACTORS]), n)
    if set(state) != set(expected):
        raise InputError(f"{DOES_NOT_FIT}: expected {sorted(expected)}, found {sorted(state)}")
    for name, (dtype, shape) in expected.items():
        tensor = state[name]
        if tensor.dtype is not dtype or tuple(tensor.shape) != shape or not (tensor >= 0).all():
            raise InputError(f"{DOES_NOT_FIT}: expected {name} of at least 0 and of shape {shape}, as {dtype}")
    usual, largest, lag, power = (state[name] for name in ("usual", "largest", "lag", "power"))
    if int(lag) < 1 or float(power) not in POWERS or torch.stack([usual, largest]).isinf().any():
        raise InputError(
            f"{DOES_NOT_FIT}: expected a lag of at least 1, finite variations, a power of {sorted(POWERS)}"
        )
    variation = Variation(int(lag), float(power), usual, largest, state.get(FACTORS))
    return Calibration(int(state["windows"]), state["half_widths"], variation, state["still"])


@dataclass(frozen=True, slots=True)
class Residuals:
    """Errors of a model on windows that it was not fitted on.

    Args:
        errors: absolute errors, scaled; NaN where the actual value is missing.
        differences: variation of the windows' histories; see `differences`.
        lag: lag of these differences.
        rolled: errors of the steps after pred_len, forecast recursively, on some of the windows; NaN where the actual
            value is not in a window that the model was not fitted on. None: no such steps.
        series: number of each window's training series, -1 for a new one. None: all are new.
        apart: rows from each window to the next one of its series, infinite for the last. None: they do not overlap.
    """

    errors: Float[Tensor, "w steps n"]
    differences: Float[Tensor, "w n"]
    lag: int
    rolled: "Residuals | None" = None
    series: Int[Tensor, " w"] | None = None
    apart: Float[Tensor, " w"] | None = None

    @classmethod
    def of(
        cls,
        forecast: Float[Tensor, "w steps n"],
        actual: Float[Tensor, "w steps n"],
        history: Float[Tensor, "w seq_len n"],
        lag: int,
        series: Int[Tensor, " w"],
    ) -> "Residuals":
        """Residuals of some windows, from scaled values; `over` says how far apart they are."""
        errors, variation = (forecast - actual).abs(), differences(history, lag)
        return cls(errors.float().cpu(), variation.float().cpu(), lag, series=series.cpu())

    def over(self, windows: Windows) -> "Residuals":
        """The same with the distances of the windows that they are of."""
        apart = F.pad(windows.starts.diff().float(), (0, 1), value=torch.inf).cpu()
        is_last = F.pad(windows.series(torch.arange(len(windows))).diff() != 0, (0, 1), value=True).cpu()
        return replace(self, apart=apart.masked_fill(is_last, torch.inf))

    def calibration(self, compared: int = COMPARED) -> Calibration:
        """Calibration with the power of POWERS that has the lowest interval score on these windows.

        Args:
            compared: number of errors from which the power is selected.
        """
        varying = torch.where(self.differences > 0, self.differences, torch.nan)
        usual = varying.nanmedian(dim=0).values.nan_to_num(0.0)
        largest = varying.nan_to_num(0.0).amax(dim=0)
        every = max(self.errors.numel() // compared, 1)
        series = None if self.series is None else self.series[::every]
        sample = Residuals(self.errors[::every], self.differences[::every], self.lag, series=series)
        variations = [self._with_factors(Variation(self.lag, power, usual, largest)) for power in POWERS]
        variation = min(variations, key=lambda each: sample._interval_score(sample._calibration(each)))
        direct = self._calibration(variation)
        if self.rolled is None:
            return direct
        later = self.rolled._calibration(variation, after=self.errors.shape[1])
        return Calibration(
            direct.windows,
            torch.cat([direct.half_widths, later.half_widths], dim=1),
            variation,
            torch.cat([direct.still, later.still], dim=1),
        )

    def _with_factors(self, variation: Variation) -> Variation:
        """With the mean error of each series, relative to the usual one of each step."""
        if self.series is None or int(self.series.max()) < 1:
            return variation
        known = self.series >= 0
        errors = self.errors.masked_fill((self.differences == 0)[:, None], torch.nan)[known]
        relative = errors / variation.unit(self.differences[known])
        relative = (relative / relative.nanmean(dim=0)).nanmean(dim=1)
        table = torch.full((int(self.series.max()) + 1, relative.shape[1]), float(PSEUDO_WINDOWS))
        n = table.index_add(0, self.series[known], (~relative.isnan()).float())
        return replace(variation, factors=table.index_add(0, self.series[known], relative.nan_to_num(0.0)) / n)

    def _calibration(self, variation: Variation, after: int = 0) -> Calibration:
        """Calibration in these units; `after`: steps before the first one."""
        is_still = (self.differences == 0)[:, None]
        varying = self.errors.masked_fill(is_still, torch.nan)
        step = torch.arange(after + 1, after + 1 + self.errors.shape[1])
        apart = torch.full((len(self.errors),), torch.inf) if self.apart is None else self.apart
        independent = (apart[:, None] / (INDEPENDENT * step)).clamp(max=1.0).sum(dim=0)
        overlap = (len(apart) / independent).ceil().long()[:, None]
        units = variation.unit(self.differences, self.series)
        counts, half_widths = _order_statistics(varying / units, overlap)
        typical = varying.nanmean(dim=(0, 1)).nan_to_num(0.0)
        is_learned = (varying > ROUNDING).any(dim=1).any(dim=0)
        # no error at a level, but some above it: not certainty
        half_widths = torch.where(half_widths > 0, half_widths, LEAST * typical)
        half_widths = torch.where(is_learned, half_widths, torch.inf)
        least = half_widths * variation.unit(torch.zeros_like(self.differences[:1]))
        _, still = _order_statistics(self.errors.masked_fill(~is_still, torch.nan), overlap)
        still = torch.where(least.isfinite(), torch.where(still.isfinite(), still, 0.0).maximum(least), still)
        still = torch.where(still > ROUNDING, still, torch.inf)
        return Calibration(int(counts[0].max()), half_widths, variation, still)

    def _interval_score(self, calibration: Calibration) -> float:
        """Half the interval score, width + 2 / (1 - level) times the distance outside the interval, summed over
        CHOSEN_AT, of the windows that vary, relative to each column's mean error (T. Gneiting and A. Raftery,
        "Strictly Proper Scoring Rules", 2007, equation 43)."""
        errors = self.errors.masked_fill((self.differences == 0)[:, None], torch.nan)
        unit, size = calibration.variation.unit(self.differences, self.series), errors.nanmean(dim=(0, 1))
        total = 0.0
        for level in filter(calibration.supports, CHOSEN_AT):
            half = calibration.half_widths[level - 1] * unit
            score = half + (errors - half).clamp(min=0) / (1 - level / 100)
            score = score.masked_fill(half.isinf(), torch.nan)
            total += float((score.nanmean(dim=(0, 1)) / torch.where(size > 0, size, 1.0)).nan_to_num(0.0).mean())
        return total


def _order_statistics(
    errors: Float[Tensor, "w steps n"], overlap: Int[Tensor, "steps 1"]
) -> tuple[Int[Tensor, "steps n"], Float[Tensor, "99 steps n"]]:
    """Number of errors at each step, and the error of the rank of each level; infinite if they are too few."""
    counts = (~errors.isnan()).sum(dim=0)
    known = errors.nan_to_num(torch.inf, posinf=torch.inf)
    ordered = torch.cat([known, torch.full_like(known[:1], torch.inf)]).sort(dim=0).values
    levels = torch.tensor(LEVELS, device=errors.device)[:, None, None]
    last = torch.where(rank(levels, counts) > counts, counts + 1, counts)
    return counts, ordered.gather(0, (rank(levels, counts, overlap).minimum(last) - 1).clamp(min=0))


def residuals_of(data: Data, batch_size: int) -> partial[Residuals]:
    """`residuals` for the data of a run, of recursive forecasts too if the model can continue from its own output."""
    columns, sizes = data.columns, data.sizes
    can_roll = not sizes.offset and set(columns.inputs) <= {*columns.targets, *columns.known}
    most = MOST_HALF_WIDTHS // (len(LEVELS) * sizes.pred_len * len(columns.targets))
    n_rolled = max(min(max(ROLLED_BLOCKS, -(-ROLLED_ROWS // sizes.pred_len)), most) - 1, 0)
    return partial(
        residuals,
        batch_size=batch_size,
        lag=lag_of(data.frequency.season, sizes.seq_len),
        targets=columns.positions(columns.targets),
        n_rolled=n_rolled if can_roll else 0,
    )


@torch.inference_mode()
def residuals(
    model: ForecastModel | Callable[[Batch], Float[Tensor, "b pred_len n"]],
    windows: Windows,
    *,
    batch_size: int,
    lag: int,
    targets: Sequence[int],
    n_rolled: int = 0,
    most: int | None = None,
    known: Residuals | None = None,
) -> Residuals:
    """Residuals of a forecaster on windows that it was not fitted on.

    Of a quantile model, those of its median, so that every level is available and intervals are nested.

    Args:
        model: in eval mode; or a function that maps a batch to scaled targets.
        windows: thinned evenly above MAX_NUMBERS errors.
        batch_size: windows per batch.
        lag: see `lag_of`.
        targets: indices of the targets among the inputs.
        n_rolled: blocks of pred_len rows to forecast recursively after the first.
        most: maximum number of windows.
        known: residuals of the first pred_len rows, if they were computed before.
    """
    forecast = partial(model_forecast, model) if isinstance(model, ForecastModel) else model
    if known is None:
        chosen = windows.at(windows.starts[:: every_of(windows, most)])
        known = joined_errors(
            [
                Residuals.of(forecast(batch), batch.target, batch.enc_x[:, :, list(targets)], lag, batch.series)
                for batch in chosen.batches(batch_size)
            ]
        ).over(chosen)
    if n_rolled:
        rolled = _rolled(forecast, windows, n_rolled, most=MOST_ROLLED, batch_size=batch_size, lag=lag, targets=targets)
        known = replace(known, rolled=rolled)
    return known


def every_of(windows: Windows, most: int | None = None) -> int:
    """Every how many-th window is kept, so that there are at most `most` windows and MAX_NUMBERS values."""
    per_window = windows.batch(torch.tensor([0])).target.numel()
    return -(-len(windows) // min(max(MAX_NUMBERS // per_window, 1), most or len(windows)))


def _rolled(
    forecast: Callable[[Batch], Float[Tensor, "b pred_len n"]],
    windows: Windows,
    n_blocks: int,
    *,
    most: int,
    batch_size: int,
    lag: int,
    targets: Sequence[int],
) -> Residuals | None:
    """Errors after pred_len rows, of at most `most` evenly spaced windows; None if no window is followed by another."""
    starts, pred_len = windows.starts, windows.sizes.pred_len
    # a later horizon must be that of a window which was held out as well; none crosses into another series
    first = starts[torch.isin(starts + pred_len, starts)]
    if not len(first):
        return None
    errors, variations, series, fewer = [], [], [], windows.at(first).thinned(most)
    for chosen in fewer.starts.split(batch_size):
        batch, is_held_out = (
            windows.at(chosen).batch(torch.arange(len(chosen))),
            torch.ones_like(chosen, dtype=torch.bool),
        )
        variations.append(differences(batch.enc_x[:, :, list(targets)], lag).float().cpu())
        series.append(batch.series.cpu())
        rows, blocks = forecast(batch), []
        for block in range(1, n_blocks + 1):
            later = chosen + block * pred_len
            is_held_out = is_held_out & torch.isin(later, starts)
            batch = windows.at(torch.where(is_held_out, later, chosen)).batch(torch.arange(len(chosen)))
            rows = torch.cat([rows, forecast(with_forecast_history(batch, rows, targets))], dim=1)
            error = (rows[:, -pred_len:] - batch.target).abs()
            blocks.append(error.masked_fill(~is_held_out[:, None, None], torch.nan).float().cpu())
        errors.append(torch.cat(blocks, dim=1))
    return Residuals(torch.cat(errors), torch.cat(variations), lag, series=torch.cat(series)).over(fewer)


def joined_errors(parts: Sequence[Residuals]) -> Residuals:
    """Concatenate residuals of the same lag."""
    rolled = [part.rolled for part in parts if part.rolled is not None]

    def joined(name: str) -> Tensor | None:
        found = [getattr(part, name) for part in parts]
        return None if any(tensor is None for tensor in found) else torch.cat(found)

    return Residuals(
        torch.cat([part.errors for part in parts]),
        torch.cat([part.differences for part in parts]),
        parts[0].lag,
        joined_errors(rolled) if rolled else None,
        series=joined("series"),
        apart=joined("apart"),
    )


def lag_of(season: int, seq_len: int) -> int:
    """Rows of a season if a history contains two seasons, otherwise 1."""
    return season if 2 * season <= seq_len else 1


REPORTED_LEVELS = (80, 95)
"""Levels of conformal intervals, in percent."""


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


DECILES = tuple(n / 10 for n in range(1, 10))
"""Levels at which forecasters without own quantiles are scored."""

MOST_WINDOWS, MOST_VALUES, LEAST_WINDOWS = 2000, 1 << 20, 100
"""Windows on which baselines are calibrated: at most so many, or so many values in total, but not fewer than the third;
of more, evenly spaced ones are used."""

COMPARED_FOR_QUANTILES = 1 << 17
"""Number of errors from which the power of their variation is selected, which takes most of the time."""

BATCH = 256


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
