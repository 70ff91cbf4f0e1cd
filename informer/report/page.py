"""A report: its content as plain data, without HTML or models, and as one HTML file: everything inline, no network
requests.

Units of the content are given per field; NaN means unknown and is omitted from the page.

Text from the data (names of columns and series, paths, messages) is escaped in HTML; JSON in the page is written
without characters that could end a script element. In addition, a Content-Security-Policy allows only the page's own
scripts, by hash, so injected scripts do not run.
"""

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import ValidationError

from informer.base.errors import FileError, signed_percent
from informer.base.files import write_atomic
from informer.checkpoint.paths import CONTENT
from informer.config.conversion import read_json
from informer.config.fields import adapter
from informer.scoring.bootstrap import Winner
from informer.scoring.metrics import HEADINGS, RELATIVE, shown

TONES = {Winner.model: "good", Winner.baseline: "bad", Winner.unknown: "neutral"}
"""Colours of a verdict, by the outcome of a comparison; all others are `level`."""
SIGNS = {"good": "✓", "level": "≈", "bad": "!", "neutral": "i"}


MODEL = "forecast"
"""Its name where the forecaster has none."""


@dataclass(slots=True, kw_only=True)
class Content:
    """Everything a page shows; empty parts are omitted.

    Args:
        title: heading of the page.
        subtitle: the forecasting task, one line.
        expected: the forecast in a sentence.
        verdict: how good it is, in a sentence.
        tone: colour of the verdict.
        model: name of the model among the forecasters.
        cards: figures at the top: label, value and hint of each.
        scaled, original: overall scores in both units, by forecaster: values by the names of `METRICS`, NaN
            if unknown, and `skill`, 1 - MSE / MSE of the model's best baseline, NaN for the model without one.
        remarks: notes on the scores.
        profiles: errors along each axis: `key`, used as an identifier, `title`, title of the `axis`, `labels` (numbers
            are plotted as a line, text as bars), `mse` and `mae` by forecaster, their `units`, and a `note` on how they
            were measured.
        columns: names of the forecast columns.
        main: the column that is shown first, and in every chart of columns; empty: the last one.
        coverage: of each interval its `name` (`80 %`), the `expected` and the `overall` share of values inside, in
            percent, and the shares `by_step` and `by_column`.
        residuals: forecast minus actual value, scaled: `edges` and `counts` of a histogram, whose outer bins count the
            values outside, and `bias_by_step`.
        losses: of `training` and `validation`, as epochs and losses (epoch 0 is before the first step), of `baselines`
            by name, their `units`, and a `note` on the baselines'.
        times: timestamps of the tracks, as ISO 8601 text, or equally spaced ones, see `_grid`.
        tracks: columns of series that can be displayed: names of `series` (empty for a single one) and `column`; place
            of the timestamps of its rows in `times`; `actual` values, one per row; scaled `mse` of the model and
            `skill` against the best baseline; and of each of `origins`, oldest first, `row`, index of the first step in
            the rows, which may be one past the last, `times` of the steps if they are beyond the rows, `lines` by
            forecaster, and `bands`, lower and upper ends by name (`80 %`).
        shown: how the tracks were selected, one sentence.
        sources: of each track the `names` of the sources of its forecast and their `values`, the level first; the
            `forecast`; and `other`, the name and values of another forecast, or None.
        sources_note: how they were computed.
        series: of every `series` and `column` the number of scored `windows`, the scaled `mse` of the model, its
            `skill` against the best baseline, and `track`, the index of its track, -1 if the page does not contain it.
        attention: weights of each layer on one window: `layer_name`, `lengths` (number of queries and of keys), and
            `heads`, a matrix each, thinned if long.
        attention_window: description of that window.
        problems: problems found in the data.
        command: the command of the run.
        settings: configuration by key.
        facts: versions, data, commit.
    """

    title: str = ""
    subtitle: str = ""
    expected: str = ""
    verdict: str = ""
    tone: str = "neutral"
    model: str = MODEL
    cards: list[tuple[str, str, str]] = field(default_factory=list)
    scaled: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    original: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    profiles: list[Mapping[str, Any]] = field(default_factory=list)
    columns: Sequence[str] = ()
    main: str = ""
    coverage: list[Mapping[str, Any]] = field(default_factory=list)
    residuals: Mapping[str, Any] | None = None
    losses: Mapping[str, Any] | None = None
    times: list[Sequence[str] | Mapping[str, Any]] = field(default_factory=list)
    tracks: list[dict[str, Any]] = field(default_factory=list)
    shown: str = ""
    sources: list[Mapping[str, Any]] = field(default_factory=list)
    sources_note: str = ""
    series: Sequence[dict[str, Any]] = ()
    attention: list[Mapping[str, Any]] = field(default_factory=list)
    attention_window: str = ""
    problems: list[str] = field(default_factory=list)
    command: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write what is not empty, for `read`."""
        parts = {each.name: part for each in fields(self) if (part := getattr(self, each.name))}
        parts["times"] = [_grid(times) for times in self.times]
        write_atomic(folder / CONTENT, json.dumps(_plain(parts), separators=(",", ":")))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What was saved in a folder; an empty page without it.

        Raises:
            InputError: the file is damaged.
        """
        path = folder / CONTENT
        if not path.exists():
            return cls()
        try:
            return adapter(cls).validate_python(read_json(path, MOST_BYTES))
        except ValidationError as error:
            first = error.errors()[0]
            place, found = ".".join(map(str, first["loc"])), first["input"]
            raise FileError(
                f"{path}: {place}: found {found!r:.80}, which no command writes; without the file, a page is made of "
                "the forecasts"
            ) from error


