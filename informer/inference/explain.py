"""`informer explain`: forecasts by source, what if columns known ahead change, and the importance of columns.

Permutation importance: how much the test error grows when a column is read from other windows (L. Breiman, "Random
forests", 2001, section 10, with windows as the permuted units: history and, if it is known ahead, horizon of a column
stay together). It holds for any model, and says what the model relies on, not what causes what: of two columns with
the same information, each may count little.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int
from rich.console import Console
from torch import Tensor

from informer.base.console import folding_table, logging_to, say
from informer.base.errors import InputError, counted, listed, printable
from informer.base.files import expanded, write_atomic
from informer.base.runtime import pick_device
from informer.checkpoint.format import Checkpoint, Rule, load
from informer.checkpoint.paths import EXPLAINED, PAGE, forecasting_checkpoint, locate, only_output
from informer.checkpoint.restore import restore_model
from informer.config.commands import EvalDataset, ExplainConfig
from informer.config.conversion import node_of
from informer.config.data import DatasetConfig
from informer.config.fields import check
from informer.data.history import Future
from informer.data.recorded import Recorded, find_again
from informer.data.windows import Batch, Windows
from informer.inference.job import name_sources
from informer.inference.model import TrainedModel, loaded
from informer.inference.rescore import trained_data
from informer.inference.sources import SOURCES, place_of
from informer.inference.trained import TrainedPanel
from informer.inference.untrained import Subject, untrained
from informer.inference.writing import decimals_for, key_columns, rounded, without_times
from informer.members.network import ForecastModel, model_forecast
from informer.read.files import find_files, list_files
from informer.read.series import Series
from informer.read.table import name_of
from informer.read.zones import check_zones
from informer.scoring.forecasts import Forecasts, Matrix, in_zone

EXPLANATION, ZERO = "explanation.csv", "zero"
IF, BEFORE, DIFFERENCE = "value_if", "value_before", "difference"
MOST_SHOWN, DIGITS = 3, 5
"""Forecasts whose sources are printed, and significant digits of the largest."""


Change = tuple[float, float]
"""Factor and shift, value -> value * factor + shift, of a column known ahead."""


@dataclass(frozen=True)
class ChangedFuture(Future):
    """Future covariates of which some columns are changed."""

    changes: Mapping[str, Change] | None = None

    def at(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> Float64[np.ndarray, "h k"]:
        """See `Future.at`."""
        values = Future.at(self, timestamps, columns).copy()
        for name, (factor, shift) in (self.changes or {}).items():
            place = list(columns).index(name)
            values[:, place] = values[:, place] * factor + shift
        return values


def read_changes(
    words: Sequence[str], known: Sequence[str], inputs: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> dict[str, Change]:
    """Changes of columns known ahead: price=+10%, price=-2 (added), price=5 or weather=rain (the value of all rows).

    Args:
        known, inputs: columns that the model reads ahead, and all that it reads.
        categories: their categories, by column.

    Raises:
        InputError: another form, or a column that the model does not read ahead.
    """
    changes = dict[str, Change]()
    for word in words:
        name, sign, value = word.rpartition("=")
        where = f"set={word}"
        if not sign:
            raise InputError(f"{where}: expected COLUMN=VALUE, such as price=+10%")
        if name not in known:
            role = "is not known ahead to" if name in inputs else "is not read by"
            readable = f"it reads ahead {listed(known)}" if known else "it reads no column ahead"
            raise InputError(f"{where}: {name} {role} this model; {readable}")
        if name in categories:
            if value not in categories[name]:
                raise InputError(f"{where}: expected one of {listed(categories[name])}")
            changes[name] = 0.0, 1.0 + list(categories[name]).index(value)
        elif not (found := re.fullmatch(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(%?)", value)) or (found[3] and not found[1]):
            raise InputError(f"{where}: expected a number, or a change such as +10%, -10%, +2 or -2")
        else:
            number = float(found[1] + found[2])
            changes[name] = (1 + number / 100, 0.0) if found[3] else (float(bool(found[1])), number)
    return changes


def changed(futures: Sequence[Future], changes: Mapping[str, Change]) -> list[Future]:
    """Future covariates with these changes."""
    return [ChangedFuture(each.rows, each.text, changes=changes) for each in futures]


def aligned(other: Forecasts, to: Forecasts) -> Forecasts:
    """Forecasts of the same series and columns at the times of others; NaN where there are none."""
    keys, names = ["series", "column", "time"], {str(place): name for place, name in enumerate(other.sources)}
    known = replace(other, bands={place: other.sources[name] for place, name in names.items()}).table()
    rows = known.set_index(keys).reindex(pd.MultiIndex.from_frame(to.table()[keys]))

    def taken(column: str) -> Matrix:
        values = np.full(to.mean.shape, np.nan)
        values[to.are_steps] = rows[column]
        return values

    return replace(to, mean=taken("forecast"), bands={}, sources={name: taken(each) for each, name in names.items()})


def tidy(panel: Sequence[Series], explained: Forecasts, then: Forecasts | None = None, name: str = IF) -> pd.DataFrame:
    """A row per series, time, column and source with its value, without sources that are zero everywhere,
    except covariates.

    Args:
        panel: the series of the forecasts.
        then: other forecasts at the same times, if any, for the column `name` and the difference; steps that only one
            of them has are left out.
    """
    both = [explained] if then is None else [explained, then]
    sources = [(source, np.nan_to_num(each).any()) for of in both for source, each in of.sources.items()]
    names = sorted(dict.fromkeys(each for each, is_any in sources if is_any or each not in SOURCES[1:]), key=place_of)
    paths, steps = np.nonzero(np.all([each.are_steps for each in both], axis=0))
    used = ("step", "column", "source", "value", IF, BEFORE, DIFFERENCE)
    keys = pd.DataFrame([key_columns(each, used)[0] for each in panel]).iloc[paths // len(explained.columns)]
    times = in_zone(explained.times[paths, steps], explained.zone).as_unit(panel[0].timestamps.unit)
    table = keys.assign(
        **{key_columns(panel[0], used)[1]: times}, step=1 + steps, column=explained.keys["column"].to_numpy()[paths]
    )
    table = table.iloc[np.repeat(np.arange(len(table)), len(names))].assign(source=names * len(table))

    def values(of: Forecasts) -> Float64[np.ndarray, " r"]:
        nothing = np.zeros_like(of.mean)
        return np.stack([of.sources.get(each, nothing)[paths, steps] for each in names], axis=-1).ravel()

    table = table.assign(value=values(explained))
    if then is not None:
        table = table.assign(**{name: values(then)})
        table[DIFFERENCE] = (table[name] - table["value"]) * (1 if name == IF else -1)
    return table.reset_index(drop=True)


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


def _files(saved: Checkpoint, location: str | None) -> list[Path]:
    """The files of `input`, or of training if they have not changed."""
    if location is not None:
        return list_files("input", location) or [expanded(location)]
    recorded, data_dir = Recorded.of(saved.config, dict(saved.data)), str(saved.config.get("data_dir") or "data")
    found, folder = find_again(
        saved.settings.dataset, recorded, named=None, default=data_dir, can_differ=True, setting="input"
    )
    return find_files(found, Path(folder))


def _subject(
    settings: ExplainConfig, model: TrainedModel | Rule, location: str | None, future: str | None
) -> tuple[Subject, list[Path]]:
    """A trained model for some files, or the pretrained network for one; and the files."""
    if isinstance(model, Rule):
        if location is None:
            raise InputError("input: expected a file to forecast, since the pretrained network has no data of training")
        base, path = check(node_of(DatasetConfig, model.dataset)), expanded(location)
        config, ahead = settings.dataset.applied_to(base), None if future is None else expanded(future)
        return untrained(path, config, model, name=name_of(path), future=ahead, device=settings.device), [path]
    files = _files(model.checkpoint, location)
    reader, tables = model.reader, list[tuple[list[Series], list[Future]]]()
    for path, name, ahead in name_sources(files, future):
        tables.append(reader.read(path, name, settings.dataset, future=ahead, future_name=name))
    first, *others = (each for panel, _ in tables for each in panel)
    for each in others:
        check_zones(each.name, each.timestamps.tz, first.timestamps.tz, first.name)
    return TrainedPanel(model, lambda: tables), files


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What a call of `explain` has found.

    Args:
        panel, first: the series, and their forecasts.
        then, other: the other forecasts at the same times, and their column in the table, IF or BEFORE.
        output: folder of the results.
        means: see the table that is printed, by series and column.
    """

    panel: Sequence[Series]
    first: Forecasts
    then: Forecasts | None
    other: str | None
    output: Path
    means: Mapping[str, pd.DataFrame]


