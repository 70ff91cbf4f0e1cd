"""From a trained model and new tables to forecasts with timestamps, in the data's own units."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import cast, final

import pandas as pd
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from informer import checkpoint as checkpoints
from informer.build import restore_model
from informer.data.frequency import Frequency
from informer.data.pipeline import future_index, history_batch
from informer.data.scaler import Scaler
from informer.data.source import DatasetConfig, Series, series_from_frame, series_from_table
from informer.data.table import read_table
from informer.data.time_features import CalendarKind, mark_fields
from informer.data.windows import Batch, WindowSizes
from informer.errors import InputError
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
class Forecaster:
    """A trained model with its scaler, columns and frequency: tables in, forecasts out.

    Args:
        checkpoint: content of a checkpoint file.
        device: "auto", "cpu" or "cuda".
    """

    def __init__(self, checkpoint: checkpoints.Checkpoint, *, device: str = "auto") -> None:
        self.checkpoint = checkpoint
        self.device: torch.device = pick_device(device)
        self.model = restore_model(checkpoint).to(self.device)
        self.scaler = Scaler.from_state(checkpoint.scaler)
        self.target_scaler = self.scaler.select([checkpoint.inputs.index(name) for name in checkpoint.targets])
        config = checkpoint.config
        self.sizes = WindowSizes(**{name: config[name] for name in ("seq_len", "label_len", "pred_len")})
        self.calendar = CalendarKind(config["model"]["embed"])

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> "Forecaster":
        """From a checkpoint file or a run directory.

        Raises:
            InputError: there is no readable checkpoint, or device is not to be had.
        """
        return cls(checkpoints.load(Path(path)), device=device)

    def predict(self, frame: pd.DataFrame, *, name: str = "frame") -> pd.DataFrame:
        """The pred_len rows that follow a table.

        Args:
            frame: history, at least seq_len rows; time a column or the index; columns in any order, others besides.
            name: what to call the table in errors.

        Returns:
            Future timestamps under the table's own time-column name, then the targets in their own units.

        Raises:
            InputError: the table cannot be continued (rows, columns, numbers, timestamps, step).
        """
        config = self.reading(list(map(str, frame.columns)), InputFormat())
        return self.continue_series([series_from_frame(frame, config, name)])[0]

    def read(self, path: Path, written: InputFormat) -> Series:
        """Read a file to continue, checked as training data is; only the columns the model reads matter.

        Raises:
            InputError: see `predict`.
        """
        config = self.reading([], written)
        table = read_table(path, separator=config.separator, decimal=config.decimal, encoding=config.encoding)
        series = series_from_table(table, self.reading(table.columns, written), path.stem)
        self._check_step(series)
        return series

    def reading(self, columns: Sequence[str], written: InputFormat) -> DatasetConfig:
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

    @torch.inference_mode()
    def continue_series(self, series: Sequence[Series]) -> list[pd.DataFrame]:
        """One forecast table a series; see `predict`."""
        batch = history_batch(
            series,
            input_columns=self.checkpoint.inputs,
            target_columns=self.checkpoint.targets,
            scaler=self.scaler,
            sizes=self.sizes,
            calendar=self.calendar,
            device=self.device,
        )
        values = self.target_scaler.inverse(model_forecast(self.model, batch).double().cpu()).numpy()
        return [
            _with_time(pd.DataFrame(block, columns=self.checkpoint.targets), one, self.sizes.pred_len)
            for block, one in zip(values, series, strict=True)
        ]


def _with_time(table: pd.DataFrame, series: Series, n: int) -> pd.DataFrame:
    table.insert(0, series.time_col, future_index(series, n))
    return table
