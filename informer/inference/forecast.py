"""From a trained model and new series to forecasts with timestamps, in the data's own units."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import cast, final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from omegaconf import OmegaConf
from torch import Tensor, nn

from informer import checkpoint as checkpoints
from informer.data.columns import Columns
from informer.data.frequency import Frequency
from informer.data.future import Future, future_from_frame, read_future
from informer.data.history import future_index, history_batch
from informer.data.scaler import PanelScaler
from informer.data.source import DatasetConfig, Series, series_from_frame, series_from_table
from informer.data.split import Short
from informer.data.store import column_values
from informer.data.table import listed, name_of, read_table
from informer.data.time_features import CalendarKind, mark_fields
from informer.data.windows import Batch, WindowSizes
from informer.errors import InputError
from informer.inference.result import Forecast
from informer.restore import restore_model
from informer.runtime import pick_device


@dataclass(kw_only=True, slots=True)
class InputFormat:
    """How a table to forecast is written, where it is not as the training data was; null: as the training data."""

    time_col: str | None = None
    time_format: str | None = None
    frequency: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def over(self, dataset: DatasetConfig) -> DatasetConfig:
        """`dataset` with what is set here."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(dataset, **{name: value for name, value in said.items() if value is not None})


def model_forecast(model: nn.Module, batch: Batch) -> Tensor:
    """Scaled targets [b pred_len n_targets] of a batch; the one place that feeds a batch to a model."""
    return model(batch.enc_x, batch.enc_mark, batch.dec_x, batch.dec_mark)


