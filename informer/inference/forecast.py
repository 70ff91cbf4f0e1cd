"""From a trained model and new series to forecasts with timestamps, in the data's own units."""

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
from informer.data.columns import Columns
from informer.data.future import Future
from informer.data.history import future_index, history_batch
from informer.data.scaler import PanelScaler
from informer.data.source import Series
from informer.data.store import column_values
from informer.data.table import listed
from informer.data.time_features import CalendarKind
from informer.data.windows import Batch, WindowSizes
from informer.errors import InputError
from informer.inference.conformal import saved_calibration
from informer.inference.network import model_output, point, quantiles_of
from informer.inference.reading import Reader
from informer.inference.result import Forecast
from informer.quantiles import MEDIAN, quantile_name
from informer.restore import restore_model
from informer.runtime import pick_device

log = logging.getLogger(__name__)


@final
class TrainedModel:
    """A network with all that its use needs: scaler, columns, sizes, a reader of tables.

    Args:
        checkpoint: content of a checkpoint file.
        device: "auto", "cpu" or "cuda".
    """

    def __init__(self, checkpoint: checkpoints.Checkpoint, *, device: str = "auto") -> None:
        self.checkpoint = checkpoint
        self.device: torch.device = pick_device(device)
        self.model = restore_model(checkpoint).to(self.device)
        self.quantiles = quantiles_of(self.model)
        self.reader = Reader(checkpoint)
        self.scaler = PanelScaler.from_state(checkpoint.scaler)
        roles = ("inputs", "targets", "future_covariates")
        self.columns = Columns(**{role: tuple(getattr(checkpoint, role)) for role in roles})
        config = checkpoint.config
        self.sizes = WindowSizes(**{name: config[name] for name in ("seq_len", "label_len", "pred_len")})
        self.calendar = CalendarKind(config["model"]["embed"])
        self.calibration = saved_calibration(checkpoint)
        self._has_told = False

    @classmethod
    def load(cls, path: Path, *, device: str = "auto") -> "TrainedModel":
        """From a checkpoint file or a run directory.

        Raises:
            InputError: there is no readable checkpoint, or device is not to be had.
        """
        return cls(checkpoints.load(path), device=device)

    def check_horizon(self, horizon: int | None) -> int:
        """The rows that `forecast` gives; raises the InputError of a horizon that it cannot reach."""
        pred_len = self.sizes.pred_len
        if horizon is None:
            return pred_len
        if horizon < 1:
            raise InputError(f"horizon: expected at least 1, found {horizon}")
        known = self.columns.targets + self.columns.future_covariates
        unknown = [name for name in self.columns.inputs if name not in known]
        if horizon > pred_len and unknown:
            raise InputError(
                f"horizon={horizon}: expected at most pred_len={pred_len}, for the model does not forecast "
                f"{listed(unknown)}, which it reads; train with features=M or S to go further"
            )
        return horizon

    def check_future(self, series: Series, future: Future, horizon: int | None) -> None:
        """Raise the InputError of future covariates that do not reach as far as a forecast of `series` needs."""
        blocks = -(-self.check_horizon(horizon) // self.sizes.pred_len)
        future.at(future_index(series, blocks * self.sizes.pred_len), self.columns.future_covariates)

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
        """What follows each series.

        Args:
            series: at least seq_len rows each, with the input columns in any order and among others.
            horizon: rows to forecast, pred_len unless given. Rows beyond pred_len come from the model's own output.
            levels: of intervals, in percent; they reach as far as pred_len.
            futures: one a series: future covariates of as many whole pred_len as the horizon takes.
            pad_to: fill the batch up to so many, so that no forecast depends on how many others there are (products of
                matrices may round differently for another number of rows).

        Raises:
            InputError: too few rows, future covariates that are missing, or a horizon beyond pred_len of a model that
                reads columns which it does not forecast, or a level that it was not calibrated for.
        """
        horizon = self.check_horizon(horizon)
        widths = self.half_widths(levels)
        if not series:
            return []
        self.tell_new([one.name for one in series])
        batch = self._batch(series, futures)
        first = self._output(batch, pad_to)
        histories, blocks = list(series), [self.rows(batch, first)]
        while len(blocks) * self.sizes.pred_len < horizon:
            ahead: Sequence[Future | None] = futures or [None] * len(series)
            histories = [self._extended(*each) for each in zip(histories, blocks[-1], ahead, strict=True)]
            more = self._batch(histories, futures)
            blocks.append(self.rows(more, self._output(more, pad_to)))
        values = np.concatenate(blocks, axis=1)[:, :horizon]
        bands = self.bands(batch, first, widths)
        return [
            Forecast(
                series=one,
                targets=self.columns.targets,
                values=values[i],
                pred_len=self.sizes.pred_len,
                bands={suffix: _reaching(rows[i], horizon) for suffix, rows in bands.items()},
            )
            for i, one in enumerate(series)
        ]

    def tell_new(self, names: Sequence[str]) -> None:
        """Warn, once, of series that cannot be scaled as in training, where each was scaled by its own rows."""
        new = [name for name in names if self.scaler.is_new(name)]
        if new and not self._has_told:
            self._has_told = True
            log.warning(
                f"scaler.per_series: training had no series named {listed(new)}, scaled by its own "
                f"seq_len={self.sizes.seq_len} rows of history; it had {listed(list(self.scaler.own))}"
            )

    def half_widths(self, levels: Sequence[int]) -> dict[int, Float64[np.ndarray, "pred_len n"]]:
        """Scaled half widths of the intervals of these levels.

        Raises:
            InputError: the model was not calibrated, or not for such a level.
        """
        calibration = self.calibration
        if levels and calibration is None:
            raise InputError(
                "intervals: the model was trained without calibration; train with trainer.calibration=0.5 and a "
                "validation part of two windows at least"
            )
        return {level: calibration.half_width(level).double().numpy() for level in levels} if calibration else {}

    def _batch(self, series: Sequence[Series], futures: Sequence[Future] | None) -> Batch:
        return history_batch(
            series,
            columns=self.columns,
            scaler=self.scaler,
            sizes=self.sizes,
            calendar=self.calendar,
            device=self.device,
            futures=futures,
            pad=self.reader.pads,
        )

    def bands(
        self,
        batch: Batch,
        output: Float[Tensor, "b pred_len n *q"],
        widths: Mapping[int, Float64[np.ndarray, "pred_len n"]],
    ) -> dict[str, Float64[np.ndarray, "b pred_len n"]]:
        """What goes with the forecasts of a batch, in data units: the quantiles beside the median (q10), if the model
        has any, and the ends of intervals of these `half_widths` (lo80, hi80)."""
        values = self.rows(batch, output)
        parts = zip(self.quantiles, output.unbind(-1), strict=True) if self.quantiles else ()
        bands = {quantile_name(level): _numpy(batch.in_units(part)) for level, part in parts if level != MEDIAN}
        for level, width in widths.items():
            half = width * _numpy(batch.scale)[:, None]
            bands |= {f"lo{level}": values - half, f"hi{level}": values + half}
        return bands

    def _output(self, batch: Batch, pad_to: int | None) -> Float[Tensor, "b pred_len n *q"]:
        return model_output(self.model, _padded(batch, pad_to or 0))[: len(batch.enc_x)]

    def rows(self, batch: Batch, output: Float[Tensor, "b pred_len n *q"]) -> Float64[np.ndarray, "b pred_len n"]:
        """The forecasts themselves, in data units."""
        return _numpy(batch.in_units(point(output, self.quantiles)))

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


def _reaching(rows: Float64[np.ndarray, "pred_len n"], horizon: int) -> Float64[np.ndarray, "h n"]:
    """Cut, or lengthened by rows of NaN: nothing is known of the errors of a forecast made from forecasts."""
    lacking = max(0, horizon - len(rows))
    return np.pad(rows[:horizon], ((0, lacking), (0, 0)), constant_values=np.nan)


def _numpy(values: Tensor) -> np.ndarray:
    return values.cpu().numpy()


def _padded(batch: Batch, n: int) -> Batch:
    """The batch with zeros in as many windows more as make n."""
    lacking = max(0, n - len(batch.enc_x))
    return Batch(*(torch.cat([part, part.new_zeros(lacking, *part.shape[1:])]) for part in batch)) if lacking else batch
