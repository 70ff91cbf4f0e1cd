"""The run directory: configuration, checkpoints, facts, log and report of a run."""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from informer import checkpoint
from informer.base.errors import FileError, InputError
from informer.base.files import only_writer, refuse_link, remove_temporary, write_atomic, writing
from informer.base.runtime import process_rank
from informer.checkpoint import paths
from informer.config import conversion
from informer.config.conversion import read_saved_yaml
from informer.config.data import LOCATION_KEYS
from informer.config.training import TrainConfig, TrainerConfig
from informer.data.recorded import Recorded

if TYPE_CHECKING:
    import pandas as pd

    from informer.checkpoint.format import Checkpoint

log = logging.getLogger(__name__)

LENGTH = ("trainer.max_epochs", "trainer.max_steps", "trainer.patience")
"""Keys that may change when a run, also a finished one, is continued."""

MOVING = (
    *("device", "data_dir", "run_dir", "resume", "init_from", *(f"dataset.{name}" for name in LOCATION_KEYS)),
    *(*LENGTH, "trainer.save_every_minutes", "trainer.eval_batch_size"),
)
"""Keys in which config.yaml may differ from the checkpoints of its run: paths, device and length."""

NAME = "frame"
"""Name of a table from Python in messages, of its series and, with an ending, of its file."""

RUNS = "runs"
"""Default parent folder of run directories."""


