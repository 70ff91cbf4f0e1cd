"""Where the curves of a run go: TensorBoard, a CSV file, MLflow, or several of them.

TensorBoard's event file is written synchronously. `SummaryWriter` writes from a background thread, where a full disk
shows as a traceback of that thread. A resumed run appends to its files; steps since the last save are in them twice,
except in TensorBoard, whose file records where the run goes on.

MLflow's server is MLFLOW_TRACKING_URI, otherwise a database `mlflow.db` next to the run directory.
"""

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, final

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, hparams

from informer.base.errors import FileError, InputError, reason_of
from informer.base.files import csv_text, refuse_link, write_atomic, writing
from informer.checkpoint.format import Progress
from informer.checkpoint.paths import CURVES, EVENTS, LOSSES, LOSSES_PICTURE, MLFLOW
from informer.config.training import SLOTS, LossConfig, TrackerKind, TrainConfig
from informer.training.losses import COLUMNS, curves_of, no_losses, note_of, read_losses, units_of

Values = Mapping[str, float | bytes]
"""Points of curves and pictures (PNG), by tag."""


def draws() -> bool:
    """Whether pictures are drawn, which needs matplotlib; curves need nothing."""
    return find_spec("matplotlib") is not None


class Sink:
    """Receives curves and pictures. Methods raise an InputError if something cannot be written."""

    TAKES_PICTURES: ClassVar[bool] = False
    """False if pictures are ignored, so that none need be drawn."""

    def log(self, step: int, values: Values) -> None:
        """Add a point to each of these curves, and these pictures."""
        raise NotImplementedError

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the scores of a finished run, the most important first; `settings` by dotted key."""
        self.log(step, metrics)

    def flush(self) -> None:
        """Make everything received visible to other programs."""

    def close(self) -> None:
        """Called when the run is finished or stopped."""


class AppendedFile(Sink):
    """A file that a run appends to.

    Args:
        path: path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_link(path)
        with writing(path):
            self._file = path.open("ab")
        self.is_new = not self._file.tell()

    def flush(self) -> None:
        """See `Sink`."""
        with writing(self.path):
            self._file.flush()

    def close(self) -> None:
        """See `Sink`."""
        with writing(self.path):
            self._file.close()


BASELINE_LOSS = re.compile(r"val/loss_(.+)")
"""Tag of the loss of a baseline."""

LAYOUT = {
    "loss": {"training and validation, with the baselines": ["Multiline", ["^train/loss$", "^val/loss.*$"]]},
    "intervals on validation rows": {
        "coverage in percent (nominal: 80 and 95)": ["Multiline", ["^val/coverage_.*$"]],
        "pinball loss": ["Multiline", ["^val/pinball_.*$"]],
        "width in scaled units": ["Multiline", ["^val/width_.*$"]],
    },
}
"""Charts of several curves, in the tab Custom Scalars: category, title, kind and patterns of tags."""

