"""Forecasts of windows as paths: the one place where a model or a baseline forecasts from some origins.

Beyond pred_len a model reads its own output as history. Quantile q of a member with intervals is the end of its
interval of level |2 q - 1|, the median the forecast itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from informer.base.quantiles import MEDIAN, quantile_name
from informer.data.windows import Batch, DataUnits, Windows
from informer.members.network import ForecastModel, model_output
from informer.networks.models.base import at_levels, point
from informer.read.series import Series
from informer.scoring.forecasts import Forecasts, Matrix, in_utc, keys_of
from informer.scoring.intervals import ROUNDING, Calibration

DECILES = tuple(n / 10 for n in range(1, 10))
"""Levels at which forecasters without own quantiles are scored."""
AT_ONCE = 1 << 17
"""Values of paths that are made at once: what a processor's cache holds, as each is read many times."""
BATCH = 256


@final
@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Member:
    """What forecasts windows: a model, or a baseline next to one.

    Args:
        name: name in reports.
        output: scaled output for a batch; must not use `batch.target` except for its shape.
        positions: indices of the targets among the inputs.
        quantiles: levels of the last axis of the output, if it has one.
        calibration: of errors on windows that it was not fitted on; None: no intervals.
        non_negative: indices of the targets that are at least zero in data units.
        levels: levels of quantiles that are ends of intervals, for a member without own ones.
        note: how it was fitted.
    """

    name: str
    output: Callable[[Batch], Float[Tensor, "b pred_len n *q"]]
    positions: Sequence[int]
    quantiles: Sequence[float] = ()
    calibration: Calibration | None = None
    non_negative: Sequence[int] = ()
    levels: Sequence[float] = ()
    note: str = ""

    @classmethod
    def of_model(
        cls, model: ForecastModel, calibration: Calibration | None = None, levels: Sequence[float] = ()
    ) -> "Member":
        """A model, whose output is bounded already."""
        return cls(
            name=model.family,
            output=partial(model_output, model),
            positions=model.dims.target_positions,
            quantiles=model.quantiles,
            calibration=calibration,
            non_negative=model.non_negative,
            levels=levels,
        )

    def supported(self, levels: Sequence[int]) -> list[int]:
        """Those of these levels of intervals, in percent, that some target has."""
        return [level for level in levels if self.calibration is not None and self.calibration.supports(level)]

    def clipped(self, values: Float64[np.ndarray, "b h n"]) -> Float64[np.ndarray, "b h n"]:
        """Values in data units, clipped in place at zero for non-negative targets."""
        if self.non_negative:
            places = list(self.non_negative)
            values[..., places] = np.maximum(values[..., places], 0.0)
        return values


def with_forecast_history(batch: Batch, forecast: Float[Tensor, "b h n"], targets: Sequence[int]) -> Batch:
    """Replace the last history rows of a batch by their scaled forecasts.

    Args:
        batch: windows h rows after the original ones.
        forecast: forecast of the last h rows before the horizon.
        targets: indices of its columns among the inputs; all other columns are known ahead.
    """
    seq_len, n = batch.enc_x.shape[1], min(forecast.shape[1], batch.enc_x.shape[1])
    positions = torch.tensor(list(targets), device=batch.enc_x.device)
    before, after = batch.enc_x.tensor_split([seq_len - n], dim=1)
    enc_x = torch.cat([before, after.index_copy(2, positions, forecast[:, -n:].to(after.dtype))], dim=1)
    label_len = batch.dec_x.shape[1] - batch.target.shape[1]
    dec_x = torch.cat([enc_x[:, seq_len - label_len :], batch.dec_x[:, label_len:]], dim=1)
    return batch._replace(enc_x=enc_x, dec_x=dec_x)


def passes(
    output: Callable[[Batch], Float[Tensor, "b pred_len n *q"]],
    windows: Windows,
    *,
    targets: Sequence[int],
    horizon: int,
    quantiles: Sequence[float] = (),
    within: Int[Tensor, " s"] | None = None,
) -> Iterator[tuple[Batch, Float[Tensor, "b pred_len n *q"]]]:
    """The batch and the scaled output of each pass of pred_len rows, as many as a horizon needs.

    Args:
        output: the model.
        windows: each must be followed by enough rows for the horizon rounded up to a multiple of pred_len.
        targets: see `with_forecast_history`.
        horizon: rows to forecast.
        quantiles: levels of the last axis of the output, if it has one.
        within: starts of the only windows that may be read; a pass of others has rows without meaning. None: all.
    """
    rows, every = list[Tensor](), torch.arange(len(windows))
    for done in range(0, horizon, windows.sizes.pred_len):
        later = windows.starts + done
        if within is not None:
            later = torch.where(torch.isin(later, within), later, windows.starts)
        batch = windows.at(later).batch(every)
        batch = with_forecast_history(batch, torch.cat(rows, dim=1), targets) if done else batch
        found = output(batch)
        rows.append(point(found, quantiles))
        yield batch, found


