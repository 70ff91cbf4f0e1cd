"""`python -m informer.score forecasts=FILE actuals=FILE history=FILE`: score a forecast file from any source.

Two baselines computed from the history are scored on the same values; each difference has a bootstrap interval.
"""

from informer import start

if __name__ == "__main__":  # before the imports that take time
    start.begin()

from pathlib import Path

from informer.config.compose import run_command
from informer.config.reports import ScoreConfig
from informer.console import main_console
from informer.data.read.download import check_file


def main() -> None:
    """The command `informer score`."""
    run_command("score", _act)


def _act(settings: ScoreConfig) -> None:
    for name in (settings.forecasts, settings.actuals, settings.history):
        check_file(Path(name or ""))
    from informer.scoring.command import score  # imports pandas; wrong paths are refused earlier

    score(settings, main_console())


if __name__ == "__main__":
    start.run(main)
