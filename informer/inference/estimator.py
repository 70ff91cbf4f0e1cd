"""What makes a forecaster an estimator: a method for class and instance, its scores, its skill and its picture."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pandas as pd

from informer.config.compose import compose
from informer.config.schema import TrainConfig
from informer.data.future import Future
from informer.data.read.given import Given, frame_of
from informer.data.read.source import Series
from informer.errors import InputError, as_given, listed
from informer.inference.predictor import TrainedModel
from informer.inference.reader import Reader
from informer.inference.rolling import roll_panel, with_origins
from informer.inference.rolling_scores import Rolling, RollingScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Own = TypeVar("Own")


class OnClassOrInstance(Generic[Own]):
    """A method that creates an instance first where it is called on the class."""

    def __init__(self, method: Callable[..., Own]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, instance: Own | None, owner: type[Own]) -> Callable[..., Own]:
        return MethodType(self.method, owner() if instance is None else instance)


def metrics_table(saved: str | None) -> pd.DataFrame:
    """Overall scores of a run's metrics.json, a row for each forecaster in scaled and in original units.

    Raises:
        InputError: there are none, or the file is damaged.
    """
    if saved is None:
        raise InputError("metrics: expected a fitted forecaster or one loaded from a run directory, found no scores")
    try:
        scores = json.loads(saved)["scores"]
        rows = {
            (units, name): dict(parts[units]["overall"])
            for units in ("scaled", "original")
            for name, parts in scores.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"metrics.json: cannot be read ({type(error).__name__}: {error})") from error
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["units", "model"])


def skill_of(model: TrainedModel, panel: Sequence[Series], *, horizon: int | None, stride: int | None) -> float:
    """1 - MSE / MSE of the better baseline over origins after the rows of training.

    Raises:
        InputError: no such origin.
    """
    how = Rolling(horizon=horizon, stride=stride)
    kept, firsts, _ = with_origins(model, panel, how)
    scores = RollingScores(model, kept, firsts, how)
    tables = roll_panel(model, kept, how, firsts=firsts, scores=scores)
    assert sum(map(len, tables))
    return scores.evaluation().skill


def levels_of(intervals: int | Sequence[int]) -> Sequence[int]:
    """One level, or several."""
    return (intervals,) if isinstance(intervals, int) else intervals


def forecast_figure(
    model: TrainedModel, panel: Sequence[Series], *, series: str | None, horizon: int | None, levels: Sequence[int]
) -> "Figure":
    """History, forecast and intervals of one series, the first unless one is named.

    Raises:
        InputError: no such series, or it cannot be forecast.
    """
    from informer.inference.jobs.picture import figure_of  # imports matplotlib

    chosen = [one for one in panel if series is None or one.name == series][:1]
    if not chosen:
        raise InputError(f"series={series}: expected one of {listed([one.name for one in panel])}")
    (found,) = model.forecast(chosen, horizon=horizon, levels=levels)
    return figure_of(found, title=chosen[0].name if len(panel) > 1 else "")


def table_settings(config: Mapping[str, Any], path: Path | None) -> TrainConfig:
    """The configuration for training on a table, which may be saved as a file."""
    if isinstance(config.get("dataset"), Mapping):  # of its keys; the choice itself stays
        rest = {key: value for key, value in config.items() if key != "dataset"}
        config = {f"dataset.{key}": value for key, value in config["dataset"].items()} | rest
    kept = {} if path is None else {"dataset.path": as_given(str(path))}
    return compose("train", {"dataset": "csv", **kept, **config})


def known_ahead(reader: Reader, panels: Mapping[Any, Sequence[Series]], futures: Mapping[Any, Given]) -> list[Future]:
    """The future covariates of every series of these tables.

    Raises:
        InputError: a table has none, or they cannot be read.
    """
    absent = [str(name) for name in panels if name not in futures]
    if absent:
        raise InputError(f"futures: expected one for each table, found none for {listed(absent)}")
    names = {name: f"future of {name}" for name in panels}
    known = {name: reader.future_frame(frame_of(futures[name], called), called) for name, called in names.items()}
    return [known[name].of(series) for name, panel in panels.items() for series in panel]
