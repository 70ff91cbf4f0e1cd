"""Forecasts that read columns known ahead: the pretrained network, effects of the columns, or effects and the network.

The network forecasts a series, or what effects leave of it. Which of three forecasts is used, earlier origins of the
series decide together:

  network             as without the columns
  effects             the effect; the network says how far values are from it, not in which direction
  effects + network   the effect, and the mean of what the network expects of the remainder

What is put back is a mean, over all quantiles with their tails: the middle quantile of a skewed count is below it, and
sums of forecasts would be too low.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from informer.base.errors import FileError, InputError, listed
from informer.checkpoint.format import Rule
from informer.checkpoint.restore import DO_NOT_FIT
from informer.data.history import future_index
from informer.members.regression import Effects, Terms, evenly
from informer.members.zero import Histories, Pretrained
from informer.networks.models.zero import at_level
from informer.networks.ops import zero_inputs
from informer.read.series import Series, column_values

NETWORK, EFFECTS, BOTH = "network", "effects", "effects + network"
HISTORY = "history"
"""The part of a forecast that no column explains."""
Candidate = tuple[Float64[np.ndarray, "n h"], Float64[np.ndarray, "n h q"]]
"""Point forecasts and quantiles of n histories."""
MOST_IN_TERMS = 64
"""Series whose rows give knots and categories."""

POINTS = 1000
"""Levels, equally spaced, whose quantiles make up a mean."""


@dataclass(frozen=True, slots=True)
class Known:
    """Columns known ahead.

    Args:
        columns: their names.
        categorical: those of them with categories.
        holidays: countries or parts of countries whose holidays are known too.
    """

    columns: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    holidays: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class PanelEffects:
    """Effects in each target of a panel.

    Args:
        columns: the targets.
        known: the columns known ahead.
        by_column: the effects in each target.
    """

    columns: Sequence[str]
    known: Known
    by_column: Sequence[Effects]

    @classmethod
    def fit(
        cls,
        panel: Sequence[Series],
        columns: Sequence[str],
        known: Known,
        *,
        penalties: Sequence[float] = (),
    ) -> "PanelEffects":
        """Fit to the series of a panel, which have the columns known ahead.

        Args:
            panel, columns, known: the series, and see `PanelEffects`.
            penalties: of each target; empty: they are chosen.
        """
        times, values = [each.timestamps for each in panel], [column_values(each, known.columns) for each in panel]
        terms = Terms.of(
            max(times, key=len),
            np.concatenate([values[place] for place in evenly(len(panel), MOST_IN_TERMS)]),
            known.columns,
            categorical=known.categorical,
            step=panel[0].frequency,
            holidays=known.holidays,
        )
        by_column = [
            Effects.fit(
                times,
                values,
                [column_values(each, [name])[:, 0] for each in panel],
                terms,
                penalty=penalties[place] if penalties else None,
            )
            for place, name in enumerate(columns)
        ]
        return cls(columns, known, by_column)

    @classmethod
    def of_rule(cls, rule: Rule, panel: Sequence[Series], columns: Sequence[str], known: Known) -> "PanelEffects":
        """Those of a file, for series that it has.

        Raises:
            InputError: it has no such series, columns or step, or its parts do not fit.
        """
        names, own = [each.name for each in panel], {name: place for place, name in enumerate(rule.series)}
        if len(names) == len(own) == 1:
            names = rule.series
        new, step = [name for name in names if name not in own], panel[0].frequency.code
        if new or step != rule.step:
            said = f"found {listed(new or names)} at {step}; fit again"
            raise InputError(f"effects were fitted to {listed(rule.series)} at {rule.step}, {said}")
        terms, n, places = rule.terms, len(own), [own[name] for name in names]
        m = terms.size if terms is not None and terms.columns == known.columns else 0
        shapes = {"center": (m,), "scale": (m,), "weights": (n, m), "level": (n,), "unit": (n,)}
        expected = {f"{k}.{name}": shape for k in range(len(columns)) for name, shape in shapes.items()}
        found = {name: tuple(array.shape) for name, array in rule.effects.items()}
        if terms is None or not m or expected != found or len(columns) != len(rule.are_ratios):
            raise FileError(f"{DO_NOT_FIT}: effects of {listed(known.columns)} on {listed(columns)} in {n} series")
        arrays = {name: array.numpy() for name, array in rule.effects.items()}
        for name, array in arrays.items():
            finite = 1 / array if name.endswith("scale") else array  # what never changes has an infinite scale
            if array.dtype != np.float64 or not np.isfinite(finite).all():
                raise FileError(f"{DO_NOT_FIT}: effects.{name}: expected finite numbers of double precision")
            if name.endswith(("weights", "level", "unit")):
                arrays[name] = array[places]
        own_arrays = [{name: arrays[f"{k}.{name}"] for name in shapes} for k in range(len(columns))]
        pairs = zip(rule.are_ratios, own_arrays, strict=True)
        return cls(columns, known, [Effects(terms=terms, is_ratio=x, penalty=0.0, **each) for x, each in pairs])

    def facts(self) -> dict[str, Any]:
        """The entries of a `Rule` that hold them."""
        names = ("center", "scale", "weights", "level", "unit")
        arrays = {f"{k}.{name}": getattr(each, name) for k, each in enumerate(self.by_column) for name in names}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        ratios = [each.is_ratio for each in self.by_column]
        return {"terms": self.by_column[0].terms, "are_ratios": ratios, "effects": tensors}

    def contributions(
        self, s: int, series: Series, ahead: Float64[np.ndarray, "h k"]
    ) -> dict[str, Float64[np.ndarray, "h n"]]:
        """Parts of the effects in the rows after series s of the panel, see `Effects.contributions`."""
        times = future_index(series, len(ahead))
        by_target = [each.contributions(s, times, ahead) for each in self.by_column]
        return {name: np.stack([parts[name] for parts in by_target], axis=1) for name in by_target[0]}

    def candidates(
        self,
        member: Pretrained,
        past: Histories,
        panel: Sequence[Series],
        origins: Sequence[tuple[int, int]],
        ahead: Sequence[np.ndarray],
        horizon: int,
    ) -> dict[str, Candidate]:
        """Point forecasts and quantiles of EFFECTS and BOTH of each target from origins (series, rows before it).

        Args:
            past: the targets before the origins.
            ahead: values of the columns known ahead in the rows after the end of each series; empty: of the series.
            horizon: rows to forecast.
        """
        histories, effects, ratios, done = list[np.ndarray](), list[np.ndarray](), list[bool](), dict[int, np.ndarray]()
        firsts = {s: max(end - zero_inputs.HISTORY, 0) for s, end in sorted(origins, reverse=True)}
        for s, end in origins:
            series, first = panel[s], firsts[s]
            if s not in done:
                own = series.part(slice(first, None))
                times, known = own.timestamps, column_values(own, self.known.columns)
                if len(ahead):
                    times = pd.DatetimeIndex(times.append(future_index(series, len(ahead[s]))))
                    known = np.concatenate([known, ahead[s]])
                done[s] = np.stack([each.predict(s, times, known) for each in self.by_column])
            values = column_values(series, self.columns)[first:end].T
            for each, effect, column in zip(self.by_column, done[s], values, strict=True):
                before, after = effect[: end - first], effect[end - first :][:horizon]
                histories.append(each.remainder(s, column, before))
                effects.append(np.pad(after, (0, horizon - len(after)), mode="edge"))
                ratios.append(each.is_ratio)
        rest = member.quantiles(Histories.of(histories, past.seasons), panel[0].frequency, horizon)
        mean, effect, is_ratio = rest @ mean_weights(), np.stack(effects), np.array(ratios)[:, None]
        quantiles = np.where(is_ratio[..., None], effect[..., None] * rest, effect[..., None] + rest)
        expected = np.where(is_ratio, effect * mean, effect + mean)
        shift, factor = (effect - expected)[..., None], (1 / np.maximum(mean, 1e-9))[..., None]
        around = np.where(is_ratio[..., None], quantiles * factor, quantiles + shift)
        found = {EFFECTS: (effect, around), BOTH: (expected, quantiles)}
        bounded = past.bounded
        return {kind: (bounded(point[..., None])[..., 0], bounded(of)) for kind, (point, of) in found.items()}


@cache
def mean_weights() -> Float64[np.ndarray, " n"]:
    """Weights of the quantiles of the network in the mean of their distribution, tails included."""
    unit = np.eye(len(zero_inputs.LEVELS))
    weights: np.ndarray = np.mean([at_level(unit, (k + 0.5) / POINTS) for k in range(POINTS)], axis=0)
    return weights
