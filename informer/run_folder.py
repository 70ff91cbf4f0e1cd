"""The folder that a run keeps itself in, from the first line of its configuration to its test report."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from informer import checkpoint, conversion
from informer.config import TrainConfig
from informer.errors import InputError
from informer.files import remove_temporary, write_atomic

log = logging.getLogger(__name__)

CONFIG, FACTS, LOG = "config.yaml", "run.json", "train.log"
REPORT = ("metrics.json", "metrics.csv")


@final
class RunFolder:
    """One run directory.

    Args:
        path: of the folder, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, path: Path) -> "RunFolder":
        """The run that `resume=` means: its folder, or a file in it.

        Raises:
            InputError: there is no run.
        """
        place = (path if path.is_dir() else path.parent).resolve()  # `latest` is but a name of it
        folder = cls(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)
        if not path.exists() or not folder.holds_a_run:
            raise InputError(f"resume={path}: expected a run directory or its {checkpoint.LAST}, found no run there")
        return folder

    @property
    def holds_a_run(self) -> bool:
        """A run has begun here."""
        return (self.path / CONFIG).exists()

    @property
    def is_finished(self) -> bool:
        """The run has come to its test report."""
        return all((self.path / name).exists() for name in REPORT)

    def settings(self) -> TrainConfig:
        """The configuration the run began with."""
        path = self.path / CONFIG
        try:
            saved = OmegaConf.to_container(OmegaConf.load(path))
        except (OSError, YAMLError, OmegaConfBaseException) as error:
            raise InputError(f"{path}: expected the configuration of a run, found: {error}") from error
        assert isinstance(saved, dict)
        del saved["defaults"]
        return conversion.from_plain({str(key): value for key, value in saved.items()} | {"run_dir": str(self.path)})

    def last(self) -> checkpoint.Checkpoint | None:
        """The state that the run saved last; None if it was killed before it saved one."""
        path = self.path / checkpoint.LAST
        return checkpoint.load(path) if path.exists() else None

    def begin(self, settings: TrainConfig, facts: dict[str, Any]) -> None:
        """Make the folder with what is known before the first step."""
        remove_temporary(self.path)
        facts |= {name: fact for name, fact in self.facts().items() if name == "search"}
        write_atomic(self.path / CONFIG, conversion.to_yaml(settings))
        self._write_facts(facts | {"resumed": []})

    def chosen(self, settings: TrainConfig, found: dict[str, Any]) -> None:
        """A search is over: `settings` are those of the run, and `found` is what is to be known of it."""
        self._write_facts(self.facts() | {"search": found})
        write_atomic(self.path / CONFIG, conversion.to_yaml(settings))

    def resume(self, facts: dict[str, Any]) -> None:
        """Note who goes on with the run."""
        remove_temporary(self.path)
        began = self.facts()
        self._write_facts(began | {"resumed": [*began["resumed"], facts]})

    def facts(self) -> dict[str, Any]:
        """What was noted when the run began; empty before."""
        path = self.path / FACTS
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _write_facts(self, facts: dict[str, Any]) -> None:
        write_atomic(self.path / FACTS, json.dumps(facts, indent=2) + "\n")

    @contextmanager
    def as_latest(self) -> Iterator[None]:
        """`latest` beside the folder leads here; back to where it led if the run fails before it has saved anything."""
        link = self.path.parent / "latest"
        before = link.readlink() if link.is_symlink() else None
        _point(link, self.path.name)
        try:
            yield
        except InputError:
            if before is not None and not (self.path / checkpoint.LAST).exists():
                _point(link, str(before))
            raise


def _point(link: Path, target: str) -> None:
    """Replaced in one step, so that the link always leads somewhere."""
    if link.exists() and not link.is_symlink():
        log.warning(f"{link} is no link and stays as it is")
        return
    fresh = link.with_name(f".latest-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target, target_is_directory=True)
    fresh.replace(link)
