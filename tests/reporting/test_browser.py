"""The page in headless Chromium: no error, no request, choices change what is drawn, values are those of the run."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMN, HOSTILE
from entry_points import done

pytestmark = pytest.mark.slow

MOST_SECONDS = 60
"""How long a page may take on a machine that is busy with other tests."""


class Opened:
    """A page in the browser, with all that it logged and asked for."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(path.as_uri())
        self.until("document.documentElement.dataset.ready === 'true'")

    def run(self, expression: str) -> Any:
        return self.browser.execute_script(f"return {expression}")

    def until(self, expression: str) -> None:
        from selenium.webdriver.support.wait import WebDriverWait  # which the `browser` fixture has found

        waiting = WebDriverWait(self.browser, MOST_SECONDS, poll_frequency=0.05)
        waiting.until(lambda _: self.run(expression), f"never came true: {expression}")

    def choose(self, element: str, value: str) -> None:
        self.browser.execute_script(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change'));", element, value,
        )  # fmt: skip

    def trace(self, name: str, chart: str = "explorer") -> Any:
        return self.run(
            f"document.getElementById({chart!r}).data.filter((each) => each.name === {json.dumps(name)})"
            ".map((each) => ({x: each.x, y: each.y}))[0]"
        )

    def errors(self) -> list[str]:
        return [each["message"] for each in self.browser.get_log("browser")]

    def requests(self) -> set[str]:
        """Schemes of requests, except for the page itself and its content."""
        messages = [json.loads(each["message"])["message"] for each in self.browser.get_log("performance")]
        asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        own = self.browser.current_url
        return {url for url in asked if not url.startswith((own, "data:", "blob:", "chrome:"))}


