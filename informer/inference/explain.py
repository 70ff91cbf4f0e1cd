"""`informer explain`: forecasts by source, and the difference between two forecasts by source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from informer.base.console import logging_to, say
from informer.base.errors import InputError, listed, printable
from informer.base.files import expanded, write_atomic
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import EXPLAINED, PAGE, check_output, forecasting_checkpoint, locate
from informer.config.commands import ExplainConfig
from informer.config.conversion import node_of
from informer.config.data import DatasetConfig, without_location
from informer.data.history import Future
from informer.data.recorded import Recorded, find_again
from informer.inference.job import match_futures, name_sources
from informer.inference.model import TrainedModel, decimals_for, key_columns, rounded
from informer.inference.sources import SOURCES, Explanation, explanations, place_of
from informer.inference.what_if import changed, read_changes
from informer.read.files import find_files, list_files
from informer.read.series import Series

EXPLANATION = "explanation.csv"
IF, BEFORE, DIFFERENCE = "value_if", "value_before", "difference"
MOST_SHOWN, DIGITS = 3, 5
"""Forecasts whose sources are printed, and significant digits of the largest."""


def tidy(
    explained: Sequence[Explanation], then: Sequence[Explanation | None] | None = None, name: str = IF
) -> pd.DataFrame:
    """A row per series, time, column and source with its value, without sources that are zero everywhere,
    except covariates.

    Args:
        then: the other forecast of each series, if any, for the column `name` and the difference; only times that both
            forecasts have are written.
    """
    pairs = [(each, other) for each, other in zip(explained, then or explained, strict=True) if other is not None]
    both = [each for pair in pairs for each in pair]
    found = {name for each in both for name, part in each.sources.items() if name not in SOURCES[1:] or part.any()}
    names, frames = (
        sorted(dict.fromkeys(name for each in both for name in each.sources if name in found), key=place_of),
        [],
    )
    for each, other in pairs:
        forecast, times = each.forecast, each.forecast.timestamps.intersection(other.forecast.timestamps)
        keys, time = key_columns(forecast.series, ("step", "column", "source", "value", IF, BEFORE, DIFFERENCE))
        h, n, k = len(times), len(forecast.targets), len(names)
        steps = forecast.timestamps.get_indexer(times)
        rows = {
            **{name: np.repeat(cell, n * h * k) for name, cell in keys.items()},
            time: np.tile(np.repeat(list(map(str, times)), k), n),
            "step": np.tile(np.repeat(1 + steps, k), n),
            "column": np.repeat(forecast.targets, h * k),
            "source": np.tile(names, n * h),
            "value": _column(each, names, steps),
        }
        if then is not None:
            rows[name] = _column(other, names, other.forecast.timestamps.get_indexer(times))
            rows[DIFFERENCE] = (rows[name] - rows["value"]) * (1 if name == IF else -1)
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _column(explained: Explanation, names: Sequence[str], steps: Int[np.ndarray, "h"]) -> Float64[np.ndarray, "nhk"]:
    nothing = np.zeros_like(explained.forecast.values)
    return np.stack([explained.sources.get(name, nothing)[steps].T for name in names], axis=-1).ravel()


def _means(table: pd.DataFrame, other: str | None) -> dict[str, pd.DataFrame]:
    """Of the first series and columns, over the horizon: mean, lowest and highest value of each source, or with another
    forecast the means of both and of their difference; the largest source first, the forecast last."""
    values = ["value"] if other is None else ["value", other, DIFFERENCE]
    means, keys = {}, list(table.columns[: list(table.columns).index("step") - 1])
    for key, rows in islice(table.groupby([*keys, "column"], sort=False), MOST_SHOWN):
        whole = rows.groupby("step", as_index=False)[values].sum().assign(source="forecast")
        by_source = pd.concat([rows, whole]).groupby("source", sort=False)
        mean = by_source[values].mean() if other else by_source["value"].agg(["mean", "min", "max"])
        sizes = rows[values[-1]].abs().groupby(rows["source"], sort=False).mean()
        order = [*sizes.sort_values(ascending=False, kind="stable").index, "forecast"]
        means[", ".join(map(str, dict.fromkeys(key)))] = mean.loc[order]
    return means


HEADS = {"value": "forecast", IF: "changed", BEFORE: "before", "min": "lowest", "max": "highest"}


def _printed(name: str, means: pd.DataFrame) -> Table:
    table = Table(title=printable(f"{name}, over the horizon"), title_justify="left", box=SIMPLE, padding=0)
    table.add_column("source")
    for column in means.columns:
        table.add_column(HEADS.get(column, column), justify="right")
    rounded_means = rounded(means.to_numpy(), decimals_for(means.to_numpy().ravel(), DIGITS)) + 0.0  # no -0
    for source, row in zip(means.index, rounded_means, strict=True):
        if source in SOURCES and not row.any():
            continue
        cells = [printable(str(source)), *(f"{value:,.{DIGITS}g}" for value in row)]
        table.add_row(*cells, style="bold" if source == "forecast" else None)
    return table


def _locations(location: str | None, saved: Checkpoint) -> list[Path]:
    """The files of `input`, or of training if they have not changed."""
    if location is not None:
        return list_files("input", location) or [expanded(location)]
    dataset = node_of(DatasetConfig, without_location(saved.config["dataset"]))
    recorded, data_dir = Recorded.of(saved.config, saved.data), str(saved.config.get("data_dir") or "data")
    found, folder = find_again(dataset, recorded, named=None, default=data_dir, can_differ=True, setting="input")
    return find_files(found, Path(folder))


def _read(
    model: TrainedModel, locations: Sequence[Path], settings: ExplainConfig, future: str | None
) -> tuple[list[Series], list[Future] | None]:
    """The series of some files, and their future covariates, if any."""
    sources = name_sources(locations)
    series = {source: model.reader.file(source.path, settings.dataset, source.name) for source in sources}
    if future is None:
        return [each for panel in series.values() for each in panel], None
    paths = match_futures(future, sources)
    ahead = list[Future]()
    for source, panel in series.items():
        path = paths if isinstance(paths, Path) else paths[source.name]
        futures = model.reader.future_file(path, settings.dataset)
        ahead += [futures.of(each) for each in panel]
    return [each for panel in series.values() for each in panel], ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What a call of `explain` has found.

    Args:
        model, futures, first: the model, the columns known ahead of each series, and its forecasts.
        then, other: the other forecast of each series, and its column in the table, IF or BEFORE.
        output: folder of the results.
        means: see the table that is printed, by series and column.
    """

    model: TrainedModel
    futures: Sequence[Future] | None
    first: Sequence[Explanation]
    then: Sequence[Explanation | None] | None
    other: str | None
    output: Path
    means: Mapping[str, pd.DataFrame]


