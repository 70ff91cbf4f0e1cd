"""Outputs for the curves of a run: TensorBoard, a CSV file, MLflow, or several of them; its losses as a table.

TensorBoard's event file is written synchronously. `SummaryWriter` writes from a background thread: what has reached the
file at a save is unknown, and a full disk shows as a traceback of that thread. Here every event is written immediately,
so a checkpoint can record the file's length, and a resumed run truncates later events.

MLflow's server is MLFLOW_TRACKING_URI, otherwise a database `mlflow.db` next to the run directory. Points cannot be
removed from MLflow, so a resumed run queries the existing ones and sends only new ones.
"""

import csv
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, hparams

from informer.base.errors import InputError, reason_of
from informer.base.files import AppendedFile, csv_text, reading, refuse_link, write_atomic, writing
from informer.checkpoint.paths import CURVES, EVENTS, LOSSES, LOSSES_PICTURE, MLFLOW
from informer.config.training import SLOTS, LossConfig, LossKind, TrackerKind, TrainConfig


def draws() -> bool:
    """Whether pictures are drawn, which needs matplotlib; curves need nothing."""
    return find_spec("matplotlib") is not None


class Sink:
    """Receives curves. Methods raise an InputError if something cannot be written."""

    TAKES_PICTURES: ClassVar[bool] = False
    """False if `image` ignores them, so that none need be drawn."""

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""
        raise NotImplementedError

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Add a picture."""

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the scores of a finished run, the most important first; `settings` by dotted key."""
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

    def flush(self) -> None:
        """Make everything received visible to other programs."""

    def sync(self) -> int:
        """Store everything received durably; returns the position to continue from."""
        raise NotImplementedError

    def close(self) -> None:
        """Called when the run is finished or stopped."""


LAYOUT = {
    "loss": {"training and validation, with the baselines": ["Multiline", ["^train/loss$", "^val/loss.*$"]]},
    "intervals on validation rows": {
        "coverage in percent (nominal: 80 and 95)": ["Multiline", ["^val/coverage_.*$"]],
        "pinball loss": ["Multiline", ["^val/pinball_.*$"]],
        "width in scaled units": ["Multiline", ["^val/width_.*$"]],
    },
}
"""Charts of several curves, in the tab Custom Scalars: category, title, kind and patterns of tags."""

IGNORED = (
    "run_dir", "data_dir", "resume", "init_from", "search", "decoder_attn_reason", "device", "compile", "engine",
    "workers",
)  # fmt: skip
"""Keys left out of the table of hyper-parameters."""
SHOWN = ("attn", "dataset", "model.family", "pred_len", "seq_len")
"""Hyper-parameters in the table at first. TensorBoard shows five: those marked as different between runs, by name."""


def _hparams(settings: Mapping[str, Any]) -> dict[str, bool | float | str]:
    """The settings that distinguish runs.

    Mechanisms are shown by short name, and their parameters are prefixed with it instead of `attn`.
    """
    names = {slot: str(settings.get(f"{slot}._target_", "")).split(".")[-2:-1] for slot in SLOTS}
    hparams_by_name = {slot: name[0] for slot, name in names.items() if name} | {
        "dataset": settings.get("dataset.name")
    }
    for key, value in settings.items():
        node, _, parameter = key.partition(".")
        if node == "attn" and parameter and parameter != "_target_":
            hparams_by_name[f"{hparams_by_name['attn']}.{parameter}"] = value
        elif node not in (*SLOTS, *IGNORED, "dataset"):
            hparams_by_name[key] = value
    non_empty = {key: value for key, value in hparams_by_name.items() if value not in (None, [], "")}
    return {key: value if isinstance(value, bool | int | float) else str(value) for key, value in non_empty.items()}


