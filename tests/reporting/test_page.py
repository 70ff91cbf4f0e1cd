"""The page as text: what comes from data stays text, nothing is fetched, the policy fits the scripts."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_browser import Opened

from informer.report.page import Content, profile, to_html
from informer.scoring.results import MAX_TRACKS, chosen_pairs

HOSTILE = "</script><img src=x onerror=alert(1)><!-- {{script}} \u2028 &amp; \" '"


class Tags(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data


def hostile() -> Content:
    """Every text that may come from data is hostile."""
    lines = {HOSTILE: [1.0, float("nan")]}
    origin = {"row": 0, "times": [], "lines": lines, "bands": {}}
    score = {"series": HOSTILE, "column": HOSTILE, "windows": 1, "mse": 1.0, "skill": 0.1, "track": -1}
    return Content(
        title=HOSTILE, subtitle=HOSTILE, verdict=HOSTILE, model=HOSTILE, columns=[HOSTILE], shown=HOSTILE,
        cards=[(HOSTILE, HOSTILE, HOSTILE)],
        scaled={HOSTILE: {"mse": 1.0, "skill": 0.5}},
        remarks=[HOSTILE], problems=[HOSTILE], attention_window=HOSTILE, command=HOSTILE,
        settings={HOSTILE: HOSTILE}, facts={HOSTILE: HOSTILE},
        profiles=[profile("step", HOSTILE, [HOSTILE, "b"], lines, lines, axis=HOSTILE)],
        times=[["2024-01-01", "2024-01-02"]],
        tracks=[{"series": HOSTILE, "column": HOSTILE, "times": 0, "actual": [1.0], "origins": [origin]}],
        series=[score] * 2,
    )  # fmt: skip


def test_names_from_data_stay_text() -> None:
    """Red when text is inserted without escaping, or inserted text is substituted again."""
    tags = Tags(to_html(hostile()))
    assert [tag for tag, _ in tags.found if tag == "img"] == []
    assert [tag for tag, _ in tags.found].count("script") == 3
    assert not any(name.startswith("on") for _, attributes in tags.found for name in attributes)
    assert not set("<>&\u2028\u2029") & set(tags.scripts[0])
    content = json.loads(tags.scripts[0])
    assert content["tracks"][0]["column"] == HOSTILE
    assert content["profiles"][0]["mse"][HOSTILE] == [1.0, None]


def test_nothing_is_fetched_and_only_its_own_scripts_may_run() -> None:
    page = to_html(hostile())
    tags = Tags(page)
    links = [each for _, attributes in tags.found for key, each in attributes.items() if key in ("src", "href")]
    assert links == ["data:,"]
    policy = next(each["content"] for tag, each in tags.found if each.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert not re.search(r"script-src[^;]*unsafe", policy)
    library = gzip.decompress(base64.b64decode(tags.scripts[1])).decode()
    assert library.startswith("/**\n* plotly.js")
    for script in (tags.scripts[2], library):
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "http://" not in tags.scripts[2]
    assert "https://" not in tags.scripts[2]


@pytest.mark.parametrize("columns", [["load"], ["load", "heat"]])
def test_units_of_the_data_come_first_where_columns_share_them(columns: list[str]) -> None:
    scores = {"naive": {"mse": 1.0, "skill": 0.5}}
    page = to_html(Content(title="f", verdict="v", model="naive", columns=columns, scaled=scores, original=scores))
    assert (page.index("In the units of the data") < page.index("In scaled units")) == (columns == ["load"])


def test_few_pairs_are_all_held_and_of_many_the_worst_best_and_some_between() -> None:
    assert chosen_pairs(np.array([[1.0, 3.0], [np.nan, 2.0]]), 48) == [(0, 1), (1, 1), (0, 0)]
    mse = np.random.default_rng(0).permutation(5000.0 + np.arange(5000))[:, None]
    many = chosen_pairs(mse, MAX_TRACKS)
    errors = [float(mse[pair]) for pair in many]
    assert len(set(many)) == MAX_TRACKS
    assert errors == sorted(errors, reverse=True)
    assert errors[:16] == [9999.0 - i for i in range(16)]
    assert errors[-16:] == [5015.0 - i for i in range(16)]


def test_the_target_is_held_whatever_its_error() -> None:
    """Twenty columns of which the last has a middling error, that a page of six pairs would leave out."""
    mse = np.arange(20.0)[None]
    mse[0, 19] = 8.25
    assert (0, 19) in chosen_pairs(mse, 6)
    assert (0, 12) in chosen_pairs(mse, 6, main=12)
    assert len(set(chosen_pairs(mse, 6, main=12))) == 6


def test_times_of_equal_steps_are_counted() -> None:
    """Red when months, whose steps differ, are taken for equal ones."""
    months = ["2024-01-31", "2024-02-29", "2024-03-31"]
    page = to_html(Content(title="a", verdict="b", times=[["2024-02-28", "2024-02-29", "2024-03-01"], months]))
    assert json.loads(Tags(page).scripts[0])["times"] == [{"first": "2024-02-28", "step": 86400, "n": 3}, months]


@pytest.mark.slow
def test_a_page_of_5000_series_is_small_and_draws_one_chart_first(browser: Any, tmp_path: Path) -> None:
    """The largest page: 48 tracks of 40 origins; only charts near the viewport are drawn at first."""
    times = [str(each) for each in pd.date_range("2024-01-01", periods=5000, freq="h")]
    line = [123.456 + i / 7 for i in range(24)]
    lines = dict.fromkeys(("informer", "ridge", "seasonal naive", "without the network"), line)
    bands = {"95 %": (line, line), "80 %": (line, line)}
    origins = [{"row": 100 + 24 * i, "times": [], "lines": lines, "bands": bands} for i in range(40)]
    tracks = [
        {"series": f"store {i}", "column": "sales", "times": i, "actual": [123.456 + k / 7 for k in range(5000)],
         "origins": origins, "mse": 1.0 - i / 100, "skill": 0.1}
        for i in range(MAX_TRACKS)
    ]  # fmt: skip
    error = {"informer": [1.0, 2.0]}
    score = {"column": "sales", "windows": 9, "mse": 1.0, "skill": 0.1, "track": -1}
    content = Content(
        title="many",
        verdict="many series",
        times=[times] * MAX_TRACKS,
        tracks=tracks,
        series=[score | {"series": f"store {i}"} for i in range(5000)],
        profiles=[profile(key, key, [1, 2], error, error) for key in ("step", "hour")],
    )
    path = tmp_path / "report.html"
    path.write_text(to_html(content))
    assert path.stat().st_size < 10e6
    opened = Opened(browser, path)
    opened.until("document.querySelector('#explorer .main-svg') !== null")
    assert opened.run("document.querySelectorAll('#all tbody tr').length") == 200
    assert opened.run("document.getElementById('series').options.length") == MAX_TRACKS
    assert opened.errors() == []
