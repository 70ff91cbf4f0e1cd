"""Helpers of `Forecaster`: a method for class and instance, settings, scores, skill and figure."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pandas as pd

from informer.config.compose import compose
from informer.config.conversion import node_of
from informer.config.input_format import InputFormat
from informer.config.schema import TrainConfig, check
from informer.data.future import Future, Futures
from informer.data.read.frames import Frame, frame_of, path_of
from informer.data.read.source import Series
from informer.data.read.table import name_of
from informer.errors import InputError, listed, with_addresses
from informer.inference.predictor import TrainedModel
from informer.inference.reader import Reader
from informer.inference.rolling.forecasts import roll_panel, with_origins
from informer.inference.rolling.scores import Rolling, RollingScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Own = TypeVar("Own")


class OnClassOrInstance(Generic[Own]):
    """Descriptor of a method that, called on the class, creates an instance first."""

    def __init__(self, method: Callable[..., Own]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, instance: Own | None, owner: type[Own]) -> Callable[..., Own]:
        return MethodType(self.method, owner() if instance is None else instance)


def metrics_table(metrics: str | None) -> pd.DataFrame:
    """Overall scores of a run, one row per units (scaled, original) and forecaster.

    Args:
        metrics: text of its metrics.json; None: there is none.

    Raises:
        InputError: no scores, or the file is damaged.
    """
    if metrics is None:
        raise InputError("metrics: expected a fitted forecaster or one loaded from a run directory, found no scores")
    try:
        scores = json.loads(metrics)["scores"]
        rows = {
            (units, name): dict(by_units[units]["overall"])
            for units in ("scaled", "original")
            for name, by_units in scores.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"metrics.json: cannot be read ({type(error).__name__}: {error})") from error
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["units", "model"])


def skill_of(model: TrainedModel, panel: Sequence[Series], *, horizon: int | None, stride: int | None) -> float:
    """1 - MSE / MSE of the better baseline, over origins after the training rows.

    Raises:
        InputError: there is no such origin.
    """
    how = Rolling(horizon=horizon, stride=stride)
    valid_series, firsts, _ = with_origins(model, panel, how)
    scores = RollingScores(model, valid_series, firsts, how)
    tables = roll_panel(model, valid_series, how, first_rows=firsts, scores=scores)
    assert sum(map(len, tables))
    return scores.evaluation().skill


def levels_of(intervals: int | Sequence[int]) -> Sequence[int]:
    """Levels as a sequence."""
    return (intervals,) if isinstance(intervals, int) else intervals


def forecast_figure(
    model: TrainedModel, panel: Sequence[Series], *, series: str | None, horizon: int | None, levels: Sequence[int]
) -> "Figure":
    """Plot history, forecast and intervals of one series, by default the first.

    Raises:
        InputError: no such series, or it cannot be forecast.
    """
    from informer.inference.jobs.picture import figure_of  # imports matplotlib

    chosen = [member for member in panel if series is None or member.name == series][:1]
    if not chosen:
        raise InputError(f"series={series}: expected one of {listed([member.name for member in panel])}")
    (forecast,) = model.forecast(chosen, horizon=horizon, levels=levels)
    return figure_of(forecast, title=chosen[0].name if len(panel) > 1 else "")


def table_settings(config: Mapping[str, Any], path: Path | None) -> TrainConfig:
    """The configuration for training on a table; `path` is its file, if it is saved as one."""
    if isinstance(config.get("dataset"), Mapping):  # overrides of single keys; the dataset stays `csv`
        other_settings = {key: value for key, value in config.items() if key != "dataset"}
        config = {f"dataset.{key}": value for key, value in config["dataset"].items()} | other_settings
    path_setting = {} if path is None else {"dataset.path": with_addresses(str(path))}
    return compose("train", {"dataset": "csv", **path_setting, **config})


def known_attributes(attributes: Frame | None) -> pd.DataFrame | str | None:
    """Attributes of series that a user passes: a pandas table, or the path or address of a file."""
    if attributes is None:
        return None
    return str(attributes) if isinstance(attributes, str | Path) else frame_of(attributes, "attributes")


def reader_with(reader: Reader, attributes: Frame | None) -> Reader:
    """The reader, which also knows the given attributes of series. Errors as in `Reader.with_attributes`."""
    parsed = known_attributes(attributes)
    return reader if parsed is None else reader.with_attributes(parsed)


def panel_of(
    reader: Reader,
    data: Frame,
    name: str | None = None,
    *,
    dataset: Mapping[str, Any] | None = None,
    ahead: int | None = None,
) -> list[Series]:
    """The series of what a user passes to be forecast.

    Args:
        data: a table, a series, or the path or address of a file.
        name: name of a single series; None: that of the file, or `frame`.
        dataset: how the data are written or repaired, if different from training.
        ahead: see `Reader.frame`.

    Raises:
        InputError: they cannot be forecast.
    """
    written, path = None if dataset is None else check(node_of(InputFormat, dict(dataset))), path_of(data)
    if path is not None:
        return reader.file(path, written or InputFormat(), name or name_of(path), ahead=ahead)
    name = name or "frame"
    return reader.frame(frame_of(data, name), name, ahead=ahead, input_format=written)


def panels_of(reader: Reader, frames: Mapping[Any, Frame] | Sequence[Frame]) -> dict[Any, list[Series]]:
    """The series of each of these, by name; see `panel_of`."""
    is_named = isinstance(frames, Mapping)
    return {
        name: panel_of(reader, frame, str(name) if is_named or path_of(frame) is None else None)
        for name, frame in by_name(frames).items()
    }


def by_name(frames: Mapping[Any, Frame] | Sequence[Frame]) -> Mapping[Any, Frame]:
    """Frames by name; those of a sequence are numbered."""
    return frames if isinstance(frames, Mapping) else {f"frames[{i}]": frame for i, frame in enumerate(frames)}


def known_ahead(reader: Reader, panels: Mapping[Any, Sequence[Series]], futures: Mapping[Any, Frame]) -> list[Future]:
    """Future covariates of every series of these tables, in order.

    Raises:
        InputError: a table has none, or they cannot be read.
    """
    absent = [str(name) for name in panels if name not in futures]
    if absent:
        raise InputError(f"futures: expected one for each table, found none for {listed(absent)}")
    covariates = {name: _future_of(reader, futures[name], f"future of {name}") for name in panels}
    return [covariates[name].of(series) for name, panel in panels.items() for series in panel]


def _future_of(reader: Reader, frame: Frame, name: str) -> Futures:
    path = path_of(frame)
    return reader.future_frame(frame_of(frame, name), name) if path is None else reader.future_file(path, InputFormat())
