"""Score a forecast file, from the checked configuration to the table and the written files."""

from pathlib import Path

import pandas as pd
from rich.console import Console

from informer.config.reports import ScoreConfig
from informer.console import logging_to, say
from informer.errors import InputError
from informer.files import check_no_input_overwritten
from informer.scoring.scoreboard import WRITTEN, Scoreboard, score_units
from informer.scoring.tables import Tidy, read_tidy
from informer.scoring.units import gather_units, step_of


def score(settings: ScoreConfig, console: Console) -> Scoreboard:
    """Print the scores, and write them to `settings.output` if given.

    Raises:
        InputError: a file cannot be read, or the files do not match.
    """
    paths = [Path(name or "") for name in (settings.forecasts, settings.actuals, settings.history)]
    if settings.output:
        check_no_input_overwritten(paths, (Path(settings.output, name) for name in WRITTEN), "output")
    with logging_to(console, quiet=True):
        forecasts, actuals, history = (read_tidy(path, settings.dataset) for path in paths)
        units = gather_units(forecasts, actuals, history)
        scoreboard = score_units(units, settings.season or _season(history))
    console.print(scoreboard.table())
    for line in [*scoreboard.notes, *(each.sentence for each in scoreboard.differences)]:
        say(console, line)
    if settings.output:
        scoreboard.save(Path(settings.output))
        say(console, f"scores: {settings.output}")
    return scoreboard


def _season(history: Tidy) -> int:
    """Rows per season for the time step of the first series."""
    if not history.timed:
        raise InputError(f"season: expected a number, since {history.name} has no times; set season=24")
    first = history.frame.iloc[0]
    rows = history.frame[(history.frame["series"] == first["series"]) & (history.frame["column"] == first["column"])]
    times = pd.DatetimeIndex(rows["time"].sort_values())
    return step_of(times, history.name).season
