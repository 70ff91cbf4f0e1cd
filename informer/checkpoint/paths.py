"""Paths of checkpoints and names of the other files in a run directory; does not import torch.

Entries of run.json: the origin of a run, its data, the runs that resumed it and the digests of its files.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from informer.base.errors import FileError, InputError
from informer.base.files import check_no_input_overwritten, expanded, only_writer, write_atomic, writing
from informer.config.conversion import read_json
from informer.config.data import is_plain_name
from informer.config.fields import adapter
from informer.config.overrides import shell_command

BEST, LAST, REFIT = "best.safetensors", "last.safetensors", "refit.safetensors"
"""Model that is scored on the test part; last state of training; model fitted again on all rows."""
CONFIG, FACTS, LOG = "config.yaml", "run.json", "train.log"
METRICS_FILE = "metrics.json"
REPORT = (METRICS_FILE, "metrics.csv")
BY_SERIES = "metrics_by_series.csv"
TEST_FORECASTS, ATTENTION = "test_forecasts.parquet", "attention.json"
"""What a report shows: forecasts of the test part next to the actual values, attention maps of its last window."""
TOTALS, TOTALS_FACTS, PATHS = "totals.csv", "totals.json", "paths.parquet"
"""Sums of forecasts, their bias and coverage on the test part, and the sample paths they come from."""
EVENTS = "events.out.tfevents.run"
"""TensorBoard reads every file with `tfevents` in its name."""
CURVES, MLFLOW = "curves.csv", "mlflow_run.txt"
"""Written with `trainer.tracker`: curves as a table; id of the run in MLflow."""
LOSSES, LOSSES_PICTURE = "losses.csv", "losses.png"
"""Training and validation loss by epoch, compared with the baselines."""
CONTENT = "forecast_page.json"
"""What the page of a forecast shows that no other file of its folder has."""
FILES = (
    *(CONFIG, FACTS, LOG, EVENTS, CURVES, LOSSES, LOSSES_PICTURE, MLFLOW, BEST, LAST, REFIT),
    *(*REPORT, BY_SERIES, TEST_FORECASTS, ATTENTION, TOTALS, TOTALS_FACTS, PATHS, CONTENT),
)
"""All files that a run or a forecast writes."""
SUMMARY = "summary.csv"
"""Table of a job of `informer predict`, with the status of each file."""
FORECASTS, EVALUATION, EXPLAINED, PAGE = "forecasts", "eval", "explanation", "report.html"
"""What other commands write into a run directory."""


LATEST = "latest"
"""Text file among the runs that contains the name of the newest one. It is not a link, because TensorBoard follows
links and would show the run twice."""

_LONGEST_NAME = 255


def named_run(path: Path) -> str | None:
    """The run named by a file `latest`; None if it is something else."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_NAME + 1:
        return None
    name = path.read_bytes().decode(errors="replace").removesuffix("\n")
    return name if name.isprintable() and is_plain_name(name) and "\ufffd" not in name else None


def point_latest(path: Path, name: str) -> bool:
    """Make `latest` name another run, atomically; False if `path` is something else, which is left unchanged."""
    if path.exists() and named_run(path) is None:
        return False
    write_atomic(path, name + "\n", durable=False)
    return True


def resolve_latest(path: str | Path) -> Path:
    """Replace `latest` in a path by the run it names and expand `~`."""
    path = expanded(path)
    for ancestor in (path, *path.parents):
        if ancestor.name == LATEST and (name := named_run(ancestor)) is not None:
            return ancestor.with_name(name) / path.relative_to(ancestor)
    return path


def locate(path: str | Path) -> Path:
    """The checkpoint file for `checkpoint=`: the file itself, or the best checkpoint of a run directory.

    Raises:
        InputError: there is no such file, or the run has not finished an epoch.
    """
    path = resolve_latest(path)
    if path.is_dir():
        if not (path / BEST).is_file():
            if (path / CONFIG).is_file():
                raise FileError(
                    f"checkpoint: {path} was interrupted before its first epoch ended; {resume_advice(path)}"
                )
            raise FileError(f"checkpoint: no {BEST} in the folder {path}; give a run directory or a model file")
        return path / BEST
    if not path.exists():
        if str(path) == "zero":
            takes = "informer explain and serve take it, and informer forecast FILE needs no checkpoint"
            raise FileError(f"checkpoint: zero is the pretrained network: {takes}")
        raise FileError(f"checkpoint: {path} does not exist; give a run directory or a model file")
    if not path.is_file():  # reading a pipe would block
        raise FileError(f"checkpoint: {path} is not a regular file; give a run directory or a model file")
    return path


