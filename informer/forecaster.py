"""Python interface: train models and forecast tables (pandas, polars, pyarrow); results have the type of the input.

ahead = Forecaster.load("runs/latest").predict(frame, horizon=48)
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

import pandas as pd
from rich.console import Console

from informer import checkpoint as checkpoints
from informer.build import read_dataset, take_table
from informer.checkpoint.paths import METRICS, forecasting_checkpoint
from informer.data.attributes import attributes_from
from informer.data.read.frames import Frame, frame_of, like, path_of
from informer.data.read.table import table_of_frame
from informer.errors import listed
from informer.inference.estimator import (
    OnClassOrInstance,
    by_name,
    forecast_figure,
    known_ahead,
    known_attributes,
    levels_of,
    metrics_table,
    panel_of,
    panels_of,
    reader_with,
    skill_of,
    table_settings,
)
from informer.inference.predictor import TrainedModel
from informer.inference.rolling.forecasts import roll_panel
from informer.inference.rolling.scores import Rolling, first_origin
from informer.search.stage import Read, train
from informer.training.run_dir import RunFolder
from informer.training.saved_frame import NAME, saved_path, saved_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

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

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """Load a checkpoint file or a run directory; of a run with trainer.refit=true, the model fitted on all rows.

        `device` is "auto", "cpu", "cuda", "cuda:1" or "mps".

        Raises:
            InputError: no readable checkpoint, or the device is not available.
        """
        forecaster = cls(TrainedModel.load(forecasting_checkpoint(path), device=device))
        scores = Path(path) / METRICS
        forecaster._scores = scores.read_text() if scores.is_file() else None
        return forecaster

    @OnClassOrInstance
    def fit(
        self, frame: Frame, *, attributes: Frame | None = None, verbose: bool = False, **config: Any
    ) -> "Forecaster":
        """Train a model like `informer train`; called on the class or on an instance. Returns the forecaster.

        Args:
            frame: a table (pandas, polars, pyarrow, ...) or series whose times are a column or the index, or the path
                or address of a file; all numeric columns are used unless `dataset` says otherwise.
            attributes: static covariates with one row per series, as a table or the path or address of a file.
            verbose: print the output of the command.
            config: settings of the command line, dotted or nested: `target="OT", model="small",
                trainer={"max_epochs": 3}, **{"dataset.split.val": 0.2}`. With `run_dir` the run and the table are saved
                there, otherwise nothing is saved.

        Raises:
            InputError: an unknown key, a value out of range, or a table that cannot be trained on.
        """
        config = {**self._config, **config}
        parsed = known_attributes(attributes)
        config |= {"dataset.attributes": parsed} if isinstance(parsed, str) else {}
        requested_dir, path = config.pop("run_dir", None), path_of(frame)
        table = None if path is not None else table_of_frame(frame_of(frame, NAME), NAME, None)
        with ExitStack() as folders:
            run_dir = Path(requested_dir or Path(folders.enter_context(TemporaryDirectory())) / "run")
            kept_at = saved_path(table.frame, run_dir) if requested_dir and table is not None else None
            settings, folder = table_settings(config, path or kept_at), RunFolder(run_dir)
            series_attributes = (
                None if parsed is None or isinstance(parsed, str) else attributes_from(parsed, settings.dataset)
            )
            read: Read = partial(read_dataset, settings, attributes=series_attributes)
            if table is not None:
                folders.enter_context(folder.claimed())
                folder.check_new()
                provenance = None if kept_at is None else folders.enter_context(saved_table(table.frame, kept_at))
                read = partial(take_table, settings, table, provenance, attributes=series_attributes)
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

    def predict(
        self,
        frame: Frame,
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        future: Frame | None = None,
        dataset: Mapping[str, Any] | None = None,
        attributes: Frame | None = None,
    ) -> Any:
        """Forecast the rows after the end of a table.

        Args:
            frame: history of at least seq_len rows: a table or series whose times are a column or the index, or the
                path of a file. Columns may be in any order, and additional ones are allowed. With several series, a
                column names them.
            horizon: rows to forecast, pred_len by default; rows beyond pred_len are forecast recursively and marked in
                a column `rolled`.
            intervals: level or levels in percent: 80 adds the columns OT_lo80 and OT_hi80 for a target OT.
            future: future covariates at the forecast times, for the horizon rounded up to a multiple of pred_len.
            dataset: format and repairs of the data, if different from training: {"fill": "linear"}.
            attributes: one row per series, see `fit`; those of training series are known.

        Returns:
            A table of the type of `frame` (pandas for a path, pyarrow for other libraries than pandas and polars): the
            name of the series if there are several, the future timestamps, both named as in `frame`, and the targets in
            their own units (of a quantile model the median, OT_q10 and OT_q90).

        Raises:
            InputError: the table cannot be forecast (rows, columns, numbers, timestamps, step).
        """
        panel = panel_of(reader_with(self.trained.reader, attributes), frame, dataset=dataset)
        covariates = None if future is None else known_ahead(self.trained.reader, {"frame": panel}, {"frame": future})
        forecasts = self.trained.forecast(panel, horizon=horizon, levels=levels_of(intervals), futures=covariates)
        return like(frame, pd.concat([forecast.frame() for forecast in forecasts], ignore_index=True))

    @property
    def metrics(self) -> pd.DataFrame:
        """Scores of the model and the baselines on the test part; see `metrics_table`."""
        return metrics_table(self._scores)

    def score(
        self, frame: Frame, *, horizon: int | None = None, stride: int | None = None, attributes: Frame | None = None
    ) -> float:
        """Skill on the rows of `frame` after training, see `skill_of`; arguments as for `backtest`."""
        panel = panel_of(reader_with(self.trained.reader, attributes), frame, ahead=self.trained.reach(horizon))
        return skill_of(self.trained, panel, horizon=horizon, stride=stride)

    def plot(
        self,
        frame: Frame,
        *,
        series: str | None = None,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        attributes: Frame | None = None,
    ) -> "Figure":
        """Plot history, forecast and intervals of one series, by default the first; arguments as for `predict`."""
        panel = panel_of(reader_with(self.trained.reader, attributes), frame)
        return forecast_figure(self.trained, panel, series=series, horizon=horizon, levels=levels_of(intervals))

    @overload
    def predict_many(
        self, frames: Mapping[Key, Frame], *, horizon: int | None = None, intervals: int | Sequence[int] = (),
        futures: Mapping[Key, Frame] | None = None, attributes: Frame | None = None,
    ) -> dict[Key, Any]: ...  # fmt: skip

    @overload
    def predict_many(
        self, frames: Sequence[Frame], *, horizon: int | None = None, intervals: int | Sequence[int] = (),
        futures: Sequence[Frame] | None = None, attributes: Frame | None = None,
    ) -> list[Any]: ...  # fmt: skip

    def predict_many(
        self, frames: Mapping[Key, Frame] | Sequence[Frame], *, horizon: int | None = None,
        intervals: int | Sequence[int] = (), futures: Mapping[Key, Frame] | Sequence[Frame] | None = None,
        attributes: Frame | None = None,
    ) -> dict[Key, Any] | list[Any]:  # fmt: skip
        """`predict` for many tables, in batches; errors and other arguments as for `predict`.

        Args:
            frames: tables, paths or addresses, by name or in a sequence. If each series has its own scaler, the name
                selects it.
            futures: future covariates, by the same names or in the same order.
            attributes: as in `predict`, of all frames.

        Returns:
            Forecasts by the same names, or in the same order, each of the type of its table.
        """
        tables, panels = by_name(frames), panels_of(reader_with(self.trained.reader, attributes), frames)
        series = [member for panel in panels.values() for member in panel]
        covariates = None if futures is None else known_ahead(self.trained.reader, panels, by_name(futures))
        predicted = iter(
            self.trained.forecast(series, horizon=horizon, levels=levels_of(intervals), futures=covariates)
        )
        forecasts = [
            like(
                tables[name],
                pd.concat([forecast.frame() for forecast in islice(predicted, len(panel))], ignore_index=True),
            )
            for name, panel in panels.items()
        ]
        return dict(zip(frames, forecasts, strict=True)) if isinstance(frames, Mapping) else forecasts

    def backtest(
        self,
        frame: Frame,
        *,
        horizon: int | None = None,
        stride: int | None = None,
        intervals: int | Sequence[int] = (),
        adaptive: bool = False,
        start: str | None = None,
        attributes: Frame | None = None,
    ) -> Any:
        """Rolling-origin forecasts of a table, with the actual values.

        Args:
            frame, horizon: as for `predict`; `frame` also contains the future covariates.
            stride: rows between origins, pred_len by default.
            intervals: level or levels in percent: 80 adds the columns lo80 and hi80.
            adaptive: widths follow the coverage at earlier origins; see `informer.inference.rolling.adaptive`.
            start: first forecast time; None: after seq_len rows.
            attributes: as in `predict`.

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
        panel = panel_of(reader_with(model.reader, attributes), frame, ahead=model.reach(horizon))
        how = Rolling(horizon=horizon, stride=stride, start=start, levels=levels_of(intervals), adaptive=adaptive)
        firsts = None if start is None else [first_origin(model, series, start) for series in panel]
        tables = roll_panel(model, panel, how, first_rows=firsts)
        return like(frame, pd.concat(tables, ignore_index=True))