def explain(settings: ExplainConfig, console: Console) -> Explained:
    """Write forecasts by source, or the difference between two, and print the means of the first ones.

    Raises:
        InputError: no readable checkpoint or input, or a change of a column that the model does not read ahead.
    """
    with logging_to(console), ExitStack() as held:
        model: TrainedModel | Rule = Rule(target=settings.target)
        folder = Path()
        if settings.checkpoint != ZERO:
            model = loaded(forecasting_checkpoint(settings.checkpoint), settings.device)
            folder = locate(settings.checkpoint).parent
        subject, inputs = _subject(settings, model, settings.input, settings.future)
        output = Path(settings.output) if settings.output else folder / EXPLAINED
        known = subject.future_covariates
        changes = read_changes(settings.set, known, subject.inputs, subject.categories)
        inputs += map(Path, filter(None, (settings.future, settings.what_if, settings.against)))
        written, overwrite = [output / EXPLANATION, output / PAGE], settings.overwrite or not settings.output
        held.enter_context(only_output(output, written, inputs=inputs, overwrite=overwrite))
        panel, first, then, other = subject.panel, subject.forecast(settings.horizon, explained=True), None, None
        if settings.what_if or changes:
            if not known:
                raise InputError("what_if: the model reads no column ahead; leave it out")
            if settings.what_if:
                subject, _ = _subject(settings, model, settings.input, settings.what_if)
            subject.futures = changed(subject.futures, changes)
            other, then = IF, subject.forecast(settings.horizon, explained=True)
        elif settings.against:
            earlier, _ = _subject(settings, model, settings.against, settings.future)
            other, before = BEFORE, earlier.forecast(settings.horizon, explained=True)
            if len(before) == len(first) == len(first.columns):  # the name of its only series is that of its file
                before = replace(before, keys=before.keys.assign(series=first.keys["series"]))
            then = aligned(before, first)
        table = tidy(panel, first, then, other or IF)
        if table.empty:
            raise InputError(f"against={settings.against}: expected forecasts of the same series and times, found none")
        write_atomic(output / EXPLANATION, without_times(table).to_csv(index=False, float_format="%.12g"))
    means = _means(table, other)
    for name, mean in means.items():
        shown = rounded(mean.to_numpy(), decimals_for(mean.to_numpy().ravel(), DIGITS)) + 0.0  # no -0
        rows = [
            (str(source), *(f"{value:,.{DIGITS}g}" for value in row))
            for source, row in zip(mean.index, shown, strict=True)
            if row.any() or source not in SOURCES
        ]
        head = ["source", *(HEADS.get(column, column) for column in mean.columns)]
        console.print(
            folding_table(head, rows, numbers=range(1, len(head)), title=printable(f"{name}, over the horizon"))
        )
    if other == IF and not table[DIFFERENCE].any():
        say(console, f"{listed(known)}: unchanged, or without an effect in this model")
    say(console, f"explanation: {output / EXPLANATION}")
    return Explained(panel=panel, first=first, then=then, other=other, output=output, means=means)


