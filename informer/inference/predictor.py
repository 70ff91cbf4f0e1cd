"""Forecasts of new series by a trained model, with timestamps and in data units."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer import checkpoint as checkpoints
from informer.checkpoint.restore import restore_model
from informer.config.lengths import WindowSizes
from informer.data.columns import Columns
from informer.data.future import Future
from informer.data.history import future_index, history_batch
from informer.data.read.source import Series, column_values
from informer.data.scaler import PanelScaler
from informer.data.store import series_numbers
from informer.data.windows import Batch
from informer.errors import InputError, counted, listed
from informer.inference.intervals import saved_calibration, validation_rows
from informer.inference.reader import Reader
from informer.inference.result import Forecast
from informer.models.base import model_output, point, quantiles_of
from informer.quantiles import MEDIAN, quantile_name
from informer.runtime import pick_device

log = logging.getLogger(__name__)

MOST_ROWS, MOST_VALUES = 100_000, 5_000_000
"""Maximum rows and values of one forecast, which is held in memory; pred_len rows are always allowed."""


@final
class TrainedModel:
    """A network with everything needed to use it: scaler, columns, window sizes, reader of tables.

    Args:
        checkpoint: content of a checkpoint file.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
    """

    def __init__(self, checkpoint: checkpoints.Checkpoint, *, device: str = "auto") -> None:
        self.checkpoint = checkpoint
        self.device: torch.device = pick_device(device)
        self.model = restore_model(checkpoint).to(self.device)
        self.quantiles = quantiles_of(self.model)
        self.reader = Reader(checkpoint)
        self.scaler = PanelScaler.from_state(checkpoint.scaler)
        roles = ("inputs", "targets", "future_covariates", "static_covariates")
        main = checkpoint.config.get("target")
        self.columns = Columns(
            **{role: tuple(getattr(checkpoint, role)) for role in roles},
            main=main if main in checkpoint.targets else None,
        )
        self.sizes = WindowSizes.of(checkpoint.config)
        self.calendar = checkpoint.calendar
        self.calibration = saved_calibration(checkpoint)
        self._has_warned = self._has_warned_about_constants = False

    @classmethod
    def load(cls, path: Path, *, device: str = "auto") -> "TrainedModel":
        """Load a checkpoint file or a run directory.

        Raises:
            InputError: no readable checkpoint, or the device is not available.
        """
        return cls(checkpoints.load(path), device=device)

    def check_horizon(self, horizon: int | None) -> int:
        """The number of rows to forecast: `horizon`, or pred_len for None.

        Raises:
            InputError: the horizon is below 1 or too long.
        """
        pred_len = self.sizes.pred_len
        if horizon is None:
            return pred_len
        if horizon < 1:
            raise InputError(f"horizon: expected at least 1, found {horizon}")
        available = self.columns.targets + self.columns.known
        unknown = [name for name in self.columns.inputs if name not in available]
        if horizon > pred_len and unknown:
            raise InputError(
                f"horizon={horizon}: expected at most pred_len={pred_len}; the model does not forecast "
                f"{listed(unknown)}, which it reads; train with features=M or S to go further"
            )
        if horizon > pred_len and self.sizes.offset:
            raise InputError(
                f"horizon={horizon}: expected at most pred_len={pred_len} with model.offset={self.sizes.offset}: the "
                "rows before the horizon are not forecast, so the model cannot continue from its own output"
            )
        farthest = max(pred_len, min(MOST_ROWS, MOST_VALUES // len(self.columns.targets)))
        if horizon > farthest:
            raise InputError(
                f"horizon={horizon}: expected at most {farthest} rows of "
                f"{counted(len(self.columns.targets), 'target')};"
                " forecast fewer, or train on a longer step, such as days for hours"
            )
        return horizon

    def check_future(self, series: Series, future: Future, horizon: int | None) -> None:
        """Raise an InputError if the future covariates are too short for a forecast of `series`."""
        ahead = future_index(series, self.reach(horizon))[self.sizes.offset :]
        future.at(ahead, self.columns.future_covariates)

    def reach(self, horizon: int | None) -> int:
        """Rows after the history that a forecast covers: offset plus the horizon rounded up to a multiple of pred_len.

        Raises:
            InputError: see `check_horizon`.
        """
        pred_len = self.sizes.pred_len
        return self.sizes.offset + -(-self.check_horizon(horizon) // pred_len) * pred_len

    @torch.inference_mode()
    def forecast(
        self,
        series: Sequence[Series],
        *,
        horizon: int | None = None,
        levels: Sequence[int] = (),
        futures: Sequence[Future] | None = None,
        pad_to: int | None = None,
    ) -> list[Forecast]:
        """Forecast the rows after each series; one forecast per series, in order.

        Args:
            series: at least seq_len rows each, with the input columns in any order; additional columns are allowed.
            horizon: rows to forecast, pred_len by default; rows beyond pred_len are forecast recursively.
            levels: interval levels in percent; intervals end after pred_len rows.
            futures: future covariates of each series, for the horizon rounded up to a multiple of pred_len.
            pad_to: pad the batch to this size, so that no forecast depends on the number of other series (matrix
                products may round differently for different numbers of rows).

        Raises:
            InputError: too few rows, missing future covariates, a horizon beyond pred_len of a model that reads columns
                it does not forecast, or a level without calibration.
        """
        horizon, widths = self.check_horizon(horizon), self.half_widths(levels)
        if not series:
            return []
        self.warn_about_new([history.name for history in series])
        batch = self._batch(series, futures)
        self._warn_about_constants()
        first = self._output(batch, pad_to)
        histories, blocks = list(series), [self.rows(batch, first)]
        while len(blocks) * self.sizes.pred_len < horizon:
            ahead: Sequence[Future | None] = futures or [None] * len(series)
            histories = [self._extended(*each) for each in zip(histories, blocks[-1], ahead, strict=True)]
            more = self._batch(histories, futures)
            blocks.append(self.rows(more, self._output(more, pad_to)))
        values = np.concatenate(blocks, axis=1)[:, :horizon]
        bands = self.bands(batch, first, self.halves(batch, widths))
        return [
            Forecast(
                series=history,
                targets=self.columns.targets,
                values=values[i],
                pred_len=self.sizes.pred_len,
                offset=self.sizes.offset,
                main=self.columns.main,
                bands={suffix: reaching(rows[i], horizon) for suffix, rows in bands.items()},
            )
            for i, history in enumerate(series)
        ]

    def warn_about_new(self, names: Sequence[str]) -> None:
        """Warn once about series that training did not have, if each series has its own scaler."""
        new = [name for name in names if self.scaler.is_new(name)]
        if new and not self._has_warned:
            self._has_warned = True
            log.warning(
                f"scaler.per_series: training had no series named {listed(new)}, scaled by its own "
                f"seq_len={self.sizes.seq_len} rows of history; it had {listed(list(self.scaler.by_series))}"
            )

    def _warn_about_constants(self) -> None:
        """Warn once about targets that are constant in training."""
        note = self.scaler.constant_note(self.columns)
        if note and not self._has_warned_about_constants:
            self._has_warned_about_constants = True
            log.warning(note)

    def half_widths(self, levels: Sequence[int]) -> dict[int, Float64[np.ndarray, "pred_len n"]]:
        """Scaled half widths of intervals by level, for a window of usual variation.

        Raises:
            InputError: the model was not calibrated, or has too few calibration windows for a level.
        """
        calibration = self.calibration
        if levels and calibration is None:
            raise InputError(
                "intervals: the model was trained without calibration; train with trainer.calibration=0.5 and at "
                f"least {validation_rows(80, self.sizes.pred_len, 0.5)} validation rows (dataset.split.val), which an "
                "80 % interval needs"
            )
        return {level: calibration.half_width(level).double().numpy() for level in levels} if calibration else {}

    def _batch(self, series: Sequence[Series], futures: Sequence[Future] | None) -> Batch:
        batch = history_batch(
            series,
            columns=self.columns,
            scaler=self.scaler,
            sizes=self.sizes,
            calendar=self.calendar,
            device=self.device,
            futures=futures,
            pad=self.reader.pads,
        )
        numbers = torch.from_numpy(series_numbers(series, self.checkpoint.series))
        return batch._replace(series=numbers.to(self.device))

    def bands(
        self,
        batch: Batch,
        output: Float[Tensor, "b pred_len n *q"],
        halves: Mapping[int, Float64[np.ndarray, "b pred_len n"]],
    ) -> dict[str, Float64[np.ndarray, "b pred_len n"]]:
        """Extra columns of a batch's forecasts, in data units: quantiles other than the median (q10), and the interval
        ends for these scaled half widths (lo80, hi80). NaN for constant targets, see `Units`."""
        center, constant = point(output, self.quantiles).double().cpu(), batch.constant
        by_level = zip(self.quantiles, output.unbind(-1), strict=True) if self.quantiles else ()
        bands = {
            quantile_name(level): self.clipped(_numpy(batch.in_units(values)))
            for level, values in by_level
            if level != MEDIAN
        }
        for level, half in halves.items():
            for name, end in (("lo", center - torch.from_numpy(half)), ("hi", center + torch.from_numpy(half))):
                bands[f"{name}{level}"] = self.clipped(_numpy(batch.in_units(end)))
        if constant is not None:
            for values in bands.values():
                values[np.broadcast_to(_numpy(constant)[:, None], values.shape)] = np.nan
        return bands

    def halves(
        self, batch: Batch, widths: Mapping[int, Float64[np.ndarray, "pred_len n"]]
    ) -> dict[int, Float64[np.ndarray, "b pred_len n"]]:
        """Scaled half widths for each window of a batch, from those of `half_widths`."""
        if self.calibration is None:
            return {}
        history = batch.enc_x[:, :, self.columns.positions(self.columns.targets)]
        unit = _numpy(self.calibration.unit(history))
        return {level: width * unit for level, width in widths.items()}

    def clipped(self, values: Float64[np.ndarray, "b h n"]) -> Float64[np.ndarray, "b h n"]:
        """Values in data units, clipped in place at zero for non-negative targets."""
        places = list(self.model.non_negative)
        if places:
            values[..., places] = np.maximum(values[..., places], 0.0)
        return values

    def _output(self, batch: Batch, pad_to: int | None) -> Float[Tensor, "b pred_len n *q"]:
        return model_output(self.model, _padded(batch, pad_to or 0))[: len(batch.enc_x)]

    def rows(self, batch: Batch, output: Float[Tensor, "b pred_len n *q"]) -> Float64[np.ndarray, "b pred_len n"]:
        """Point forecasts in data units."""
        return self.clipped(_numpy(batch.in_units(point(output, self.quantiles))))

    def _extended(self, series: Series, rows: Float64[np.ndarray, "pred_len n"], future: Future | None) -> Series:
        """The last seq_len rows of a series followed by its forecast and known covariates, without other columns."""
        names = [*self.columns.targets, *self.columns.known]
        history = column_values(series, names)[-self.sizes.seq_len :]
        ahead = future_index(series, len(rows))
        if future is not None:
            rows = np.concatenate([rows, future.at(ahead, self.columns.future_covariates)], axis=1)
        static = history[-1:, rows.shape[1] :].repeat(len(rows), axis=0)
        rows = np.concatenate([rows, static], axis=1)
        return replace(
            series,
            timestamps=pd.DatetimeIndex(series.timestamps[-len(history) :].append(ahead)),
            values=np.concatenate([history, rows]),
            columns=tuple(names),
        )


def reaching(rows: Float64[np.ndarray, "*b pred_len n"], horizon: int) -> Float64[np.ndarray, "*b h n"]:
    """Cut or pad to `horizon` rows; padding is NaN, since the errors of recursive forecasts are not known."""
    lacking = max(0, horizon - rows.shape[-2])
    widths = [(0, 0)] * (rows.ndim - 2) + [(0, lacking), (0, 0)]
    return np.pad(rows[..., :horizon, :], widths, constant_values=np.nan)


def _numpy(values: Tensor) -> np.ndarray:
    return values.cpu().numpy()


def _padded(batch: Batch, n: int) -> Batch:
    """Pad a batch with zeros to n windows."""
    lacking = max(0, n - len(batch.enc_x))
    if not lacking:
        return batch
    tensors = {name: tensor for name, tensor in batch._asdict().items() if tensor is not None}
    return Batch(
        **{name: torch.cat([tensor, tensor.new_zeros(lacking, *tensor.shape[1:])]) for name, tensor in tensors.items()}
    )
