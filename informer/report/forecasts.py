"""Forecasts on a page, with their history and actual values: of files, of a run, in memory, and by source."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from rich.console import Console

from informer.base.console import say
from informer.base.errors import FileError, InputError, TimeError, counted, with_addresses
from informer.base.files import write_atomic
from informer.base.quantiles import BAND, paired_bands
from informer.checkpoint.paths import PAGE, SUMMARY, TOTALS_FACTS
from informer.config.commands import ExplainConfig, Format, ReportConfig, WithSums
from informer.config.conversion import read_json
from informer.config.data import DatasetConfig
from informer.config.overrides import shell_command
from informer.data.history import future_index
from informer.inference.explain import DIFFERENCE, HEADS, Explained
from informer.inference.sources import LEVEL
from informer.inference.totals import Totals, totals
from informer.inference.writing import LONG_FILE
from informer.read.frequency import lasting, localized
from informer.read.series import Series, column_values
from informer.report.page import MODEL, Content, profile, signed, to_html
from informer.scoring.files import Tidy, named_alike, read_tidy
from informer.scoring.forecasts import Forecasts, in_zone
from informer.scoring.results import MAX_ORIGINS, MAX_TRACKS, NUMBERS, ROWS

ENDINGS = tuple(f".{kind}.{form}" for kind in ("forecast", "rolling") for form in get_args(Format))
PAIR = ["series", "column"]
LEVEL_OF_RANGE, MOST_SUMMED, MOST_STEPS = 80, 1 << 18, 1024
"""Level of the interval in the first sentence, in percent, and most values and steps of which it is computed unasked:
it takes a time that grows with the cube of the steps."""
MOST_BIASES = 3
"""Maximum number of columns with a figure for the bias of their total."""
HISTORY, MIN_HISTORY = 5, 200
"""Rows of history on the page per row of forecast, but not fewer than the second."""


def written_forecasts(path: Path) -> list[Path]:
    """The files of forecasts in a folder, or the file itself if it is one."""
    if path.is_dir():
        files = [each for each in sorted(path.rglob("*")) if each.name.endswith(ENDINGS)]
        return files or sorted(path.rglob(LONG_FILE))
    is_forecast = path.name.endswith(ENDINGS) or path.name == LONG_FILE
    return [path] if is_forecast and path.exists() else []


def forecast_content(path: Path, settings: ReportConfig) -> Content:
    """Content of a page on a file or a folder of forecasts: as `informer forecast` has saved it, or from the files.

    Raises:
        InputError: a file cannot be read, has no times, or no actual values at its times.
    """
    own, history, actuals, input_format = Content.read(path), settings.history, settings.actuals, settings.dataset
    if own.tracks and history is None and actuals is None:
        return own
    files = written_forecasts(path)
    before = _histories(path, files, history)
    happened = None if actuals is None else read_tidy(Path(actuals), input_format)
    tables, parts = list[Tidy](), list[tuple[pd.DataFrame, pd.DataFrame]]()
    for file in files[: MAX_TRACKS * 4]:
        earlier = read_tidy(before[file], input_format) if file in before else None
        known = set[str]() if (each := happened or earlier) is None else set(each.frame["column"])
        tables.append(read_tidy(file, input_format, known=known))
        parts.append(_of_file(file, tables[-1], earlier, happened, several=len(files) > 1))
    frame, past = (pd.concat(each, ignore_index=True) for each in zip(*parts, strict=True))
    content = replace(
        own,
        title=own.title or f"Forecasts: {path.name if path.is_dir() else path.name.partition('.')[0]}",
        verdict=_verdict(frame),
        columns=list(dict.fromkeys(frame["column"])),
        times=[],
        tracks=[],
        facts={"forecasts": str(path), "history": history or "", "actual values": actuals or ""},
    )
    _add_evenly(content, frame, past, more=len(files) > len(tables))
    if not frame["actual"].isna().all():
        content.profiles = [_by_step(frame)]
    content.remarks += dict.fromkeys(note for table in tables for note in table.notes)
    if any(table.in_utc for table in tables):
        content.remarks.append("Times are shown in UTC.")
    if past.empty and frame["actual"].isna().all():
        content.remarks.append("No history was found: set history=FILE to plot it before the forecasts.")
    return content


def add_panel(content: Content, panel: Sequence[Series], forecasts: Forecasts) -> None:
    """Add forecasts after the end of each series."""
    content.columns = columns = forecasts.columns
    n, bands = len(columns), [*paired_bands(forecasts.bands)]
    chosen = evenly(range(len(forecasts)), _most(forecasts.mean.shape[1], forecasts.bands))
    content.shown = _how_chosen(len(chosen), len(forecasts))
    for place in chosen:
        series, column, steps = panel[place // n], columns[place % n], forecasts.are_steps[place]
        rows = min(_rows_before(int(steps.sum())), ROWS // len(chosen), len(series))
        ends = {each: matrix[place, steps] for each, matrix in forecasts.bands.items()}
        origin = {
            "row": rows,
            "times": iso(in_zone(forecasts.times[place, steps], forecasts.zone)),
            "lines": {content.model: forecasts.mean[place, steps].tolist()},
            "bands": {
                name: (ends[low].tolist(), ends[high].tolist())
                for name, low, high in bands
                if not (np.isnan(ends[low]).all() or np.isnan(ends[high]).all())
            },
        }
        past = series.part(slice(len(series) - rows, None))
        name, values = series.name if len(panel) > 1 else "", column_values(past, [column])[:, 0]
        _add_track(content, name, column, past.timestamps, values, [origin])


def expectation(panel: Sequence[Series], forecasts: Forecasts, held: Forecasts | None, sums: Totals | None) -> str:
    """The forecast in a sentence, and what was before: the total if there are `sums`, otherwise the mean of the last
    column.

    Args:
        panel: the series.
        forecasts, held, sums: see `totals`.
    """
    column, h, frequency = forecasts.columns[-1], forecasts.mean.shape[1], panel[0].frequency
    paths, earlier = (
        None if x is None else x.part(np.flatnonzero(x.keys["column"] == column)) for x in (forecasts, held)
    )
    assert paths is not None
    facts, span = {} if sums is None else sums.facts, lasting(h, frequency)
    if sums is None and paths.mean.size <= MOST_SUMMED and h <= MOST_STEPS:
        with suppress(InputError):  # they end at different times
            facts = totals(panel, paths, WithSums(intervals=[LEVEL_OF_RANGE]), earlier, DatasetConfig(), "").facts
    n = 1 if sums is not None else int(paths.are_steps.sum())
    value = facts["value"] if facts else np.nansum(paths.mean)
    several = f" of {len(panel):,} series" if len(panel) > 1 else ""
    what = f"the total of {column}{several}" if sums is not None else f"{column}{several} on average"
    line = f"Expect {in_figures(value / n)} as {what} over the next {span}"
    if ends := facts.get("intervals", {}).get(LEVEL_OF_RANGE):
        low, high = (in_figures(end / n) for end in ends)
        line += f", {LEVEL_OF_RANGE} % between {low} and {high}"
    past = [pd.Series(column_values(each, [column])[:, 0], each.timestamps) for each in panel]
    ahead = [future_index(each, h) for each in panel]
    before_a_year = [localized(each.tz_localize(None) - pd.DateOffset(years=1), each.tz) for each in ahead]
    year = [of.reindex(times) for of, times in zip(past, before_a_year, strict=True)]
    is_year, before = all(of.notna().all() for of in year), [of.iloc[-h:] for of in past]
    if not is_year and sums is not None and min(map(len, before)) < h:
        return f"{line}."
    rows, earlier_span = np.concatenate(year if is_year else before), lasting(max(map(len, before)), frequency)
    before_value = np.nansum(rows) if sums is not None else np.nanmean(rows)
    return f"{line}; {'a year earlier' if is_year else f'the last {earlier_span}'} {in_figures(before_value)}."


def in_figures(value: float) -> str:
    """A number with four figures, thousands separated."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def add_totals(content: Content, folder: Path) -> None:
    """Add the total of a run with its bias on the test part to the headline, if it was asked for."""
    if not (folder / TOTALS_FACTS).exists():
        return
    facts = read_json(folder / TOTALS_FACTS)
    content.verdict += f" Total: {facts['headline']}."
    hint = f"of {counted(facts['tested'], 'test total')}, against the actual values"
    known = {column: bias for column, bias in facts["bias"].items() if bias is not None}
    for column, bias in list(known.items())[:MOST_BIASES]:
        label = "Bias of the total" + (f" of {column}" if len(known) > 1 else "")
        content.cards.append((label, signed(bias), hint))


