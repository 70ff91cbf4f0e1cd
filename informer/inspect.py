"""`python -m informer.inspect FILE`: what a file holds, all that is wrong with it, and a command that trains on it.

A folder, a pattern, or a file whose series dataset.series_col names gives a report each, and a table of them all.
The exit status is 0 where all can be trained on as they are, else 2.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from informer import cli
from informer.config import InspectConfig
from informer.data.advice import fitting_sizes, mended
from informer.data.download import list_files
from informer.data.panel import series_tables
from informer.data.report import Report
from informer.data.seasonality import find_seasons
from informer.data.source import DatasetConfig, Series, inspect_table, table_of_file, text_columns
from informer.data.table import Table, listed, name_of
from informer.data.windows import WindowSizes
from informer.errors import InputError, counted

MOST_SEASONS = 12
"""Columns whose seasons are told, the last ones: the target is the last unless another is named."""

FEW = 10
"""Rows for each of its values, on average, that a column which names series has at least."""


def main() -> None:
    """Console script `informer-inspect`."""
    sys.argv[1:] = _with_input(sys.argv[1:])
    cli.run("inspect", _act)


def _act(settings: InspectConfig) -> None:
    if not inspect(settings, Console()):
        sys.exit(cli.EXIT_USER_ERROR)


def inspect(settings: InspectConfig, console: Console) -> bool:
    """Print the reports, and of many a table after them; returns whether all can be trained on as they are.

    Raises:
        InputError: no such files, or a single one that cannot be read as a table.
    """
    wanted = settings.input or ""
    many = list_files("input", wanted)
    several = many is not None or settings.dataset.series_col is not None
    found: list[Finding] = []
    for path in [Path(wanted).expanduser()] if many is None else many:
        for finding in _findings_of(path, settings, console, alone=many is None):
            cli.say(console, "\n".join([*finding.lines, *([""] if several else [])]))
            found.append(replace(finding, lines=()))
    if several:
        console.print(_summary(found))
        for line in _advice_for_all(Path(wanted), found):
            cli.say(console, line)
    return all(finding.is_sound for finding in found)


Advice = tuple[DatasetConfig, WindowSizes]
"""Settings that train on a file, and the windows that fit into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One file, or one series of a file that holds several.

    Args:
        name: of the file or the series.
        lines: of its report.
        n_rows, n_problems: that it has.
        span: first time, last time and step; empty where they are not known.
        columns: of numbers.
        advice: what trains on it, if anything does.
    """

    name: str
    lines: Sequence[str]
    n_rows: int = 0
    n_problems: int = 1
    span: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    advice: Advice | None = None

    @property
    def is_sound(self) -> bool:
        """It can be trained on as it is."""
        return self.n_problems == 0


def _findings_of(path: Path, settings: InspectConfig, console: Console, *, alone: bool) -> Iterator[Finding]:
    """What is to say of a file, or of each of its series. `alone`: what cannot be read ends it all."""
    dataset = settings.dataset
    try:
        table = table_of_file(path, dataset)
        if dataset.series_col is None:
            yield _finding(path, table, name_of(path), settings, console)
            return
        with cli.logging_to(console):
            table = table.without(text_columns([table], dataset))
        parts = list(series_tables(table, dataset.series_col))
    except InputError as error:
        if alone:
            raise
        yield Finding(name=path.name, lines=[f"file:     {path.name}", "problems: 1", *str(error).splitlines()])
        return
    yield from (_finding(None, own, one, settings, console) for own, one in parts)


def _finding(path: Path | None, table: Table, name: str, settings: InspectConfig, console: Console) -> Finding:
    """`path`: of the file, where it holds nothing else."""
    with cli.logging_to(console):
        series, report = inspect_table(table, settings.dataset, name, sizes=settings.sizes)
    key = None if series is None or path is None else _series_column(table, series.time_col)
    if key is None:
        advice, told = _advice(table, name, settings, report)
        command = [] if advice is None or path is None else [f"  {training_command(path, *advice)}"]
    else:
        advice, told = None, f"train:    {key!r} tells series apart; look again with"
        known = replace(settings.dataset, series_col=key)
        command = [f"  {_command('inspect', [str(path), *_dataset_settings(known)])}"]
    span = () if series is None else (*map(str, series.timestamps[[0, -1]]), series.frequency.code)
    return Finding(
        name=table.name,
        lines=[*_facts(table, series), *_problems(report), told, *command],
        n_rows=len(table.frame),
        n_problems=len(report.problems),
        span=span,
        columns=() if series is None else series.columns,
        advice=advice,
    )


def _summary(found: Sequence[Finding]) -> RichTable:
    """A row each."""
    table = RichTable(title=f"{len(found)} in all, {sum(one.is_sound for one in found)} sound", title_justify="left")
    for heading in ("", "rows", "columns", "problems", "from", "to", "step"):
        table.add_column(heading, overflow="fold")
    for one in found:
        numbers = (one.n_rows, len(one.columns) or "", one.n_problems or "none")
        table.add_row(*(Text(str(cell)) for cell in (one.name, *numbers, *one.span)))
    return table


def _advice_for_all(path: Path, found: Sequence[Finding]) -> Iterator[str]:
    """The command that trains one model on all, where the same settings serve every one."""
    advice = [one.advice for one in found if one.advice is not None]
    kinds = {(*one.columns, *one.span[2:]) for one in found}
    if len(advice) < len(found):
        yield "train:    first mend those without a command, or set what their problems name; then train one on all"
    elif len(kinds) > 1 or len({str(dataset.columns) for dataset, _ in advice}) > 1:
        yield "train:    one model needs the same columns and step of all; name those in dataset.columns that all have"
    else:
        yield "train:    one model on all of them"
        yield f"  {training_command(path, *_serving_all(advice))}"


def _serving_all(advice: Sequence[Advice]) -> Advice:
    """Every repair that one asks for, which changes nothing where nothing is amiss, and the shortest windows."""
    datasets, sizes = zip(*advice, strict=True)
    dataset = replace(
        datasets[0],
        sort=any(one.sort for one in datasets),
        duplicates=next((one.duplicates for one in datasets if one.duplicates), None),
        fill=next((one.fill for one in datasets if one.fill), None),
    )
    return dataset, min(sizes, key=lambda size: size.seq_len)


def _facts(table: Table, series: Series | None) -> Iterator[str]:
    yield f"file:     {table.name}, {counted(len(table.frame), 'row')}, {counted(len(table.columns), 'column')}"
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


def _problems(report: Report) -> Iterator[str]:
    yield from (f"repaired: {line}" for line in report.repairs)
    yield from (f"warning:  {line}" for line in report.warnings)
    yield f"problems: {len(report.problems) or 'none'}"
    yield from (problem.line for problem in report.problems)


def _series_column(table: Table, time_col: str) -> str | None:
    """The column that names the series of each row, if times repeat as those of many series do."""
    rows = table.frame
    if len(rows) < 2 * rows[time_col].nunique():
        return None
    others = (name for name in table.columns if name != time_col)
    few = (name for name in others if rows[name].nunique() * FEW <= len(rows))
    return next((name for name in few if not rows.duplicated([name, time_col]).any()), None)


def _advice(table: Table, name: str, settings: InspectConfig, report: Report) -> tuple[Advice | None, str]:
    """What trains on a table, and a line about it."""
    found = mended(table, settings.dataset, name)
    if found is None:
        return None, "train:    mend the file, or set what the problems name, and look again"
    dataset, series = found
    sizes = fitting_sizes(series, dataset, settings.sizes)
    if sizes is None:
        return None, f"train:    {len(series)} rows are too few to train on"
    how = "repaired on the way, by the settings" if report.problems else "on the file as it is"
    return (dataset, sizes), f"train:    {how}"


def training_command(path: Path, dataset: DatasetConfig, sizes: WindowSizes) -> str:
    """The command for a shell that trains on a file with these settings; those that are the defaults are left out."""
    lengths = _settings("", asdict(sizes), asdict(InspectConfig().sizes))
    return _command("train", ["dataset=csv", f"dataset.path={path}", *_dataset_settings(dataset), *lengths])


def _command(name: str, arguments: Sequence[str]) -> str:
    """For a shell."""
    return shlex.join(["python", "-m", f"informer.{name}", *arguments])


def _dataset_settings(dataset: DatasetConfig) -> list[str]:
    return _settings("dataset", asdict(dataset), asdict(DatasetConfig()))


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
    if isinstance(value, bool):
        return str(value).lower()
    return r"\t" if value == "\t" else str(value)


def _quoted(name: str) -> str:
    """An entry of a list, in quotes unless it is a plain word."""
    plain = re.fullmatch(r"[A-Za-z_]\w*", name) and name.lower() not in ("null", "true", "false", "nan", "inf")
    return name if plain else "'{}'".format(name.replace("\\", "\\\\").replace("'", "\\'"))


def _with_input(arguments: list[str]) -> list[str]:
    """With `input=` before the file that stands alone."""
    alone = []
    for place, argument in enumerate(arguments):
        is_key = "=" in argument and not Path(argument).exists()
        is_option = argument.startswith("-") or (place > 0 and arguments[place - 1].startswith("-"))
        if not is_key and not is_option:
            alone.append(place)
    if len(alone) > 1:
        cli.refuse(
            f"input: expected one file, folder or pattern, found {len(alone)} files from {arguments[alone[0]]} to "
            f"{arguments[alone[-1]]}; put a pattern in quotes, so that the shell leaves it as it is"
        )
    return [f"input={argument}" if place in alone else argument for place, argument in enumerate(arguments)]


if __name__ == "__main__":
    main()
