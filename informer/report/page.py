"""A report as one HTML file: everything inline, no network requests.

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
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from html import escape
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from informer.base.errors import InputError
from informer.report.content import Card, Content, ScoreRow, TextTable, Tone, signed
from informer.scoring.metrics import HEADINGS, RELATIVE

ASSETS = Path(__file__).parent / "assets"
DIGITS = 6
"""Significant digits of numbers in the page."""
OWN_PAGE = b'<meta name="generator" content="informer">'
"""What tells a page from one that is not replaced."""
PHONE_COLUMNS = 4
"""Maximum number of scores next to each other on a phone; more are in two lines."""
LOSSES_NOTE = "The training loss is the mean over the steps of an epoch; horizontal lines: baselines' validation losses"
SIGNS = {Tone.good: "✓", Tone.level: "≈", Tone.bad: "!", Tone.neutral: "i"}
_STATIC = (
    *("title", "subtitle", "verdict", "tone", "cards", "scaled", "original", "tables", "remarks", "problems"),
    *("command", "settings", "facts", "shown", "sources_note"),
)
"""Parts that are inserted as HTML, not as chart data."""


def to_html(content: Content) -> str:
    """The page as HTML.

    Raises:
        InputError: plotly is not installed.
    """
    library, packed = _library()
    script = _asset("page.js")
    charts = {each.name: getattr(content, each.name) for each in fields(content) if each.name not in _STATIC}
    charts["times"] = [_grid(times) for times in content.times]
    about_losses = (
        "" if content.losses is None else "; ".join(filter(None, [LOSSES_NOTE, content.losses["note"]])) + "."
    )
    placeholders = {
        "csp": _policy([script, library]),
        "title": escape(content.title),
        "style": _asset("page.css"),
        "subtitle": escape(content.subtitle),
        "tone": content.tone.value,
        "sign": SIGNS[content.tone],
        "verdict": escape(content.verdict),
        "cards": "".join(map(_card, content.cards)),
        "explorer_hidden": _hidden(not content.tracks),
        "shown": escape(content.shown),
        "sources_hidden": _hidden(not content.sources),
        "sources_note": escape(content.sources_note),
        "changes_hidden": _hidden(not any(each["changes"] for each in content.sources)),
        "cards_hidden": _hidden(not content.cards),
        "scores": _scores(content),
        "scores_hidden": _hidden(not (content.scaled or content.original or content.tables or content.remarks)),
        "coverage_hidden": _hidden(not content.coverage),
        "columns_hidden": _hidden(len(content.columns) < 2),
        "residuals_hidden": _hidden(content.residuals is None),
        "losses_hidden": _hidden(content.losses is None),
        "losses_note": escape(about_losses),
        "attention_hidden": _hidden(not content.attention),
        "attention_window": escape(content.attention_window),
        "series_hidden": _hidden(len(content.series) < 2),
        "figures": "".join(_figure(profile.key, profile.title, profile.note) for profile in content.profiles),
        "figures_hidden": _hidden(not content.profiles),
        "problems": _problems(content),
        "problems_hidden": _hidden(not content.settings),
        "settings_hidden": _hidden(not content.settings),
        "remarks": _list(content.remarks),
        "remarks_hidden": _hidden(not content.remarks),
        "command": escape(content.command),
        "command_hidden": _hidden(not content.command),
        "facts": _pairs(content.facts),
        "settings": _pairs(content.settings),
        "run_hidden": _hidden(not (content.facts or content.settings)),
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


def _grid(times: Sequence[str]) -> Sequence[str] | dict[str, Any]:
    """Equally spaced times as first time, step in seconds and count, since text would dominate a large page."""
    if len(times) < 3:
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
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value]


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@cache  # compressing takes as long as reading a run
def _library() -> tuple[str, str]:
    """plotly.js as text, and compressed to a third of its size for the page, where the browser decompresses it."""
    spec = find_spec("plotly")  # the Python package, which takes a second to import, is not imported
    if spec is None or not spec.submodule_search_locations:
        raise InputError("report: expected plotly, found none; pip install plotly")
    path = Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: expected plotly's own file, found {error.strerror}; install plotly again") from error
    # normalise line endings as browsers do, since they are part of the hash
    text = raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    return text, base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _policy(scripts: Iterable[str]) -> str:
    """A policy that allows only these scripts, the page's own styles, and images created by the page."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hidden(condition: bool) -> str:
    return "hidden" if condition else ""


