"""Tables that are forecast without training: reads their series, and the columns known ahead of them."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from informer.base.errors import ColumnError, InputError, listed, nearest
from informer.checkpoint.format import Rule
from informer.config.data import DatasetConfig, key_columns
from informer.config.overrides import to_display
from informer.data.diagnosis import series_column
from informer.data.history import Future, futures_of_table
from informer.data.panel import read_panel
from informer.inference.ahead import Known
from informer.inference.trained import TrainedPanel
from informer.inference.zero import ZeroModel
from informer.read.checks import ends_without
from informer.read.columns import CategoryReader, are_labels, coded, is_text, repeated_text
from informer.read.rows import count_note
from informer.read.series import Frame, Series, column_values, frame_of, path_of, table_of_file
from informer.read.shapes import prepared, with_series_names
from informer.read.table import Table, cells_of_content, name_of, table_of_frame, without
from informer.read.time_columns import find_time_column

log = logging.getLogger(__name__)

Subject = ZeroModel | TrainedPanel
"""A forecaster with the series of a table (`panel`) and what is known ahead of them (`futures`): `answers`, `forecast`,
also with its sources, `held`, `rolling` and `skill`."""


def categories_ahead(table: Table, known: Sequence[str], key: str | None, target: str | None) -> list[str]:
    """The columns known ahead that are categories: text in the history."""
    others = [name for name in known if name in table.columns and name not in (key, *key_columns(key))]
    return without([*repeated_text(table, [name for name in others if is_text(table, name)])], [target or ""])


def targets_of(series: Series, target: str | None, known: Sequence[str]) -> list[str]:
    """The target, or without one all columns that are not known ahead; a ColumnError without such a column."""
    if target is not None and target not in series.columns:
        raise ColumnError(f"target={target}: expected a numeric column, one of {listed(series.columns)}")
    return without(series.columns, known) if target is None else [target]


def known_of(
    series: Series, candidates: Sequence[str], target: str | None, named: Sequence[str], future: str
) -> list[str]:
    """Those of the candidates that are known ahead of a series: all if they were named by the user, otherwise its
    columns; a ColumnError if there are none in a table `future`, the setting in words."""
    others = without(series.columns, [target or ""])
    known = [name for name in candidates if named or name in others]
    if future and not known:
        raise ColumnError(
            f"{future}: expected a column known ahead that the data have too, one of {listed(others)}, found "
            f"{listed(candidates)}"
        )
    return known


def without_labels(series: Series, columns: Sequence[str]) -> tuple[list[str], str]:
    """The columns to forecast where no target is named, and a line on ids, codes, years and places, which are not; all
    if there are no others."""
    labels = [name for name in columns if are_labels(name, column_values(series, [name])[:, 0])]
    if len(labels) in (0, len(columns)):
        return [*columns], ""
    said = f"{listed(labels, 4)}: which, when or where, so not forecast; target=COLUMN forecasts one"
    return without(columns, labels), said


def check_ahead(ahead: Table, table: Table, named: Sequence[str], time_col: str | None) -> None:
    """Raise an InputError if a table of columns known ahead has others than the history, unless those that are used are
    named: a misspelt column would be left out without a word."""
    columns = without(ahead.columns, [time_col if time_col in ahead.columns else find_time_column(ahead, None)])
    columns = [name for name in columns if ahead.frame[name].notna().any()]
    if named or not (new := without(columns, table.columns)):
        return
    used = without(columns, new)
    cure = f"; its columns are {listed(table.columns)}"
    if used:
        cure = f"; leave it out, or set future_covariates={to_display(used)}"
    cure, others = nearest(new[0], without(table.columns, used)) or cure, count_note(len(new), "such columns")
    raise ColumnError(f"{ahead.name}: {table.name} has no column {new[0]!r}{others}{cure}")


def columns_ahead(
    table: Table, config: DatasetConfig, target: str, named: Sequence[str]
) -> tuple[list[str], list[str], pd.Series]:
    """Of a table whose last rows have no target but values in other columns: these columns, which are known ahead,
    those of them that are text, and the number of these rows by series. All are empty if the table does not continue,
    or only a few series do.

    Args:
        config: how the table was read.
        target: the column to forecast.
        named: columns that the user says are known ahead; empty: all that have values there.
    """
    nothing = list[str](), list[str](), pd.Series(dtype=np.int64)
    if target not in table.columns or config.keeps_gaps:  # columns named after dates have become rows
        return nothing
    key = config.series_col or series_column(table, config) or ""
    frame = with_series_names(table, key or None).frame
    names = frame[key] if key in frame.columns else pd.Series("", index=frame.index)
    is_ahead = frame[target].isna()[::-1].groupby(names, observed=True).cummin()[::-1]
    ahead = frame[is_ahead & frame[target].notna().groupby(names, observed=True).transform("any")]
    whole = [name for name in ahead.columns if name in (named or ahead.columns) and ahead[name].notna().all()]
    texts = categories_ahead(table, whole, key, target)
    numbers = [name for name in whole if is_numeric_dtype(ahead[name])]
    known = without([*dict.fromkeys([*numbers, *config.categorical, *texts])], [key])
    rows = ahead.groupby(names, observed=True).size()
    if not known or 2 * len(rows) < names.nunique() or not len(rows):  # a few series lack their newest values
        return nothing
    return known, texts, rows


def untrained(
    frame: Frame | bytes,
    config: DatasetConfig,
    rule: Rule,
    *,
    name: str = "frame",
    future: Frame | bytes | None = None,
    most_series: int | None = None,
    device: str = "auto",
    allows_new: bool = False,
) -> ZeroModel:
    """The pretrained network for a table. Reads it and the columns known ahead: those of `future`, or of its last rows,
    which have no target.

    Args:
        frame, future: tables, paths of files, or CSV text.
        config: how to read them. A column that names the series is found.
        rule: the column to forecast (None: all that are not known ahead), the columns known ahead, also without rows
            ahead, for forecasts from earlier rows (empty: all that are), the usual horizon, and what was fitted before.
        name: name of the table in errors.
        most_series: largest number of series; None: any.
        device: see `ZeroModel`.
        allows_new: whether `future` may have series without history, see `informer.inference.cold`.

    Raises:
        InputError: a table cannot be read or has too many series, or `future` has no column of the history, or others.
    """
    target, named = rule.target, rule.future_covariates if rule.terms is None else rule.terms.columns
    config = replace(config, target=target, series_col=config.series_col or rule.series_col)
    table = _table(frame, name, config)
    if not config.series_col and (column := series_column(table, config)):
        config = replace(config, series_col=column)
        table = _table(frame, name, config)  # read again, so that names such as 001 are text
    if most_series is not None and config.series_col in table.columns:
        found = table.frame[config.series_col].nunique(dropna=False)
        if found > most_series:
            raise InputError(f"{name}: expected at most {most_series} series, found {found}; send fewer")
    ahead: Table | None = None
    known, texts = list[str](), list[str]()
    if future is not None:
        ahead = _table(future, f"future of {name}", replace(config, exclude=[], target=None))
        check_ahead(ahead, table, named, config.time_col)
        known = [name for name in ahead.columns if ahead.frame[name].notna().any()]
        texts = categories_ahead(table, known, config.series_col, target)
    elif target is not None and ends_without(table, target):
        known, texts, _ = columns_ahead(table, config, target, named)
        ahead = table if known else None
    if named:
        for column in without(named, table.columns):
            raise table.missing("future_covariates", column)
        known, texts = [*named], categories_ahead(table, named, config.series_col, target)
    categories = CategoryReader(labels={name: [*each] for name, each in rule.categories.items()})
    config = replace(config, categorical=[*dict.fromkeys([*config.categorical, *texts, *rule.categories])])
    panel = [replace(each, series_col=config.series_col) for each in read_panel(table, config, categories)]
    targets = targets_of(panel[0], target, known)
    names = tuple(known_of(panel[0], known, target, named, "" if future is None else "future"))
    if target is None:
        targets, said = without_labels(panel[0], targets)
        if said:
            log.warning(f"{name}: {said}")
    futures, new, holidays = list[Future](), dict[str, Future](), tuple(config.holidays)
    if ahead is not None and names:
        whole = futures_of_table(coded(ahead, categories.labels), config, names)
        futures, new = whole.of_all(panel, {each.name for each in panel}, allows_new=allows_new)
    model = ZeroModel(
        panel,
        targets,
        device=device,
        known=Known(names, tuple(name for name in names if name in config.categorical), holidays) if names else None,
        futures=futures,
        new=new,
        categories=categories.labels if names else None,
    )
    model.use(rule)
    return model


def _table(frame: Frame | bytes, name: str, config: DatasetConfig) -> Table:
    if isinstance(frame, bytes):
        return prepared(cells_of_content(frame, name, config), config)
    if (path := path_of(frame)) is not None:
        return replace(table_of_file(path, config), name=name_of(path))
    return prepared(table_of_frame(frame_of(frame, name), name, config.time_col), config)
