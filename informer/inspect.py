"""`python -m informer.inspect FILE`: what a file holds, all that is wrong with it, and a command that trains on it.

The exit status is 0 for a file that can be trained on as it is, else 2.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from informer import cli
from informer.config import InspectConfig
from informer.data.advice import fitting_sizes, mended
from informer.data.report import Report
from informer.data.seasonality import find_seasons
from informer.data.source import DatasetConfig, Series, inspect_table
from informer.data.table import Table, listed, name_of, read_table
from informer.data.windows import WindowSizes

MOST_SEASONS = 12
"""Columns whose seasons are told, the last ones: the target is the last unless another is named."""


def main() -> None:
    """Console script `informer-inspect`."""
    sys.argv[1:] = _with_input(sys.argv[1:])
    cli.run("inspect", _act)


def _act(settings: InspectConfig) -> None:
    if not inspect(settings, Console()):
        sys.exit(cli.EXIT_USER_ERROR)


def inspect(settings: InspectConfig, console: Console) -> bool:
    """Print the report; returns whether the file can be trained on as it is.

    Raises:
        InputError: the file cannot be read as a table.
    """
    path, dataset = Path(settings.input or ""), settings.dataset
    with cli.logging_to(console):
        table = read_table(path, separator=dataset.separator, decimal=dataset.decimal, encoding=dataset.encoding)
        series, report = inspect_table(table, dataset, name_of(path), sizes=settings.sizes)
    lines = [*_facts(table, series), *_findings(report), *_advice(path, table, settings, report)]
    for line in lines:
        cli.say(console, line)
    return not report.problems


def _facts(table: Table, series: Series | None) -> Iterator[str]:
    yield f"file:     {table.name}, {len(table.frame)} rows, {len(table.columns)} columns"
    if table.dialect.uncommon():
        yield f"written:  {table.dialect.uncommon()}"
    if series is None:
        return
    first, last = series.timestamps[[0, -1]]
    yield f"time:     {series.time_col}, {first} to {last}, step {series.frequency.code}"
    yield f"columns:  {listed(series.columns)}"
    for column, values in [*zip(series.columns, series.values.T, strict=True)][-MOST_SEASONS:]:
        # an estimate over holes will do to see a season
        whole = pd.Series(values).where(np.isfinite(values)).interpolate(limit_direction="both").fillna(0.0)
        seasons = find_seasons(whole.to_numpy())
        if seasons:
            found = ", ".join(f"{season.period} rows ({season.strength:.2f})" for season in seasons)
            yield f"seasons:  {column} repeats after {found}"


def _findings(report: Report) -> Iterator[str]:
    yield from (f"repaired: {line}" for line in report.repairs)
    yield from (f"warning:  {line}" for line in report.warnings)
    yield f"problems: {len(report.problems) or 'none'}"
    yield from (problem.line for problem in report.problems)


def _advice(path: Path, table: Table, settings: InspectConfig, report: Report) -> Iterator[str]:
    found = mended(table, settings.dataset, name_of(path))
    if found is None:
        yield "train:    mend the file first; no setting makes it fit"
        return
    dataset, series = found
    sizes = fitting_sizes(series, dataset, settings.sizes)
    if sizes is None:
        yield f"train:    {len(series)} rows are too few to train on"
        return
    yield "train:    on the file as it is" if not report.problems else "train:    repaired on the way, by the settings"
    yield f"  {training_command(path, dataset, sizes)}"


def training_command(path: Path, dataset: DatasetConfig, sizes: WindowSizes) -> str:
    """The command for a shell that trains on a file with these settings; those that are the defaults are left out."""
    said = _settings("dataset", asdict(dataset), asdict(DatasetConfig()))
    lengths = _settings("", asdict(sizes), asdict(InspectConfig().sizes))
    words = ["python", "-m", "informer.train", "dataset=csv", f"dataset.path={path}", *said, *lengths]
    return shlex.join(words)


def _settings(node: str, values: dict[str, Any], defaults: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for key, value in values.items():
        name = f"{node}.{key}" if node else key
        if isinstance(value, dict):
            found += _settings(name, value, defaults[key])
        elif value != defaults[key]:
            found.append(f"{name}={_written(value)}")
    return found


def _written(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list):
        return "[" + ",".join(map(_quoted, value)) + "]"
    return {True: "true", "\t": r"\t"}.get(value, str(value))


def _quoted(name: str) -> str:
    """An entry of a list, in quotes unless it is a plain word."""
    plain = re.fullmatch(r"[A-Za-z_]\w*", name) and name.lower() not in ("null", "true", "false", "nan", "inf")
    return name if plain else "'{}'".format(name.replace("\\", "\\\\").replace("'", "\\'"))


def _with_input(arguments: list[str]) -> list[str]:
    """With `input=` before the file that stands alone."""
    for place, argument in enumerate(arguments):
        is_key = "=" in argument and not Path(argument).exists()
        is_option = argument.startswith("-") or (place > 0 and arguments[place - 1].startswith("-"))
        if not is_key and not is_option:
            return [*arguments[:place], f"input={argument}", *arguments[place + 1 :]]
    return arguments


if __name__ == "__main__":
    main()
