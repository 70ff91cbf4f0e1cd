"""Python interface: train models and forecast tables (pandas, polars, pyarrow); results have the type of the input.

ahead = Forecaster.load("runs/latest").predict(frame, horizon=48)

Helpers of `Forecaster`: a method for class and instance, settings, scores, skill and figure.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, overload

import pandas as pd
from rich.console import Console

from informer import checkpoint as checkpoints
from informer.base.errors import InputError, listed, with_addresses
from informer.base.progress import shown
from informer.build import read_dataset
from informer.checkpoint.paths import METRICS_FILE, forecasting_checkpoint
from informer.config.commands import PredictConfig
from informer.config.conversion import node_of
from informer.config.data import DatasetConfig, InputFormat, plain_settings
from informer.config.training import TrainConfig, check
from informer.data.diagnosis import series_column
from informer.data.history import Futures
from informer.data.panel import read_panel
from informer.inference.model import TrainedModel, table_of
from informer.inference.rolling import RollingScores, first_origin, roll_panel, with_origins
from informer.inference.writing import figure_of
from informer.inference.zero import ZeroModel
from informer.members.zero import network_seasons
from informer.pretrained.weights import NEWEST
from informer.read.remote import copies
from informer.read.series import Frame, Series, frame_of, like, path_of, prepared, table_of_file
from informer.read.table import Table, name_of, table_of_frame
from informer.training.folder import NAME, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)


Own = TypeVar("Own")


class OnClassOrInstance(Generic[Own]):
    """Descriptor of a method that, called on the class, creates an instance first."""

    def __init__(self, method: Callable[..., Own]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, instance: Own | None, owner: type[Own]) -> Callable[..., Own]:
        return MethodType(self.method, owner() if instance is None else instance)


def levels_of(intervals: int | Sequence[int]) -> Sequence[int]:
    """Levels as a sequence."""
    return (intervals,) if isinstance(intervals, int) else intervals


def table_settings(config: Mapping[str, Any], path: Path | None) -> TrainConfig:
    """The configuration for training on a table; `path` is its file, if it is saved as one."""
    if isinstance(config.get("dataset"), Mapping):  # overrides of single keys; the dataset stays `csv`
        other_settings = {key: value for key, value in config.items() if key != "dataset"}
        config = {f"dataset.{key}": value for key, value in config["dataset"].items()} | other_settings
    path_setting = {} if path is None else {"dataset.path": with_addresses(str(path))}
    from informer.config.hydra_compose import compose

    return compose({"dataset": "csv", **path_setting, **config})


def named_source(frame: Frame, name: str = "frame", *, is_named: bool = False) -> tuple[pd.DataFrame | Path, str]:
    """What a `Reader` reads of what a user passes: a table, a series, or the path or address of a file; and its name,
    which is that of the file unless `is_named`."""
    path = path_of(frame)
    if path is None:
        return frame_of(frame, name), name
    return path, name if is_named else name_of(path)


def by_name(frames: Mapping[Any, Frame] | Sequence[Frame]) -> Mapping[Any, Frame]:
    """Frames by name; those of a sequence are numbered."""
    return frames if isinstance(frames, Mapping) else {f"frames[{i}]": frame for i, frame in enumerate(frames)}


Key = TypeVar("Key")


@final
class Forecaster:
    """A model for tables: `Forecaster.fit(frame)`, `Forecaster.load(path)` or `Forecaster(**config).fit(frame)`.

    Args:
        trained: a trained model; None: not fitted yet.
        config: settings for `fit`, as on the command line.
    """

    def __init__(self, trained: TrainedModel | None = None, **config: Any) -> None:
        self._trained, self._config = trained, config
        self._scores: str | None = None

    def __repr__(self) -> str:
        """Targets, inputs and lengths in one line."""
        if self._trained is None:
            return "Forecaster()"
        sizes, columns, step = self._trained.sizes, self._trained.columns, self._trained.checkpoint.frequency
        ahead = f"{sizes.pred_len} rows of {listed(columns.targets)}"
        return f"Forecaster({ahead} from {sizes.seq_len} of {listed(columns.inputs)}, a row each {step})"

    @staticmethod
    def zero(version: str = NEWEST, *, device: str = "auto") -> "ZeroForecaster":
        """A forecaster that comes trained, on generated series only: it forecasts any table without `fit`."""
        return ZeroForecaster(version, device=device)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """Load a checkpoint file or a run directory; of a run with trainer.refit=true, the model fitted on all rows.

        `device` is "auto", "cpu", "cuda", "cuda:1" or "mps".

        Raises:
            InputError: no readable checkpoint, or the device is not available.
        """
        forecaster = cls(TrainedModel.load(forecasting_checkpoint(path), device=device))
        scores = Path(path) / METRICS_FILE
        forecaster._scores = scores.read_text() if scores.is_file() else None
        return forecaster

    @OnClassOrInstance
    @copies()
    def fit(self, frame: Frame, *, verbose: bool = False, **config: Any) -> "Forecaster":
        """Train a model like `informer train`; called on the class or on an instance. Returns the forecaster.

        Args:
            frame: a table (pandas, polars, pyarrow, ...) or series whose times are a column or the index, or the path
                or address of a file; all numeric columns are used unless `dataset` says otherwise.
            verbose: print the output of the command. Otherwise a terminal shows one line, the current activity, until
                the end.
            config: settings of the command line, dotted or nested: `target="OT", model="small",
                trainer={"max_epochs": 3}, **{"dataset.split.val": 0.2}`. With `run_dir` the run and the table are saved
                there, otherwise nothing is saved.

        Raises:
            InputError: an unknown key, a value out of range, or a table that cannot be trained on.
        """
        from informer.training.run import Read, saved_path, saved_table, train

        config = {**self._config, **config}
        requested_dir, path = config.pop("run_dir", None), path_of(frame)
        table = None if path is not None else table_of_frame(frame_of(frame, NAME), NAME, None)
        with ExitStack() as folders:
            run_dir = Path(requested_dir or Path(folders.enter_context(TemporaryDirectory())) / "run")
            kept_at = saved_path(table.frame, run_dir) if requested_dir and table is not None else None
            settings, folder = table_settings(config, path or kept_at), RunFolder(run_dir)
            read: Read = partial(read_dataset, settings)
            if table is not None:
                folders.enter_context(folder.claimed())
                folder.check_new()
                provenance = None if kept_at is None else folders.enter_context(saved_table(table.frame, kept_at))
                read = partial(read_dataset, settings, table=table, provenance=provenance)
            folders.enter_context(nullcontext() if verbose else shown(Console(stderr=True)))
            train(settings, folder, Console(quiet=not verbose), read=read)
            fitted = type(self).load(run_dir, device=settings.device)
            self._trained, self._scores = fitted._trained, fitted._scores
            return self

    @property
    def trained(self) -> TrainedModel:
        """The trained model.

        Raises:
            NotFittedError: the forecaster is not fitted.
        """
        if self._trained is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this Forecaster is not fitted: use Forecaster.fit(frame) or Forecaster.load(path)")
        return self._trained

    def save(self, path: str | Path) -> None:
        """Write a checkpoint file, for `load`; an InputError if the path cannot be written."""
        checkpoints.save(Path(path), self.trained.checkpoint)

    @copies()
    def predict(
        self,
        frame: Frame,
        *,
        horizon: int | str | None = None,
        intervals: int | Sequence[int] = (),
        future: Frame | None = None,
        dataset: Mapping[str, Any] | None = None,
    ) -> Any:
        """Forecast the rows after the end of a table.

        Args:
            frame: history of at least seq_len rows: a table or series whose times are a column or the index, or the
                path of a file. Columns may be in any order, and additional ones are allowed. With several series, a
                column names them.
            horizon: rows to forecast, a span such as "1day" or a date, pred_len by default; rows beyond are forecast
                recursively and marked in a column `rolled`.
            intervals: level or levels in percent: 80 adds the columns OT_lo80 and OT_hi80 for a target OT.
            future: future covariates at the forecast times; None: in the rows at the end of `frame` without targets.
            dataset: format and repairs of the data, if different from training: {"fill": "linear"}.

        Returns:
            A table of the type of `frame` (pandas for a path, pyarrow for other libraries than pandas and polars): the
            name of the series if there are several, the future timestamps, both named as in `frame`, and the targets in
            their own units (of a quantile model the median, OT_q10 and OT_q90).

        Raises:
            InputError: the table cannot be forecast (rows, columns, numbers, timestamps, step).
        """
        ahead = None if future is None else {"frame": future}
        (forecast,) = self._forecasts({"frame": frame}, ahead, horizon=horizon, intervals=intervals, dataset=dataset)
        return forecast

    @property
    def metrics(self) -> pd.DataFrame:
        """Overall scores of the model and the baselines on the test part, one row per units (scaled, original) and
        forecaster.

        Raises:
            InputError: no scores, or metrics.json is damaged.
        """
        if self._scores is None:
            raise InputError(
                "metrics: expected a fitted forecaster or one loaded from a run directory, found no scores"
            )
        try:
            scores = json.loads(self._scores)["scores"]
            rows = {
                (units, name): dict(by_units[units]["overall"])
                for units in ("scaled", "original")
                for name, by_units in scores.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"metrics.json: cannot be read ({type(error).__name__}: {error})") from error
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["units", "model"])

    @copies()
    def score(
        self,
        frame: Frame,
        *,
        horizon: int | str | None = None,
        stride: int | None = None,
    ) -> float:
        """Skill on the rows of `frame` after those of the fit: 1 - MSE / MSE of the better baseline; arguments as for
        `backtest`.

        With trainer.refit=true the model is fitted on all rows of its data, so only newer
        rows are scored; `metrics` has the scores of the test part.

        Raises:
            InputError: there is no origin after the rows of the fit.
        """
        model, how = self.trained, PredictConfig(horizon=None if horizon is None else str(horizon), stride=stride)
        panel = self._panel(frame, ahead=model.reach(horizon))
        valid_series, firsts, _ = with_origins(model, panel, how)
        scores = RollingScores(model, valid_series, firsts, how)
        for _ in roll_panel(model, valid_series, how, first_rows=firsts, scores=scores):
            pass  # the tables are not needed; making them fills the scores
        return scores.scores.skill

    @copies()
    def plot(
        self,
        frame: Frame,
        *,
        series: str | None = None,
        horizon: int | str | None = None,
        intervals: int | Sequence[int] = (),
        future: Frame | None = None,
    ) -> "Figure":
        """Plot history, forecast and intervals of one series, by default the first; arguments as for `predict`.

        Raises:
            InputError: no such series, or it cannot be forecast.
        """
        ahead = None if future is None else {"frame": future}
        (panel,), futures = self._read({"frame": frame}, ahead)
        chosen = [member for member in panel if series is None or member.name == series][:1]
        if not chosen:
            raise InputError(f"series={series}: expected one of {listed([member.name for member in panel])}")
        covariates = None if futures is None else [futures[0](chosen[0])]
        (forecast,) = self.trained.forecast(chosen, horizon=horizon, levels=levels_of(intervals), futures=covariates)
        return figure_of(forecast, title=chosen[0].name if len(panel) > 1 else "")

    @overload
    def predict_many(
        self, frames: Mapping[Key, Frame], *, horizon: int | str | None = None, intervals: int | Sequence[int] = (),
        futures: Mapping[Key, Frame] | None = None,
    ) -> dict[Key, Any]: ...  # fmt: skip

    @overload
    def predict_many(
        self, frames: Sequence[Frame], *, horizon: int | str | None = None, intervals: int | Sequence[int] = (),
        futures: Sequence[Frame] | None = None,
    ) -> list[Any]: ...  # fmt: skip

    @copies()
    def predict_many(
        self, frames: Mapping[Key, Frame] | Sequence[Frame], *, horizon: int | str | None = None,
        intervals: int | Sequence[int] = (), futures: Mapping[Key, Frame] | Sequence[Frame] | None = None,
    ) -> dict[Key, Any] | list[Any]:  # fmt: skip
        """`predict` for many tables, in batches; errors and other arguments as for `predict`.

        Args:
            frames: tables, paths or addresses, by name or in a sequence. If each series has its own scaler, the name
                selects it.
            futures: future covariates, by the same names or in the same order.

        Returns:
            Forecasts by the same names, or in the same order, each of the type of its table.
        """
        ahead = None if futures is None else by_name(futures)
        are_named = isinstance(frames, Mapping)
        forecasts = self._forecasts(by_name(frames), ahead, horizon=horizon, intervals=intervals, are_named=are_named)
        return dict(zip(frames, forecasts, strict=True)) if are_named else forecasts

    def _panel(self, frame: Frame, ahead: int | None = None) -> list[Series]:
        """The series of a table; `ahead`: see `Reader.series`."""
        return self.trained.reader.series(*named_source(frame), ahead=ahead)

    def _forecasts(
        self,
        frames: Mapping[Any, Frame],
        ahead: Mapping[Any, Frame] | None,
        *,
        horizon: int | str | None,
        intervals: int | Sequence[int],
        dataset: Mapping[str, Any] | None = None,
        are_named: bool = False,
    ) -> list[Any]:
        """The forecast of each table, of its type; arguments as of `_read`."""
        panels, futures = self._read(frames, ahead, dataset=dataset, are_named=are_named)
        series, covariates = [member for panel in panels for member in panel], None
        if futures is not None:
            covariates = [of(member) for of, panel in zip(futures, panels, strict=True) for member in panel]
        predicted = iter(
            self.trained.forecast(series, horizon=horizon, levels=levels_of(intervals), futures=covariates)
        )
        return [
            like(frame, table_of(list(islice(predicted, len(panel)))))
            for frame, panel in zip(frames.values(), panels, strict=True)
        ]

    def _read(
        self,
        frames: Mapping[Any, Frame],
        ahead: Mapping[Any, Frame] | None,
        *,
        dataset: Mapping[str, Any] | None = None,
        are_named: bool = False,
    ) -> tuple[list[list[Series]], list[Futures] | None]:
        """The series of each table, and their future covariates if the model has any.

        Args:
            ahead: tables of future covariates by the same names; None: they are in the rows at the end of `frames` that
                have no target.
            are_named: whether the names are those of single series; otherwise a file names its own.
        """
        model, reader = self.trained, self.trained.reader
        written = None if dataset is None else check(node_of(InputFormat, plain_settings(dataset)))
        panels = [
            reader.series(*named_source(frame, str(name), is_named=are_named), written)
            for name, frame in frames.items()
        ]
        if ahead is None and not model.columns.future_covariates:
            return panels, None
        label, tables = ("{}", frames) if ahead is None else ("future of {}", ahead)
        if absent := [str(name) for name in frames if name not in tables]:
            raise InputError(f"futures: expected one for each table, found none for {listed(absent)}")
        return panels, [reader.futures(*named_source(tables[name], label.format(name))) for name in frames]

    @copies()
    def backtest(
        self,
        frame: Frame,
        *,
        horizon: int | str | None = None,
        stride: int | None = None,
        intervals: int | Sequence[int] = (),
        adaptive: bool = False,
        start: str | None = None,
    ) -> Any:
        """Rolling-origin forecasts of a table, with the actual values.

        Args:
            frame, horizon: as for `predict`; `frame` also contains the future covariates.
            stride: rows between origins, pred_len by default.
            intervals: level or levels in percent: 80 adds the columns lo80 and hi80.
            adaptive: widths follow the coverage at earlier origins; see `informer.inference.rolling`.
            start: first forecast time; None: after seq_len rows.

        Returns:
            A table of the type of `frame` with one row per origin (the last known time), target and step: series (if
            there are several), origin, step, time, column, forecast, quantiles and intervals (q10, lo80), actual, and
            `rolled` if the horizon is beyond pred_len. The series and time columns are named as in `frame`.

        Raises:
            InputError: as for `predict`, or too few rows for one origin.
        """
        model = self.trained.scored
        if model.checkpoint.refit:
            log.warning("backtest: the model was fitted on all rows of its data; errors on these are too small")
        panel = self._panel(frame, ahead=model.reach(horizon))
        rows, levels = None if horizon is None else str(horizon), [*levels_of(intervals)]
        how = PredictConfig(horizon=rows, stride=stride, from_date=start, intervals=levels, adaptive=adaptive)
        firsts = None if start is None else [first_origin(model, series, start) for series in panel]
        tables = roll_panel(model, panel, how, first_rows=firsts)
        return like(frame, pd.concat(tables, ignore_index=True))


@final
class ZeroForecaster:
    """Forecasts of tables by the network that comes trained, each numeric column by itself; see `Forecaster.zero`.

    Args:
        version: one of `informer.pretrained.weights.VERSIONS`.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
    """

    def __init__(self, version: str = NEWEST, *, device: str = "auto") -> None:
        self.model = ZeroModel(version, device=device)

    @copies()
    def predict(
        self,
        frame: Frame,
        *,
        horizon: int | str,
        intervals: int | Sequence[int] = (),
        dataset: Mapping[str, Any] | None = None,
    ) -> Any:
        """Forecast the rows after the end of a table.

        Args:
            frame: a table or series whose times are a column or the index, or the path of a file, with 2 rows or more
                (1 with `dataset={"frequency": ...}`). A column that names several series is found, or is
                `dataset={"series_col": ...}`.
            horizon: rows to forecast, a span such as "2weeks" or a date.
            intervals: level or levels in percent, as for `Forecaster.predict`.
            dataset: format and repairs of the data: {"fill": "linear", "columns": ["OT"]}.

        Returns:
            A table like that of `Forecaster.predict`.

        Raises:
            InputError: the table cannot be forecast (rows, columns, numbers, timestamps, step), or horizon < 1.
        """
        settings = check(node_of(DatasetConfig, plain_settings(dataset or {})))
        path = path_of(frame)
        name = NAME if path is None else name_of(path)

        def table_with(settings: DatasetConfig) -> Table:
            if path is not None:
                return table_of_file(path, settings)
            return prepared(table_of_frame(frame_of(frame, NAME), NAME, None), settings)

        table = table_with(settings)
        if not settings.series_col and (column := series_column(table, settings)):
            settings = replace(settings, series_col=column)
            table = table_with(settings)  # read again, so that names such as 001 are text
        panel = [
            replace(series, series_col=settings.series_col)
            for series in read_panel(replace(table, name=name), settings, None)
        ]
        columns, levels = panel[0].columns, levels_of(intervals)
        forecasts = self.model.forecast(panel, columns, network_seasons(panel, columns), horizon=horizon, levels=levels)
        return like(frame, table_of(forecasts))