@final
class EventFile(AppendedFile, Sink):
    """The event file of a run; see `AppendedFile` for arguments and errors."""

    TAKES_PICTURES = True

    def __init__(self, path: Path, *, length: int = 0) -> None:
        super().__init__(path, length=length)
        self._records = RecordWriter(self._file)
        if self.is_new:
            self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
            self.summary(custom_scalars(LAYOUT))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""
        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Add an image."""
        self.summary(Summary(value=[Summary.Value(tag=tag, image=Summary.Image(encoded_image_string=png))]), step)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the table of hyper-parameters, and the scores as curves with one point."""
        experiment, *session = hparams(_hparams(settings), dict(metrics))
        plugin = experiment.value[0].metadata.plugin_data
        content = HParamsPluginData.FromString(plugin.content)
        for each in content.experiment.hparam_infos:
            each.differs = each.name in SHOWN  # these are the first columns
        plugin.content = content.SerializeToString()
        for summary in (experiment, *session):
            self.summary(summary, step)
        super().final(settings, metrics, step)

    def summary(self, summary: Any, step: int = 0) -> None:
        """Add a summary for TensorBoard's plugins."""
        self._add(Event(wall_time=time.time(), step=step, summary=summary))

    def _add(self, event: Any) -> None:
        with writing(self.path):
            self._records.write(event.SerializeToString())


URI, EXPERIMENT = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"
"""Next to the run directory, if no server is set."""

MOST_POINTS, MOST_PARAMS, LONGEST_PARAM = 500, 100, 500
"""Limits of the server: points and parameters per request, and characters per parameter."""