@final
class TrainedModel:
    """A network with all that its use needs: scaler, columns, sizes, frequency.

    Args:
        checkpoint: content of a checkpoint file.
        device: "auto", "cpu" or "cuda".
    """

    def __init__(self, checkpoint: checkpoints.Checkpoint, *, device: str = "auto") -> None:
        self.checkpoint = checkpoint
        self.device: torch.device = pick_device(device)
        self.model = restore_model(checkpoint).to(self.device)
        self.scaler = PanelScaler.from_state(checkpoint.scaler)
        roles = ("inputs", "targets", "future_covariates")
        self.columns = Columns(**{role: tuple(getattr(checkpoint, role)) for role in roles})
        config = checkpoint.config
        self.sizes = WindowSizes(**{name: config[name] for name in ("seq_len", "label_len", "pred_len")})
        self.calendar = CalendarKind(config["model"]["embed"])

    @classmethod
    def load(cls, path: Path, *, device: str = "auto") -> "TrainedModel":
        """From a checkpoint file or a run directory.

        Raises:
            InputError: there is no readable checkpoint, or device is not to be had.
        """
        return cls(checkpoints.load(path), device=device)

    def read_frame(self, frame: pd.DataFrame, name: str) -> Series:
        """Take a table to continue; time a column or the index.

        Raises:
            InputError: see `read_file`.
        """
        series = series_from_frame(frame, self._reading(list(map(str, frame.columns)), InputFormat()), name)
        self._check_step(series)
        return series

    def read_file(self, path: Path, written: InputFormat) -> Series:
        """Read a file to continue, checked as training data is; only the columns that the model reads matter.

        Raises:
            InputError: it cannot be continued (columns, numbers, timestamps, step).
        """
        config = self._reading([], written)
        table = read_table(path, separator=config.separator, decimal=config.decimal, encoding=config.encoding)
        series = series_from_table(table, self._reading(table.columns, written), name_of(path))
        self._check_step(series)
        return series

    def future_frame(self, frame: pd.DataFrame, name: str) -> Future:
        """Take a table of future covariates; time a column or the index.

        Raises:
            InputError: it has no times.
        """
        return future_from_frame(frame, self._reading(list(map(str, frame.columns)), InputFormat()), name)

    def future_file(self, path: Path, written: InputFormat) -> Future:
        """Read a file of future covariates.

        Raises:
            InputError: it cannot be read, or has no times.
        """
        return read_future(path, self._reading([], written))

    @torch.inference_mode()
    def forecast(
        self, series: Sequence[Series], *, horizon: int | None = None, futures: Sequence[Future] | None = None
    ) -> list[Forecast]:
        """What follows each series.

        Args:
            series: at least seq_len rows each, with the input columns in any order and among others.
            horizon: rows to forecast, pred_len unless given. Rows beyond pred_len come from the model's own output.
            futures: one a series: future covariates of as many whole pred_len as the horizon takes.

        Raises:
            InputError: too few rows, future covariates that are missing, or a horizon beyond pred_len of a model that
                reads columns which it does not forecast.
        """
        pred_len = self.sizes.pred_len
        horizon = pred_len if horizon is None else horizon
        self._check_horizon(horizon)
        histories, blocks = list(series), [self._next_rows(series, futures)]
        while len(blocks) * pred_len < horizon:
            ahead: Sequence[Future | None] = futures or [None] * len(series)
            histories = [self._extended(*each) for each in zip(histories, blocks[-1], ahead, strict=True)]
            blocks.append(self._next_rows(histories, futures))
        values = np.concatenate(blocks, axis=1)[:, :horizon]
        return [
            Forecast(series=one, targets=tuple(self.checkpoint.targets), values=rows, pred_len=pred_len)
            for one, rows in zip(series, values, strict=True)
        ]

    def _next_rows(
        self, series: Sequence[Series], futures: Sequence[Future] | None
    ) -> Float64[np.ndarray, "b pred_len n"]:
        batch = history_batch(
            series,
            columns=self.columns,
            scaler=self.scaler,
            sizes=self.sizes,
            calendar=self.calendar,
            device=self.device,
            futures=futures,
            pad=self.checkpoint.config["dataset"]["short"] == Short.pad.value,
        )
        return batch.in_units(model_forecast(self.model, batch)).cpu().numpy()

    def _extended(self, series: Series, rows: Float64[np.ndarray, "pred_len n"], future: Future | None) -> Series:
        """The end of a series with its forecast and its future covariates as if they had come, and no other column."""
        names = [*self.columns.targets, *self.columns.future_covariates]
        history = column_values(series, names)[-self.sizes.seq_len :]
        ahead = future_index(series, len(rows))
        if future is not None:
            rows = np.concatenate([rows, future.at(ahead, self.columns.future_covariates)], axis=1)
        return replace(
            series,
            timestamps=pd.DatetimeIndex(series.timestamps[-len(history) :].append(ahead)),
            values=np.concatenate([history, rows]),
            columns=tuple(names),
        )

    def _check_horizon(self, horizon: int) -> None:
        if horizon < 1:
            raise InputError(f"horizon: expected at least 1, found {horizon}")
        known = self.columns.targets + self.columns.future_covariates
        unknown = [name for name in self.columns.inputs if name not in known]
        if horizon > self.sizes.pred_len and unknown:
            raise InputError(
                f"horizon={horizon}: expected at most pred_len={self.sizes.pred_len}, for the model does not forecast "
                f"{listed(unknown)}, which it reads; train with features=M or S to go further"
            )

    def _reading(self, columns: Sequence[str], written: InputFormat) -> DatasetConfig:
        """How to read a table with these columns: as the training data, where nothing else is said."""
        saved = OmegaConf.merge(OmegaConf.structured(DatasetConfig), self.checkpoint.config["dataset"])
        trained = self.checkpoint.data["time_col"]
        as_trained = replace(
            cast(DatasetConfig, OmegaConf.to_object(saved)),
            path=None,
            columns=list(self.checkpoint.inputs),
            frequency=self.checkpoint.frequency,
            time_col=trained if trained in columns else None,
        )
        return written.over(as_trained)

    def _check_step(self, series: Series) -> None:
        """Another step than in training is the user's word (`dataset.frequency`); its calendar must be the model's."""
        trained = Frequency.parse(self.checkpoint.frequency)
        if mark_fields(series.frequency, self.calendar) != mark_fields(trained, self.calendar):
            raise InputError(
                f"dataset.frequency={series.frequency.code}: {series.name} has steps with another calendar than the "
                f"{trained.code} that the model was trained on; use a file of that step, or train on this one"
            )
