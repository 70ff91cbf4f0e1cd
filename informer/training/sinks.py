"""Outputs for the curves of a run: TensorBoard, a CSV file, MLflow, or several of them.

TensorBoard's event file, written synchronously.

`SummaryWriter` writes from a background thread: what has reached the file at a save is unknown, and a full disk shows
as a traceback of that thread. Here every event is written immediately, so a checkpoint can record the file's length,
and a resumed run truncates later events.

Curves, pictures, configuration and scores in MLflow.

The server is MLFLOW_TRACKING_URI, otherwise a database `mlflow.db` next to the run directory. Points cannot be removed
from MLflow, so a resumed run queries the existing ones and sends only new ones.
"""

import csv
import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol, final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, hparams

from informer.base.errors import InputError, reason_of
from informer.base.files import AppendedFile, refuse_link, write_atomic, writing
from informer.checkpoint.paths import CURVES, EVENTS, MLFLOW
from informer.config.training import TrackerKind

LAYOUT = {
    "loss": {
        "training and validation, with the baselines": ["Multiline", ["^train/loss$", "^val/loss.*$"]],
    },
    "intervals on validation rows": {
        "coverage in percent (nominal: 80 and 95)": ["Multiline", ["^val/coverage_.*$"]],
        "pinball loss": ["Multiline", ["^val/pinball_.*$"]],
        "width in scaled units": ["Multiline", ["^val/width_.*$"]],
    },
}
"""Charts of several curves, in the tab Custom Scalars: category, title, kind and patterns of tags."""

SLOTS = ("attn", "cross_attn", "decoder_attn")
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


def _ordered(experiment: Summary) -> Summary:
    """The description of the table with `SHOWN` as its first columns."""
    plugin = experiment.value[0].metadata.plugin_data
    content = HParamsPluginData.FromString(plugin.content)
    for each in content.experiment.hparam_infos:
        each.differs = each.name in SHOWN
    plugin.content = content.SerializeToString()
    return experiment


@final
class EventFile(AppendedFile):
    """The event file of a run; see `AppendedFile` for arguments and errors."""

    TAKES_PICTURES: ClassVar[bool] = True

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
        for summary in (_ordered(experiment), *session):
            self.summary(summary, step)
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

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
class MlflowRun:
    """One run in MLflow; its id is stored in a file of the run directory.

    Args:
        folder: run directory.
        is_resumed: continue the MLflow run whose id the file contains.

    Raises:
        InputError: the server cannot be used; raised by every method.
    """

    TAKES_PICTURES: ClassVar[bool] = True

    def __init__(self, folder: Path, *, is_resumed: bool) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric, self._param = Metric, Param
        self._points: list[Any] = []
        self._there: dict[str, set[int]] = {}
        file = folder / MLFLOW
        refuse_link(file)
        with _reaching():
            self._client = MlflowClient(tracking_uri=_server(folder))
            saved_id, self._is_resumed = self._known(file) if is_resumed else None, is_resumed
            self.run_id: str = saved_id or self._new(folder)
            self._client.update_run(self.run_id, status="RUNNING")
        write_atomic(file, self.run_id + "\n")

    def _known(self, file: Path) -> str | None:
        """The id in the file of a resumed run, if it has one."""
        if not file.is_file():
            return None
        run_id = file.read_text(encoding="utf-8", errors="replace")[:100].strip()
        if not run_id.isalnum():
            raise InputError(f"{file}: expected the id of a run in MLflow, found {run_id!r:.40}; remove the file")
        return str(self._client.get_run(run_id).info.run_id)

    def _new(self, folder: Path) -> str:
        return str(self._client.create_run(self._experiment(folder), run_name=folder.name).info.run_id)

    def _experiment(self, folder: Path) -> str:
        name = os.environ.get(EXPERIMENT, "informer")
        existing = self._client.get_experiment_by_name(name)
        if existing is not None:
            return str(existing.experiment_id)
        place = None if URI in os.environ else (folder.absolute().parent / ARTIFACTS).as_uri()
        return str(self._client.create_experiment(name, artifact_location=place))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve, unless MLflow has it; points are sent in batches."""
        if isfinite(value) and step not in self._steps_of(tag):
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
        for tag, value in metrics.items():
            self.scalar(tag, value, step)
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


def _server(folder: Path) -> str:
    return os.environ.get(URI) or f"sqlite:///{folder.absolute().parent / DATABASE}"


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn errors of MLflow and of the connection into an InputError."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError, ImportError) as error:
        where = os.environ.get(URI, DATABASE)
        raise InputError(f"trainer.tracker=mlflow: {where}: {reason_of(error, max_length=400)}") from error


Positions = Mapping[str, int]
"""Position of each sink when a checkpoint was saved, by its kind."""


class Sink(Protocol):
    """Receives curves. Methods raise an InputError if something cannot be written."""

    TAKES_PICTURES: ClassVar[bool] = False
    """False if `image` ignores them, so that none need be drawn."""

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Add a picture; ignored unless a sink defines it."""
        return

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the configuration by dotted key and the scores of a finished run, the most important first."""

    def flush(self) -> None:
        """Make everything received visible to other programs."""
        return

    def sync(self) -> int:
        """Store everything received durably; returns the position to continue from."""

    def close(self) -> None:
        """Called when the run is finished or stopped."""
        return


def open_sinks(kinds: Sequence[TrackerKind], folder: Path, positions: Positions) -> dict[str, Sink]:
    """The sinks of a run, by kind.

    Args:
        kinds: kinds of sinks.
        folder: run directory.
        positions: positions of a resumed run: later points are removed, or not sent again; empty: a new run.

    Raises:
        InputError: a file that cannot be written, or a package or server that is missing.
    """
    sinks: dict[str, Sink] = {}
    try:
        for kind in kinds:
            sinks[kind.name] = _open(kind, folder, positions.get(kind.name, 0))
    except InputError:
        for sink in sinks.values():
            sink.close()
        raise
    return sinks


def check_installed(kinds: Sequence[TrackerKind]) -> None:
    """Raise an InputError if a tracker's package is missing."""
    if TrackerKind.mlflow in kinds and find_spec("mlflow") is None:
        raise InputError("trainer.tracker=mlflow: mlflow not installed; pip install mlflow-skinny sqlalchemy alembic")


def _open(kind: TrackerKind, folder: Path, position: int) -> Sink:
    if kind is TrackerKind.tensorboard:
        return EventFile(folder / EVENTS, length=position)
    if kind is TrackerKind.csv:
        return CurvesFile(folder / CURVES, length=position)

    return MlflowRun(folder, is_resumed=position > 0)


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

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the scores."""
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

    def _write(self, row: Sequence[object]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        with writing(self.path):
            self._file.write(text.getvalue().encode())
