"""The windows at the ends of series, with the values of covariates that are known ahead.

Store and windows are those of training, so that equal rows give equal scaled windows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from informer.base.errors import ColumnError, InputError, ShortError, TimeError, listed
from informer.config.data import Calendar, DatasetConfig, key_columns
from informer.config.model import WindowSizes
from informer.data.columns import Columns
from informer.data.panel import left_padded
from informer.data.scaler import PanelScaler
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
from informer.read.checks import check_cells
from informer.read.frequency import Frequency
from informer.read.rows import Report, Rows
from informer.read.series import Reading, Series
from informer.read.table import Table, without
from informer.read.zones import check_zones


@dataclass(frozen=True, slots=True)
class Future:
    """Future covariates by time; rows may be in any order, and additional times are allowed.

    Args:
        rows: the covariates.
        text: their cells that are text, by column.
        until: last time that is needed; for later ones that are absent its values are repeated. None: all are needed.
    """

    rows: Rows
    text: Mapping[str, pd.Series]
    until: pd.Timestamp | None = None

    def by_zone(self, series: Series) -> pd.DatetimeIndex:
        """Its times; an InputError if they have a zone and those of the series have none, or the reverse."""
        check_zones(self.rows.name, self.rows.timestamps.tz, series.timestamps.tz, "the history")
        return self.rows.timestamps

    def at(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> Float64[np.ndarray, "h k"]:
        """Values of the given columns at the given times.

        Raises:
            InputError: a time is missing, a timestamp occurs twice, or a cell is not a number.
        """
        is_needed = np.full(len(timestamps), True) if self.until is None else timestamps <= self.until
        name, times, needed = self.rows.name, self.rows.timestamps, timestamps[is_needed]
        check_zones(name, times.tz, timestamps.tz, "the history")
        if len(repeated := times[times.duplicated()]):
            raise TimeError(f"{name}: duplicate timestamp {repeated[0]}; keep one row per time")
        if len(absent := needed.difference(times)):
            n_known = int(needed.isin(times).argmin())
            cure = f"horizon={n_known} needs only what is there"
            cure = cure if n_known else f"add rows with {listed(columns)}, or name those that have them in future"
            raise TimeError(
                f"{name}: expected future covariates for {len(needed)} times, {needed[0]} to {needed[-1]}; "
                f"missing: {listed([str(time) for time in absent], 3)}; {self._longer_steps(needed) or cure}"
            )
        places, values = times.get_indexer(timestamps), self.rows.values[:, [*map(self.rows.columns.index, columns)]]
        if self.until is not None:
            is_absent = (places < 0) | np.isnan(values[places]).any(axis=1)
            places[is_absent & ~is_needed] = times.get_indexer(needed[-1:])[0]
        report = Report()
        check_cells(self.rows.take(places), self.text, DatasetConfig(), report)
        report.refuse()
        return values[places]

    def _longer_steps(self, needed: pd.DatetimeIndex) -> str:
        """What to do about rows at longer steps than those needed; empty if they are not."""
        times = self.rows.timestamps.sort_values()
        if len(times) < 2 or len(needed) < 2 or np.median(np.diff(times)) <= np.median(np.diff(needed)):
            return ""
        own, step = Frequency.closest(times)[0].code, Frequency.closest(needed)[0].code
        return (
            f"its rows have steps of {own}, those of the history {step}; write a row for each {step}, or, to forecast "
            f"means at {own}, set dataset.duplicates=mean dataset.frequency={own}"
        )


@dataclass(frozen=True, slots=True)
class Futures:
    """Future covariates of each series that a table names, or of one without a name.

    Args:
        table: what they were read from.
        shared: those of any series without a name; None: the table names the series.
        by_series: those of each series.
    """

    table: Table
    shared: Future | None
    by_series: Mapping[str, Future]

    def __call__(self, series: Series) -> Future:
        """Those of a series; an InputError if there are none, or no column names the series."""
        if self.shared is not None and series.series_col is not None:
            raise self.table.missing("dataset.series_col", key_columns(series.series_col)[0])
        if self.shared is not None:
            return self.shared
        if series.name not in self.by_series:
            raise InputError(f"{self.table.name}: expected future covariates of the series {series.name}, found none")
        return self.by_series[series.name]

    def of_all(
        self, panel: Sequence[Series], names: Collection[str], *, allows_new: bool
    ) -> tuple[list[Future], dict[str, Future]]:
        """Those of a panel, and those of series without history.

        Args:
            names: of all series with history.
            allows_new: whether there may be others; if not, they are an InputError.
        """
        futures = [self(series) for series in panel]
        new = {name: future for name, future in self.by_series.items() if name not in names}
        if new and not allows_new:
            raise InputError(
                f"{self.table.name}: expected series of the data, found also {listed([*new], 3)}, without history; "
                "leave out these rows, or add rows with a target (informer forecast and Forecaster.predict without "
                "training forecast them without any, but no totals)"
            )
        return futures, new


def futures_of_table(
    table: Table, config: DatasetConfig, columns: Sequence[str], trained_format: str | None = None
) -> Futures:
    """Future covariates of each series that a table names, or of one without a name.

    Args:
        columns: the covariates.
        trained_format: see `Reading`.

    Raises:
        InputError: the table has no times, not these columns, no rows, or several rows in a step to which `config`
            joins those of the history.
    """
    check_futures(columns, has_futures=True)
    if lacking := without(columns, table.columns):
        raise ColumnError(
            f"{table.name}: future covariates missing: {listed(lacking)}; found the columns {listed(table.columns)}"
        )
    series_col, time_col = (name if name in table.columns else None for name in (config.series_col, config.time_col))
    how = replace(config, columns=list(columns), series_col=series_col, time_col=time_col, since=None, duplicates=None)
    reading = Reading(table, how, table.name, trained_format=trained_format)
    if config.time_format is not None and reading.rows.timestamps.isna().all():  # written in another format
        reading = Reading(table, replace(how, time_format=None), table.name, trained_format=trained_format)
    rows, begins = reading.timed(), [0, *reading.ends]
    if config.duplicates in ("mean", "sum") and config.frequency is not None:
        step = Frequency.parse(config.frequency)
        if (step.strides(rows.timestamps.unique().sort_values()) == 0).any():
            raise TimeError(
                f"{table.name}: several rows in a step of {step.code}; dataset.duplicates={config.duplicates} joins "
                f"those of the history only: write a row of columns known ahead for each {step.code}"
            )
    futures = [
        Future(rows.take(slice(begin, end), reading.label(k)), reading.text.get(k, {}))
        for k, (begin, end) in enumerate(pairwise(begins))
    ]
    shared = futures[0] if series_col is None else None
    return Futures(table, shared, {} if shared else dict(zip(reading.names, futures, strict=True)))


def windows_ahead(
    series: Sequence[Series],
    *,
    columns: Columns,
    scaler: PanelScaler,
    sizes: WindowSizes,
    calendar: Calendar,
    device: torch.device | str,
    n_ahead: int | None = None,
    futures: Sequence[Future] | None = None,
    pad: bool = False,
    trained: Sequence[str] = (),
) -> tuple[list[Series], Windows]:
    """The last seq_len rows of each series and rows ahead, which have no targets, and the window of each.

    Args:
        series: each with the input columns, in any order; additional columns are allowed.
        columns, sizes, calendar: as in training.
        scaler: scaler fitted in training. With one scaler per series, a series with a new name is scaled by its own
            last seq_len rows.
        device: device of the windows.
        n_ahead: rows ahead; None: those of a window.
        futures: one per series, with the future covariates of the forecast times; None if the model has none.
        pad: extend a shorter history by repeating its first row.
        trained: names of the training series, in the order of their numbers.

    Raises:
        InputError: a series without some columns or enough rows, or a future without some columns, times or numbers.
    """
    check_futures(columns.future_covariates, has_futures=futures is not None)
    recent = with_columns([each.end(sizes.seq_len) for each in series], columns.inputs)
    scalers = [scaler.of(history.name, history.values) for history in recent]
    for history in recent if not pad else ():
        if len(history) < sizes.seq_len:
            found = f"found {len(history)}"
            raise ShortError(f"{history.name}: expected at least seq_len={sizes.seq_len} rows of history, {found}")
    histories = [left_padded(history, sizes.seq_len - len(history)) for history in recent]
    ahead: Sequence[Future | None] = futures or [None] * len(histories)
    n = sizes.reach if n_ahead is None else n_ahead
    panel = [_with_rows_ahead(each, columns, sizes.offset, n, of) for each, of in zip(histories, ahead, strict=True)]
    store = build_store(panel, scalers=scalers, calendar=calendar, device=device, trained=trained)
    return panel, Windows.of_columns(store, columns, starts=store.first_rows, sizes=sizes)


def check_futures(columns: Sequence[str], *, has_futures: bool) -> None:
    """Raise InputError if future covariates, in these columns of the model, are missing or not used by it."""
    if columns and not has_futures:
        raise ColumnError(f"future: expected future values of {listed(columns)}, found none")
    if has_futures and not columns:
        raise InputError("future: the model has no future covariates; leave it out")


def future_index(series: Series, n: int) -> pd.DatetimeIndex:
    """The n timestamps after the end of the series."""
    times = series.timestamps
    return _index_after(series.frequency, tuple(times.asi8[-2:].tolist()), times.unit, times.tz, n)


@lru_cache(maxsize=256)
def _index_after(step: Frequency, end: tuple[int, ...], unit: str, zone: tzinfo | None, n: int) -> pd.DatetimeIndex:
    """`Frequency.future` of the last two times (or one), cached; they are counts of a unit since 1970."""
    times = pd.DatetimeIndex(np.array(end, dtype=f"datetime64[{unit}]"))
    times = times if zone is None else times.tz_localize("UTC").tz_convert(zone)
    return step.future(times[-1], n, like=times[0])


def _with_rows_ahead(series: Series, columns: Columns, offset: int, n: int, future: Future | None) -> Series:
    """The series and the n rows after it, with what is known ahead; everything else is missing there."""
    ahead, covariates = future_index(series, n), columns.future_covariates
    values = np.full((n, len(columns.inputs)), np.nan)
    static = columns.positions(columns.static_covariates)
    values[:, static] = series.values[-1, static]
    if future is not None:
        values[offset:, columns.positions(covariates)] = future.at(ahead[offset:], covariates)
    timestamps = pd.DatetimeIndex(series.timestamps.append(ahead))
    return replace(series, timestamps=timestamps, values=np.concatenate([series.values, values]))
