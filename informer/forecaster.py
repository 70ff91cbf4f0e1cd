"""Python interface: forecast tables (pandas, polars, pyarrow) with the pretrained network or a trained model.

ahead = Forecaster().predict(frame, horizon=48)
ahead = Forecaster("linear", pred_len=48).fit(frame).predict(frame)

Results have the type of the input.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import date, datetime
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.console import Console

from informer import checkpoint as checkpoints
from informer.base.errors import FileError, InputError, listed, with_addresses
from informer.base.progress import shown
from informer.checkpoint import hub
from informer.checkpoint.format import Rule
from informer.checkpoint.paths import METRICS_FILE, forecasting_checkpoint
from informer.config.commands import PredictConfig, WithSums, levels_of, listed_names
from informer.config.conversion import node_of
from informer.config.data import DatasetConfig, InputFormat, plain_settings
from informer.config.fields import HORIZON, check, keys_of
from informer.config.overrides import in_python
from informer.config.training import TrainConfig, tuning
from informer.data.dataset import read_dataset
from informer.data.diagnosis import series_column
from informer.data.history import Future
from informer.inference.model import TrainedModel, loaded
from informer.inference.totals import LEVELS, totals
from informer.inference.trained import TrainedPanel
from informer.inference.untrained import Subject, untrained
from informer.inference.writing import figure_of, of_series, stamps, table_of, without_times
from informer.inference.zero import ZeroModel
from informer.read.cells import key_text
from informer.read.remote import copies
from informer.read.series import DATES, Frame, Series, frame_of, like, path_of, table_of_file
from informer.read.shapes import prepared
from informer.read.split import split_for
from informer.read.table import Table, name_of, table_of_frame
from informer.training.folder import NAME, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

KEYS = keys_of(TrainConfig)
"""The settings, as errors name them."""


def _format(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """How a table is read, for its class of settings; an InputError if it is no dict."""
    if not isinstance(dataset, Mapping):
        raise InputError(f'dataset: expected a dict such as {{"fill": "linear"}}, found {dataset!r}')
    return plain_settings(dataset)


def _dotted(config: Mapping[str, Any], but: Sequence[str] = ()) -> dict[str, Any]:
    """Settings with those of the dataset by their dotted keys, as overrides of the dataset `csv`, without some."""
    if "dataset" in config:
        dotted = {f"dataset.{key}": value for key, value in _format(config["dataset"]).items()}
        config = dotted | {key: value for key, value in config.items() if key != "dataset"}
    return {key: value for key, value in config.items() if key not in but}


def training_settings(config: Mapping[str, Any], source: Path | Table, path: Path | None) -> TrainConfig:
    """The configuration for training on a table or file, with the column that names the series, found as `predict`
    does; `path` is the file, also of a table that is saved."""
    config = _dotted(config)
    path_setting = {} if path is None else {"dataset.path": with_addresses(str(path))}
    from informer.config.hydra_compose import compose

    settings = compose({"dataset": "csv", **path_setting, **config})
    dataset = settings.dataset
    if dataset.series_col is not None or (isinstance(source, Path) and not source.is_file()):
        return settings
    cells = table_of_file(source, dataset) if isinstance(source, Path) else prepared(source, dataset)
    return replace(settings, dataset=replace(dataset, series_col=series_column(cells, dataset)))


@contextmanager
def _in_python() -> Iterator[None]:
    """Errors name settings as arguments of Python."""
    try:
        yield
    except InputError as error:
        error.reword(partial(in_python, keys=KEYS))
        raise


@_in_python()
def check_settings(config: Mapping[str, Any]) -> None:
    """Raise an InputError if a setting of a forecaster does not exist, or has a wrong value."""
    from informer.config.hydra_compose import compose

    compose({"dataset": "csv", **_dotted(config, but=("horizon", "tune", "run_dir"))})


def named_source(frame: Frame, name: str = "frame", *, is_named: bool = False) -> tuple[pd.DataFrame | Path, str]:
    """What a `Reader` reads of what a user passes: a table, a series, or the path or address of a file; and its name,
    which is that of the file unless `is_named`."""
    path = path_of(frame)
    if path is None:
        return frame_of(frame, name), name
    return path, name if is_named else name_of(path)


def as_given(frame: Frame, table: pd.DataFrame, panel: Sequence[Series]) -> Any:
    """A table as one of the type of `frame`, in which columns that name the series have the type that they have there,
    and times that of its times: dates, text or numbers. Of a file, or a stream, which is read already, keys are text
    and times timestamps."""
    if path_of(frame) is not None or isinstance(frame, Iterator):
        return like(frame, table)
    given, same = table_of_frame(frame_of(frame, NAME), NAME).frame, list[str]()
    for name in {*panel[0].keys} & {*given} & {*table}:
        by_text = {"" if pd.isna(cell) else key_text(cell): cell for cell in given[name].unique()}
        if given[name].dtype.kind in "iu":
            new = [text for text in table[name].unique() if text not in by_text]  # a series without history
            by_text |= {text: int(text) for text in new if text.removeprefix("-").isdecimal()}
        if table[name].isin([*by_text]).all():
            table[name] = pd.Series(table[name].map(by_text), dtype=given[name].dtype)
            same.append(name)
    if (column := panel[0].time_col) in given and len(given):
        cells, first = given[column], given[column].iloc[0]
        times = [name for name, kind in table.dtypes.items() if kind.kind == "M"]
        if column in given.attrs.get(DATES, ()) or (isinstance(first, date) and not isinstance(first, datetime)):
            table = without_times(table, lambda found: [*found.date])
        elif cells.dtype.kind != "M":
            table = without_times(table, partial(stamps, panel))
            table = table.astype(dict.fromkeys(times, cells.dtype)) if is_numeric_dtype(cells) else table
    return like(frame, table, same)


def by_name(frames: Mapping[Any, Frame] | Sequence[Frame]) -> Mapping[Any, Frame]:
    """Frames by name; those of a sequence are numbered. An InputError if it is one frame."""
    if isinstance(frames, str | Path) or hasattr(frames, "columns"):
        raise InputError("frames: expected tables by name or in a list, found one table; use predict")
    return frames if isinstance(frames, Mapping) else {f"frames[{i}]": frame for i, frame in enumerate(frames)}


P = ParamSpec("P")
R = TypeVar("R")


def _front(method: Callable[P, R]) -> Callable[P, R]:
    """A method that keeps copies of remote files until it ends, and knows what other programs call the horizon."""

    @wraps(method)
    def called(*args: P.args, **how: P.kwargs) -> R:
        forecaster: Any = args[0]
        given = {name: each for name, each in forecaster.settings.items() if name != "pred_len"} | how
        for name in HORIZON:
            if name != "horizon" and name in given:
                raise InputError(f"{name}: expected none, the rows to forecast are horizon={given[name]}")
        with copies(), _in_python():
            return method(*args, **how)

    return called


MEMBERS = ("zero", "theta", "naive", "linear")
"""What is compared if nothing else is named."""
OF_TABLES = ("dataset", "target", "future_covariates", "device", "horizon")
"""Settings with which the pretrained network forecasts as it is; any other one is of a training."""


@final
class Forecaster:
    """Forecasts of tables, with the parameters of an estimator of scikit-learn.

    Args:
        model: "zero", the pretrained network, which needs no `fit`, or another name of `informer train model=`, whose
            model `fit` trains. With `tune`, minutes of computing, or settings of a training, such as `trainer`, `fit`
            trains "zero" further, and keeps the result if it is better on held-out rows than without.
        settings: as on the command line, dotted or nested: `target="OT"`, `trainer={"max_epochs": 3}`,
            `**{"dataset.split.val": 0.2}`. `horizon` is that of every forecast for which none is asked, and the
            `pred_len` of a training. With `run_dir`, `fit` saves the run and the table there, otherwise nothing
            is saved.
    """

    def __init__(self, model: str = "zero", **settings: Any) -> None:
        self.model, self.settings = model, settings
        self._trained: TrainedModel | None = None
        self._scores: str | None = None
        self._rule, self._untuned = Rule(), False

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor. After `load`, only the model: what it was trained with is in its file."""
        return {"model": self.model, **self.settings}

    def set_params(self, **params: Any) -> "Forecaster":
        """Change arguments of the constructor, for the next `fit`; returns the forecaster. An InputError if there is no
        such setting."""
        check_settings({"model": self.model, **params})
        self.model = params.pop("model", self.model)
        self.settings = {**self.settings, **params}
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it can forecast, for `sklearn.utils.validation.check_is_fitted`."""
        return self._trained is not None or self._comes_trained

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask of an estimator: nothing of their own."""
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        """The arguments, or of a trained model its targets, inputs and lengths, in one line."""
        if self._trained is None:
            return f"Forecaster({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"
        sizes, columns, step = self._trained.sizes, self._trained.columns, self._trained.checkpoint.frequency
        ahead = f"{sizes.pred_len} rows of {listed(columns.targets)}"
        return f"Forecaster({ahead} from {sizes.seq_len} of {listed(columns.inputs)}, a row each {step})"

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """Load a checkpoint file or a run directory; of a run with trainer.refit=true, the model fitted on all rows.

        `device` is "auto", "cpu", "cuda", "cuda:1" or "mps". Forecasts have the settings of the training, which are in
        the file. They are no arguments of the constructor: `get_params` has the model only, and `fit` and a clone start
        from the defaults; config.yaml of the run directory has all settings.

        Raises:
            InputError: no readable checkpoint, or the device is not available.
        """
        trained = loaded(forecasting_checkpoint(path), device)
        if isinstance(trained, Rule):
            forecaster = cls(device=device, **{name: getattr(trained, name) for name in OF_TABLES if name != "device"})
            forecaster._rule = trained
            return forecaster
        forecaster = cls(trained.model.family)
        forecaster._trained = trained
        scores = Path(path) / METRICS_FILE
        forecaster._scores = scores.read_text() if scores.is_file() else None
        return forecaster

    @_front
    def fit(self, frame: Frame, *, verbose: bool = False) -> "Forecaster":
        """Train the model like `informer train`; returns the forecaster. For "zero" effects of columns known ahead are
        fitted, those in `future_covariates` or in rows at the end without targets, otherwise there is nothing to do.

        Args:
            frame: a table (pandas, polars, pyarrow, ...) or series whose times are a column or the index, or the path
                or address of a file; all numeric columns are used unless `dataset` says otherwise.
            verbose: print the output of the command. Otherwise a terminal shows one line, the current activity, until
                the end.

        Raises:
            InputError: an unknown key, a value out of range, or a table that cannot be trained on.
        """
        self._rule, self._untuned = Rule(), False
        if self._comes_trained:
            if self.settings.get("future_covariates") or self.settings.get("target"):
                self._fit_rule(self._untrained(frame))
            return self
        from informer.data.dataset import Provenance
        from informer.inference.leaderboard import gain_of_training
        from informer.training.folder import saved_path, saved_table
        from informer.training.run import Read, train

        config = self.get_params()
        if (minutes := config.pop("tune", None)) is not None:
            subject = self._untrained(frame)
            rows, steps = sorted(map(len, subject.panel))[len(subject.panel) // 2], subject.steps(None)
            config = {**tuning(minutes, rows, split_for(rows, steps)), **config, "horizon": steps}
        requested_dir = config.pop("run_dir", None)
        source = path_of(frame) or table_of_frame(frame_of(frame, NAME), NAME)
        path, table = (source, None) if isinstance(source, Path) else (None, source)
        with ExitStack() as folders:
            run_dir = Path(requested_dir or Path(folders.enter_context(TemporaryDirectory())) / "run")
            kept_at = saved_path(table.frame, run_dir) if requested_dir and table is not None else None
            settings, folder = training_settings(config, source, path or kept_at), RunFolder(run_dir)
            read: Read = partial(read_dataset, settings)
            if table is not None:
                folders.enter_context(folder.claimed())
                folder.check_new()
                provenance = None
                if kept_at is not None:
                    provenance = Provenance(kept_at, folders.enter_context(saved_table(table.frame, kept_at)))
                read = partial(read_dataset, settings, table=table, provenance=provenance)
            folders.enter_context(nullcontext() if verbose else shown(Console(stderr=True)))
            train(settings, folder, Console(quiet=not verbose), read=read)
            fitted = type(self).load(run_dir, device=settings.device)
            if minutes is not None and not gain_of_training(fitted.trained, subject):
                log.warning(
                    "tune: training on the table did not lower the error on held-out rows, so forecasts are those "
                    "without it"
                )
                self._trained, self._scores, self._untuned = None, None, True
                self._fit_rule(subject)
            else:
                self._trained, self._scores = fitted._trained, fitted._scores
            return self

    def _fit_rule(self, subject: ZeroModel) -> None:
        if subject.known is not None and subject.usual_horizon is not None:  # else `predict` fits the effects
            self._rule = subject.rule(None)

    @property
    def trained(self) -> TrainedModel:
        """The trained model.

        Raises:
            NotFittedError: the forecaster is not fitted.
            InputError: a setting does not exist, or the pretrained network, which is no model of its own.
        """
        if self._trained is None:
            if self._comes_trained:
                raise InputError(
                    "the pretrained network has no weights of its own and no scores of a run; save and load keep it"
                )
            check_settings(self.get_params())
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this Forecaster is not fitted: use fit(frame) or Forecaster.load(path)")
        return self._trained

    @property
    def _comes_trained(self) -> bool:
        usual = self.model == "zero" and {key.partition(".")[0] for key in self.settings} <= {*OF_TABLES}
        return usual or self._untuned

    @property
    def _is_untrained(self) -> bool:
        return self._trained is None and self._comes_trained

    def save(self, path: str | Path) -> None:
        """Write a checkpoint file, for `load`; an InputError if the path cannot be written."""
        checkpoints.save(Path(path), self._own_rule if self._is_untrained else self.trained.checkpoint)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write model.safetensors, config.json and a model card, the files of a repository of the Hugging Face Hub."""
        scores = "" if self._scores is None else self.metrics.round(4).to_string()
        hub.save_pretrained(Path(folder), self.trained.checkpoint, scores)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, device: str = "auto") -> "Forecaster":
        """Load what `save_pretrained` wrote, from a folder or a repository of the Hub such as "name/model".

        Raises:
            InputError: see `load`; or no such folder or repository.
        """
        return cls.load(hub.model_file(source), device=device)

    @_front
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
            frame: history: a table or series whose times are a column or the index, or the path of a file. A trained
                model needs seq_len rows, its columns in any order, and allows additional ones; the pretrained network
                needs 2 (1 with `dataset={"frequency": ...}`), and without a target forecasts all columns but ids,
                codes, years and places. With several series, a column names them.
            horizon: rows to forecast, a span such as "1day" or a date; None: that of the constructor, or of the
                pretrained network as far as columns are known ahead. Rows beyond one pass are forecast recursively and
                marked in a column `rolled`.
            intervals: level or levels in percent: 80 adds the columns OT_lo80 and OT_hi80 for a target OT.
            future: columns known ahead at the forecast times; None: in the rows at the end of `frame` without targets.
                Next to the pretrained network a regression reads them where that lowers the error of earlier forecasts.
                A series that only `future` has, such as a new store, is forecast from those with equal static columns.
            dataset: format and repairs of the data, if different from the settings: {"fill": "linear"}.

        Returns:
            A table of the type of `frame` (pandas for a path, pyarrow for other libraries than pandas and polars): the
            columns that name the series if there are several, the future times, and the targets in their own units (of
            a quantile model the median, OT_q10 and OT_q90). Names and times have the names and types of `frame`: dates
            of dates, text of text; of a file, text and timestamps. Of several columns that name the series a cell may
            be null, and stays null.

        Raises:
            InputError: the table cannot be forecast (rows, columns, numbers, timestamps, step).
        """
        levels = levels_of(intervals)
        subject = self._subject(frame, future, dataset, allows_new=True)
        ((panel, paths),) = subject.answers(horizon, levels=levels)
        return as_given(frame, table_of(panel, paths), panel)

    @_front
    def totals(
        self,
        frame: Frame,
        *,
        horizon: int | str | None = None,
        aggregate: str | Sequence[str | Sequence[str]] = (),
        intervals: int | Sequence[int] = 80,
        above: Sequence[float] = (),
        future: Frame | None = None,
        dataset: Mapping[str, Any] | None = None,
    ) -> Any:
        """Sums of the forecasts over all series, with intervals that are right for the sum.

        Args:
            frame, horizon, intervals, future, dataset: as for `predict`.
            aggregate: columns that name the series, which are summed where they are equal, and a period: "day", "week",
                "month", "quarter" or "year", such as ["region", "month"], or several such lists; empty: all series at
                each step, and over the horizon. With columns the sum over all series is that of a call without them.
            above: numbers; of each the probability in percent that a sum is above it.

        Returns:
            A table of the type of `frame` with a row per group, period and target: the cells of the group, from, to,
            rows, column, value, lo80, hi80, above_12000.

        Raises:
            InputError: as for `predict`; series that end at different times; no such column or period.
        """
        levels = levels_of(intervals)
        wanted = check(
            WithSums(intervals=levels, total=not aggregate, aggregate=listed_names(aggregate), above=[*above])
        )
        subject = self._subject(frame, future, dataset)
        held = subject.held(subject.steps(horizon), LEVELS)
        paths = subject.forecast(horizon, levels=subject.supported([*dict.fromkeys([*levels, *LEVELS])]))
        table = totals(subject.panel, paths, wanted, held, DatasetConfig(), "").table
        return as_given(frame, table, subject.panel)

    @_front
    def explain(
        self,
        frame: Frame,
        *,
        horizon: int | str | None = None,
        future: Frame | None = None,
        dataset: Mapping[str, Any] | None = None,
    ) -> Any:
        """What adds up to each value of the forecast: level, season, recent rows, each column known ahead, the network;
        of the pretrained network level, columns known ahead, calendar and history. Arguments and errors as of
        `predict`.

        Returns:
            A table of the type of `frame` with one row per time, target and source.
        """
        from informer.inference.explain import tidy

        subject = self._subject(frame, future, dataset)
        table = tidy(subject.panel, subject.forecast(horizon, explained=True))
        return as_given(frame, table, subject.panel)

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
            raise FileError(f"metrics.json: cannot be read ({type(error).__name__}: {error})") from error
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["units", "model"])

    @_front
    def score(
        self,
        frame: Frame,
        *,
        horizon: int | str | None = None,
        stride: int | None = None,
    ) -> float:
        """Skill on the rows of `frame` after those of the fit: 1 - MSE / MSE of the better baseline; arguments as for
        `backtest`. Of the pretrained network, by MAE at earlier origins of the series.

        With trainer.refit=true the model is fitted on all rows of its data, so only newer rows are scored; `metrics`
        has the scores of the test part.

        Raises:
            InputError: there is no origin after the rows of the fit, or before the end of the series.
        """
        how = PredictConfig(horizon=None if horizon is None else str(horizon), stride=stride)
        return self._subject(frame).skill(how)

    @_front
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
        levels = levels_of(intervals)
        ((panel, paths),) = self._subject(frame, future, allows_new=True).answers(horizon, levels=levels)
        names = [each.name for each in panel]
        if series is not None and series not in names:
            raise InputError(f"series={series}: expected one of {listed(names)}")
        place, main = 0 if series is None else names.index(series), self._trained and self._trained.columns.main
        title = names[place] if len(panel) > 1 else ""
        return figure_of(panel[place], of_series(paths, place), title=title, main=main)

    @_front
    def predict_many(
        self, frames: Mapping[Any, Frame] | Sequence[Frame], *, horizon: int | str | None = None,
        intervals: int | Sequence[int] = (), futures: Mapping[Any, Frame] | Sequence[Frame] | None = None,
    ) -> Any:  # fmt: skip
        """`predict` for many tables, in batches; errors and other arguments as for `predict`.

        Args:
            frames: tables, paths or addresses, by name or in a sequence. If each series has its own scaler, the name
                selects it.
            futures: future covariates, by the same names or in the same order.

        Returns:
            A dict of forecasts by the same names, or a list in the same order, each of the type of its table.
        """
        ahead = None if futures is None else by_name(futures)
        by_frame, are_named, levels = by_name(frames), isinstance(frames, Mapping), levels_of(intervals)
        subjects = self._subjects(by_frame, ahead, are_named=are_named, allows_new=True)
        answers = chain.from_iterable(subject.answers(horizon, levels=levels) for subject in subjects)
        pairs = zip(by_frame.values(), answers, strict=True)
        tables = [as_given(frame, table_of(panel, paths), panel) for frame, (panel, paths) in pairs]
        return dict(zip(frames, tables, strict=True)) if are_named else tables

    def _subject(
        self, frame: Frame, future: Frame | None = None, dataset: Mapping[str, Any] | None = None, **how: bool
    ) -> Subject:
        """This forecaster for a table; arguments as of `_subjects`."""
        (subject,) = self._subjects({"frame": frame}, None if future is None else {"frame": future}, dataset, **how)
        return subject

    def _subjects(
        self,
        frames: Mapping[Any, Frame],
        ahead: Mapping[Any, Frame] | None,
        dataset: Mapping[str, Any] | None = None,
        *,
        are_named: bool = False,
        allows_new: bool = False,
    ) -> Iterable[Subject]:
        """This forecaster for some tables: a trained model for all of them, the pretrained network for each.

        Args:
            ahead: tables of future covariates by the same names; None: they are in the rows at the end of `frames` that
                have no target.
            dataset: how to read them, if different from the settings.
            are_named: whether the names are those of single series; otherwise a file names its own.
            allows_new: see `untrained`.
        """
        if ahead is not None and (absent := [str(name) for name in frames if name not in ahead]):
            raise InputError(f"futures: expected one for each table, found none for {listed(absent)}")
        futures = {name: None if ahead is None else ahead[name] for name in frames}
        if self._is_untrained:
            of = partial(self._untrained, dataset=dataset, allows_new=allows_new)
            return (of(frame, futures[name], name=str(name)) for name, frame in frames.items())
        reader, form = self.trained.reader, None if dataset is None else check(node_of(InputFormat, _format(dataset)))
        sources = {name: named_source(frame, str(name), is_named=are_named) for name, frame in frames.items()}

        def read() -> list[tuple[list[Series], list[Future]]]:
            tables = list[tuple[list[Series], list[Future]]]()
            for name, source in sources.items():
                future = (None, "") if ahead is None else named_source(ahead[name], f"future of {name}")
                tables.append(reader.read(*source, form, future=future[0], future_name=future[1]))
            return tables

        def whole(reach: int) -> list[Series]:
            return [each for source in sources.values() for each in reader.series(*source, form, ahead=reach)]

        return [TrainedPanel(self.trained, read, whole)]

    def _untrained(
        self,
        frame: Frame,
        future: Frame | None = None,
        dataset: Mapping[str, Any] | None = None,
        name: str = "frame",
        *,
        allows_new: bool = False,
    ) -> ZeroModel:
        """The pretrained network for a table."""
        config = check(node_of(DatasetConfig, self._dataset(dataset or {})))
        rule, device = self._own_rule, str(self.settings.get("device", "auto"))
        return untrained(frame, config, rule, name=name, future=future, device=device, allows_new=allows_new)

    @property
    def _own_rule(self) -> Rule:
        """What was fitted, with the settings."""
        own: dict[str, Any] = {name: self.settings[name] for name in ("target", "horizon") if name in self.settings}
        own |= {"dataset": self._dataset({}), "future_covariates": [*self.settings.get("future_covariates", ())]}
        return self._rule.model_copy(update=own)

    def _dataset(self, other: Mapping[str, Any]) -> Any:
        """How tables are read."""
        prefix = "dataset."
        dotted = {key.removeprefix(prefix): each for key, each in self.settings.items() if key.startswith(prefix)}
        return {**_format(self.settings.get("dataset", {})), **dotted, **_format(other)}

    @_front
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
            frame, horizon: as for `predict`; `frame` also contains the columns known ahead. The pretrained network
                reads those of the setting `future_covariates`, or those that the last rows have without a target.
            stride: rows between origins, pred_len by default.
            intervals: level or levels in percent: 80 adds the columns lo80 and hi80.
            adaptive: widths of a trained model follow the coverage at earlier origins; see
                `informer.scoring.intervals`.
            start: first forecast time; None: after seq_len rows, or of the pretrained network after the rows that a
                season and the horizon need.

        Returns:
            A table of the type of `frame` with one row per origin (the last known time), target and step: series (if
            there are several), origin, step, time, column, forecast, quantiles and intervals (q10, lo80), actual, and
            `rolled` if the horizon is beyond pred_len. The series and time columns are named as in `frame`.

        Raises:
            InputError: as for `predict`, or too few rows for one origin.
        """
        levels, rows = levels_of(intervals), None if horizon is None else str(horizon)
        how = PredictConfig(horizon=rows, stride=stride, from_date=start, intervals=levels, adaptive=adaptive)
        panel, table = self._subject(frame).rolling(how)
        return as_given(frame, table, panel)

    @_front
    def leaderboard(
        self, frame: Frame, *, models: Sequence[str] = MEMBERS, horizon: int | str | None = None
    ) -> pd.DataFrame:
        """Compare forecasters on the same earlier rows of a table; see `informer.inference.leaderboard`.

        Args:
            frame, horizon: as for `backtest`.
            models: "zero", "theta", "naive", models of `informer train` such as "linear" and "informer", which are
                trained with the settings of this forecaster, and "ets", "arima" and "lightgbm" of other packages.

        Returns:
            A row for each, the best first: `model`, `mase`, `wql`, `coverage80`, `seconds` of computing; and against
            the best `skill`, `low` and `high` (its 95 % interval), and `verdict`. Its `attrs` have the `headline` that
            the command prints, who is best or cannot be told apart, and `notes` on what was left out.

        Raises:
            InputError: as for `predict`; an unknown model, a missing package, or too few rows.
        """
        from informer.inference.leaderboard import leaderboard

        subject = self._untrained(frame)
        steps = subject.steps(horizon)
        device = str(self.settings.get("device", "auto"))
        found = leaderboard(subject, models, steps, device=device, settings=self.settings)
        found.table.attrs |= {"headline": found.headline, "notes": [*found.notes]}
        return found.table
