"""`informer watch checkpoint=RUN input=FILE`: monitor a trained model.

Forecasts from every origin since training are compared with actual values. The exit status is the recommended action:
0 none, 10 recalibrate, 11 update, 12 retrain.
"""

import sys
from pathlib import Path

from informer.base.console import main_console
from informer.checkpoint.paths import locate
from informer.config.commands import WatchConfig
from informer.config.compose import run_command
from informer.read.files import check_file


def main() -> None:
    """The command `informer watch`."""
    run_command("watch", _act)


def _act(settings: WatchConfig) -> None:
    locate(settings.checkpoint)
    check_file(Path(settings.input or ""))
    from informer.service.watch import watch  # imports torch; wrong paths are refused earlier

    verdict = watch(settings, main_console())
    if verdict.value:
        sys.exit(verdict.value)
