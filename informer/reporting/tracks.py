"""Selects the series and columns that a page shows in full, and forecasts them throughout the test part."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from informer.data.pipeline import Data
from informer.inference.predictor import TrainedModel
from informer.models.base import model_output
from informer.reporting.content import Origin, SeriesScore, Track
from informer.reporting.test_pass import Forecast, iso

MAX_TRACKS = 48
MAX_ORIGINS = 40
NUMBERS = 350_000
"""Maximum number of forecast values on a page, about 8 bytes each."""
ROWS = 250_000
"""Maximum number of actual values on a page."""
LEVELS = (80, 95)
"""Levels of intervals, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Selected pairs (series, column), as indices in the panel and the targets, and the reason as text."""

    pairs: Sequence[tuple[int, int]]
    reason: str


def choose(mse: Float64[np.ndarray, "s n"], max_tracks: int, main: int = -1) -> Choice:
    """Select at most `max_tracks` pairs: the worst, the best, and others evenly between, by scaled MSE.

    At least one pair is of the column `main`: if none would be, its worst series replaces another.
    """
    scored = [(int(s), int(c)) for s, c in zip(*np.nonzero(~np.isnan(mse)), strict=True)]
    ordered = sorted(scored, key=lambda pair: -mse[pair])
    what = "series" if mse.shape[1] == 1 else "columns" if mse.shape[0] == 1 else "pairs of series and column"
    if len(ordered) <= max_tracks:
        everything = f"all {len(ordered)} {what}" if len(ordered) > 1 else ""
        return Choice(pairs=ordered, reason=everything and f"The page shows {everything}.")
    third = max_tracks // 3
    middle = ordered[third:-third]
    spread = [middle[int(i)] for i in np.linspace(0, len(middle) - 1, max_tracks - 2 * third)]
    first = next(pair for pair in ordered if pair[1] == main % mse.shape[1])
    chosen = {*ordered[:third], *spread, *ordered[-third:]}
    if not any(pair[1] == first[1] for pair in chosen):
        chosen = {*chosen} - {spread[-1]} | {first}
    why = (
        f"The page shows {len(chosen)} of {len(ordered):,} {what}, so that it stays small: the {third} with the "
        f"largest error, the {third} with the smallest, and {len(chosen) - 2 * third} spread evenly between them. "
        "The table below lists the scores of all."
    )
    return Choice(pairs=[pair for pair in ordered if pair in chosen], reason=why)


@dataclass(slots=True, kw_only=True)
class Tracks:
    """Data for the display of single series.

    Args:
        times: timestamps of the tracks.
        tracks: tracks, worst first.
        table: scores of every pair, worst first.
        reason: see `Choice`.
    """

    times: list[Sequence[str]] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    table: list[SeriesScore] = field(default_factory=list)
    reason: str = ""


def gather_tracks(
    model: TrainedModel,
    data: Data,
    *,
    baselines: Mapping[str, Forecast],
    mse: Mapping[str, Float64[np.ndarray, "s n"]],
    name: str,
    series_windows: np.ndarray,
) -> Tracks:
    """Select series and columns, and forecast them.

    Args:
        data: its test windows are forecast.
        baselines: further forecasts to plot, by name.
        mse: scaled MSE of the model and of the baselines for its skill, by name.
        name: name of the model in `mse`.
        series_windows: number of scored windows of each series.
    """
    lines = 1 + len(baselines) + 2 * len(_levels(model)) + 2 * len(model.quantiles)
    choice, n_origins = _that_fit(mse[name], lines * data.sizes.pred_len, data)
    skill = _skill(mse, name)
    gathered = Tracks(reason=choice.reason)
    by_series: dict[int, list[int]] = {}
    for s, c in choice.pairs:
        by_series.setdefault(s, []).append(c)
    tracks: dict[tuple[int, int], Track] = {}
    for s, columns in by_series.items():
        indices = _origins(data, s, n_origins)
        begin, end = _rows(data, s, indices, ROWS // len(choice.pairs))
        ahead = _ahead(model, data, s, end, name)
        lines_of, bands_of = _forecasts(model, data, indices, baselines, name)
        starts = data.test.starts[indices].cpu().numpy() - int(data.test.store.first_rows[s]) + data.sizes.first
        gathered.times.append(iso(data.panel[s].timestamps[begin:end]))
        for c in columns:
            tracks[s, c] = Track(
                series=data.panel[s].name if len(data.panel) > 1 else "",
                column=data.targets[c],
                times=len(gathered.times) - 1,
                actual=data.panel[s].values[begin:end, data.inputs.index(data.targets[c])].tolist(),
                origins=[
                    *(_origin(int(at) - begin, i, c, lines_of, bands_of) for i, at in enumerate(starts) if at >= begin),
                    *([] if ahead is None else [ahead(c, end - begin)]),
                ],
                mse=float(mse[name][s, c]),
                skill=float(skill[s, c]),
            )
    gathered.tracks = [tracks[pair] for pair in choice.pairs]
    gathered.table = _table(data, choice, mse[name], skill, series_windows)
    return gathered


def _that_fit(mse: Float64[np.ndarray, "s n"], per_origin: int, data: Data) -> tuple[Choice, int]:
    """The pairs that fit on a page, and the number of their origins.

    Args:
        per_origin: numbers on the page per origin.
    """
    main = data.targets.index(data.columns.main or data.targets[-1])
    choice = choose(mse, max(6, min(MAX_TRACKS, NUMBERS // (5 * per_origin))), main)
    return choice, max(1, min(MAX_ORIGINS, NUMBERS // (max(1, len(choice.pairs)) * per_origin)))


def _skill(mse: Mapping[str, Float64[np.ndarray, "s n"]], name: str) -> Float64[np.ndarray, "s n"]:
    """1 - MSE / MSE of the best other forecaster, for each series and column; NaN without others."""
    rivals = np.stack([values for key, values in mse.items() if key != name])
    best = rivals.min(axis=0) if len(rivals) else np.full_like(mse[name], np.nan)
    return 1.0 - np.divide(mse[name], best, out=np.full_like(best, np.nan), where=best > 0)


def _origin(
    row: int, i: int, c: int, lines: Mapping[str, np.ndarray], bands: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> Origin:
    """The forecasts of column c from the i-th origin, whose first row is `row` of the track."""
    return Origin(
        row=row,
        lines={key: values[i, :, c].tolist() for key, values in lines.items()},
        bands={key: (low[i, :, c].tolist(), high[i, :, c].tolist()) for key, (low, high) in bands.items()},
    )


def _table(
    data: Data,
    choice: Choice,
    mse: Float64[np.ndarray, "s n"],
    skill: Float64[np.ndarray, "s n"],
    series_windows: np.ndarray,
) -> list[SeriesScore]:
    """Scores of every pair, worst first."""
    place = {pair: i for i, pair in enumerate(choice.pairs)}
    rows = [
        SeriesScore(
            series=data.panel[s].name if len(data.panel) > 1 else "",
            column=data.targets[c],
            windows=int(series_windows[s]),
            mse=float(mse[s, c]),
            skill=float(skill[s, c]),
            track=place.get((s, c), -1),
        )
        for s in range(len(data.panel))
        for c in range(len(data.targets))
    ]
    return sorted(rows, key=lambda row: (np.isnan(row.mse), -row.mse))


def _ahead(model: TrainedModel, data: Data, s: int, end: int, name: str) -> Callable[[int, int], Origin] | None:
    """A function of column and row that returns the forecast after the end of the data; None if the test part ends
    earlier, or the forecast would need future covariates."""
    if end != len(data.panel[s]) or data.columns.future_covariates:
        return None
    (forecast,) = model.forecast([data.panel[s]], levels=_levels(model))
    bands = paired_bands(forecast.bands)
    return lambda column, row: Origin(
        row=row,
        times=iso(forecast.timestamps),
        lines={name: forecast.values[:, column].tolist()},
        bands={key: (low[:, column].tolist(), high[:, column].tolist()) for key, (low, high) in bands.items()},
    )


def _levels(model: TrainedModel) -> list[int]:
    return [level for level in LEVELS if model.calibration is not None and model.calibration.supports(level)]


def _origins(data: Data, s: int, max_origins: int) -> Int[Tensor, "o"]:
    """Indices of evenly spaced test windows of one series, without overlap, at most `max_origins`."""
    first = int(data.test.store.first_rows[s])
    stop = first + len(data.panel[s])
    in_series = ((data.test.starts >= first) & (data.test.starts < stop)).nonzero()[:, 0]
    stride = max(data.sizes.pred_len, -(-len(in_series) // max_origins))
    return in_series.flip(0)[::stride].flip(0)  # always includes the newest origin


def _rows(data: Data, s: int, indices: Tensor, most: int) -> tuple[int, int]:
    """Rows of the series from the first history to the last horizon; the most recent ones if there are too many."""
    starts = data.test.starts[indices].cpu().numpy() - int(data.test.store.first_rows[s])
    end = int(starts[-1]) + data.sizes.rows
    return max(int(starts[0]), end - max(most, data.sizes.rows)), end


@torch.inference_mode()
def _forecasts(
    model: TrainedModel, data: Data, indices: Tensor, baselines: Mapping[str, Forecast], name: str
) -> tuple[dict[str, np.ndarray], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Lines and bands in data units, [origins pred_len n]."""
    batch, model = data.test.batch(indices), model.scored
    output = model_output(model.model, batch)
    lines = {name: model.rows(batch, output)}
    lines |= {key: batch.in_units(forecast(batch)).cpu().numpy() for key, forecast in baselines.items()}
    ends = model.bands(batch, output, model.halves(batch, _levels(model)))
    return lines, paired_bands(ends)


def paired_bands(ends: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pair interval ends by suffix, `lo80` with `hi80` and `q10` with `q90`; widest first."""
    by_level: dict[float, tuple[str, np.ndarray, np.ndarray]] = {}
    for suffix, low in ends.items():
        if suffix.startswith("lo") and f"hi{suffix[2:]}" in ends:
            by_level[float(suffix[2:])] = (f"{suffix[2:]} %", low, ends[f"hi{suffix[2:]}"])
        elif suffix.startswith("q") and float(suffix[1:]) < 50:
            mirrored = (key for key in ends if key[0] == "q" and math.isclose(float(key[1:]), 100 - float(suffix[1:])))
            upper = next(mirrored, None)
            if upper is not None:
                level = 100 - 2 * float(suffix[1:])
                by_level[level] = (f"{level:g} %", low, ends[upper])
    return {name: (low, high) for _, (name, low, high) in sorted(by_level.items(), reverse=True)}