def profile(
    key: str, title: str, labels: Sequence[str | int], mse: Any, mae: Any, *, axis: str = "", **more: str
) -> dict[str, Any]:
    """One of `Content.profiles`; the axis has the name of the key unless another is given."""
    of_axis = {"key": key, "title": title, "axis": axis or key, "labels": labels}
    return {**of_axis, "mse": mse, "mae": mae, "units": "scaled", "note": "", **more}


def signed(share: float) -> str:
    """`+14.4 %` for 0.144, with the same minus sign as the page's script."""
    return signed_percent(share).replace("-", "\u2212")


ASSETS = Path(__file__).parent / "assets"
MOST_BYTES = 1 << 26
"""Largest file that a page is made of; scores have about 1,600 bytes per step."""
DIGITS = 6
"""Significant digits of numbers in the page."""
OWN_PAGE = b'<meta name="generator" content="informer">'
"""What tells a page from one that is not replaced."""
CARD = '<div class="card"><dt>{}</dt><dd>{}</dd><p>{}</p></div>'
FIGURE = '<figure class="panel"><h3>{}</h3><div class="chart" id="chart-{}"></div><figcaption>{}</figcaption></figure>'
PHONE_COLUMNS = 4
"""Maximum number of scores next to each other on a phone; more are in two lines."""
LOSSES_NOTE = "The training loss is the mean over the steps of an epoch; horizontal lines: baselines' validation losses"
_STATIC = (
    *("title", "subtitle", "expected", "verdict", "tone", "cards", "scaled", "original", "remarks", "problems"),
    *("command", "settings", "facts", "shown", "sources_note"),
)
"""Parts that are inserted as HTML, not as chart data."""


def to_html(content: Content) -> str:
    """The page as HTML."""
    library, packed = _library()
    script = _asset("page.js")
    charts = {each.name: getattr(content, each.name) for each in fields(content) if each.name not in _STATIC}
    charts["times"] = [_grid(times) for times in content.times]
    about_losses = (
        "" if content.losses is None else "; ".join(filter(None, [LOSSES_NOTE, content.losses["note"]])) + "."
    )
    parts = {
        "explorer": content.tracks,
        "sources": content.sources,
        "expected": content.expected,
        "cards": content.cards,
        "scores": content.scaled or content.original or content.remarks,
        "coverage": content.coverage,
        "columns": len(content.columns) > 1,
        "residuals": content.residuals,
        "losses": content.losses,
        "attention": content.attention,
        "series": len(content.series) > 1,
        "figures": content.profiles,
        "problems": content.problems or content.settings,
        "settings": content.settings,
        "remarks": content.remarks,
        "command": content.command,
        "run": content.facts or content.settings,
    }
    texts = ("title", "subtitle", "expected", "verdict", "shown", "sources_note", "attention_window", "command")
    placeholders = {name: escape(getattr(content, name)) for name in texts}
    placeholders |= {f"{name}_hidden": "" if part else "hidden" for name, part in parts.items()}
    placeholders |= {
        "csp": _policy([script, library]),
        "style": _asset("page.css"),
        "tone": content.tone,
        "sign": SIGNS[content.tone],
        "cards": "".join(CARD.format(*map(escape, card)) for card in content.cards),
        "scores": _scores(content),
        "losses_note": escape(about_losses),
        "figures": "".join(
            FIGURE.format(*(escape(each[key]) for key in ("title", "key", "note"))) for each in content.profiles
        ),
        "problems": _problems(content),
        "remarks": _list(content.remarks),
        "facts": _pairs(content.facts),
        "settings": _pairs(content.settings),
        "data": json_in_html(charts),
        "library": packed,
        "script": script,
    }
    # one pass: inserted text is not searched again
    return re.sub(r"\{\{(\w+)\}\}", lambda match: placeholders[match[1]], _asset("page.html"))


