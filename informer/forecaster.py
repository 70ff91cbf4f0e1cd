"""Forecasts from Python: pandas tables in, pandas tables out.

forecaster = Forecaster.load("runs/latest")
ahead = forecaster.predict(frame, horizon=48)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, final, overload

import pandas as pd
from sklearn.exceptions import NotFittedError

from informer import checkpoint as checkpoints
from informer.data.future import Future
from informer.data.table import listed
from informer.errors import InputError
from informer.inference.forecast import TrainedModel

Key = TypeVar("Key")


@final
class Forecaster:
    """A trained model for use on tables; made by `load`.

    Args:
        trained: the model; None makes a forecaster that can do nothing yet.
    """

    def __init__(self, trained: TrainedModel | None = None) -> None:
        self._trained = trained

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """From a checkpoint file or a run directory.

        Args:
            device: "auto", "cpu" or "cuda".

        Raises:
            InputError: there is no readable checkpoint, or device is not to be had.
        """
        return cls(TrainedModel.load(Path(path), device=device))

    @property
    def trained(self) -> TrainedModel:
        """The model.

        Raises:
            NotFittedError: there is none.
        """
        if self._trained is None:
            raise NotFittedError("this Forecaster has no model yet: use Forecaster.load(path)")
        return self._trained

    def save(self, path: str | Path) -> None:
        """Write the checkpoint file that `load` reads.

        Raises:
            InputError: the place cannot be written.
        """
        checkpoints.save(Path(path), self.trained.checkpoint)

    def predict(
        self, frame: pd.DataFrame, *, horizon: int | None = None, future: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """The rows that follow a table.

        Args:
            frame: history, at least seq_len rows; time a column or the index; columns in any order, others besides.
            horizon: rows to forecast, pred_len unless given; those beyond it come from the model's own output and are
                marked in a column `rolled`.
            future: future covariates at the times that follow, as many as the model forecasts at once, if it has any.

        Returns:
            Future timestamps under the table's own time-column name, then the targets in their own units.

        Raises:
            InputError: the table cannot be continued (rows, columns, numbers, timestamps, step).
        """
        futures = None if future is None else {"frame": future}
        return self.predict_many({"frame": frame}, horizon=horizon, futures=futures)["frame"]

    @overload
    def predict_many(
        self,
        frames: Mapping[Key, pd.DataFrame],
        *,
        horizon: int | None = None,
        futures: Mapping[Key, pd.DataFrame] | None = None,
    ) -> dict[Key, pd.DataFrame]: ...

    @overload
    def predict_many(
        self,
        frames: Sequence[pd.DataFrame],
        *,
        horizon: int | None = None,
        futures: Sequence[pd.DataFrame] | None = None,
    ) -> list[pd.DataFrame]: ...

    def predict_many(
        self,
        frames: Mapping[Key, pd.DataFrame] | Sequence[pd.DataFrame],
        *,
        horizon: int | None = None,
        futures: Mapping[Key, pd.DataFrame] | Sequence[pd.DataFrame] | None = None,
    ) -> dict[Key, pd.DataFrame] | list[pd.DataFrame]:
        """`predict` for many tables, which go through the model together.

        Args:
            frames: by name, or one after the other. Where each series has its own scaler, the name says which it is.
            futures: future covariates, by the same names or in the same order.

        Returns:
            Forecasts by the same names, or in the same order.
        """
        tables = _by_name(frames)
        series = [self.trained.reader.frame(frame, str(name)) for name, frame in tables.items()]
        known = None if futures is None else self._futures(list(tables), _by_name(futures))
        forecasts = [forecast.frame() for forecast in self.trained.forecast(series, horizon=horizon, futures=known)]
        return dict(zip(frames, forecasts, strict=True)) if isinstance(frames, Mapping) else forecasts

    def _futures(self, names: Sequence[Any], futures: Mapping[Any, pd.DataFrame]) -> list[Future]:
        absent = [str(name) for name in names if name not in futures]
        if absent:
            raise InputError(f"futures: expected one for each table, found none for {listed(absent)}")
        return [self.trained.reader.future_frame(futures[name], f"future of {name}") for name in names]


def _by_name(frames: Mapping[Any, pd.DataFrame] | Sequence[pd.DataFrame]) -> Mapping[Any, pd.DataFrame]:
    return frames if isinstance(frames, Mapping) else {f"frames[{i}]": frame for i, frame in enumerate(frames)}