IGNORED = ("run_dir", "data_dir", "resume", "init_from", "decoder_attn_reason", "device", "compile")
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
class EventFile(AppendedFile):
    """The event file of a run.

    Args:
        path: path of the file.
        step: steps of a resumed run before it goes on.
    """

    TAKES_PICTURES = True

    def __init__(self, path: Path, step: int) -> None:
        with writing(path):
            _cut_unfinished(path)
        super().__init__(path)
        self._records = RecordWriter(self._file)
        if self.is_new:
            self._add(file_version="brain.Event:2")
            self._add(summary=custom_scalars(LAYOUT))
        else:  # TensorBoard drops the points from this step on
            self._add(step + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, step: int, values: Values) -> None:
        """See `Sink`."""
        for tag, value in values.items():
            shown: dict[str, Any] = {"simple_value": value}
            if isinstance(value, bytes):
                shown = {"image": Summary.Image(encoded_image_string=value)}
            self._add(step, summary=Summary(value=[Summary.Value(tag=tag, **shown)]))

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the table of hyper-parameters, and the scores as curves with one point."""
        experiment, *session = hparams(_hparams(settings), dict(metrics))
        plugin = experiment.value[0].metadata.plugin_data
        content = HParamsPluginData.FromString(plugin.content)
        for each in content.experiment.hparam_infos:
            each.differs = each.name in SHOWN  # these are the first columns
        plugin.content = content.SerializeToString()
        for summary in (experiment, *session):
            self._add(step, summary=summary)
        super().final(settings, metrics, step)

    def _add(self, step: int = 0, **content: Any) -> None:
        with writing(self.path):
            self._records.write(Event(wall_time=time.time(), step=step, **content).SerializeToString())


def _cut_unfinished(path: Path) -> None:
    """Cut an event that a full disk or a power failure has left incomplete: TensorBoard would read none after it."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        size, whole = path.stat().st_size, 0
        while len(length := file.read(8)) == 8:  # of the event; then 4 bytes, the event, and 4 bytes
            end = whole + 16 + int.from_bytes(length, "little")
            if end > size:
                break
            whole = file.seek(end)
        if whole < size:
            file.truncate(whole)


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
        file, place = folder / MLFLOW, folder.absolute().parent
        refuse_link(file)
        with _reaching():
            self._client = MlflowClient(tracking_uri=os.environ.get(URI) or f"sqlite:///{place / DATABASE}")
            if is_resumed and file.is_file():
                self.run_id = file.read_text(encoding="utf-8", errors="replace")[:100].strip()
                if not self.run_id.isalnum():
                    raise FileError(
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

    def log(self, step: int, values: Values) -> None:
        """See `Sink`; points are sent in batches."""
        for tag, value in values.items():
            if isinstance(value, bytes):
                with TemporaryDirectory() as scratch, _reaching():
                    path = Path(scratch) / f"{step:05d}.png"
                    path.write_bytes(value)
                    self._client.log_artifact(self.run_id, str(path), tag.replace(" ", "_"))
            elif math.isfinite(value):
                self._points.append(self._metric(tag, float(value), int(time.time() * 1000), step))
        if len(self._points) >= MOST_POINTS:
            self.flush()

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
class CurvesFile(AppendedFile):
    """A CSV file with a row `tag,step,value` for every point; pictures and configuration are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if self.is_new:
            self._write([("tag", "step", "value")])

    def log(self, step: int, values: Values) -> None:
        """See `Sink`."""
        points = ((tag, value) for tag, value in values.items() if not isinstance(value, bytes))
        self._write([(tag, step, repr(float(value))) for tag, value in points])

    def _write(self, rows: Sequence[Sequence[object]]) -> None:
        with writing(self.path):
            self._file.write(csv_text(rows).encode())


@final
class LossFile(Sink):
    """Writes losses.csv in a run directory after each epoch, and losses.png at the end of a run.

    Args:
        folder: run directory.
        loss: the training loss.
        epoch: finished epochs of a resumed run.
    """

    def __init__(self, folder: Path, loss: LossConfig, epoch: int) -> None:
        self._folder, self._loss = folder, loss
        path = folder / LOSSES
        table = read_losses(path) if epoch and path.exists() else no_losses()
        self.table = table[table.index <= epoch]

    def log(self, step: int, values: Values) -> None:
        """Write the table, if there are losses of an epoch among the points."""
        columns = {"train/loss": COLUMNS[0], "val/loss": COLUMNS[1]}
        columns |= {tag: found[1].replace("_", " ") for tag in values if (found := BASELINE_LOSS.fullmatch(tag))}
        if losses := {column: values[tag] for tag, column in columns.items() if tag in values}:
            for column, loss in losses.items():
                self.table.loc[step, column] = loss
            write_atomic(self._folder / LOSSES, self.table.to_csv(), durable=False)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Plot the losses, if an epoch was trained and matplotlib is installed."""
        curves = curves_of(self.table)
        if curves[0] and draws():
            from informer.base.plots import plot_losses, save_figure

            figure = plot_losses(*curves, units=units_of(self._loss), note=note_of(self._loss))
            save_figure(figure, self._folder / LOSSES_PICTURE)


def open_sinks(settings: TrainConfig, folder: Path, progress: Progress | None) -> list[Sink]:
    """The sinks of a run; losses.csv is written if there are any others.

    Args:
        settings: configuration of the run.
        folder: run directory.
        progress: what a resumed run has done; None: a new run.

    Raises:
        InputError: a file that cannot be written, or a package or server that is missing.
    """
    kinds, sinks = settings.trainer.tracker, list[Sink]()
    if kinds:
        sinks.append(LossFile(folder, settings.loss, 0 if progress is None else progress.epoch))
    try:
        for kind in kinds:
            if kind == "tensorboard":
                sinks.append(EventFile(folder / EVENTS, 0 if progress is None else progress.step))
            elif kind == "csv":
                sinks.append(CurvesFile(folder / CURVES))
            else:
                sinks.append(MlflowRun(folder, is_resumed=progress is not None))
    except InputError:
        for sink in sinks:
            sink.close()
        raise
    return sinks


def check_installed(kinds: Sequence[TrackerKind]) -> None:
    """Raise an InputError if a tracker's package is missing."""
    if "mlflow" in kinds and find_spec("mlflow") is None:
        raise InputError("trainer.tracker=mlflow: mlflow not installed; pip install mlflow-skinny sqlalchemy alembic")