@contextmanager
def phone(browser: Any) -> Iterator[None]:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(scope="module")
def page(browser: Any, panel_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    path = tmp_path_factory.mktemp("page") / "report.html"
    done("report", str(panel_run), f"output={path}")
    return Opened(browser, path)


@pytest.fixture(scope="module")
def rolled(panel_run: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The forecasts of every origin, as another command writes them."""
    output = tmp_path_factory.mktemp("rolled")
    data = panel_run.parent / "data.csv"
    done("predict", f"checkpoint={panel_run}", f"input={data}", "mode=rolling", "stride=1", f"output={output}")
    return pd.read_csv(output / "data.rolling.csv")


def test_the_page_opens_without_errors_or_requests(page: Opened) -> None:
    """Every chart is drawn, the first shows the column of the first sentence, and hostile names did not run."""
    assert page.run("document.getElementById('column').value") == COLUMN
    page.run("dispatchEvent(new Event('beforeprint'))")
    charts = "[...document.querySelectorAll('.chart')].filter((each) => each.offsetParent !== null)"
    assert page.run(f"{charts}.length") >= 8
    page.until(f"{charts}.every((each) => each.querySelector('.main-svg'))")
    assert page.run("document.title") == "data: 6 hours ahead"
    assert page.run("document.images.length") == 0
    assert page.errors() == []
    assert page.requests() == set()


@pytest.mark.parametrize(("series", "column"), [("north", "visits"), (HOSTILE, COLUMN)])
def test_the_choices_draw_the_values_of_the_csv(
    page: Opened, rolled: pd.DataFrame, panel_run: Path, series: str, column: str
) -> None:
    page.choose("series", series)
    page.choose("column", column)
    own = rolled[(rolled["store"] == series) & (rolled["column"] == column)]
    # the last one is what follows the data
    for place in ("0", str(int(page.run("document.getElementById('origin').max")) - 1)):
        page.choose("origin", place)
        drawn = page.trace("forecast")
        rows = own[(own["when"] == drawn["x"][0]) & (own["step"] == 1)]
        expected = own[own["origin"] == rows["origin"].iloc[0]].sort_values("step")
        assert drawn["x"] == expected["when"].tolist()
        assert drawn["y"] == pytest.approx(expected["forecast"].tolist(), rel=1e-4, abs=1e-4)
    data = pd.read_csv(panel_run.parent / "data.csv")
    known = data[data["store"] == series].set_index("when")[column]
    actual = page.trace("actual")
    assert actual["y"] == pytest.approx(known[actual["x"]].tolist(), rel=1e-5)


def test_the_slider_says_where_it_is_and_stops_at_its_ends(page: Opened) -> None:
    """By hand: buttons and keys; red if a label is that of another origin."""
    n = int(page.run("document.getElementById('origin').max")) + 1
    slider, earlier, later = (page.browser.find_element("id", name) for name in ("origin", "earlier", "later"))

    def where() -> tuple[int, str]:
        label = page.run("document.getElementById('origin-label').textContent")
        assert slider.get_attribute("aria-valuetext") == label
        match = re.fullmatch(rf"Forecast (\d+) of {n}, after (.*)", label)
        assert match is not None
        # the line in the chart is at the same time, one hour before the first value
        assert page.run("document.getElementById('explorer').layout.shapes[0].x0") == f"{match[2]}:00"
        first = pd.Timestamp(page.trace("forecast")["x"][0])
        assert first - pd.Timestamp(match[2]) == pd.Timedelta("1h")
        return int(match[1]), match[2]

    page.choose("origin", str(n - 1))
    assert where()[0] == n
    assert (earlier.is_enabled(), later.is_enabled()) == (True, False)
    earlier.click()
    assert where()[0] == n - 1
    later.click()
    assert where()[0] == n
    slider.send_keys("\ue011")  # Home
    assert where()[0] == 1
    assert (earlier.is_enabled(), later.is_enabled()) == (False, True)
    slider.send_keys("\ue014")  # right arrow
    assert where()[0] == 2


def test_what_is_chosen(page: Opened, panel_run: Path) -> None:
    """Red if an order, the search, the metric or the colours change nothing, or if a line that was shown is hidden
    after an origin without it: the last one has no baselines."""
    names = "[...document.getElementById('series').options].map((each) => each.value)"
    page.choose("order", "worst")
    worst = page.run(names)
    page.choose("order", "best")
    assert page.run(names) == worst[::-1]
    page.choose("find", "south")
    assert page.run("document.querySelectorAll('#all tbody tr').length") == 2
    page.choose("find", "")
    assert page.run("document.querySelectorAll('#all tbody tr').length") == 6
    table = pd.read_csv(panel_run / "metrics.csv")
    own = table[(table["model"] == "informer") & (table["units"] == "scaled") & (table["step"] != "all")]
    page.run("dispatchEvent(new Event('beforeprint'))")
    for metric in ("mae", "mse"):
        page.choose("metric", metric)
        drawn = page.trace("informer", "chart-step")
        assert drawn["y"] == pytest.approx(own[own["metric"] == metric]["value"].tolist(), rel=1e-5)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.run(colour)
    page.run("document.getElementById('theme').click()")
    assert page.run(colour) != before
    visible = "Object.fromEntries(document.getElementById('explorer').data.map((each) => [each.name, each.visible]))"
    last = int(page.run("document.getElementById('origin').max"))
    page.choose("origin", str(last - 1))
    before = page.run(visible)
    assert before["ridge"] == "legendonly"
    entries = page.browser.find_elements("css selector", "#explorer .legend .traces")
    (entry,) = (each for each in entries if each.text.strip() == "ridge")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", entry)
    entry.find_element("css selector", ".legendtoggle").click()
    page.until(f"({visible}).ridge === true")
    page.choose("origin", str(last))
    assert "ridge" not in page.run(visible)
    page.choose("origin", str(last - 2))
    assert page.run(visible) == before | {"ridge": True}
    assert page.errors() == []


def test_nothing_moves_and_nothing_is_wider_than_a_phone(browser: Any, page: Opened) -> None:
    """The sum of layout shifts, as browsers measure it, stays below a tenth of what counts as good (0.1)."""
    path = Path(page.run("location.pathname"))
    browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {"source": "window.shift = 0; new PerformanceObserver((list) => { for (const each of list.getEntries()) "
                   "window.shift += each.value; }).observe({type: 'layout-shift', buffered: true});"},
    )  # fmt: skip
    with phone(browser):
        opened = Opened(browser, path)
        opened.until("document.querySelector('#explorer .main-svg') !== null")
        assert opened.run("window.shift") < 0.01
        assert opened.run("document.documentElement.scrollWidth") == 390
        table = "document.getElementById('all')"
        assert opened.run(f"{table}.scrollWidth <= {table}.parentNode.clientWidth"), "its buttons are off screen"


def test_an_explanation_shows_the_forecast_and_its_sources(browser: Any, folder: Path) -> None:
    """Red if the line is not the forecast of `predict`, also where it is clipped at zero, or if the bars are not the
    sources of the table."""
    rng, n = np.random.default_rng(0), 200
    frame = pd.DataFrame({"day": pd.date_range("2023-01-01", periods=n + 7), "price": rng.normal(20, 3, n + 7)})
    frame["promo"] = (rng.random(n + 7) < 0.3).astype(int)
    frame.loc[n + 2 : n + 3, "promo"] = 1
    frame["<b>sky"] = rng.choice(["rain", "sun"], n + 7)
    frame["sold"] = (60 - 2.5 * frame["price"] + 9 * frame["promo"] + rng.normal(size=n + 7)).clip(0).round(1)
    frame[:n].to_csv("sold.csv", index=False)
    ahead = frame[n:].drop(columns="sold")
    known = "future_covariates=[price,promo,<b>sky]"
    done(
        "train", "dataset=csv", "dataset.path=sold.csv", "model=linear", "targets=[sold]", known, "seq_len=28",
        "pred_len=7", "non_negative=all", "trainer.tracker=[]", "run_dir=run",
    )  # fmt: skip

    ahead.assign(price=ahead["price"] + 8).to_csv("ahead.csv", index=False)
    done("predict", "run", "sold.csv", "future=ahead.csv", "output=out", "digits=null")
    usual = pd.read_csv("out/sold.forecast.csv")["sold"].tolist()
    assert min(usual) == 0
    done("explain", "run", "input=sold.csv", "future=ahead.csv")
    opened = Opened(browser, folder / "run" / "explanation" / "report.html")
    opened.run("dispatchEvent(new Event('beforeprint'))")
    table = pd.read_csv("run/explanation/explanation.csv").pivot(index="step", columns="source", values="value")
    level = table["level"].to_numpy()

    def line(name: str) -> list[float]:
        return (np.array(opened.trace(name, "sources")["y"]) + level).tolist()

    assert line("forecast") == pytest.approx(usual, abs=1e-3)
    assert opened.trace("promo", "sources")["y"] == pytest.approx(table["promo"].tolist(), abs=1e-3)
    assert opened.errors() == []
    assert opened.requests() == set()
    with phone(browser):
        again = Opened(browser, folder / "run" / "explanation" / "report.html")
        assert again.run("document.documentElement.scrollWidth") == 390
