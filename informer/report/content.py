"""Content of a report as plain data, without HTML or models.

Units are given per field; NaN means unknown and is omitted from the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from informer.base.errors import signed_percent

Lines = Mapping[str, Sequence[float]]
"""Values by name of the forecaster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of text and numbers, shown unchanged.

    Args:
        title: caption.
        head: headings of the columns.
        rows: cells of each row.
        grouped: whether neighbouring rows with the same first cell share it.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    grouped: bool = False


class Tone(Enum):
    """Colour of a verdict."""

    good = "good"
    level = "level"
    bad = "bad"
    neutral = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One figure at the top of the page."""

    label: str
    value: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """Overall scores of one forecaster.

    Args:
        name: name of the forecaster.
        metrics: values by the names of `METRICS` and `WQL`, all in the same units; NaN if unknown.
        skill: 1 - MSE / MSE of the model's best baseline; NaN for the model without one.
    """

    name: str
    metrics: Mapping[str, float]
    skill: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Errors along one axis (steps ahead, columns, hours of the day, ...).

    Args:
        key: short name, used as an identifier in the page.
        title: heading.
        axis: title of the axis.
        labels: one per value; numbers are plotted as a line, text as bars.
        mse, mae: errors by forecaster.
        units: units of the errors.
        note: how it was measured, one sentence.
    """

    key: str
    title: str
    axis: str
    labels: Sequence[str | int]
    mse: Lines
    mae: Lines
    units: str = "scaled"
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Forecasts from one origin.

    Args:
        row: index of the first step in the track's rows; may be one past the last row.
        times: times of the steps if they are beyond the track's rows, otherwise empty.
        lines: forecasts in data units by forecaster.
        bands: lower and upper ends in data units by name (`80 %`).
    """

    row: int
    times: Sequence[str] = ()
    lines: Lines
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One column of one series with its forecasts, for display.

    Args:
        series: name of the series; empty for a single series.
        column: name of the column.
        times: index of its rows' timestamps in `Content.times`.
        actual: actual values in data units, one per row.
        origins: origins, oldest first.
        mse: scaled MSE of the model; NaN without actual values.
        skill: skill against the best baseline of this track.
    """

    series: str
    column: str
    times: int
    actual: Sequence[float]
    origins: Sequence[Origin]
    mse: float = float("nan")
    skill: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesScore:
    """Scores of one column of one series, for the table of all.

    Args:
        series, column: names.
        windows: number of scored windows of the series.
        mse: scaled MSE of the model.
        skill: skill against the best baseline.
        track: index of its track; -1 if the page does not contain its values.
    """

    series: str
    column: str
    windows: int
    mse: float
    skill: float
    track: int = -1


@dataclass(slots=True, kw_only=True)
class Content:
    """Everything a page shows; empty parts are omitted.

    Args:
        title: heading of the page.
        subtitle: the forecasting task, one line.
        verdict: one sentence.
        tone: colour of the verdict.
        model: name of the model among the forecasters.
        cards: figures at the top.
        scored: heading of the first column of the score tables.
        scaled, original: score tables in both units.
        tables: further tables.
        remarks: notes on the scores.
        profiles: errors along each axis.
        columns: names of the forecast columns.
        main: the column that every chart of columns shows; empty: the last one.
        coverage: of each interval its `name` (`80 %`), the `expected` and the `overall` share of values inside, in
            percent, and the shares `by_step` and `by_column`.
        residuals: forecast minus actual value, scaled: `edges` and `counts` of a histogram, whose outer bins count the
            values outside, and `bias_by_step`.
        losses: of `training` and `validation`, as epochs and losses (epoch 0 is before the first step), of `baselines`
            by name, their `units`, and a `note` on the baselines'.
        times: timestamps of the tracks, as ISO 8601 text.
        tracks: series that can be displayed.
        shown: how the tracks were selected, one sentence.
        sources: of each track the `names` of the sources of its forecast and their `values`, the level first; the
            `forecast`; `other`, the name and values of another forecast, or None; `least`, below which no change leads;
            and `changes` of columns known ahead: `column`, `labels` of the values that it may have or None, `points`,
            and `differences` of the forecast at each.
        sources_note: how they were computed.
        series: scores of every series and column.
        attention: weights of each layer on one window: `layer_name`, `lengths` (number of queries and of keys), and
            `heads`, a matrix each, thinned if long.
        attention_window: description of that window.
        problems: problems found in the data.
        command: the command of the run.
        settings: configuration by key.
        facts: versions, data, commit.
    """

    title: str
    subtitle: str = ""
    verdict: str
    tone: Tone = Tone.neutral
    model: str = "informer"
    cards: list[Card] = field(default_factory=list)
    scored: str = "Forecaster"
    scaled: list[ScoreRow] = field(default_factory=list)
    original: list[ScoreRow] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    columns: Sequence[str] = ()
    main: str = ""
    coverage: list[Mapping[str, Any]] = field(default_factory=list)
    residuals: Mapping[str, Any] | None = None
    losses: Mapping[str, Any] | None = None
    times: list[Sequence[str]] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    shown: str = ""
    sources: list[Mapping[str, Any]] = field(default_factory=list)
    sources_note: str = ""
    series: list[SeriesScore] = field(default_factory=list)
    attention: list[Mapping[str, Any]] = field(default_factory=list)
    attention_window: str = ""
    problems: list[str] = field(default_factory=list)
    command: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)


def signed(share: float) -> str:
    """`+14.4 %` for 0.144, with the same minus sign as the page's script."""
    return signed_percent(share).replace("-", "\u2212")