def _card(card: Card) -> str:
    label, value, hint = map(escape, (card.label, card.value, card.hint))
    return f'<div class="card"><dt>{label}</dt><dd>{value}</dd><p>{hint}</p></div>'


def _figure(key: str, title: str, note: str) -> str:
    return (
        f'<figure class="panel"><h3>{escape(title)}</h3><div class="chart" id="chart-{escape(key)}"></div>'
        f"<figcaption>{escape(note)}</figcaption></figure>"
    )


def _scores(content: Content) -> str:
    both = [("In scaled units", content.scaled, RELATIVE), ("In the units of the data", content.original, ())]
    if len(content.columns) == 1:  # units of several columns cannot be compared
        both.reverse()
    tables = [_score_table(title, rows, content, without) for title, rows, without in both if rows]
    return "".join([*tables, *map(_text_table, content.tables)])


def _text_table(table: TextTable) -> str:
    head = "".join(f'<th scope="col" class="text">{escape(name)}</th>' for name in table.head)
    body = _grouped_rows(table.rows) if table.grouped else f"<tbody>{''.join(map(_text_row, table.rows))}</tbody>"
    kind = ' class="grouped"' if table.grouped else ""
    return (
        f'<div class="scroll"><table{kind}><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>'
        f"{body}</table></div>"
    )


def _text_row(cells: Sequence[str], before: str = "") -> str:
    cells_html = "".join(f'<td class="text">{escape(cell)}</td>' for cell in cells)
    return f"<tr>{before}{cells_html}</tr>"


def _grouped_rows(rows: Sequence[Sequence[str]]) -> str:
    """Rows with the same first cell as a group with one heading."""
    groups = []
    for name, group in groupby(rows, key=lambda row: row[0]):
        first, *other_rows = [row[1:] for row in group]
        breakable = escape(name).replace(".", ".<wbr>")  # dotted keys wrap after their dots
        heading = f'<th scope="rowgroup" class="text" rowspan="{1 + len(other_rows)}">{breakable}</th>'
        groups.append(f"<tbody>{_text_row(first, heading)}{''.join(map(_text_row, other_rows))}</tbody>")
    return "".join(groups)


def _score_table(title: str, rows: Sequence[ScoreRow], content: Content, without: Sequence[str]) -> str:
    available = [name for name in HEADINGS if any(not math.isnan(row.metrics.get(name, math.nan)) for row in rows)]
    names = [name for name in available if name not in without]
    head = "".join(f'<th scope="col">{HEADINGS[name]}</th>' for name in names)
    body = ""
    for row in rows:
        cells = "".join(f'<td data-label="{HEADINGS[name]}">{_shown(row.metrics[name])}</td>' for name in names)
        skill = "" if math.isnan(row.skill) else signed(row.skill)
        kind = ' class="own"' if row.name == content.model else ""
        body += f'<tr{kind}><th scope="row">{escape(row.name)}</th>{cells}<td data-label="Skill">{skill}</td></tr>'
    head = f'<th scope="col">{content.scored}</th>{head}<th scope="col">Skill</th>'
    n = len(names) + 1
    across = n if n <= PHONE_COLUMNS else -(-n // 2)
    return (
        f'<div class="scroll"><table class="scores" style="--across:{across}"><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"


def _problems(content: Content) -> str:
    if content.problems:
        return _list(content.problems)
    checked = bool(content.residuals)
    return "<p>None found.</p>" if checked else "<p>Not checked: the training data was not read.</p>"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _pairs(pairs: Mapping[str, str]) -> str:
    cells = ((escape(key), escape(value)) for key, value in pairs.items() if value)
    rows = "".join(f'<tr><th scope="row">{key}</th><td>{value}</td></tr>' for key, value in cells)
    return f'<table class="pairs"><tbody>{rows}</tbody></table>'
