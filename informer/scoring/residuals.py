"""Errors of a forecaster on windows that it was not fitted on, and the calibration of intervals from them, as
`informer.scoring.intervals` defines it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from informer.data.dataset import Data
from informer.data.windows import Batch, Windows
from informer.members.network import ForecastModel, model_forecast
from informer.networks.models.base import point
from informer.scoring.backtest import Member, passes
from informer.scoring.intervals import LEAST, LEVELS, POWERS, ROUNDING, Calibration, Variation, differences, rank

MAX_NUMBERS = 1 << 27
"""Number of errors sorted at once; more windows are thinned evenly."""
CHOSEN_AT = (80, 95)
"""Levels of the intervals whose score selects the power."""
COMPARED = 1 << 23
"""Number of errors from which the power is selected; of more, of a thousand columns, evenly spaced windows are used."""
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
        widths, still = ([getattr(each, name) for each in (direct, later)] for name in ("half_widths", "still"))
        return replace(direct, half_widths=torch.cat(widths, dim=1), still=torch.cat(still, dim=1))

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
    known: Float[Tensor, "_ pred_len n"] | None = None,
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
        known: scaled forecasts of these windows, if there are some already; see `Sample`.
    """
    forecast = partial(model_forecast, model) if isinstance(model, ForecastModel) else model
    starts, pred_len = windows.starts, windows.sizes.pred_len

    def errors_of(chosen: Windows, blocks: range, forecasts: Tensor | None = None) -> Residuals:
        parts = list[Residuals]()
        for indices in torch.arange(len(chosen)).split(batch_size):
            part = chosen.at(chosen.starts[indices])
            if forecasts is None:
                found = [*passes(forecast, part, targets=targets, horizon=blocks.stop * pred_len, within=starts)]
            else:
                found = [(part.batch(torch.arange(len(part))), forecasts[indices].to(starts.device))]
            is_held_out, errors = torch.ones_like(part.starts, dtype=torch.bool), list[Tensor]()
            for block, (batch, rows) in enumerate(found):
                # a later horizon must be that of a window which was held out as well; none crosses into another series
                is_held_out = is_held_out & torch.isin(part.starts + block * pred_len, starts)
                errors.append((rows - batch.target).masked_fill(~is_held_out[:, None, None], torch.nan))
            batch, absolute = found[0][0], torch.cat(errors[blocks.start :], dim=1).abs()
            variation = differences(batch.enc_x[:, :, list(targets)], lag)
            own = absolute.float().cpu(), variation.float().cpu()
            parts.append(Residuals(*own, lag, series=batch.series.cpu()))
        return joined_errors(parts).over(chosen)

    errors = errors_of(windows.at(starts[:: distance(windows, len(targets), most)]), range(1), known)
    followed = starts[torch.isin(starts + pred_len, starts)]
    if n_rolled and len(followed):
        rolled = errors_of(windows.at(followed).thinned(MOST_ROLLED), range(1, n_rolled + 1))
        errors = replace(errors, rolled=rolled)
    return errors


def distance(windows: Windows, n: int, most: int | None) -> int:
    """How far apart the windows are whose errors are computed: at most `most`, of at most MAX_NUMBERS values of n
    targets."""
    per_window = windows.sizes.pred_len * n
    return -(-len(windows) // min(max(MAX_NUMBERS // per_window, 1), most or len(windows)))


@final
class Sample:
    """Scaled forecasts of evenly spaced windows, kept while all of them are scored, so that `residuals` needs no other
    pass; arguments as of `distance`."""

    def __init__(self, windows: Windows, n: int, most: int) -> None:
        self.kept, self._every, self._seen = list[Tensor](), distance(windows, n, most), 0

    def of(self, member: Member) -> Member:
        """The member, of whose forecasts of all windows in order some are kept."""

        def output(batch: Batch) -> Tensor:
            found = member.output(batch)
            chosen = point(found, member.quantiles)[-self._seen % self._every :: self._every]
            self.kept.append(chosen.to("cpu", copy=True))
            self._seen += len(found)
            return found

        return replace(member, output=output)


def joined_errors(parts: Sequence[Residuals]) -> Residuals:
    """Concatenate residuals of the same lag."""
    rolled, found = [part.rolled for part in parts if part.rolled is not None], dict[str, Any]()
    for name in ("errors", "differences", "series", "apart"):
        tensors = [getattr(part, name) for part in parts]
        found[name] = None if any(each is None for each in tensors) else torch.cat(tensors)
    return replace(parts[0], rolled=joined_errors(rolled) if rolled else None, **found)


def lag_of(season: int, seq_len: int) -> int:
    """Rows of a season if a history contains two seasons, otherwise 1."""
    return season if 2 * season <= seq_len else 1
