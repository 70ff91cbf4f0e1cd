"""The column that separates the series of a table, if it has the rows of many series."""

from pandas.api.types import is_numeric_dtype

from informer.data.read.table import Table

FEW = 10
"""Least average number of rows per value in a column that could contain names of series."""

LEAST_REPEATED = 0.2
"""Least share of rows with the timestamp of another row; two series that begin at other times share fewer than half."""

MOST_REPEATED = 0.01
"""Largest share of duplicate timestamps within the series of such a column; the checks report these rows."""


def separating_column(table: Table, time_col: str, target: str | None = None) -> str | None:
    """The column with the name of each row's series, if timestamps repeat as in a file of many series; else None."""
    rows = table.frame
    n_times = rows[time_col].nunique()
    if not len(rows) or len(rows) - n_times < LEAST_REPEATED * len(rows):
        return None
    candidates = (name for name in table.columns if name not in (time_col, target))
    if len(rows) < 2 * n_times:  # series that hardly overlap: a column of numbers may differ by chance
        candidates = (name for name in candidates if not is_numeric_dtype(rows[name]))
    few = (name for name in candidates if rows[name].nunique() * FEW <= len(rows))
    repeated = {name: float(rows.duplicated([name, time_col]).mean()) for name in few}
    # of columns that separate equally well, text is a name, a number rather an attribute such as the size of a store
    best = min(repeated, key=lambda name: (repeated[name], is_numeric_dtype(rows[name])), default=None)
    return best if best is not None and repeated[best] <= MOST_REPEATED else None
