"""From what was found in the data to the configuration of training: horizon, columns, split, short series."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from informer.config.compose import compose
from informer.config.dataset import Features, Short, SplitConfig, SplitKind
from informer.config.forecast import ForecastConfig
from informer.config.lengths import WindowSizes
from informer.config.schema import TrainConfig, check
from informer.data.read.source import Series
from informer.data.seasonality import Season
from informer.data.split import cut_rows, shortage
from informer.data.survey import seasons_of
from informer.errors import InputError, listed
from informer.workflow.subjects import Subject

MOST_HORIZON = 96
"""Rows of a horizon that was not given."""

SHARE = 10
"""Rows of a series for each row of such a horizon, at least."""

LEAST_SHARE = 4
"""The same where it was given."""

LEAST_HORIZON = 4
"""A season of fewer rows does not make a horizon."""

TRAINING = 0.8
"""Share of the budget for search, training and scoring; the rest forecasts and writes the report."""

READINGS = 2.5
"""Time of the rest relative to that of reading the data: both read it again."""

LEAST_TRAIN = 0.5
"""Share of the rows that stays for training when validation and test have to be longer than usual."""

CALIBRATION_WINDOWS = 5
"""In the later half of a validation part, so that it gives an 80 % interval."""

SEASONS_OF_HISTORY = 2
"""In a history that is not searched for."""

MOST_COLUMNS = 12
"""Columns whose seasons are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be done for one subject.

    Args:
        subject: the data.
        settings: of training.
        seasons: found in the targets, the clearest first.
        horizon: rows to forecast.
        notes: decisions that a user should know of.
    """

    subject: Subject
    settings: TrainConfig
    seasons: Sequence[Season]
    horizon: int
    notes: Sequence[str]


def plan(subject: Subject, settings: ForecastConfig, *, minutes: float, run_dir: Path) -> Plan:
    """Decide what the user has left open.

    Args:
        subject: what to forecast.
        settings: what the user has said.
        minutes: of the budget, for search, training and scoring.
        run_dir: of the run.

    Raises:
        InputError: too few rows for the horizon, or no such column.
    """
    panel, dataset, notes = subject.panel, subject.dataset, []
    columns = _targets(panel[0], settings)
    rows = sorted(map(len, panel))[len(panel) // 2]
    horizon = settings.horizon or usual_horizon(rows, panel[0].frequency.season)
    _check_rows(subject, rows, horizon)
    if dataset.split == SplitConfig():
        split = split_for(rows, horizon)
        if split != dataset.split:
            notes.append(f"split {split.train:g}/{split.val:g}/{split.test:g}, so that {rows} rows hold every part")
        dataset = replace(dataset, split=split)
    seasons = seasons_of(panel, columns[-MOST_COLUMNS:])
    seq_len = _history(rows, horizon, [season.period for season in seasons], panel[0].frequency.season)
    sizes = WindowSizes(seq_len=seq_len, label_len=seq_len // 2, pred_len=horizon)
    short = [one.name for one in panel if _is_short(one, replace(subject, dataset=dataset), sizes)]
    if dataset.short is Short.error and 0 < len(short) < len(panel):
        dataset = replace(dataset, short=Short.pad)
        notes.append(f"short=pad for {listed(short, 3)}, too short for every part")
    train = _training(settings, minutes)
    if not train.search:
        train = replace(train, seq_len=seq_len, label_len=seq_len // 2)
    only = settings.target is not None and len(panel[0].columns) == 1
    train = check(
        replace(
            train,
            dataset=dataset,
            pred_len=horizon,
            target=settings.target,
            features=Features.M if settings.target is None or only else Features.MS,
            seed=settings.seed,
            device=settings.device,
            run_dir=str(run_dir),
        )
    )
    return Plan(subject=subject, settings=train, seasons=seasons, horizon=horizon, notes=notes)


def for_training(minutes: float, reading: float) -> float:
    """Minutes of a budget for search, training and scoring, where reading the data took so many."""
    return max(min(TRAINING * minutes, minutes - READINGS * reading), minutes / 2)


def _check_rows(subject: Subject, rows: int, horizon: int) -> None:
    """Raise the InputError of series with too few rows for the horizon."""
    if LEAST_SHARE * horizon > rows:
        raise InputError(
            f"horizon={horizon}: expected at most {rows // LEAST_SHARE} for {subject.name}, whose "
            f"{'series have' if len(subject.panel) > 1 else 'series has'} {rows} rows: forecasts are trained, checked "
            "and tested on parts that each hold one"
        )


def usual_horizon(rows: int, season: int) -> int:
    """Two seasons of the step, or one; where the data is too short for that, a tenth of it."""
    most = max(min(MOST_HORIZON, rows // SHARE), 1)
    return next((n for n in (2 * season, season) if LEAST_HORIZON <= n <= most), most)


def split_for(rows: int, horizon: int) -> SplitConfig:
    """The usual split, or one whose validation part has enough windows for an interval and whose test part has one."""
    usual = SplitConfig()
    val, test = 2 * (horizon + CALIBRATION_WINDOWS) / rows, (horizon + 1) / rows
    shares = [max(float(usual.val or 0), _rounded_up(val)), max(float(usual.test or 0), _rounded_up(test))]
    if shares == [usual.val, usual.test]:
        return usual
    if sum(shares) > 1 - LEAST_TRAIN:
        shares[1] = _rounded_up(test)
    if sum(shares) > 1 - LEAST_TRAIN:  # no intervals then
        shares = [_rounded_up((horizon + 1) / rows)] * 2
    return SplitConfig(kind=SplitKind.ratio, train=round(1 - sum(shares), 2), val=shares[0], test=shares[1])


def _rounded_up(share: float) -> float:
    return -(-share * 100 // 1) / 100


def _targets(series: Series, settings: ForecastConfig) -> list[str]:
    wanted = settings.target
    if wanted is None:
        return list(series.columns)
    if wanted not in series.columns:
        raise InputError(f"target={wanted}: expected a column of numbers, one of {listed(series.columns)}")
    return [wanted]


def _history(rows: int, horizon: int, periods: Sequence[int], season: int) -> int:
    """Rows of history where none are searched for: two of the clearest season, and no less than a horizon."""
    period = next(iter(periods), season)
    return max(min(max(SEASONS_OF_HISTORY * period, horizon), rows // 4, 1024), 1)


def _is_short(series: Series, subject: Subject, sizes: WindowSizes) -> bool:
    split = cut_rows(series.timestamps, series.frequency, subject.dataset.split).clip(len(series))
    return shortage(split, len(series), subject.dataset.split, sizes=sizes, name=series.name) is not None


def _training(settings: ForecastConfig, minutes: float) -> TrainConfig:
    train: TrainConfig = compose("train", {"dataset": "csv", "model": settings.model_name})
    if train.search:
        trainer = replace(train.trainer, time_budget_minutes=minutes)
        train = replace(train, trainer=trainer)
    return train
