"""`informer update checkpoint=RUN input=newer.csv output=RUN2`: update a trained run with later rows.

Linear maps are fitted as on all rows, from the saved moments of the run. A network is unchanged, or trained for `steps`
more steps. Intervals are recalibrated, and the newest rows are the test part. RUN2 is a run like any other.
"""

from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

from informer.base.console import main_console
from informer.checkpoint.paths import locate, resolve_latest
from informer.config.commands import UpdateConfig
from informer.config.compose import run_command
from informer.read.files import check_file
from informer.training.folder import RUNS, RunFolder


def main() -> None:
    """The command `informer update`."""
    run_command("update", _act)


def _act(settings: UpdateConfig) -> None:
    locate(settings.checkpoint)
    check_file(Path(settings.input or ""))
    from informer.service.update import update  # imports torch; wrong paths are refused earlier

    name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_update_{resolve_latest(settings.checkpoint).resolve().name}"
    output = settings.output
    place = RunFolder.new(Path(RUNS) / name) if output is None else nullcontext(RunFolder(Path(output)))
    with place as folder:
        update(settings, folder, main_console())
