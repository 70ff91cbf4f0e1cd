"""Tables of scores: tidy text, and for the terminal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from informer.base.files import csv_text
from informer.config.conversion import without_nan
from informer.scoring.metrics import HEADINGS, METRICS


def tidy_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV text with a header; undefined and infinite values are empty cells."""
    return csv_text([header, *(without_nan(list(row)) for row in rows)])


def scores_table(
    keys: Sequence[str], rows: Sequence[tuple[Sequence[str], Mapping[str, float]]], own: str, title: str | None = None
) -> Table:
    """Overall scores as a table for the terminal.

    Args:
        keys: headings of the names of a row.
        rows: names of each row and its values by metric, in groups of equal first names if there are several names.
        own: the last name of the rows in bold.
        title: above the table.
    """
    # no rules between columns, so that nine columns fit into 80 characters
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for key in keys:
        table.add_column(key)
    used = dict.fromkeys(metric for _, values in rows for metric in values)
    metrics = [name for name in [*HEADINGS, *(each for each in used if each not in METRICS)] if name in used]
    for metric in metrics:
        other = f"in {metric.removeprefix('coverage')} %" if metric.startswith("coverage") else metric.upper()
        table.add_column(HEADINGS.get(metric, other), justify="right")
    for place, (names, values) in enumerate(rows):
        cells = (shown(values.get(metric, math.nan)) for metric in metrics)
        is_last = place + 1 == len(rows) or (len(keys) > 1 and rows[place + 1][0][0] != names[0])
        table.add_row(*names, *cells, style="bold" if names[-1] == own else None, end_section=is_last)
    return table


def shown(value: float) -> str:
    """A score: at most 8 characters for usual values, so that nine columns fit into 80: 12346 rather than 1.235e+04."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}".replace("e+", "e")