@final
class RunFolder:
    """One run directory.

    Args:
        path: path of the folder, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_claimed = False

    @classmethod
    @contextmanager
    def new(cls, path: Path) -> Iterator["RunFolder"]:
        """A new folder for a run without `run_dir`: `path`, or `path`_2, ... if another run has just created it.

        Raises:
            InputError: the folder cannot be written.
        """
        if process_rank() > 0:  # the first of several processes writes
            yield cls(path)
            return
        with only_writer(path, "run_dir", new=True) as new_path:
            folder = cls(new_path)
            folder._is_claimed = True
            yield folder

    @classmethod
    @contextmanager
    def for_output(cls, output: str | None, default: Path, *, overwrite: bool) -> Iterator["RunFolder"]:
        """The locked folder of a new run.

        Args:
            output: an empty or new folder that the user named; None: `new(default)`.
            overwrite: whether `output` may have earlier results, which `clear` removes.

        Raises:
            InputError: `output` is in use, or is no folder that can be written.
        """
        if output is None:
            with cls.new(default) as folder:
                yield folder
            return
        folder = cls(Path(output))
        paths.check_output(folder.path, overwrite=overwrite)
        with folder.claimed("output"):
            paths.check_output(folder.path, overwrite=overwrite)  # another process may have made a run in the meantime
            yield folder

    def clear(self, inputs: Iterable[Path]) -> None:
        """Remove the run and the results of other commands in its folder; files of other names stay.

        Raises:
            InputError: one of `inputs`, which the next run reads, would be removed.
        """
        has_results = any((self.path / name).exists() for name in (paths.CONFIG, paths.METRICS_FILE, paths.CONTENT))
        results = (paths.FORECASTS, paths.EVALUATION, paths.EXPLAINED, paths.PAGE) if has_results else ()
        removed = [
            path for name in (*results, *paths.FILES) if (path := self.path / name).exists() or path.is_symlink()
        ]
        for given in inputs:
            if any(given.resolve().is_relative_to(path.resolve()) or path.parent.samefile(given) for path in removed):
                raise InputError(f"output={self.path}: overwrite=true would remove the input {given}; choose another")
        for path in removed:  # the configuration first among the files: without it there is no run
            with writing(path):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    @contextmanager
    def claimed(self, setting: str = "run_dir") -> Iterator[None]:
        """Lock the folder, so that no other process writes to it; a folder that is already locked stays locked.

        Args:
            setting: the key that set the folder, for errors.

        Raises:
            InputError: another process writes to it, or it cannot be written.
        """
        if self._is_claimed or process_rank() > 0:
            yield
            return
        with only_writer(self.path, setting):
            self._is_claimed = True
            try:
                yield
            finally:
                self._is_claimed = False

    def check_new(self) -> None:
        """Raise an InputError if the folder contains a run, or a file that a run would overwrite."""
        if process_rank() > 0:
            return
        cure = f", or resume={self.path}" if self.contains_run else ""
        files = [self.path / name for name in paths.FILES]
        paths.check_output(self.path, files, overwrite=False, setting="run_dir", cure=cure)

    @classmethod
    def of(cls, path: Path) -> "RunFolder":
        """The run of `resume=`, which is its folder or a file in it.

        Raises:
            InputError: there is no run.
        """
        path = paths.resolve_latest(path)
        place = (path if path.is_dir() else path.parent).resolve()  # follows a link `latest`
        folder = cls(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)
        if not path.exists() or not folder.contains_run:
            raise FileError(f"resume={path}: expected a run directory or its {paths.LAST}, found no run there")
        return folder

    @property
    def contains_run(self) -> bool:
        """Whether the folder contains a run."""
        return (self.path / paths.CONFIG).exists()

    @property
    def is_finished(self) -> bool:
        """Whether the run has its test report."""
        return all((self.path / name).exists() for name in paths.REPORT)

    def settings(self) -> TrainConfig:
        """The saved configuration, without the paths of the data: see `recorded`.

        Raises:
            InputError: it cannot be read, or is not a configuration of this program.
        """
        saved = self._saved() | {"run_dir": None}
        return replace(conversion.from_plain(saved), run_dir=str(self.path))

    def recorded(self, last: "Checkpoint | None") -> Recorded:
        """The recorded paths of the run's data.

        Args:
            last: the run's last saved state, if any.
        """
        return Recorded.of(self._saved(), self.facts().get("data", {}) if last is None else dict(last.data))

    def _saved(self) -> dict[str, Any]:
        saved = read_saved_yaml(self.path / paths.CONFIG)
        return {key: value for key, value in saved.items() if key != "defaults"}

    def last(self) -> "Checkpoint | None":
        """The run's last saved state; None if it was killed before it saved one."""
        path = self.path / paths.LAST
        return checkpoint.load(path) if path.exists() else None

    def save(self, name: str, content: "Checkpoint") -> None:
        """Write a model file of the run."""
        checkpoint.save(self.path / name, content)

    def checkpoint(self, name: str = paths.BEST) -> "Checkpoint":
        """A model file of the run.

        Raises:
            InputError: there is no such file, or it is damaged.
        """
        return checkpoint.load(self.path / name)

    @property
    def forecasting(self) -> "Checkpoint":
        """The checkpoint to forecast with: that fitted on all rows if there is one, else the scored one."""
        return self.checkpoint(paths.REFIT if (self.path / paths.REFIT).exists() else paths.BEST)

    def begin(self, settings: TrainConfig, facts: dict[str, Any]) -> None:
        """Write facts and configuration before the first step."""
        remove_temporary(self.path / name for name in paths.FILES)
        # first: a run without the checksum of its data cannot be resumed
        self._write_facts(facts | {"resumed": []})
        write_atomic(self.path / paths.CONFIG, conversion.to_yaml(settings))

    def resume(self, settings: TrainConfig, facts: dict[str, Any]) -> None:
        """Record that the run is continued. If its length changed, scores and refit are removed, to be made again.

        Args:
            settings: configuration of the run, possibly with new values of `LENGTH`.
            facts: versions and machine of the continuing process.
        """
        remove_temporary(self.path / name for name in paths.FILES)
        saved = self._saved()
        before = conversion.node_of(TrainerConfig, saved.get("trainer", {}))
        length = {name: getattr(settings.trainer, name) for name in (key.removeprefix("trainer.") for key in LENGTH)}
        if any(getattr(before, name) != value for name, value in length.items()):
            for name in (
                *paths.REPORT,
                paths.BY_SERIES,
                paths.REFIT,
            ):  # first: with them the run would count as finished
                (self.path / name).unlink(missing_ok=True)
            longer = saved | {"trainer": saved.get("trainer", {}) | length}
            write_atomic(self.path / paths.CONFIG, conversion.plain_to_yaml(longer))
        began = {name: fact for name, fact in self.facts().items() if name != "digests"}
        self._write_facts(began | {"resumed": [*began.get("resumed", []), facts]})

    def finish(self) -> None:
        """Record the digests of the final checkpoints."""
        digests = {name: self.checkpoint(name).sha256 for name in (paths.BEST, paths.LAST)}
        self._write_facts(self.facts() | {"digests": digests})

    def check_own(self, settings: TrainConfig, checkpoint: "Checkpoint", name: str) -> None:
        """Check that a checkpoint belongs to this run.

        Args:
            settings: configuration of the run.
            checkpoint: content of the file `name` in the folder.
            name: its file name.

        Raises:
            InputError: it was saved with another configuration.
        """
        run_settings, saved_settings = (
            {key: value for key, value in conversion.flat(conversion.to_plain(config)).items() if key not in MOVING}
            for config in (settings, checkpoint.settings)
        )
        different = [key for key in run_settings if run_settings[key] != saved_settings.get(key)]
        if different:
            raise FileError(
                f"{self.path / name}: expected the checkpoint of this run, found one of another configuration than "
                f"{paths.CONFIG} ({', '.join(different[:3])}); put the run's own file back, or start a new run"
            )

    def check_files(self) -> None:
        """Check the files that are written in place; others are replaced atomically.

        Raises:
            InputError: one is a link, which may lead anywhere, a folder or a pipe.
        """
        for path in (self.path / paths.LOG, self.path / paths.EVENTS):
            refuse_link(path)
            if path.exists() and not path.is_file():
                raise FileError(f"{path}: expected a file of the run, found something else; remove it")

    def facts(self) -> dict[str, Any]:
        """Content of run.json; empty before the run begins.

        Raises:
            InputError: the file is damaged.
        """
        return paths.read_facts(self.path)

    def _write_facts(self, facts: dict[str, Any]) -> None:
        write_atomic(self.path / paths.FACTS, json.dumps(facts, indent=2) + "\n")

    @contextmanager
    def as_latest(self) -> Iterator[None]:
        """Point `latest` in the folder `runs` to this run; restored if the run fails before it saves anything.

        Runs in other folders write no such file.
        """
        if self.path.absolute().parent.name != RUNS:
            yield
            return
        latest = self.path.parent / paths.LATEST
        before = paths.named_run(latest)
        if not paths.point_latest(latest, self.path.name):
            log.warning(f"{latest} does not name a run; not changed")
        try:
            yield
        except InputError:
            is_own = paths.named_run(latest) == self.path.name  # unless a run began since
            if before is not None and is_own and not (self.path / paths.LAST).exists():
                paths.point_latest(latest, before)
            raise


def saved_path(table: "pd.DataFrame", run_dir: Path) -> Path:
    """Path of a CSV file, or of a parquet file if times have a time zone: text would store only their UTC offset."""
    zones = [dtype.tz for dtype in table.dtypes if hasattr(dtype, "tz")]
    in_zone = any(not isinstance(zone, timezone) and str(zone) != "UTC" for zone in zones)
    return run_dir / f"{NAME}.{'parquet' if in_zone else 'csv'}"


@contextmanager
def saved_table(table: "pd.DataFrame", path: Path) -> Iterator[str]:
    """Write the table to `path` in a new run directory, so that `eval` and `resume` find it; returns its checksum. It
    is removed if the run fails before it starts.

    Raises:
        InputError: the folder cannot be written.
    """
    if path.exists():
        raise InputError(f"run_dir={path.parent}: expected a new folder, found {path.name} in it; choose another")
    content = table.to_csv(index=False).encode() if path.suffix == ".csv" else table.to_parquet(index=False)
    write_atomic(path, content)
    try:
        yield hashlib.sha256(content).hexdigest()
    except InputError:
        if not RunFolder(path.parent).contains_run:
            path.unlink()
        raise
