"""Models and forecasts from Python: pandas tables in, pandas tables out.

forecaster = Forecaster.load("runs/latest")
ahead = forecaster.predict(frame, horizon=48)
"""

from collections.abc import Mapping, Sequence
from datetime import timezone
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, final, overload

import pandas as pd
from rich.console import Console
from sklearn.exceptions import NotFittedError

from informer import checkpoint as checkpoints
from informer import cli
from informer.data.future import Future
from informer.data.source import Series
from informer.data.table import listed, table_of_frame
from informer.errors import InputError
from informer.files import write_atomic
from informer.inference.forecast import TrainedModel
from informer.inference.rolling import roll_panel
from informer.inference.writing import Format, need_pyarrow
from informer.run_folder import RunFolder
from informer.train import train

Key = TypeVar("Key")


@final
class Forecaster:
    """A trained model for use on tables; made by `fit` or `load`.

    Args:
        trained: the model; None makes a forecaster that can do nothing yet.
    """

    def __init__(self, trained: TrainedModel | None = None) -> None:
        self._trained = trained

    def __repr__(self) -> str:
        """What it forecasts from what, in a line."""
        if self._trained is None:
            return "Forecaster()"
        sizes, columns, step = self._trained.sizes, self._trained.columns, self._trained.checkpoint.frequency
        ahead = f"{sizes.pred_len} rows of {listed(columns.targets)}"
        return f"Forecaster({ahead} from {sizes.seq_len} of {listed(columns.inputs)}, a row each {step})"

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """From a checkpoint file or a run directory.

        Args:
            device: "auto", "cpu" or "cuda".

        Raises:
            InputError: there is no readable checkpoint, or device is not to be had.
        """
        return cls(TrainedModel.load(Path(path), device=device))

    @classmethod
    def fit(cls, frame: pd.DataFrame, *, verbose: bool = False, **config: Any) -> "Forecaster":
        """Train on a table as `python -m informer.train` trains on a file.

        Args:
            frame: time a column or the index; every other column of numbers is used unless `dataset` says otherwise.
            verbose: print what the command line prints.
            config: keys of the command line, dotted or nested: `target="OT", model="small", trainer={"max_epochs": 3},
                **{"dataset.split.val": 0.2}`. With `run_dir` the run and the table are kept there, else nowhere.

        Raises:
            InputError: an unknown key, a value out of range, a table that cannot be trained on, or times in a zone
                without pyarrow.
        """
        table = table_of_frame(frame, "frame", None).frame
        with TemporaryDirectory() as scratch:
            run_dir = Path(config.pop("run_dir", None) or Path(scratch) / "run")
            kind = Format.parquet if _has_zone(table) else Format.csv
            path = run_dir / f"data.{kind.value}"
            if isinstance(config.get("dataset"), Mapping):  # of its keys; the choice itself stays
                config = {f"dataset.{key}": value for key, value in config.pop("dataset").items()} | config
            settings = cli.compose("train", {"dataset": "csv", "dataset.path": str(path), **config})
            if RunFolder(run_dir).holds_a_run:
                raise InputError(f"run_dir={run_dir}: expected a new folder, found a run in it; choose another")
            write_atomic(path, _written(table, kind))
            try:
                train(settings, run_dir, Console(quiet=not verbose))
            except InputError:
                if not RunFolder(run_dir).holds_a_run:
                    path.unlink()
                raise
            return cls.load(run_dir, device=settings.device.value)

    @property
    def trained(self) -> TrainedModel:
        """The model.

        Raises:
            NotFittedError: there is none.
        """
        if self._trained is None:
            raise NotFittedError(
                "this Forecaster has no model: make one with Forecaster.fit(frame) or Forecaster.load(path)"
            )
        return self._trained

    def save(self, path: str | Path) -> None:
        """Write the checkpoint file that `load` reads.

        Raises:
            InputError: the place cannot be written.
        """
        checkpoints.save(Path(path), self.trained.checkpoint)

    def predict(
        self,
        frame: pd.DataFrame,
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        future: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """The rows that follow a table.

        Args:
            frame: history, at least seq_len rows; time a column or the index; columns in any order, others besides.
                With the column that named the series of training it holds many, and all are continued.
            horizon: rows to forecast, pred_len unless given; those beyond it come from the model's own output and are
                marked in a column `rolled`.
            intervals: level or levels in percent: 80 adds the columns OT_lo80 and OT_hi80 for a target OT.
            future: future covariates at the times that follow, as many as the model forecasts at once, if it has any.

        Returns:
            Future timestamps under the table's own time-column name, then the targets in their own units (a model of
            quantiles: its median, and OT_q10, OT_q90 besides), after the name of the series where there are many.

        Raises:
            InputError: the table cannot be continued (rows, columns, numbers, timestamps, step).
        """
        futures = None if future is None else {"frame": future}
        return self.predict_many({"frame": frame}, horizon=horizon, intervals=intervals, futures=futures)["frame"]

    @overload
    def predict_many(
        self,
        frames: Mapping[Key, pd.DataFrame],
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        futures: Mapping[Key, pd.DataFrame] | None = None,
    ) -> dict[Key, pd.DataFrame]: ...

    @overload
    def predict_many(
        self,
        frames: Sequence[pd.DataFrame],
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        futures: Sequence[pd.DataFrame] | None = None,
    ) -> list[pd.DataFrame]: ...

    def predict_many(
        self,
        frames: Mapping[Key, pd.DataFrame] | Sequence[pd.DataFrame],
        *,
        horizon: int | None = None,
        intervals: int | Sequence[int] = (),
        futures: Mapping[Key, pd.DataFrame] | Sequence[pd.DataFrame] | None = None,
    ) -> dict[Key, pd.DataFrame] | list[pd.DataFrame]:
        """`predict` for many tables, which go through the model together.

        Args:
            frames: by name, or one after the other. Where each series has its own scaler, the name says which it is.
            futures: future covariates, by the same names or in the same order.

        Returns:
            Forecasts by the same names, or in the same order.
        """
        panels = {name: self.trained.reader.frame(frame, str(name)) for name, frame in _by_name(frames).items()}
        series = [one for panel in panels.values() for one in panel]
        known = None if futures is None else self._known_ahead(panels, _by_name(futures))
        found = iter(self.trained.forecast(series, horizon=horizon, levels=_levels(intervals), futures=known))
        forecasts = [
            pd.concat([forecast.frame() for forecast in islice(found, len(panel))], ignore_index=True)
            for panel in panels.values()
        ]
        return dict(zip(frames, forecasts, strict=True)) if isinstance(frames, Mapping) else forecasts

    def backtest(
        self, frame: pd.DataFrame, *, stride: int | None = None, intervals: int | Sequence[int] = ()
    ) -> pd.DataFrame:
        """What the model would have forecast at every origin in a table, beside what then came.

        Args:
            frame: as for `predict`; future covariates are taken from it too.
            stride: rows between two origins, pred_len unless given; the first origin is row seq_len.
            intervals: level or levels in percent: 80 adds the columns lo80 and hi80.

        Returns:
            One row an origin (the last time known), target and step: origin, step, timestamp, column, forecast, what
            the model says beside it (q10, lo80), actual; `unique_id` before them where the table holds many series.

        Raises:
            InputError: as `predict`, or too few rows for one origin.
        """
        model = self.trained
        panel = model.reader.frame(frame, "frame", whole=True)
        return pd.concat(roll_panel(model, panel, stride=stride, levels=_levels(intervals)), ignore_index=True)

    def _known_ahead(self, panels: Mapping[Any, Sequence[Series]], futures: Mapping[Any, pd.DataFrame]) -> list[Future]:
        """The future covariates of every series of these tables."""
        absent = [str(name) for name in panels if name not in futures]
        if absent:
            raise InputError(f"futures: expected one for each table, found none for {listed(absent)}")
        known = {name: self.trained.reader.future_frame(futures[name], f"future of {name}") for name in panels}
        return [known[name].of(series) for name, panel in panels.items() for series in panel]


def _levels(intervals: int | Sequence[int]) -> Sequence[int]:
    return (intervals,) if isinstance(intervals, int) else intervals


def _has_zone(table: pd.DataFrame) -> bool:
    """Times of a place: text would keep their distance from UTC, which changes over the year, and not the place."""
    zones = [dtype.tz for dtype in table.dtypes if isinstance(dtype, pd.DatetimeTZDtype)]
    return any(not isinstance(zone, timezone) and str(zone) != "UTC" for zone in zones)


def _written(table: pd.DataFrame, kind: Format) -> bytes | str:
    if kind is Format.csv:
        return table.to_csv(index=False)
    need_pyarrow("frame: times in a zone")
    return table.to_parquet(index=False)


def _by_name(frames: Mapping[Any, pd.DataFrame] | Sequence[pd.DataFrame]) -> Mapping[Any, pd.DataFrame]:
    return frames if isinstance(frames, Mapping) else {f"frames[{i}]": frame for i, frame in enumerate(frames)}
