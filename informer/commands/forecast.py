"""`informer forecast FILE`: forecast a file or the files of a folder, and report the accuracy of the forecasts.

Reads, repairs on request, chooses a model within a time budget, forecasts with intervals, and writes everything to one
folder. `informer forecast` is the same.
"""

import sys
from dataclasses import replace
from pathlib import Path

from informer.base.console import main_console, refuse
from informer.config.commands import ForecastConfig
from informer.config.compose import as_input, run_command, split_positional
from informer.config.data import is_address
from informer.read.files import check_input, copied_here, without_signature


def main() -> None:
    """`informer forecast`."""
    paths, overrides = split_positional(sys.argv[1:])
    absent = [path for path in paths if not Path(path).exists() and not is_address(path)]
    if len(paths) > 1 and len(absent) == 1:
        refuse(f"{absent[0]!r}: no such file; settings are written key=value, such as target=sales")
    # for Hydra `model=` would select a configuration node, which only training has
    overrides = [f"model_name={word[6:]}" if word.startswith("model=") else word for word in overrides]
    sys.argv[1:] = [*overrides, *as_input(paths)]
    run_command("forecast", _act)


def _act(settings: ForecastConfig) -> None:
    settings = replace(settings, dataset=without_signature(settings.dataset))
    settings = copied_here(settings, ("input",), settings.dataset.limits)
    check_input(settings.input or "")
    from informer.base.start import Interrupted  # imports torch; wrong paths are errors before that
    from informer.commands.workflow import forecast

    try:
        _, failures = forecast(settings, main_console())
    except Interrupted as interrupted:
        sys.exit(interrupted.exit_status)
    if failures:
        sys.exit(1)
