"""Forecasts of series without history, from those of series that are like them.

The forecast is the mean over the series d with equal static columns (over all, where none has equal ones) of

  y_d + effect_d(x_new) - effect_d(x_d),  or, of ratios,  y_d effect_d(x_new) / effect_d(x_d)

Its intervals are errors of held-out series: each series of the group is forecast in its last rows from the others, and
(n + 1) level of n errors are inside (split conformal prediction). They are at least as wide as the mean interval of the
group. Effects are those in all rows.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import listed
from informer.data.history import Future, future_index
from informer.inference.ahead import Known, PanelEffects
from informer.members.regression import LEAST, evenly
from informer.read.series import Series, column_values
from informer.scoring.forecasts import Forecasts, joined
from informer.scoring.origins import LEAST_HISTORY, Origins

MOST_LIKE = 50
"""Series that a new one is forecast from, evenly spaced among those that are like it."""


def with_new(
    peers: "Peers", panel: Sequence[Series], forecasts: Forecasts, new: Mapping[str, Future]
) -> tuple[list[Series], Forecasts, list[str]]:
    """A panel and its forecasts with those of new series at their end, and notes on what these are.

    Args:
        peers: of the panel.
        new: of each new series, rows ahead at the times after the end of the panel.

    Raises:
        InputError: a new series lacks rows, or has a cell that is not a number.
    """
    ahead = {name: future.at(peers.times, peers.names) for name, future in new.items()}
    are_static = np.all([(of == of[:1]).all(axis=0) for of in [*peers.known, *ahead.values()]], axis=0)
    statics, by_kind = listed([*compress(peers.names, are_static)]), defaultdict[tuple[float, ...], list[str]](list)
    for name, rows in ahead.items():
        by_kind[tuple(rows[0, are_static])].append(name)
    series, parts, notes, pause = list[Series](), [forecasts], list[str](), peers.panel[0].end(2)
    for kind, names in by_kind.items():
        alike = [place for place, known in enumerate(peers.known) if tuple(known[0, are_static]) == kind]
        group = [(alike or range(len(peers.panel)))[at] for at in evenly(len(alike or peers.panel), MOST_LIKE)]
        paths, lacking = peers.forecast(group, [ahead[name] for name in names])
        for name, path in zip(names, paths, strict=True):
            series.append(replace(pause, name=name, values=np.full_like(pause.values, np.nan)))
            parts.append(replace(path, keys=path.keys.assign(series=name)))
        like = f" with equal {statics}" if alike and kind else f", since none has equal {statics}" if kind else ""
        notes.append(
            f"{listed(names, 4)}: no history; the forecast is the mean of {len(group)} series"
            f"{like} ({listed([peers.panel[at].name for at in group], 3)})"
            f"{', with the effects of its own columns' if peers.effects else ''}"
            f"{f', without intervals of {listed(lacking)} (too few series)' if lacking else ''}"
        )
    return [*panel, *series], joined(parts), notes


@dataclass(frozen=True, slots=True)
class Peers:
    """The series that end last, and what is known of their forecasts.

    Args:
        panel: p series.
        names: k columns known ahead.
        times: h times ahead.
        known, ahead: the columns in all rows of each series, and at the times ahead.
        actual: the targets of each series.
        paths: forecasts of n targets of each series.
        earlier: forecasts of the last h rows of the series that are long enough, by their places.
        effects: those of the columns; None: they are not used.
    """

    panel: Sequence[Series]
    names: Sequence[str]
    times: pd.DatetimeIndex
    known: Sequence[Float64[np.ndarray, "t k"]]
    ahead: Sequence[Float64[np.ndarray, "h k"]]
    actual: Sequence[Float64[np.ndarray, "t n"]]
    paths: Forecasts
    earlier: Mapping[int, Float64[np.ndarray, "n h"]]
    effects: PanelEffects | None

    @classmethod
    def of(
        cls,
        panel: Sequence[Series],
        forecasts: Forecasts,
        futures: Sequence[Future],
        known: Known,
        *,
        has_effects: bool,
        earlier: Callable[[Sequence[Series], Origins, int], Forecasts],
    ) -> "Peers":
        """Those of a panel with columns known ahead; `earlier` forecasts some of its series from some origins, so many
        rows."""
        last, columns, names = max(each.timestamps[-1] for each in panel), forecasts.columns, known.columns
        places, n = [place for place, each in enumerate(panel) if each.timestamps[-1] == last], len(columns)
        peers = [panel[place] for place in places]
        paths = forecasts.part((np.array(places)[:, None] * n + np.arange(n)).ravel())
        times = future_index(peers[0], h := int(paths.are_steps[0].sum()))
        held = [place for place, each in enumerate(peers) if len(each) >= h + LEAST_HISTORY]
        origins = [(place, len(peers[place]) - h) for place in held]
        past = earlier(peers, origins, h).mean.reshape(-1, n, h) if held else ()
        return cls(
            panel=peers,
            names=names,
            times=times,
            known=[column_values(each, names) for each in peers],
            ahead=[futures[place].at(times, names) for place in places],
            actual=[column_values(each, columns) for each in peers],
            paths=paths,
            earlier=dict(zip(held, past, strict=True)),
            effects=PanelEffects.fit(peers, columns, known) if has_effects else None,
        )

    def forecast(
        self, group: Sequence[int], new: Sequence[Float64[np.ndarray, "h k"]]
    ) -> tuple[list[Forecasts], list[str]]:
        """Forecasts from a group of the series for each set of columns, and the levels that have no interval."""
        n, h = self.actual[0].shape[1], len(self.times)
        mean, *ends = (
            each.reshape(-1, n, each.shape[1])[group, :, :h] for each in (self.paths.mean, *self.paths.bands.values())
        )
        errors = self._errors(group, n, h)
        distances = {
            band: _distance(band, errors, np.abs(end - mean)) for band, end in zip(self.paths.bands, ends, strict=True)
        }
        floor = np.where(np.nanmin(np.concatenate([self.actual[at] for at in group]), axis=0) >= 0, 0.0, -np.inf)
        moved = self._moved(group, self.times, new, [self.ahead[at] for at in group], mean).mean(axis=0)
        first, paths = self.paths.part(slice(n), h), list[Forecasts]()
        for middle in moved:
            bands = {band: np.maximum(middle + far, floor[:, None]) for band, far in distances.items()}
            paths.append(replace(first, mean=np.maximum(middle, floor[:, None]), bands=bands))
        lacking = [f"{name[2:]} %" for name, far in distances.items() if name[:2] == "hi" and np.isnan(far).all()]
        return paths, lacking

    def _errors(self, group: Sequence[int], n: int, h: int) -> Float64[np.ndarray, "e n h"]:
        """Absolute errors in the last rows of each series of a group, forecast from the others; none of one series."""
        tested = [at for at in group if at in self.earlier]
        if len(tested) < 2:
            return np.zeros((0, n, h))
        recent, before = [self.known[at][-h:] for at in tested], np.stack([self.earlier[at] for at in tested])
        # moved[d, s] is the forecast of series s from series d
        moved = self._moved(tested, self.panel[0].timestamps[-h:], recent, recent, before)
        others = (moved.sum(axis=0) - before) / (len(tested) - 1)
        return np.abs(np.stack([self.actual[at][-h:].T for at in tested]) - others)

    def _moved(
        self, places: Sequence[int], times: pd.DatetimeIndex, new: Sequence[np.ndarray], own: Sequence[np.ndarray],
        forecasts: Float64[np.ndarray, "d n h"],
    ) -> Float64[np.ndarray, "d s n h"]:  # fmt: skip
        """Forecasts of the series at d places, with the effects of s other sets of columns in place of their own."""
        moved = np.repeat(forecasts[:, None], len(new), axis=1)
        if self.effects is None:
            return moved
        rows = pd.DatetimeIndex(times.append([times] * len(new)))
        for d, place in enumerate(places):
            columns = np.concatenate([*new, own[d]])
            for column, each in enumerate(self.effects.by_column):
                *others, usual = each.predict(place, rows, columns).reshape(-1, len(times))
                if each.is_ratio:
                    moved[d, :, column] *= np.array(others) / np.maximum(usual, LEAST * each.unit[place])
                else:
                    moved[d, :, column] += np.array(others) - usual
        return moved


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