IMPORTANCE = "importance.csv"
CALENDAR = "calendar"
"""The marks of the calendar, holidays included, as one more column."""
MOST_WINDOWS, MOST_PASSES, MOST_REPEATS = 512, 200, 10
"""Test windows, evenly spaced; forecasts of all of them; permutations of each column."""
BATCH = 64


def importance(settings: ExplainConfig, console: Console) -> dict[str, Any]:
    """Print and write the importance of each column that the model reads; returns the path and the rows.

    Raises:
        InputError: no readable checkpoint, or the data of training is missing, or has a single test window.
    """
    source = locate(settings.checkpoint)
    output = Path(settings.output) if settings.output else source.parent / EXPLAINED
    overwrite, saved, device = settings.overwrite or not settings.output, load(source), pick_device(settings.device)
    where = None if settings.input is None else EvalDataset(path=settings.input)
    with logging_to(console), only_output(output, [output / IMPORTANCE], inputs=[source], overwrite=overwrite):
        data = trained_data(saved, device, dataset=where, setting="input")
        windows = data.test.thinned(MOST_WINDOWS)
        if len(windows) < 2:
            raise InputError("importance: expected at least 2 test windows to exchange columns between, found 1")
        names = [*data.columns.inputs, *([CALENDAR] if data.test.store.marks.shape[1] else [])]
        table = importances(restore_model(saved).to(device), windows, names)
        write_atomic(output / IMPORTANCE, table.to_csv(index=False, float_format="%.6g"))
    mse = table["mse"].iloc[0]
    say(console, f"scaled MSE {mse:.4g} on {counted(len(windows), 'test window')}; with a column of other windows:")
    rows = ((name, f"{times:.3g}", f"{off:.2g}") for name, times, off in table[["column", "times", "deviation"]].values)
    console.print(folding_table(("column", "error, times", "±"), rows, numbers=(1, 2)))
    say(console, f"importance: {output / IMPORTANCE}")
    return {"importance": output / IMPORTANCE, "columns": table.set_index("column").to_dict("index")}