def explain(settings: ExplainConfig, console: Console) -> Explained:
    """Write forecasts by source, or the difference between two, and print the means of the first ones.

    Raises:
        InputError: no readable checkpoint or input, or a change of a column that the model does not read ahead.
    """
    checkpoint = forecasting_checkpoint(settings.checkpoint)
    output = Path(settings.output) if settings.output else locate(settings.checkpoint).parent / EXPLAINED
    with logging_to(console):
        model = TrainedModel.load(checkpoint, device=settings.device)
        changes = read_changes(settings.set, model.checkpoint)
        locations = _locations(settings.input, model.checkpoint)
        others = map(Path, filter(None, (settings.future, settings.what_if, settings.against)))
        written, overwrite = [output / EXPLANATION, output / PAGE], settings.overwrite or not settings.output
        check_output(output, written, inputs=[*locations, *others], overwrite=overwrite)
        series, futures = _read(model, locations, settings, settings.future)
        first, other = explanations(model, series, futures, horizon=settings.horizon), None
        then: list[Explanation | None] | None = None
        if settings.what_if or changes:
            if futures is None:
                raise InputError("what_if: the model reads no column ahead; leave it out")
            _, ahead = _read(model, locations, settings, settings.what_if or settings.future)
            ahead = changed(ahead or [], changes)
            other, then = IF, [*explanations(model, series, ahead, horizon=settings.horizon)]
        elif settings.against:
            earlier = _read(model, _locations(settings.against, model.checkpoint), settings, settings.future)
            before = explanations(model, *earlier, horizon=settings.horizon)
            found = {each.forecast.series.name: each for each in before}
            if len(before) == len(first) == 1:  # its name is that of its file
                found = {first[0].forecast.series.name: before[0]}
            other, then = BEFORE, [found.get(each.forecast.series.name) for each in first]
        table = tidy(first, then, other or IF)
    if table.empty:
        raise InputError(f"against={settings.against}: expected forecasts of the same series and times, found none")
    write_atomic(output / EXPLANATION, table.to_csv(index=False, float_format="%.12g"))
    means = _means(table, other)
    for name, each in means.items():
        console.print(_printed(name, each))
    if other == IF and not table[DIFFERENCE].any():
        say(console, f"{listed(model.columns.future_covariates)}: unchanged, or without an effect in this model")
    say(console, f"explanation: {output / EXPLANATION}")
    return Explained(model=model, futures=futures, first=first, then=then, other=other, output=output, means=means)
