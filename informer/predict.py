"""`python -m informer.predict checkpoint=runs/latest input=FILE output=DIR`: forecast a file, or all files of a folder.

One file gives <name>.forecast.csv (one row per step: timestamps, then the targets in their own units) and
<name>.forecast.png. A folder or a pattern such as 'in/*.csv' gives one forecast per file and summary.csv with the
status of each. mode=rolling writes <name>.rolling.csv instead, forecasts from origins throughout the file next to the
actual values, and <name>.rolling.metrics.csv.
"""

from informer import start

if __name__ == "__main__":  # before the imports that take seconds
    start.begin()


import sys

from informer.checkpoint.paths import unfinished
from informer.config.commands import PredictConfig
from informer.config.compose import run_command
from informer.console import main_console, say
from informer.data.read.download import check_input
from informer.inference.jobs.places import at_hand

EXIT_SOME_FAILED = 1


def main() -> None:
    """Console script `informer-predict`."""
    # `from` is a word of Python, which no field can have
    sys.argv[1:] = [f"from_date={word[5:]}" if word.startswith("from=") else word for word in sys.argv[1:]]
    run_command("predict", _act)


def _act(settings: PredictConfig) -> None:
    with at_hand(settings) as here:
        check_input(here.input or "")
        if note := unfinished(here.checkpoint):
            say(main_console(), note)
        from informer.inference.jobs.run import predict  # imports torch, which a wrong path need not wait for

        refit = None
        if here.refit_every is not None:
            from informer.training.refitting import refit_of

            refit = refit_of(here.checkpoint, here.refit_every)
        failed = predict(here, main_console(), refit)
    if failed:
        sys.exit(EXIT_SOME_FAILED)


if __name__ == "__main__":
    start.run(main)
