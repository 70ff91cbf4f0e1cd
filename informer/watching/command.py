"""Monitor a model: compare its forecasts since training with actual values, from the configuration to the verdict."""

import logging
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from informer import checkpoint
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import ROWS, check_no_run_overwritten, forecasting_checkpoint, locate, resolve_latest
from informer.config import conversion
from informer.config.overrides import shell_command
from informer.config.updating import WatchConfig
from informer.console import logging_to, say
from informer.data.read.source import Series
from informer.data.rows import rows_dataset
from informer.errors import InputError
from informer.files import check_no_input_overwritten, make_folder, write_atomic
from informer.inference.predictor import TrainedModel
from informer.reporting.page import to_html
from informer.training.update_state import UNTIL
from informer.updating.command import rows_format
from informer.updating.joined_rows import input_dataset, joined, read_rows
from informer.watching.content import to_content, to_json
from informer.watching.findings import Verdict
from informer.watching.observe import findings, observe

log = logging.getLogger("informer.watch")

JSON, PAGE = "watch.json", "watch.html"


def watch(settings: WatchConfig, console: Console) -> Verdict:
    """Write the findings as JSON and as a page, and print and return the verdict.

    Raises:
        InputError: no run, the file has too few rows after the training data, or dataset.fill=mask.
    """
    path, where = locate(settings.checkpoint), settings.input or ""
    saved, until = forecasting(settings.checkpoint)
    output = Path(settings.output) if settings.output else path.parent / "watch"
    names = [output / JSON, output / PAGE]
    check_no_input_overwritten([path, Path(where)], names, "output")
    check_no_run_overwritten(names, "output")
    with logging_to(console, quiet=True):
        model = TrainedModel(saved, device=settings.device)
        results = findings(model, observe(model, _panel(settings, saved, path.parent), until, settings.batch_size))
    verdict, reason = results.decide()
    make_folder(output)
    facts = {"checkpoint": settings.checkpoint, "input": where, "trained_until": until}
    write_atomic(output / JSON, to_json(results, facts))
    words = ("checkpoint", settings.checkpoint), ("input", where)
    command = shell_command("watch", *words)
    subtitle = f"{where}: forecasts of {settings.checkpoint} from every origin after {until}"
    write_atomic(output / PAGE, to_html(to_content(results, title="In service", subtitle=subtitle, command=command)))
    say(console, f"{verdict.name}: {reason}")
    if verdict is Verdict.update or verdict is Verdict.recalibrate:
        say(console, f"next: {shell_command('update', *words)}")
    say(console, f"{output / JSON}, {output / PAGE}")
    return verdict


def forecasting(name: str) -> tuple[Checkpoint, str]:
    """The checkpoint and the end of its training rows: the one that `predict` uses if it records this time, otherwise
    the scored one.

    Raises:
        InputError: neither records it.
    """
    for path, entry in ((forecasting_checkpoint(name), UNTIL), (resolve_latest(name), "trained_until")):
        saved = checkpoint.load(path)
        until = saved.data.get(entry)
        if isinstance(until, str):
            return saved, until
    raise InputError(f"checkpoint={name}: does not record the end of its training rows; train again with this version")


def _panel(settings: WatchConfig, saved: Checkpoint, run: Path) -> Sequence[Series]:
    """The rows of the file, preceded by those saved with the run.

    Raises:
        InputError: missing values, with or without dataset.fill=mask, or a file that does not fit the run.
    """
    trained = conversion.from_plain(saved.config)
    dataset = input_dataset(trained.dataset, settings.input or "", settings.dataset, saved)
    if dataset.keeps_gaps:
        raise InputError(
            "dataset.fill=mask: watch does not support missing values; score the model with informer predict "
            "mode=rolling, or set dataset.fill=ffill|linear|zero for a model trained without mask"
        )
    newer = read_rows(trained, dataset, saved)
    if not (run / ROWS).exists():
        return newer
    saved_rows = rows_dataset(trained.dataset, run / ROWS, rows_format(saved, trained))
    older = read_rows(trained, saved_rows, saved)
    if all(new.timestamps[-1] <= old.timestamps[-1] for old, new in zip(older, newer, strict=True)):
        return older  # no new rows: monitor the run's own test part, if it was not fitted on it
    overlap = min(series.timestamps[-1] for series in older)
    fix = f"add them, or give a file that begins at {overlap} or earlier, with dataset.fill=ffill|linear|zero"
    return joined(older, newer, fix=fix, where=settings.input or "").panel