def _histories(path: Path, files: list[Path], history: str | None) -> dict[Path, Path]:
    """The history file of each forecast file, if known and present."""
    if history is not None:
        if not Path(history).exists():
            raise FileError(f"history={history}: no such file")
        return dict.fromkeys(files, Path(history))
    summary = path / SUMMARY
    if not (path.is_dir() and summary.exists()):
        return {}
    with summary.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        sources = {path / row["output"]: Path(row["file"]) for row in csv.DictReader(file) if row.get("output")}
    return {output: source for output, source in sources.items() if output in files and source.exists()}


def _of_file(
    file: Path, forecast: Tidy, history: Tidy | None, actuals: Tidy | None, *, several: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a forecast file, with actual values if they are known, and the rows of its history."""
    frame, key = forecast.frame, [*PAIR, "time"]
    if not forecast.timed:
        raise TimeError(f"{file}: expected times, found one row per series; use forecasts with a time column")
    past = frame.iloc[:0] if history is None else named_alike(forecast, history).frame
    past = past.loc[past["column"].isin(frame["column"].unique()), [*key, "value"]]
    if actuals is not None:
        rows = named_alike(forecast, actuals).frame[[*key, "value"]].rename(columns={"value": "actual"})
        frame = frame.drop(columns="actual").merge(rows, on=key, how="left")
        if frame["actual"].isna().all():
            raise TimeError(f"{actuals.name}: expected actual values at the times of {file.name}, found none")
    if several:
        name = file.name.partition(".")[0]
        both = frame, past
        frame, past = (
            rows.assign(series=[f"{name}/{series}" if series else name for series in rows["series"]]) for rows in both
        )
    return frame, past


def evenly(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the items, evenly spaced."""
    return [items[i] for i in np.unique(np.linspace(0, len(items) - 1, min(len(items), most)).astype(int))]


def _verdict(frame: pd.DataFrame) -> str:
    n_series = frame["series"].nunique()
    series = f" of {n_series:,} series" if n_series > 1 else ""
    columns = counted(frame["column"].nunique(), "column")
    first, last = iso(pd.DatetimeIndex([frame["time"].min(), frame["time"].max()]))
    error = (frame["value"] - frame["actual"]).abs().mean()
    how = f"; mean absolute error {error:.4g} where actual values are known" if not np.isnan(error) else ""
    return f"{columns}{series} from {first} to {last}{how}."


def _by_step(frame: pd.DataFrame) -> Mapping[str, Any]:
    """Errors by step ahead, in the units of the data."""
    scored = frame[frame["actual"].notna()].sort_values("time")
    step = scored.groupby([*PAIR, "origin"], dropna=False).cumcount() + 1
    error = (scored["value"] - scored["actual"]).abs()
    mse, mae = ((error**power).groupby(step).mean() for power in (2, 1))
    return profile(
        "step", "Error by step ahead", [int(each) for each in mse.index], {MODEL: mse.tolist()}, {MODEL: mae.tolist()},
        axis="steps ahead", units="in the units of the data", note="Over all series and columns.",
    )  # fmt: skip


def _most(n_rows: int, bands: Iterable[str]) -> int:
    """The most series and columns whose forecasts fit."""
    return max(NUMBERS // (n_rows * (1 + len([*bands]))), MAX_TRACKS)


def _rows_before(horizon: int) -> int:
    """Rows of history on the page."""
    return max(MIN_HISTORY, HISTORY * horizon)


def _how_chosen(chosen: int, n: int, *, more: bool = False) -> str:
    """How the series and columns on the page were chosen; `more`: there are others."""
    if chosen == n and not more:
        return ""
    return (
        f"The page shows {chosen} of {n:,} series and columns, evenly spaced, so that it stays small. The files "
        "contain all of them."
    )


def _add_evenly(content: Content, frame: pd.DataFrame, past: pd.DataFrame, *, more: bool = False) -> None:
    """Add some of the series and columns, evenly spaced, and how they were chosen; `more`: there are others."""
    groups = [*frame.groupby(PAIR, sort=False)]
    chosen = evenly(groups, _most(max(len(rows) for _, rows in groups), bands_of(frame)))
    content.shown = _how_chosen(len(chosen), len(groups), more=more)
    n_numbers = NUMBERS // len(chosen) // (1 + len(bands_of(frame)))
    thinned = [(key, _thinned(rows, n_numbers)) for key, rows in chosen]
    add_tracks(content, thinned, past, {"value": content.model}, n_rows=ROWS // len(chosen), is_cut=True)
    n_origins, n_shown = frame["origin"].nunique(), max(len(track["origins"]) for track in content.tracks)
    if 1 < n_shown < n_origins:
        moves = f"The slider moves through {n_shown} of {n_origins:,} forecasts, evenly spaced."
        content.shown = " ".join(filter(None, [content.shown, moves]))


def bands_of(frame: pd.DataFrame) -> list[str]:
    """Columns with ends of intervals (lo80) and quantiles (q10)."""
    return [name for name in frame.columns if BAND.fullmatch(name)]


def _thinned(rows: pd.DataFrame, n_numbers: int) -> pd.DataFrame:
    """Forecasts from evenly spaced origins, the newest among them; at most MAX_ORIGINS, or about `n_numbers` values."""
    origins = rows["origin"].drop_duplicates().sort_values(na_position="first")
    most = max(1, min(MAX_ORIGINS, n_numbers * len(origins) // len(rows)))
    return rows[rows["origin"].isin(origins[::-1][:: -(-len(origins) // most)])]


def add_tracks(
    content: Content,
    groups: Sequence[tuple[Any, pd.DataFrame]],
    past: pd.DataFrame,
    lines: Mapping[str, str],
    *,
    n_rows: int = ROWS,
    is_cut: bool = False,
) -> None:
    """Add forecasts of some series and columns.

    Args:
        content: its timestamps and tracks are added.
        groups: series and column, and forecasts: tidy tables with columns origin, time, actual, those of `lines`, and
            ends of intervals.
        past: actual values before and between the forecasts: a tidy table with columns series, column, time, value.
        lines: names of the forecasters by column.
        n_rows: maximum number of actual values of each; origins before them are left out.
        is_cut: whether only the last rows of the history before the first origin are added.
    """
    past_groups = dict(list(past.groupby(PAIR, sort=False)))
    for key, forecasts in groups:
        rows = forecasts.sort_values(["origin", "time"], na_position="first")
        origins = [origin_rows for _, origin_rows in rows.groupby("origin", sort=True, dropna=False)]
        happened = rows.loc[rows["actual"].notna(), ["time", "actual"]].set_axis(["time", "value"], axis=1)
        before = past_groups.get(key, past.iloc[:0])[["time", "value"]]
        observed = pd.concat([part for part in (before, happened) if len(part)] or [happened])
        observed = observed.drop_duplicates("time").sort_values("time")
        if is_cut:
            first = int(observed["time"].searchsorted(origins[0]["time"].iloc[0]))
            observed = observed.iloc[max(0, first - _rows_before(len(origins[0]))) :]
        if len(observed) > n_rows:
            observed = observed.iloc[-n_rows:]
            begin = observed["time"].iloc[0]
            origins = [*(each for each in origins[:-1] if each["time"].iloc[0] > begin), origins[-1]]
        grid = pd.DatetimeIndex(observed["time"])
        values, own = observed["value"].to_numpy(), [_origin(each, grid, lines) for each in origins]
        _add_track(content, key[0], key[1], grid, values, own)


def _add_track(
    content: Content, series: str, column: str, times: pd.DatetimeIndex, actual: np.ndarray, origins: list[Any]
) -> None:
    track = {"series": series, "column": column, "times": len(content.times), "mse": nan, "skill": nan}
    content.tracks.append(track | {"actual": actual.tolist(), "origins": origins})
    content.times.append(iso(times))


def iso(times: pd.DatetimeIndex) -> list[str]:
    """Timestamps as local text, without the time of day if all are midnight."""
    local = times.tz_localize(None)
    unit: Literal["D", "s"] = "D" if (local == local.normalize()).all() else "s"
    return [text.replace("T", " ") for text in np.datetime_as_string(local.to_numpy(), unit=unit).tolist()]


def _origin(rows: pd.DataFrame, grid: pd.DatetimeIndex, lines: Mapping[str, str]) -> dict[str, Any]:
    """One of the origins of a track, see `Content.tracks`; `grid` are the times of its rows."""
    times, known = pd.DatetimeIndex(rows["time"]), rows.dropna(axis=1, how="all")
    row = int(grid.searchsorted(times[0]))
    shared = len(grid) >= row + len(times) and bool((grid[row : row + len(times)] == times).all())
    bands = paired_bands(bands_of(known))
    return {
        "row": row,
        "times": [] if shared else iso(times),
        "lines": {name: rows[column].tolist() for column, name in lines.items() if column in known},
        "bands": {name: (rows[low].tolist(), rows[high].tolist()) for name, low, high in bands},
    }


NOTE = "The bars are what each source adds at a step; with the level they add up to the forecast, exactly."
MOST_NAMED, LEAST_NAMED = 3, 1e-3
"""Sources named in the headline, and their least size relative to the largest."""


def write_explanation(found: Explained, settings: ExplainConfig, console: Console) -> Path:
    """Write the page of `informer explain` next to its table; returns its path."""
    given = ("input", "future", "what_if", "set", "against", "horizon")
    words = [(key, value) for key in given if (value := getattr(settings, key))]
    content = Content(
        title=f"Forecast: {found.panel[0].name if len(found.panel) == 1 else f'{len(found.panel):,} series'}",
        verdict=f"M{_sources_in_words(found)[1:]}.",
        subtitle="By source, and what if columns known ahead change.",
        command=shell_command("explain", ("checkpoint", settings.checkpoint), *words),
    )
    add_panel(content, found.panel, found.first)
    add_sources(content, found)
    write_atomic(found.output / PAGE, with_addresses(to_html(content)))
    say(console, f"report: {found.output / PAGE}")
    return found.output / PAGE


def _sources_in_words(found: Explained) -> str:
    """Means over the horizon, with the largest sources."""
    column, lines = DIFFERENCE if found.other else "mean", []
    for name, means in found.means.items():
        sizes = means[column].drop("forecast").sort_values(key=abs, ascending=False, kind="stable")
        named = sizes[sizes.abs() > LEAST_NAMED * sizes.abs().max()][:MOST_NAMED]
        parts = ", ".join(f"{source} {value:+,.4g}" for source, value in named.items())
        lines.append(f"{name} {means[column]['forecast']:,.4g} ({parts or 'no source'})")
    return f"mean {'difference' if found.other else 'over the horizon'}: {'; '.join(lines)}"


def add_sources(content: Content, found: Explained) -> None:
    """Add the sources of the forecasts that the page shows."""
    content.sources_note = NOTE
    for path in evenly(range(len(found.first)), len(content.tracks)):
        steps, other = found.first.are_steps[path], None
        if found.then is not None:
            other = {"name": HEADS[found.other or ""], "values": found.then.mean[path, steps].tolist()}
        values = {name: rows[path, steps] for name, rows in found.first.sources.items()}
        values = {name: rows for name, rows in values.items() if name == LEVEL or rows.any()}
        content.sources.append(
            {
                "names": list(values),
                "values": [rows.tolist() for rows in values.values()],
                "forecast": np.sum(list(values.values()), axis=0).tolist(),
                "other": other,
            }
        )