def backtest(
    member: Member,
    windows: Windows,
    panel: Sequence[Series],
    columns: Sequence[str],
    *,
    batch_size: int = BATCH,
    horizon: int | None = None,
    levels: Sequence[int] = (),
    change: Float64[np.ndarray, "s n"] | None = None,
    adapt: Callable[[np.ndarray, dict[int, np.ndarray]], Mapping[int, np.ndarray]] | None = None,
) -> Iterator[Forecasts]:
    """Forecasts from the origins of some windows in order, of each one a path for each target, in parts.

    Quantiles have only the rows of the first pass, since those of later ones do not know that their history is a
    forecast. Sets nothing: a model must already be in eval mode.

    Args:
        member: the forecaster.
        windows: followed by enough rows for the horizon rounded up to a multiple of pred_len.
        panel, columns: the series of the windows' store, and the names of the targets.
        batch_size: windows per batch; affects speed and memory only.
        horizon: rows to forecast; None: pred_len.
        levels: of intervals, in percent.
        change: see `Forecasts.change`, of each series.
        adapt: half widths of the first pred_len rows by level, from the absolute errors of a part, scaled, and the
            calibrated half widths.
    """
    sizes, n, positions, pred_len = windows.sizes, len(columns), list(member.positions), windows.sizes.pred_len
    horizon = horizon or pred_len
    zone, names = panel[0].timestamps.tz, [each.name for each in panel]
    times = in_utc([each.timestamps for each in panel])
    unknown = np.full((len(panel), n), np.nan)
    most = max(AT_ONCE // (horizon * n), 1)
    for indices in torch.arange(len(windows), device=windows.starts.device).split(batch_size):
        part, series = windows.at(windows.starts[indices]), windows.series(indices).cpu().numpy()
        with torch.inference_mode():
            found = [*passes(member.output, part, targets=positions, horizon=horizon, quantiles=member.quantiles)]
            ahead = torch.cat([point(rows, member.quantiles) for _, rows in found], dim=1)[:, :horizon]
            actual = torch.cat([later.target for later, _ in found], dim=1)[:, :horizon]
        (batch, output), origins = found[0], part.starts.cpu().numpy() + sizes.seq_len - 1
        for first in range(0, len(ahead), most):
            some = slice(first, first + most)
            units, own = batch.units.mapped(itemgetter(some)), series[some]
            rows = origins[some, None] + 1 + sizes.offset + np.arange(horizon)
            scale = units.scale if units.untransformed_scale is None else units.untransformed_scale
            paths = Forecasts(
                keys=keys_of([names[place] for place in own], columns, times[origins[some]]),
                times=times[rows].repeat(n, axis=0),
                mean=matrix(member.clipped(_original(ahead[some], units))),
                actual=matrix(_original(actual[some], units)),
                center=_numpy(units.center).ravel() if units.untransformed_scale is None else np.zeros(len(own) * n),
                scale=_numpy(scale).ravel(),
                change=(unknown if change is None else change)[own].ravel(),
                zone=zone,
            )
            with torch.inference_mode():
                after = batch.enc_x[some][:, :, positions], units, batch.series[some]
                halves = {level: reaching(_numpy(half), horizon) for level, half in _halves(member, levels, *after)}
                if adapt is not None:
                    errors = _numpy((ahead[some] - actual[some])[:, :pred_len].abs())
                    direct = adapt(errors, {level: half[:, :pred_len] for level, half in halves.items()})
                    halves = {
                        level: np.concatenate([direct[level], half[:, pred_len:]], axis=1)
                        for level, half in halves.items()
                    }
                bands = _bands(member, ahead[some], output[some], halves, units)
                quantiles = _quantiles(member, output[some, :horizon], *after)
            yield replace(
                paths,
                bands={name: matrix(member.clipped(each)) for name, each in bands.items()},
                levels={level: matrix(member.clipped(each)) for level, each in quantiles.items()},
            )


def _numpy(values: Tensor) -> Float64[np.ndarray, " *b"]:
    return values.cpu().double().numpy()


def matrix(values: Float64[np.ndarray, "b h n"]) -> Matrix:
    """Values of windows as those of paths, a path for each column."""
    return values.swapaxes(1, 2).reshape(-1, values.shape[1])


def _original(scaled: Float[Tensor, "b h n"], units: DataUnits) -> Float64[np.ndarray, "b h n"]:
    """In data units; a zero in the data is rounding noise after conversion from float32 scaled values, and MAPE would
    divide by it."""
    values = units.unscaled(scaled)
    noise = 4 * torch.finfo(torch.float32).eps * units.center[:, None].abs()
    return _numpy(units.untransformed(values.masked_fill(values.abs() <= noise, 0.0)))


def reaching(rows: Float64[np.ndarray, "*b pred_len n"], horizon: int) -> Float64[np.ndarray, "*b h n"]:
    """Cut or pad to `horizon` rows; padding is NaN, where no errors are known."""
    lacking = max(0, horizon - rows.shape[-2])
    widths = [(0, 0)] * (rows.ndim - 2) + [(0, lacking), (0, 0)]
    return np.pad(rows[..., :horizon, :], widths, constant_values=np.nan)


def _halves(
    member: Member,
    levels: Sequence[int],
    history: Float[Tensor, "b seq_len n"],
    units: DataUnits,
    series: Int[Tensor, " b"],
) -> Iterator[tuple[int, Float[Tensor, "b steps n"]]]:
    """Scaled half widths of intervals by level; NaN where there is none."""
    for level in levels:
        assert member.calibration is not None, "these are levels that the member supports"
        half = member.calibration.half_width(level, history, constant=units.constant, series=series)
        yield level, half.masked_fill(half.isinf(), torch.nan)


def _bands(
    member: Member,
    ahead: Float[Tensor, "b h n"],
    output: Float[Tensor, "b pred_len n *q"],
    halves: Mapping[int, Float64[np.ndarray, "b h n"]],
    units: DataUnits,
) -> dict[str, Float64[np.ndarray, "b h n"]]:
    """Own quantiles other than the median (q10), and interval ends (lo80, hi80); NaN where there are none."""
    bands, center = dict[str, np.ndarray](), ahead.double().cpu()
    if member.quantiles:
        # none where all of them are equal
        absent = (output.amax(dim=-1) - output.amin(dim=-1)).amax(dim=1, keepdim=True) <= ROUNDING
        absent = absent if units.constant is None else absent | units.constant[:, None].to(absent.device)
        for level, rows in at_levels(output, member.quantiles):
            if level != MEDIAN:
                known = _numpy(units.original(rows.masked_fill(absent, torch.nan)))
                bands[quantile_name(level)] = reaching(known, ahead.shape[1])
    for level, half in halves.items():
        for name, end in (("lo", center - torch.from_numpy(half)), ("hi", center + torch.from_numpy(half))):
            bands[f"{name}{level}"] = _numpy(units.original(end))
    return bands


def _quantiles(
    member: Member,
    output: Float[Tensor, "b pred_len n *q"],
    history: Float[Tensor, "b seq_len n"],
    units: DataUnits,
    series: Int[Tensor, " b"],
) -> dict[float, Float64[np.ndarray, "b pred_len n"]]:
    """Own quantiles by level, or those from intervals; empty if these lack windows, or intervals of whole percentages.
    Where an interval has no end, it is the forecast."""
    if member.quantiles:
        return {level: _numpy(units.original(rows)) for level, rows in at_levels(output, member.quantiles)}
    calibration, found = member.calibration, dict[float, np.ndarray]()
    percents = [round(abs(200 * level - 100), 4) for level in member.levels]
    needed = [percent for percent in percents if percent]
    if calibration is None or any(p != int(p) or not calibration.supports(int(p)) for p in needed):
        return {}
    for level, percent in zip(member.levels, percents, strict=True):
        half = torch.zeros_like(output)
        if percent:
            half = calibration.half_width(int(percent), history, output.shape[1], series=series).to(output)
        half = torch.where(half.isfinite(), half, 0.0)
        found[level] = _numpy(units.original(output + half if level > MEDIAN else output - half))
    return found
