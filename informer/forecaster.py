"""Models and forecasts from Python: tables in (pandas, polars, pyarrow), tables of the same kind out.

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
from informer.build import take_table
from informer.checkpoint.paths import REPORT, followed, newest
from informer.config.conversion import node_of
from informer.config.input_format import InputFormat
from informer.config.schema import check
from informer.data.read.given import Given, frame_of, like, path_of
from informer.data.read.source import Series
from informer.data.read.table import name_of, table_of_frame
from informer.errors import listed
from informer.inference.estimator import (
    OnClassOrInstance,
    forecast_figure,
    known_ahead,
    levels_of,
    metrics_table,
    skill_of,
    table_settings,
)
from informer.inference.predictor import TrainedModel
from informer.inference.refits import Refits
from informer.inference.rolling import roll_panel
from informer.inference.rolling_scores import Rolling, first_origin
from informer.search.stage import train
from informer.training.kept_table import NAME, kept_path, kept_table
from informer.training.refitting import refit_of
from informer.training.run_dir import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

Key = TypeVar("Key")


@final
class Forecaster:
    """A trained model for tables: `Forecaster.fit(frame)`, `Forecaster.load(path)`, `Forecaster(**config).fit(frame)`.

    Args:
        trained: the model; None creates a forecaster that is not fitted.
        config: keys of the command line for `fit`.
    """

    def __init__(self, trained: TrainedModel | None = None, **config: Any) -> None:
        self._trained, self._config = trained, config
        self._scores: str | None = None
        self._run: Path | None = None

    def __repr__(self) -> str:
        """Targets, inputs and lengths in one line."""
        if self._trained is None:
            return "Forecaster()"
        sizes, columns, step = self._trained.sizes, self._trained.columns, self._trained.checkpoint.frequency
        ahead = f"{sizes.pred_len} rows of {listed(columns.targets)}"
        return f"Forecaster({ahead} from {sizes.seq_len} of {listed(columns.inputs)}, a row each {step})"

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """From a checkpoint file or a run directory; with trainer.refit=true from what was fitted on all rows.

        Args:
            device: "auto", "cpu", "cuda", "cuda:1" or "mps".

        Raises:
            InputError: there is no readable checkpoint, or device is not available.
        """
        found = cls(TrainedModel.load(newest(path), device=device))
        scores, found._run = Path(path) / REPORT[0], followed(path)
        found._scores = scores.read_text() if scores.is_file() else None
        return found

    @OnClassOrInstance
    def fit(self, frame: Given, *, verbose: bool = False, **config: Any) -> "Forecaster":
        """Train like `python -m informer.train`, `verbose` with its output; on the class or on an instance.

        Args:
            frame: a table (pandas, polars, pyarrow, ...) or series, time a column or the index, or the path or address
                of a file; all numeric columns are used unless `dataset` says otherwise.
            config: keys of the command line, dotted or nested: `target="OT", model="small", trainer={"max_epochs": 3},
                **{"dataset.split.val": 0.2}`. With `run_dir` the run and the table are saved there, otherwise nowhere.

        Raises:
            InputError: an unknown key, a value out of range, a table that cannot be trained on, or times in a zone
                without pyarrow.
        """
        config = {**self._config, **config}
        wanted, path = config.pop("run_dir", None), path_of(frame)
        table = None if path is not None else table_of_frame(frame_of(frame, NAME), NAME, None)
        with ExitStack() as folders:
            run_dir = Path(wanted or Path(folders.enter_context(TemporaryDirectory())) / "run")
            kept_at = kept_path(table.frame, run_dir) if wanted and table is not None else None
            settings, folder, read = table_settings(config, path or kept_at), RunFolder(run_dir), None
            if table is not None:
                folders.enter_context(folder.claimed())
                folder.check_new()
                kept = None if kept_at is None else folders.enter_context(kept_table(table.frame, kept_at))
                read = partial(take_table, settings, table, kept)
            train(settings, folder, Console(quiet=not verbose), read=read)
            found = type(self).load(run_dir, device=settings.device)
            self._trained, self._scores, self._run = found._trained, found._scores, run_dir if wanted else None
            return self

    @property
    def trained(self) -> TrainedModel:
        """The model.

        Raises:
            NotFittedError: it is not fitted.
        """
        if self._trained is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this Forecaster is not fitted: use Forecaster.fit(frame) or Forecaster.load(path)")
        return self._trained

    def save(self, path: str | Path) -> None:
        """Write the checkpoint file that `load` reads.

        Raises:
            InputError: the path cannot be written.
        """
        checkpoints.save(Path(path), self.trained.checkpoint)

    def predict(
        self,
        frame: Given,
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        future: Given | None = None,
        dataset: Mapping[str, Any] | None = None,
    ) -> Any:
        """Forecast the rows after the end of a table.

        Args:
            frame: history, at least seq_len rows, as a table, a series or the path of a file; time a column or the
                index; columns in any order, additional ones allowed; of all series where a column names them.
            horizon: rows to forecast, pred_len by default; rows beyond pred_len come from the model's own output and
                are marked in a column `rolled`.
            intervals: level or levels in percent: 80 adds the columns OT_lo80 and OT_hi80 for a target OT.
            future: future covariates of the forecast times, for as many rows as the model forecasts at once.
            dataset: how the data are written or repaired, if different from training: {"fill": "linear"}.

        Returns:
            A table of the kind of `frame` (pandas for a path, pyarrow for what is neither pandas nor polars): future
            timestamps under the table's own time-column name, then the targets in their own units (of a quantile
            model the median, and OT_q10, OT_q90), after the name of the series if there are several.

        Raises:
            InputError: the table cannot be forecast (rows, columns, numbers, timestamps, step).
        """
        panel = self._panel(frame, dataset)
        known = None if future is None else known_ahead(self.trained.reader, {"frame": panel}, {"frame": future})
        found = self.trained.forecast(panel, horizon=horizon, levels=levels_of(intervals), futures=known)
        return like(frame, pd.concat([forecast.frame() for forecast in found], ignore_index=True))

    def _panel(self, frame: Given, dataset: Mapping[str, Any] | None, ahead: int | None = None) -> list[Series]:
        """The series of what a user passes; `dataset` as in `predict`."""
        written = None if dataset is None else check(node_of(InputFormat, dict(dataset)))
        path, reader = path_of(frame), self.trained.reader
        if path is not None:
            return reader.file(path, written or InputFormat(), name_of(path), ahead=ahead)
        return reader.frame(frame_of(frame, "frame"), "frame", ahead=ahead, written=written)

    @property
    def metrics(self) -> pd.DataFrame:
        """Errors of the model and the baselines on the test part; see `metrics_table`."""
        return metrics_table(self._scores)

    def score(self, frame: Given, *, horizon: int | None = None, stride: int | None = None) -> float:
        """Skill on the rows of `frame` that training did not see, see `skill_of`; arguments as for `backtest`."""
        panel = self._panel(frame, None, self.trained.reach(horizon))
        return skill_of(self.trained, panel, horizon=horizon, stride=stride)

    def plot(
        self,
        frame: Given,
        *,
        series: str | None = None,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
    ) -> "Figure":
        """A figure of the history, the forecast and its intervals, of the named or first series; see `predict`."""
        panel = self._panel(frame, None)
        return forecast_figure(self.trained, panel, series=series, horizon=horizon, levels=levels_of(intervals))

    @overload
    def predict_many(
        self,
        frames: Mapping[Key, Given],
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        futures: Mapping[Key, Given] | None = None,
    ) -> dict[Key, Any]: ...

    @overload
    def predict_many(
        self,
        frames: Sequence[Given],
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        futures: Sequence[Given] | None = None,
    ) -> list[Any]: ...

    def predict_many(
        self,
        frames: Mapping[Key, Given] | Sequence[Given],
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        futures: Mapping[Key, Given] | Sequence[Given] | None = None,
    ) -> dict[Key, Any] | list[Any]:
        """`predict` for many tables, in batches.

        Args:
            frames: by name, or in a sequence. If each series has its own scaler, the name selects it.
            futures: future covariates, by the same names or in the same order.

        Returns:
            Forecasts by the same names, or in the same order, each of the kind of its table.
        """
        given = _by_name(frames)
        panels = {
            name: self.trained.reader.frame(frame_of(frame, str(name)), str(name)) for name, frame in given.items()
        }
        series = [one for panel in panels.values() for one in panel]
        known = None if futures is None else known_ahead(self.trained.reader, panels, _by_name(futures))
        found = iter(self.trained.forecast(series, horizon=horizon, levels=levels_of(intervals), futures=known))
        forecasts = [
            like(given[name], pd.concat([one.frame() for one in islice(found, len(panel))], ignore_index=True))
            for name, panel in panels.items()
        ]
        return dict(zip(frames, forecasts, strict=True)) if isinstance(frames, Mapping) else forecasts

    def backtest(
        self,
        frame: Given,
        *,
        horizon: int | None = None,
        stride: int | None = None,
        intervals: int | Sequence[int] = (),
        adaptive: bool = False,
        refit_every: int | None = None,
        start: str | None = None,
    ) -> Any:
        """Forecasts from every origin in a table, next to the actual values.

        Args:
            frame, horizon: as for `predict`; it also contains the future covariates.
            stride: rows between origins, pred_len by default; the first origin is row seq_len.
            intervals: level or levels in percent: 80 adds the columns lo80 and hi80.
            adaptive: widths follow the coverage at earlier origins; see `informer.inference.adaptive`.
            refit_every: origins after which linear maps are fitted again, on all rows of `frame` before, of a model of
                a run directory; see `informer.inference.refits`.
            start: first forecast time; None: after seq_len rows, with refit_every after the rows of training.

        Returns:
            A table of the kind of `frame`. One row per origin (the last known time), target and step: origin, step, the
            time, column, forecast, quantiles and intervals (q10, lo80), actual, and `rolled` if the horizon is beyond
            pred_len; preceded by the series if the table has several. Series and time have the names of its columns.

        Raises:
            InputError: as `predict`, or too few rows for one origin.
        """
        model = self.trained
        refit = None if refit_every is None else refit_of(self._run, refit_every)
        if model.checkpoint.refit and refit is None:
            log.warning("backtest: the model was fitted on all rows of its data; on those its errors are too small")
        panel = self._panel(frame, None, model.reach(horizon))
        how = Rolling(horizon=horizon, stride=stride, start=start, levels=levels_of(intervals), adaptive=adaptive)
        is_cut = start is not None or refit is not None
        firsts = [first_origin(model, series, start) for series in panel] if is_cut else None
        refits = None if refit is None else Refits(model, panel, refit)
        return like(frame, pd.concat(roll_panel(model, panel, how, firsts=firsts, refits=refits), ignore_index=True))


def _by_name(frames: Mapping[Any, Given] | Sequence[Given]) -> Mapping[Any, Given]:
    return frames if isinstance(frames, Mapping) else {f"frames[{i}]": frame for i, frame in enumerate(frames)}
