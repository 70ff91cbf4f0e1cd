"""Curves, pictures, configuration and scores in MLflow.

The server is MLFLOW_TRACKING_URI, otherwise a database `mlflow.db` next to the run directory. Points cannot be removed
from MLflow, so a resumed run queries the existing ones and sends only new ones.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, final

from informer.checkpoint.paths import MLFLOW
from informer.errors import InputError, reason_of
from informer.files import refuse_link, write_atomic

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
