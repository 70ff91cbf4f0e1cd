"""`informer score forecasts=FILE actuals=FILE history=FILE`: score a forecast file from any source.

Two baselines computed from the history are scored on the same values; each difference has a bootstrap interval.
"""

from pathlib import Path

from informer.base.console import main_console
from informer.config.commands import ScoreConfig
from informer.config.compose import run_command
from informer.read.files import check_file


def main() -> None:
    """The command `informer score`."""
    run_command("score", _act)


def _act(settings: ScoreConfig) -> None:
    for name in (settings.forecasts, settings.actuals, settings.history):
        check_file(Path(name or ""))
    from informer.scoring.scoreboard import score  # imports pandas; wrong paths are refused earlier

    score(settings, main_console())