def json_in_html(value: Any) -> str:
    """JSON without characters that could end the script element that contains it."""
    text = json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _grid(times: Sequence[str] | Mapping[str, Any]) -> Sequence[str] | Mapping[str, Any]:
    """Equally spaced times as first time, step in seconds and count, since text would dominate a large page."""
    if len(times) < 3 or isinstance(times, Mapping):
        return times
    seconds = np.array(times, dtype="datetime64[s]").astype(np.int64)
    steps = np.diff(seconds)
    if (steps != steps[0]).any():
        return times
    return {"first": times[0], "step": int(steps[0]), "n": len(times)}


def _plain(value: Any) -> Any:
    """Plain containers; numbers have DIGITS digits, and None replaces numbers that are not finite."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value]


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@cache
def _library() -> tuple[str, str]:
    """plotly.js (cartesian charts): as text, and compressed as in the page, where the browser unpacks it."""
    packed = (ASSETS / "plotly.min.js.gz").read_bytes()
    return gzip.decompress(packed).decode(), base64.b64encode(packed).decode()


def hashes(texts: Iterable[str]) -> str:
    """Sources of a Content-Security-Policy that allow these scripts or styles."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _policy(scripts: Iterable[str]) -> str:
    """A policy that allows only these scripts, the page's own styles, and images created by the page."""
    return (
        f"default-src 'none'; script-src {hashes(scripts)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _scores(content: Content) -> str:
    both = [("In scaled units", content.scaled, RELATIVE), ("In the units of the data", content.original, ())]
    if len(content.columns) == 1:  # units of several columns cannot be compared
        both.reverse()
    tables = [_score_table(title, rows, content, without) for title, rows, without in both if rows]
    return "".join(tables)


def _score_table(title: str, rows: Mapping[str, Mapping[str, float]], content: Content, without: Sequence[str]) -> str:
    scores = rows.values()
    available = [name for name in HEADINGS if any(not math.isnan(each.get(name, math.nan)) for each in scores)]
    names = [name for name in available if name not in without]
    head = "".join(f'<th scope="col">{HEADINGS[name]}</th>' for name in names)
    body = ""
    for forecaster, each in rows.items():
        cells = "".join(f'<td data-label="{HEADINGS[name]}">{shown(each[name])}</td>' for name in names)
        skill = "" if math.isnan(each["skill"]) else signed(each["skill"])
        kind = ' class="own"' if forecaster == content.model else ""
        body += f'<tr{kind}><th scope="row">{escape(forecaster)}</th>{cells}<td data-label="Skill">{skill}</td></tr>'
    head = f'<th scope="col">Forecaster</th>{head}<th scope="col">Skill</th>'
    n = len(names) + 1
    across = n if n <= PHONE_COLUMNS else -(-n // 2)
    return (
        f'<div class="scroll"><table class="scores" style="--across:{across}"><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _problems(content: Content) -> str:
    if content.problems:
        return _list(content.problems)
    checked = bool(content.residuals)
    return "<p>None found.</p>" if checked else "<p>Not checked: the training data was not read.</p>"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _pairs(pairs: Mapping[str, str]) -> str:
    row = '<tr><th scope="row">{}</th><td>{}</td></tr>'
    rows = "".join(row.format(*map(escape, pair)) for pair in pairs.items() if pair[1])
    return f'<table class="pairs"><tbody>{rows}</tbody></table>'
