"""Monitor a model: skill and coverage of its forecasts from every origin since training."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from rich.console import Console
from scipy.stats import t
from torch import Tensor

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError, listed, signed_percent
from informer.base.files import make_folder, write_atomic
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import WATCHED, check_output, forecasting_checkpoint, locate
from informer.config import conversion
from informer.config.commands import WatchConfig
from informer.config.conversion import without_nan
from informer.data.store import with_columns
from informer.data.windows import Batch
from informer.inference.model import TrainedModel
from informer.inference.rolling import baselines_before, moment_in, series_windows
from informer.networks.forecast_model import model_output
from informer.networks.models.base import point
from informer.read.series import Series
from informer.scoring.bootstrap import Interval, Winner, skill_interval, skill_of
from informer.scoring.evaluate import add_windows
from informer.scoring.intervals import Baseline
from informer.scoring.scores import Scores
from informer.service.rows import joined_series, newer_rows, older_rows

log = logging.getLogger(__name__)


LEVEL = 80
"""Level in percent of the intervals whose coverage is monitored."""

OFF = 0.05
"""Deviation of coverage from the level that is tolerated before intervals are recalibrated."""

SURE = 0.99
"""Confidence level of the tests of coverage and skill."""

FEWEST_HORIZONS = 8
"""Minimum number of non-overlapping horizons for these tests."""

MOST_NAMED = 3
"""Maximum number of series named in a warning."""

PERIODS = 12
"""Maximum number of periods for which scores are shown."""

INSIDE = "inside"
"""Column of `Findings.origins`: share of actual values inside the intervals."""


class Verdict(Enum):
    """Recommended action; the value is the exit status of the command."""

    ok = 0
    recalibrate = 10
    """Intervals cover too much or too little."""
    retrain = 12
    """A baseline is better."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Findings:
    """Findings of monitoring.

    Args:
        model: name of the model.
        origins: a row per time of the first forecast value, the mean over the series with an origin there: scaled mean
            squared error of the model and its baselines, by name, and INSIDE, which is NaN without intervals.
        coverage: share of actual values inside the interval, for origins with non-overlapping horizons.
        level: interval level in percent; None: the model has no intervals.
        horizon: rows of a forecast.
    """

    model: str
    origins: pd.DataFrame
    coverage: Float64[np.ndarray, " blocks"]
    level: int | None
    horizon: int

    @property
    def mse(self) -> dict[str, float]:
        """Scaled mean squared error by forecaster, over all origins."""
        return _mse(self.origins)

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest mean squared error."""
        return min((name for name in self.mse if name != self.model), key=self.mse.__getitem__)

    @property
    def skill(self) -> float:
        """1 - MSE / MSE of the better baseline, over all origins."""
        return _skill(self.mse, self.model)

    @property
    def recent_skill(self) -> Interval:
        """Interval of the skill over the later half of the origins, at level SURE; NaN ends with too few origins."""
        later = self.origins.iloc[len(self.origins) // 2 :]
        if len(later) < FEWEST_HORIZONS * self.horizon:
            return Interval(math.nan, math.nan)
        own, other = (later[name].to_numpy() for name in (self.model, self.best_baseline))
        return skill_interval(own, other, block=self.horizon, level=SURE)

    @property
    def is_covering(self) -> bool:
        """Whether coverage is within OFF of the level, or within noise (t test over horizons)."""
        n = len(self.coverage)
        if self.level is None or n < FEWEST_HORIZONS:
            return True
        share = self.level / 100
        # a few horizons may agree by chance: at least the standard deviation for independent values
        spread = max(float(self.coverage.std(ddof=1)), (share * (1 - share) / self.horizon) ** 0.5)
        noise = float(t.ppf((1 + SURE) / 2, n - 1)) * spread / n**0.5
        return abs(float(self.coverage.mean()) - share) <= max(OFF, noise)

    @property
    def periods(self) -> list[dict[str, Any]]:
        """Scores of consecutive origins: times of the first forecast value of the first and the last one, number of
        origins, mean squared errors, skill, coverage."""
        n = len(self.origins)
        parts = [self.origins.iloc[rows] for rows in np.array_split(np.arange(n), min(PERIODS, n))]
        return [
            {
                "first": str(part.index[0]),
                "last": str(part.index[-1]),
                "origins": len(part),
                "mse": _mse(part),
                "skill": _skill(_mse(part), self.model),
                "coverage": float(part[INSIDE].mean()),
            }
            for part in parts
        ]

    def decide(self) -> tuple[Verdict, str]:
        """The verdict, and the reason in one sentence."""
        if self.recent_skill.high < 0:
            ends = " to ".join(map(signed_percent, self.recent_skill))
            return Verdict.retrain, (
                f"{self.model} is {Winner.baseline.value} {self.best_baseline} on the later half ({100 * SURE:.0f} % "
                f"interval of the skill {ends})"
            )
        if not self.is_covering:
            return Verdict.recalibrate, (
                f"intervals of {self.level} % cover {self.coverage.mean():.1%} of actual values"
            )
        return Verdict.ok, "errors and coverage are as expected"


def _mse(origins: pd.DataFrame) -> dict[str, float]:
    return {str(name): float(error) for name, error in origins.drop(columns=INSIDE).mean().items()}


def _skill(mse: Mapping[str, float], model: str) -> float:
    """`skill_of` the model and the better baseline."""
    return skill_of(mse[model], min(error for name, error in mse.items() if name != model))


def to_json(findings: Findings, facts: dict[str, Any]) -> str:
    """All findings and `facts`; numbers that are not finite are null."""
    verdict, reason = findings.decide()
    plain = {
        "verdict": verdict.name,
        "reason": reason,
        "exit_status": verdict.value,
        "skill": findings.skill,
        "recent_skill_interval": list(findings.recent_skill),
        "best_baseline": findings.best_baseline,
        "origins": len(findings.origins),
        "mse": findings.mse,
        "interval": findings.level,
        "coverage": float(findings.coverage.mean()) if len(findings.coverage) else None,
        "periods": findings.periods,
    }
    return json.dumps(without_nan(plain | facts), indent=2) + "\n"


@torch.inference_mode()
def findings_of(model: TrainedModel, panel: Sequence[Series], until: str, batch_size: int) -> Findings:
    """Forecast each series from every origin, and score model and baselines.

    Args:
        model: trained on rows up to `until`.
        panel: series in the order of training, with rows before and after `until`.
        until: last time of training.
        batch_size: windows per batch.

    Series without an origin, such as closed stores, are left out with a warning.

    Raises:
        InputError: no series has an origin, or a forecast is not finite.
    """
    lacking, pairs = list[str](), list[tuple[Series, int]]()
    for series in panel:
        try:
            pairs.append((series, _first(model, series, until)))
        except InputError as error:
            lacking.append(str(error))
    if not pairs:
        raise InputError(lacking[0])
    if lacking:
        log.warning(f"{len(lacking)} series not watched: {listed(lacking, MOST_NAMED)}")
    before = [series.part(slice(n)) for series, n in pairs]
    fitted, *_ = baselines_before(model, with_columns(before, model.columns.inputs))
    baselines = [Baseline(each, model.model.non_negative) for each in fitted]
    scored = model.scored
    levels = [LEVEL] if scored.calibration is not None and scored.calibration.supports(LEVEL) else []
    unknown = np.full((1, len(model.columns.targets)), np.nan)
    tables = []
    for series, first in pairs:
        inside: list[Tensor] = []

        def forecast(batch: Batch, inside: list[Tensor] = inside) -> Tensor:
            ahead = point(model_output(model.model, batch), model.quantiles).double()
            for half in scored.halves(batch, levels).values():
                width = torch.from_numpy(half[:, : ahead.shape[1]]).to(ahead)
                is_inside = ((ahead - batch.target).abs() <= width).double()
                inside.append(is_inside.masked_fill(width.isnan(), torch.nan).nanmean(dim=(1, 2)).cpu())
            return ahead

        starts = range(first - model.sizes.first, len(series) - model.sizes.rows + 1)
        forecasters = {model.model.family: forecast} | {one.name: one for one in baselines}
        windows = series_windows(model, series, starts)
        scores = add_windows(Scores(model.columns.targets), forecasters, windows, change=unknown, batch_size=batch_size)
        table = pd.DataFrame({name: scores.by_window(name) for name in scores.names})
        if not np.isfinite(table).all(axis=None):
            raise InputError(f"{series.name}: a forecast is not finite; look for extreme values in {series.name}")
        table[INSIDE] = torch.cat(inside).numpy() if inside else np.nan
        tables.append(table.set_index(series.timestamps[first : first + len(table)]))
    blocks = np.concatenate([table[INSIDE].to_numpy()[:: model.sizes.pred_len] for table in tables])
    return Findings(
        model=model.model.family,
        origins=pd.concat(tables).groupby(level=0).mean(),
        coverage=blocks if levels else blocks[:0],
        level=LEVEL if levels else None,
        horizon=model.sizes.pred_len,
    )


def _first(model: TrainedModel, series: Series, until: str) -> int:
    """Row of the first forecast value: the first after training with a full window before it."""
    row = int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), side="right"))
    first, needed = max(row, model.sizes.first), model.sizes.pred_len
    if len(series) - first < needed:
        raise InputError(
            f"{series.name}: expected at least pred_len={needed} rows after {until}, the end of training, and "
            f"{model.sizes.first} rows before them; found {max(len(series) - first, 0)}"
        )
    return first


JSON = "watch.json"


def watch(settings: WatchConfig, console: Console) -> tuple[Verdict, str]:
    """Write the findings as JSON, and print and return the verdict and its reason.

    Raises:
        InputError: no run, the file has too few rows after the training data, or dataset.fill=mask.
    """
    path, where = locate(settings.checkpoint), settings.input or ""
    saved, until = forecasting(settings.checkpoint)
    output = Path(settings.output) if settings.output else path.parent / WATCHED
    check_output(
        output, [output / JSON], inputs=[path, Path(where)], overwrite=settings.overwrite or not settings.output
    )
    with logging_to(console, quiet=True):
        model = TrainedModel(saved, device=settings.device)
        results = findings_of(model, _panel(settings, saved, until), until, settings.batch_size)
    verdict, reason = results.decide()
    make_folder(output)
    facts = {"checkpoint": settings.checkpoint, "input": where, "trained_until": until}
    write_atomic(output / JSON, to_json(results, facts))
    say(console, f"{verdict.name}: {reason}")
    say(console, str(output / JSON))
    return verdict, reason


def forecasting(name: str) -> tuple[Checkpoint, str]:
    """The checkpoint and the end of its training rows: the one that `predict` uses if it records this time, otherwise
    the scored one.

    Raises:
        InputError: neither records it.
    """
    saved = checkpoint.load(forecasting_checkpoint(name))
    until = saved.fitted_until
    if until is None:
        raise InputError(f"checkpoint={name}: does not record the end of its training rows; train again")
    return saved, until


def _panel(settings: WatchConfig, saved: Checkpoint, until: str) -> Sequence[Series]:
    """The rows of the file, preceded by those of training.

    Raises:
        InputError: missing values, with or without dataset.fill=mask, or a file that does not fit the run.
    """
    trained = conversion.from_plain(saved.config)
    if settings.dataset.applied_to(trained.dataset).keeps_gaps:
        raise InputError(
            "dataset.fill=mask: watch does not support missing values; score the model with informer predict "
            "mode=rolling, or set dataset.fill=ffill|linear|zero for a model trained without mask"
        )
    newer = _trained(newer_rows(saved, settings.input or "", settings.dataset), saved)
    try:
        older = _trained(older_rows(saved, settings.history), saved)
    except InputError as error:
        if settings.history or any(
            int(series.timestamps.searchsorted(moment_in(until, series, "until"))) < trained.sizes.first
            for series in newer
        ):
            raise
        log.warning(f"{error}; the rows of {settings.input} are compared with one another only")
        return newer
    last = max(series.timestamps[-1] for series in older)
    if all(series.timestamps[-1] <= last for series in newer):
        return older  # no new rows: monitor the run's own test part, if it was not fitted on it
    return joined_series(older, newer, where=settings.input or "")


def _trained(panel: Sequence[Series], saved: Checkpoint) -> list[Series]:
    """The series that the model was trained on."""
    return [series for series in panel if not saved.series or series.name in saved.series]