@final
class MlflowRun(Sink):
    """One run in MLflow; its id is stored in a file of the run directory.

    Args:
        folder: run directory.
        is_resumed: continue the MLflow run whose id the file contains.

    Raises:
        InputError: the server cannot be used; raised by every method.
    """

    TAKES_PICTURES = True

    def __init__(self, folder: Path, *, is_resumed: bool) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric, self._param = Metric, Param
        self._points: list[Any] = []
        self._there: dict[str, set[int]] = {}
        self._is_resumed, file = is_resumed, folder / MLFLOW
        refuse_link(file)
        with _reaching():
            place = folder.absolute().parent
            self._client = MlflowClient(tracking_uri=os.environ.get(URI) or f"sqlite:///{place / DATABASE}")
            if is_resumed and file.is_file():
                self.run_id = file.read_text(encoding="utf-8", errors="replace")[:100].strip()
                if not self.run_id.isalnum():
                    raise InputError(
                        f"{file}: expected the id of a run in MLflow, found {self.run_id!r:.40}; remove the file"
                    )
            else:
                name = os.environ.get(EXPERIMENT, "informer")
                if (experiment := self._client.get_experiment_by_name(name)) is None:
                    local = None if URI in os.environ else (place / ARTIFACTS).as_uri()
                    number = self._client.create_experiment(name, artifact_location=local)
                else:
                    number = experiment.experiment_id
                self.run_id = self._client.create_run(number, run_name=folder.name).info.run_id
            self._client.update_run(self.run_id, status="RUNNING")
        write_atomic(file, self.run_id + "\n")

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve, unless MLflow has it; points are sent in batches."""
        if math.isfinite(value) and step not in self._steps_of(tag):
            self._points.append(self._metric(tag, float(value), int(time.time() * 1000), step))
        if len(self._points) >= MOST_POINTS:
            self.flush()

    def _steps_of(self, tag: str) -> set[int]:
        """Steps that MLflow already has, if the run is resumed."""
        if not self._is_resumed:
            return set()
        if tag not in self._there:
            with _reaching():
                self._there[tag] = {each.step for each in self._client.get_metric_history(self.run_id, tag)}
        return self._there[tag]

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Log a picture as an artifact of the run."""
        with TemporaryDirectory() as scratch, _reaching():
            path = Path(scratch) / f"{step:05d}.png"
            path.write_bytes(png)
            self._client.log_artifact(self.run_id, str(path), tag.replace(" ", "_"))

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Log scores and parameters, and finish the run. MLflow parameters are fixed, so changed ones become tags."""
        super().final(settings, metrics, step)
        self.flush()
        with _reaching():
            logged = self._client.get_run(self.run_id).data.params
            texts = {key: str(value)[:LONGEST_PARAM] for key, value in settings.items()}
            new_params = [self._param(key, text) for key, text in texts.items() if key not in logged]
            for key, text in texts.items():  # of a continued run
                if logged.get(key, text) != text:
                    self._client.set_tag(self.run_id, key, text)
            for first in range(0, len(new_params), MOST_PARAMS):
                self._client.log_batch(self.run_id, params=new_params[first : first + MOST_PARAMS])
            self._client.set_terminated(self.run_id, "FINISHED")

    def flush(self) -> None:
        """Send the points that are waiting."""
        points, self._points = self._points, []
        with _reaching():
            for first in range(0, len(points), MOST_POINTS):
                self._client.log_batch(self.run_id, metrics=points[first : first + MOST_POINTS])

    def sync(self) -> int:
        """Send the points that are waiting; the returned position is always 1."""
        self.flush()
        return 1

    def close(self) -> None:
        """Send the remaining points; a run that is not finished is marked as killed."""
        self.flush()
        with _reaching():
            if self._client.get_run(self.run_id).info.status != "FINISHED":
                self._client.set_terminated(self.run_id, "KILLED")


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn errors of MLflow and of the connection into an InputError."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError, ImportError) as error:
        where = os.environ.get(URI, DATABASE)
        raise InputError(f"trainer.tracker=mlflow: {where}: {reason_of(error, max_length=400)}") from error


@final
class CurvesFile(AppendedFile, Sink):
    """A CSV file with a row `tag,step,value` for every point; pictures and configuration are ignored.

    See `AppendedFile` for arguments and errors.
    """

    HEADER = ("tag", "step", "value")

    def __init__(self, path: Path, *, length: int = 0) -> None:
        super().__init__(path, length=length)
        if self.is_new:
            self._write(self.HEADER)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""
        self._write((tag, step, repr(float(value))))

    def _write(self, row: Sequence[object]) -> None:
        with writing(self.path):
            self._file.write(csv_text([row]).encode())


TRAINING, VALIDATION = "train/loss", "val/loss"
HEADER = ("epoch", "train_loss", "val_loss")
NAMES = {
    LossKind.mse: "MSE", LossKind.mae: "MAE", LossKind.huber: "Huber loss", LossKind.spectral: "spectral loss",
    LossKind.quantile: "pinball loss", LossKind.normal: "negative log-likelihood",
    LossKind.student_t: "negative log-likelihood", LossKind.negative_binomial: "negative log-likelihood of counts",
}  # fmt: skip


def units_of(loss: LossConfig) -> str:
    """Label of the losses of a run, for the axis of a chart."""
    levels = (
        f", mean of {', '.join(f'{level:g}' for level in loss.quantiles)}" if loss.kind is LossKind.quantile else ""
    )
    return f"{NAMES[loss.kind]}{levels}" + ("" if loss.kind is LossKind.negative_binomial else ", scaled")


def note_of(loss: LossConfig) -> str:
    """Note on the losses, for a chart."""
    if loss.kind.is_distribution:
        return "a baseline has one forecast, and no likelihood"
    if loss.quantiles:
        return "a baseline has one forecast, which is scored as every quantile"
    if loss.training not in (None, loss.kind):
        return f"the training loss is the {NAMES[loss.training]}, and not on the same scale"
    return "" if loss.kind is LossKind.mse else "ridge is fitted for MSE, and scored by the same loss as the model"


@dataclass(slots=True)
class LossTable:
    """Losses by epoch, in increasing order; epoch 0 is before the first step and has no training loss.

    Args:
        epochs: losses of each epoch by tag.
        baselines: validation losses by name.
    """

    epochs: dict[int, dict[str, float]] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)

    @property
    def training(self) -> dict[int, float]:
        """Training loss of each epoch that has one."""
        return {epoch: row[TRAINING] for epoch, row in self.epochs.items() if TRAINING in row}

    @property
    def validation(self) -> dict[int, float]:
        """Validation loss of each epoch that has one."""
        return {epoch: row[VALIDATION] for epoch, row in self.epochs.items() if VALIDATION in row}

    def to_csv(self) -> str:
        """CSV text: a header and a row per epoch; the columns of the baselines are constant."""
        losses = [(epoch, row.get(TRAINING, ""), row.get(VALIDATION, "")) for epoch, row in self.epochs.items()]
        return csv_text([[*HEADER, *self.baselines], *([*row, *self.baselines.values()] for row in losses)])

    @classmethod
    def read(cls, path: Path) -> "LossTable":
        """Read a table written by `to_csv`.

        Raises:
            InputError: the file is not such a table.
        """
        table = cls()
        with reading(path), path.open(encoding="utf-8", errors="replace", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        if tuple(header[:3]) != HEADER or len(set(header)) < len(header):
            raise InputError(
                f"{path}: expected a table of losses ({', '.join(HEADER)}), found {','.join(header)!r:.60}"
            )
        for line, cells in enumerate(rows, start=2):
            try:
                epoch, *losses = int(cells[0]), *(float(cell) if cell else math.nan for cell in cells[1:])
                named = dict(zip((TRAINING, VALIDATION, *header[3:]), losses, strict=True))
            except (ValueError, IndexError) as error:
                raise InputError(f"{path}, row {line}: expected numbers, found {','.join(cells)!r:.60}") from error
            curves = {tag: named.pop(tag) for tag in (TRAINING, VALIDATION)}
            table.epochs[epoch] = {tag: value for tag, value in curves.items() if not math.isnan(value)}
            table.baselines = named
        return table


@final
class LossFile(Sink):
    """Writes losses.csv in a run directory at each `sync`, with whole epochs, and losses.png at the end of a run.

    Args:
        folder: run directory.
        loss: the training loss.
        n_rows: for a resumed run, number of rows of the existing table to keep.
    """

    def __init__(self, folder: Path, loss: LossConfig, *, n_rows: int = 0) -> None:
        self._folder, self._loss, self.table = folder, loss, LossTable()
        if n_rows and (folder / LOSSES).exists():
            before = LossTable.read(folder / LOSSES)
            self.table = LossTable(dict(list(before.epochs.items())[:n_rows]), before.baselines)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Record a point of a curve, if it is a loss per epoch."""
        prefix, is_baseline, name = tag.partition(f"{VALIDATION}_")
        if tag in (TRAINING, VALIDATION):
            self.table.epochs.setdefault(step, {})[tag] = float(value)
        elif is_baseline and not prefix:
            self.table.baselines[name.replace("_", " ")] = float(value)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Plot the losses, if an epoch was trained and matplotlib is installed."""
        table, loss = self.table, self._loss
        if table.training and draws():
            from informer.base.plots import plot_losses, save_figure

            curves = (table.training, table.validation, table.baselines)
            save_figure(plot_losses(*curves, units=units_of(loss), note=note_of(loss)), self._folder / LOSSES_PICTURE)

    def sync(self) -> int:
        """Write the table; returns the number of its rows."""
        write_atomic(self._folder / LOSSES, self.table.to_csv(), durable=False)
        return len(self.table.epochs)


def open_sinks(settings: TrainConfig, folder: Path, positions: Mapping[str, int]) -> dict[str, Sink]:
    """The sinks of a run, by kind; losses.csv is written if there are any others.

    Args:
        settings: configuration of the run.
        folder: run directory.
        positions: position of each sink when the checkpoint of a resumed run was saved: later points are removed, or
            not sent again; empty: a new run.

    Raises:
        InputError: a file that cannot be written, or a package or server that is missing.
    """
    kinds, sinks = settings.trainer.tracker, dict[str, Sink]()
    if kinds:
        sinks[LOSSES] = LossFile(folder, settings.loss, n_rows=positions.get(LOSSES, 0))
    try:
        for kind in kinds:
            position = positions.get(kind.name, 0)
            if kind is TrackerKind.tensorboard:
                sinks[kind.name] = EventFile(folder / EVENTS, length=position)
            elif kind is TrackerKind.csv:
                sinks[kind.name] = CurvesFile(folder / CURVES, length=position)
            else:
                sinks[kind.name] = MlflowRun(folder, is_resumed=position > 0)
    except InputError:
        for sink in sinks.values():
            sink.close()
        raise
    return sinks


def check_installed(kinds: Sequence[TrackerKind]) -> None:
    """Raise an InputError if a tracker's package is missing."""
    if TrackerKind.mlflow in kinds and find_spec("mlflow") is None:
        raise InputError("trainer.tracker=mlflow: mlflow not installed; pip install mlflow-skinny sqlalchemy alembic")
