"""The page of `informer explain`: forecasts by source, and sliders for the columns known ahead."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from informer.base.console import say
from informer.base.errors import with_addresses
from informer.base.files import write_atomic
from informer.checkpoint.paths import PAGE
from informer.config.commands import ExplainConfig
from informer.config.overrides import shell_command
from informer.inference.explain import DIFFERENCE, HEADS, Explained, sliders
from informer.inference.sources import BOUND, LEVEL, Explanation
from informer.report.content import Content
from informer.report.forecasts import evenly, untrained_content
from informer.report.page import to_html

NOTE = "The bars are what each source adds at a step; with the level they add up to the forecast, exactly."
LINEAR = "The forecast is linear in these columns: a change is exact."
MOST_NAMED, LEAST_NAMED = 3, 1e-3
"""Sources named in the headline, and their least size relative to the largest."""
GRID = (
    "Changes of a column were forecast at some points, with lines between them; those of several columns are added up."
)


def write_page(found: Explained, settings: ExplainConfig, console: Console) -> Path:
    """Write the page next to the table; returns its path."""
    forecasts = [each.forecast for each in found.first]
    given = ("input", "future", "what_if", "set", "against", "horizon")
    words = [(key, value) for key in given if (value := getattr(settings, key))]
    content = untrained_content(
        forecasts,
        None,
        _in_words(found),
        [],
        [],
        title=forecasts[0].series.name if len(forecasts) == 1 else f"{len(forecasts):,} series",
        subtitle="By source, and what if columns known ahead change.",
        command=shell_command("explain", ("checkpoint", settings.checkpoint), *words),
    )
    add_sources(content, found, settings.horizon)
    write_atomic(found.output / PAGE, with_addresses(to_html(content)))
    say(console, f"report: {found.output / PAGE}")
    return found.output / PAGE


def _in_words(found: Explained) -> str:
    """Means over the horizon, with the largest sources."""
    column, lines = DIFFERENCE if found.other else "mean", []
    for name, means in found.means.items():
        sizes = means[column].drop("forecast").sort_values(key=abs, ascending=False, kind="stable")
        named = sizes[sizes.abs() > LEAST_NAMED * sizes.abs().max()][:MOST_NAMED]
        parts = ", ".join(f"{source} {value:+,.4g}" for source, value in named.items())
        lines.append(f"{name} {means[column]['forecast']:,.4g} ({parts or 'no source'})")
    return f"mean {'difference' if found.other else 'over the horizon'}: {'; '.join(lines)}"


def add_sources(content: Content, found: Explained, horizon: str | None) -> None:
    """Add the sources of the forecasts that the page shows, with sliders."""
    pairs = evenly([(place, column) for place in range(len(found.first)) for column in range(len(content.columns))])
    shown = list(dict.fromkeys(place for place, _ in pairs))
    moving, is_linear = list[dict[str, Any]](), True
    if found.futures is not None:
        series, futures = [found.first[place].forecast.series for place in shown], [found.futures[at] for at in shown]
        moving, is_linear = sliders(found.model, series, futures, horizon=horizon)
    content.sources_note = " ".join([NOTE, *([LINEAR if is_linear else GRID] if moving else [])])
    for place, column in pairs:
        own, then = found.first[place], found.then[place] if found.then else None
        values = {name: rows[:, column] for name, rows in own.sources.items() if name == LEVEL or rows[:, column].any()}
        is_clipped = is_linear and column in found.model.model.non_negative
        left_out = [BOUND] if is_clipped else []
        content.sources.append(
            {
                "names": list(values),
                "values": [rows.tolist() for rows in values.values()],
                "unbounded": np.sum([rows for name, rows in values.items() if name not in left_out], axis=0).tolist(),
                "least": 0.0 if is_clipped else None,
                "other": None if then is None else _other(own, then, column, HEADS[found.other or ""]),
                "changes": [
                    each
                    | {"differences": [point[shown.index(place)][:, column].tolist() for point in each["differences"]]}
                    for each in moving
                ],
            }
        )


def _other(own: Explanation, then: Explanation, column: int, name: str) -> dict[str, Any]:
    """Name and values of the other forecast at the times of `own`, NaN where it has none."""
    steps = then.forecast.timestamps.get_indexer(own.forecast.timestamps)
    values = np.where(steps < 0, np.nan, then.forecast.values[steps, column])
    return {"name": name, "values": values.tolist()}