@torch.inference_mode()
def importances(model: ForecastModel, windows: Windows, names: list[str]) -> pd.DataFrame:
    """Mean squared error on some windows, and how many times as high it is if a column comes from others: mean and
    standard deviation over permutations; the most important column first.

    Args:
        model, windows: windows are permuted across series.
        names: columns of the windows, then `CALENDAR` if they have marks.
    """
    repeats = max(2, min(MOST_REPEATS, MOST_PASSES // len(names)))
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(windows), generator=generator) for _ in range(repeats)]
    base = _error(model, windows, 0, torch.arange(len(windows)))
    rows = []
    for column, name in enumerate(names):
        errors = torch.tensor([_error(model, windows, column, order) for order in orders], dtype=torch.double)
        times = errors / base
        rows.append((name, base, float(errors.mean()), float(times.mean()), float(times.std())))
    table = pd.DataFrame(rows, columns=["column", "mse", "mse_permuted", "times", "deviation"])
    return table.sort_values("times", ascending=False, kind="stable", ignore_index=True)


def _error(model: ForecastModel, windows: Windows, column: int, order: Int[Tensor, " w"]) -> float:
    """Mean squared error, scaled, with this column of the windows in another order."""
    total = count = 0.0
    for indices in torch.arange(len(windows)).split(BATCH):
        batch = exchanged(windows.batch(indices), windows.batch(order[indices]), column)
        units = batch.units
        error = (units.standard(model_forecast(model, batch)) - units.standard(batch.target)).double().square()
        known = ~error.isnan()
        total, count = total + float(error[known].sum()), count + float(known.sum())
    return total / count


def exchanged(batch: Batch, other: Batch, column: int) -> Batch:
    """A batch with a column of other windows, or with their calendar if it is one past the last column."""
    if column == batch.enc_x.shape[2]:
        return batch._replace(enc_mark=other.enc_mark, dec_mark=other.dec_mark)

    def mixed(own: Tensor, theirs: Tensor) -> Tensor:
        return torch.cat([own[:, :, :column], theirs[:, :, column : column + 1], own[:, :, column + 1 :]], dim=2)

    return batch._replace(enc_x=mixed(batch.enc_x, other.enc_x), dec_x=mixed(batch.dec_x, other.dec_x))
