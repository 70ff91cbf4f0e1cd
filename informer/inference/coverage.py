"""Coverage and width of intervals, coverage and pinball loss of quantiles, over many windows."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from informer.errors import listed
from informer.inference.intervals import Calibration
from informer.metrics import Scores, pinball, to_float64
from informer.models.base import point
from informer.quantiles import central_pairs, quantile_name
from informer.units import Units

REPORTED_LEVELS = (80, 95)
"""Levels of conformal intervals, in percent."""

SHORT, LEAST_VALUES = 10.0, 30
"""Intervals are too narrow if they cover this many points less than their level, on at least so many values."""


@final
class Means:
    """Running means per step and column, by name, over observed values."""

    def __init__(self) -> None:
        self.windows = 0
        self._sums: dict[str, Tensor] = {}
        self._counts: Tensor | float = 0.0

    def add(self, scores: Mapping[str, Float[Tensor, "b pred_len n"]], actual: Float[Tensor, "b pred_len n"]) -> None:
        """Add the windows of one batch; missing actual values are ignored."""
        missing = actual.isnan()
        sums = {name: to_float64(values.masked_fill(missing, 0.0)).sum(dim=0).cpu() for name, values in scores.items()}
        self._sums = {name: self._sums.get(name, 0.0) + batch_sum for name, batch_sum in sums.items()}
        self._counts = self._counts + to_float64(~missing).sum(dim=0).cpu()
        self.windows += len(actual)

    @property
    def observed(self) -> bool:
        """Whether any actual value was added."""
        return bool(torch.as_tensor(self._counts).any())

    def counts(self, columns: Sequence[str]) -> dict[str, int]:
        """Number of observed values, of all columns (the name "") and of each."""
        counts = torch.as_tensor(self._counts).sum(dim=0)
        return {"": int(counts.sum())} | dict(zip(columns, map(int, counts.tolist()), strict=True))

    def overall(self) -> dict[str, float]:
        """Means over all steps and columns."""
        return {name: values[0] for name, values in self._mean(-2, -1).items()}

    def by_step(self) -> Scores:
        """Means per step."""
        return self._mean(-1)

    def by_column(self) -> Scores:
        """Means per column."""
        return self._mean(-2)

    def _mean(self, *axes: int) -> Scores:
        share = torch.as_tensor(self._counts / self.windows).mean(dim=axes)  # 1 where nothing is missing
        means = {name: sums.mean(dim=axes) / self.windows / share for name, sums in self._sums.items()}
        return {name: values.flatten().tolist() for name, values in means.items()}


@final
class IntervalScores:
    """Scores of a model's intervals and quantiles, in scaled units, before any transform of the targets.

    Args:
        quantiles: levels that the model forecasts.
        calibration: calibration of its intervals, if any.
        intervals: levels to score, in percent; those that need more calibration windows are skipped.
    """

    def __init__(
        self, quantiles: Sequence[float], calibration: Calibration | None, intervals: Sequence[int] = REPORTED_LEVELS
    ) -> None:
        self._levels, self._calibration = quantiles, calibration
        calibrated = [level for level in intervals if calibration is not None and calibration.supports(level)]
        self._conformal = {level: Means() for level in calibrated}
        self._central = {pair: Means() for pair in central_pairs(quantiles)}
        self._quantiles = {level: Means() for level in quantiles}

    @property
    def intervals(self) -> dict[str, Means]:
        """Coverage in percent and width: conformal intervals by level (`80`), central intervals by their quantiles
        (`q10_q90`)."""
        central = {f"{quantile_name(low)}_{quantile_name(high)}": means for (low, high), means in self._central.items()}
        named = {str(level): means for level, means in self._conformal.items()} | central
        return {name: means for name, means in named.items() if means.observed}

    @property
    def quantiles(self) -> dict[str, Means]:
        """Pinball loss and coverage, the percentage of actual values not above the quantile, by name (`q10`)."""
        return {quantile_name(level): means for level, means in self._quantiles.items() if means.observed}

    def add(
        self,
        output: Float[Tensor, "b pred_len n *q"],
        actual: Float[Tensor, "b pred_len n"],
        history: Float[Tensor, "b seq_len n"],
        halves: Mapping[int, Float[Tensor, "b pred_len n"]] | None = None,
        units: Units | None = None,
    ) -> None:
        """Add the windows of one batch.

        Args:
            output: output of the model.
            actual: actual values; NaN where missing.
            history: history of the targets.
            halves: half widths by level; None: those of the calibration.
            units: units of the targets; None: not transformed.
        """
        standard = units.standard if units is not None else lambda values: values
        constant = None if units is None else units.constant
        forecast = point(output, self._levels)
        for level, means in self._conformal.items():
            assert self._calibration is not None
            half = self._calibration.half_width(level, history, constant=constant) if halves is None else halves[level]
            half = half[:, : forecast.shape[1]].to(forecast)
            width = standard(forecast + half) - standard(forecast - half)
            inside = (forecast - actual).abs() <= half
            means.add(_interval(inside, width), actual.masked_fill(~half.isfinite(), torch.nan))
        if constant is not None:  # these have no quantiles
            actual = actual.masked_fill(constant[:, None], torch.nan)
        quantiles = dict(zip(self._levels, output.unbind(-1), strict=True)) if self._levels else {}
        for (low, high), means in self._central.items():
            inside = (quantiles[low] <= actual) & (actual <= quantiles[high])
            means.add(_interval(inside, standard(quantiles[high]) - standard(quantiles[low])), actual)
        for quantile, values in quantiles.items():
            below = 100.0 * (actual <= values).float()
            scores = {"pinball": pinball(standard(values), standard(actual), quantile), "coverage": below}
            self._quantiles[quantile].add(scores, actual)


def shortfalls(intervals: Mapping[str, Means], columns: Sequence[str]) -> dict[str, dict[str, float]]:
    """Coverage in percent of the intervals that are too narrow (SHORT), of all columns (the name "") and of each.

    Args:
        intervals: as in `IntervalScores.intervals`.
        columns: names of the targets.
    """
    short: dict[str, dict[str, float]] = {}
    for name, means in intervals.items():
        if not means.windows:
            continue
        counts = means.counts(columns)
        covered = {"": means.overall()["coverage"]} | dict(zip(columns, means.by_column()["coverage"], strict=True))
        low = {
            column: share
            for column, share in covered.items()
            if counts[column] >= LEAST_VALUES and share < nominal(name) - SHORT
        }
        if low:
            short[name] = low if len(columns) > 1 else {"": covered[""]}
    return short


def nominal(name: str) -> float:
    """Level in percent of intervals by their name: `80`, or `q10_q90`."""
    low, _, high = name.partition("_")
    return float(high[1:]) - float(low[1:]) if high else float(low)


def too_narrow(short: Mapping[str, Mapping[str, float]]) -> str:
    """A sentence about the result of `shortfalls`; empty if no interval is too narrow."""
    parts = []
    for name, covered in short.items():
        columns = [f"{column} {share:.0f} %" for column, share in covered.items() if column]
        listing = listed(columns, MOST_NAMED) if "" not in covered else f"{covered['']:.0f} %"
        listing += f" ({listed(columns, MOST_NAMED)})" if columns and "" in covered else ""
        parts.append(f"those of {nominal(name):g} % cover {listing}")
    return f"intervals are too narrow: {', '.join(parts)} of the test values" if parts else ""


MOST_NAMED = 3


def _interval(inside: Bool[Tensor, "b pred_len n"], width: Float[Tensor, "*b pred_len n"]) -> dict[str, Tensor]:
    return {"coverage": 100.0 * inside.float(), "width": width.expand(inside.shape)}