def resume_advice(run: Path) -> str:
    """The command that continues a run, as the end of a sentence."""
    return f"continue with: {shell_command('train', ('resume', run))}"


def unfinished_note(path: str | Path) -> str | None:
    """A message if the checkpoint belongs to a run that has no scores yet, else None."""
    file = locate(path)
    run = file.parent
    if not all((run / name).is_file() for name in (CONFIG, LAST)) or all((run / name).exists() for name in REPORT):
        return None
    return f"{run}: interrupted, or still training: {file.name} is what it has so far; {resume_advice(run)}"


def check_output(
    output: Path,
    written: Sequence[Path] | None = None,
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool,
    setting: str = "output",
    cure: str = ", or overwrite=true",
    own: tuple[Path | None, bytes] | None = None,
) -> None:
    """The rule for every output: only `overwrite=true` replaces what is there, and nothing replaces inputs and runs.

    Args:
        output: the folder of the results, or the file if it is one of `written`.
        written: paths that a command is about to write; None: anything in the folder, which must be empty.
        inputs: files that the command reads.
        overwrite: whether existing results may be replaced.
        setting: configuration key of the output, for the message.
        cure: what else helps, at the end of the message.
        own: what shows that existing files are results of this command, and may be replaced: a file (None: each itself)
            and what it contains near its beginning; None: their names do.

    Raises:
        InputError: the output is not a folder (or file), it is in use, or an input or a file of a run would be lost.
    """
    is_file = written is not None and output in written
    with writing(output):
        nearest = next(filter(os.path.lexists, (output, *output.parents)), Path())
        expected = "file" if is_file and nearest == output else "folder"
        if nearest.is_dir() != (expected == "folder"):
            found = "folder" if nearest.is_dir() else "file" if nearest.exists() else "link to nothing"
            at = "" if nearest == output else f" at {nearest}"
            raise InputError(f"{setting}={output}: expected a {expected}{at}, found a {found}; choose another")
        if written is None:  # hidden files, such as the lock of a killed process, are no results
            there = output.iterdir() if output.exists() else iter(())
            existing = sorted(path for path in there if not path.name.startswith("."))
        else:
            check_no_input_overwritten(inputs, written, setting)
            for path in written if setting == "output" else ():  # the files of a new run are no mistake
                holds_a_run = any((path.parent / name).exists() for name in (CONFIG, BEST, LAST))
                if holds_a_run and path.name.lower() in FILES:
                    raise InputError(f"{setting}: expected another place, found {path}, a file of a run; choose one")
            existing = [path for path in written if path.exists()]
    if existing and not overwrite:
        new, place = ("file", "there") if is_file else ("or empty folder", "in it")
        found = os.path.relpath(existing[0], output.parent if is_file else output)
        raise InputError(f"{setting}={output}: expected a new {new}, found {found} {place}; choose another{cure}")
    shown_by, mark = own or (None, b"")
    for path in existing if own else ():
        begins, shown = b"", shown_by or path
        if shown.is_file():
            with writing(shown), shown.open("rb") as file:
                begins = file.read(4096)
        if mark not in begins:
            raise InputError(
                f"{setting}={output}: overwrite=true replaces what this command has written, found another "
                f"{path.name}; choose another"
            )


@contextmanager
def only_output(
    output: Path,
    written: Sequence[Path],
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool,
    cure: str = ", or overwrite=true",
    own: tuple[Path | None, bytes] | None = None,
) -> Iterator[None]:
    """`check_output`, after which no other command writes to the folder until the results are written.

    Raises:
        InputError: another process writes to the folder; or see `check_output`.
    """
    check = partial(check_output, output, written, inputs=[*inputs], overwrite=overwrite, cure=cure, own=own)
    check()
    with only_writer(output.parent if output in written else output, "output"):
        check()  # another command may have written in the meantime
        yield


def forecasting_checkpoint(path: str | Path) -> Path:
    """The checkpoint to forecast with: that of a run fitted on all rows if there is one, else `path`."""
    path = resolve_latest(path)
    return path / REFIT if (path / REFIT).exists() else path


KINDS = {"data": dict[str, Any], "digests": dict[str, str | None], "resumed": list[dict[str, Any]]}
"""Entries that the program reads, with their types; the others are only for people."""


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of run.json; empty without the file.

    Raises:
        InputError: the file is damaged, or an entry has the wrong type.
    """
    path = folder / FACTS
    if not path.exists():
        return {}
    facts = read_json(path)
    for name, kind in KINDS.items():
        try:
            adapter(kind).validate_python(facts.get(name, kind()), strict=True)
        except ValidationError as error:
            raise InputError(
                f"{path}: {name}: found {facts[name]!r:.80}, which no run writes; put the run's own file back"
            ) from error
    return facts
