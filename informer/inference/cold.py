"""Forecasts of series without history, from those of series that are like them.

The forecast is the mean over the series d with equal static columns (over all, where none has equal ones) of

  y_d + effect_d(x_new) - effect_d(x_d),  or, of ratios,  y_d effect_d(x_new) / effect_d(x_d)

Its intervals are errors of held-out series: each series of the group is forecast in its last rows from the others, and
(n + 1) level of n errors are inside (split conformal prediction). They are at least as wide as the mean interval of the
group. Effects are those in all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import listed
from informer.data.history import Future, future_index
from informer.inference.ahead import NETWORK, PanelEffects
from informer.inference.zero import LEAST_HISTORY, ZeroModel
from informer.members.regression import LEAST, evenly
from informer.read.series import Series, column_values
from informer.scoring.forecasts import Forecasts, joined

MOST_LIKE = 50
"""Series that a new one is forecast from, evenly spaced among those that are like it."""


def with_new(
    model: ZeroModel, panel: Sequence[Series], forecasts: Forecasts, new: Mapping[str, Future]
) -> tuple[list[Series], Forecasts, list[str]]:
    """A panel and its forecasts with those of new series at their end, and notes on what these are.

    Args:
        model: has made the forecasts, and has columns known ahead.
        new: of each new series, rows ahead at the times after the end of the panel.

    Raises:
        InputError: a new series lacks rows, or has a cell that is not a number.
    """
    assert model.known is not None, "new series have columns known ahead"
    names, n, last = model.known.columns, len(model.columns), max(each.timestamps[-1] for each in panel)
    places = [place for place, each in enumerate(panel) if each.timestamps[-1] == last]
    peers = [panel[place] for place in places]
    known, actual = ([column_values(each, of) for each in peers] for of in (names, model.columns))
    paths = forecasts.part((np.array(places)[:, None] * n + np.arange(n)).ravel())
    times = future_index(peers[0], h := int(paths.are_steps[0].sum()))
    own, ahead = [model.futures[place].at(times, names) for place in places], [x.at(times, names) for x in new.values()]
    are_static = np.all([(of == of[:1]).all(axis=0) for of in [*known, *ahead]], axis=0)
    kinds, kinds_ahead = ([tuple(of[0, are_static]) for of in some] for some in (known, ahead))
    held = [place for place, each in enumerate(peers) if len(each) >= h + LEAST_HISTORY]
    origins = [(place, len(peers[place]) - h) for place in held]
    past = model.backtest(origins, horizon=h, panel=peers)[model.kind].mean if held else np.zeros((0, h))
    effects = None if model.kind == NETWORK else PanelEffects.fit(peers, model.columns, model.known)
    mean, *ends = (each.reshape(-1, n, each.shape[1])[..., :h] for each in (paths.mean, *paths.bands.values()))
    series, parts, notes, pause = list[Series](), [forecasts], list[str](), peers[0].end(2)
    for kind in dict.fromkeys(kinds_ahead):
        members = [place for place, each in enumerate(kinds_ahead) if each == kind]
        alike = [place for place, each in enumerate(kinds) if each == kind]
        group = [(alike or range(len(peers)))[at] for at in evenly(len(alike or peers), MOST_LIKE)]
        tested, errors = [at for at in group if at in held], np.zeros((0, n, h))
        if len(tested) > 1:
            before, recent = past.reshape(-1, n, h)[[*map(held.index, tested)]], [known[at][-h:] for at in tested]
            each = _moved(effects, tested, peers[0].timestamps[-h:], recent, recent, before)
            others = (each.sum(axis=0) - before) / (len(each) - 1)
            errors = np.abs(np.stack([actual[at][-h:].T for at in tested]) - others)
        usual = {band: np.abs(end - mean)[group] for band, end in zip(paths.bands, ends, strict=True)}
        distances = {band: _distance(band, errors, widths) for band, widths in usual.items()}
        floor = np.where(np.nanmin(np.concatenate([actual[at] for at in group]), axis=0) >= 0, 0.0, -np.inf)[:, None]
        moved = _moved(effects, group, times, [ahead[at] for at in members], [own[at] for at in group], mean[group])
        for at, middle in zip(members, moved.mean(axis=0), strict=True):
            name, first = [*new][at], paths.part(slice(n), h)
            series.append(replace(pause, name=name, values=np.full_like(pause.values, np.nan)))
            bands = {band: np.maximum(middle + far, floor) for band, far in distances.items()}
            keys = first.keys.assign(series=name)
            parts.append(replace(first, keys=keys, mean=np.maximum(middle, floor), bands=bands))
        statics = listed([name for name, is_static in zip(names, are_static, strict=True) if is_static])
        lacking = [f"{band[2:]} %" for band, far in distances.items() if band[:2] == "hi" and np.isnan(far).all()]
        like = f" with equal {statics}" if alike and kind else f", since none has equal {statics}" if kind else ""
        notes.append(
            f"{listed([[*new][at] for at in members], 4)}: no history; the forecast is the mean of {len(group)} series"
            f"{like} ({listed([peers[at].name for at in group], 3)})"
            f"{', with the effects of its own columns' if effects else ''}"
            f"{f', without intervals of {listed(lacking)} (too few series)' if lacking else ''}"
        )
    return [*panel, *series], joined(parts), notes


def _distance(
    band: str, errors: Float64[np.ndarray, "e n h"], usual: Float64[np.ndarray, "d n h"]
) -> Float64[np.ndarray, "n h"]:
    """From the forecast to the end of an interval, such as lo80; NaN if the held-out series are too few for its level.

    Args:
        errors: absolute errors of e held-out series.
        usual: distances in the forecasts of the series of the group.
    """
    inside, sign = (len(errors) + 1) * float(band[2:]) / 100, -1 if band.startswith("lo") else 1
    most = np.nanquantile(errors, inside / len(errors), axis=(0, 2))[:, None] if inside <= len(errors) else np.nan
    return sign * np.maximum(most, np.nan_to_num(usual).mean(axis=0))


def _moved(
    effects: PanelEffects | None, places: Sequence[int], times: pd.DatetimeIndex, known: Sequence[np.ndarray],
    own: Sequence[np.ndarray], forecasts: Float64[np.ndarray, "d n h"],
) -> Float64[np.ndarray, "d s n h"]:  # fmt: skip
    """Forecasts of the series at d places, with the effects of s other rows of columns in place of their own."""
    moved = np.repeat(forecasts[:, None], len(known), axis=1)
    for d, place in enumerate(places if effects else ()):
        rows, stacked = pd.DatetimeIndex(times.append([times] * len(known))), np.concatenate([*known, own[d]])
        for column, each in enumerate(effects.by_column if effects else ()):
            *others, usual = each.predict(place, rows, stacked).reshape(-1, len(times))
            if each.is_ratio:
                moved[d, :, column] *= np.array(others) / np.maximum(usual, LEAST * each.unit[place])
            else:
                moved[d, :, column] += np.array(others) - usual
    return moved
