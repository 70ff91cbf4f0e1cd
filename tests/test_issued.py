"""Covariates as they were known, from the command line: scores, forecasts and rolling forecasts read no later issue."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done, refusal

from informer import Forecaster

N = 700
TIMES = pd.date_range("2023-01-01", periods=N, freq="h")
RUN = [
    "dataset=csv", "dataset.path=history.csv", "dataset.issued_at=issued", "targets=[load]",
    "future_covariates=[temp]", "seq_len=24", "pred_len=6", "trainer.tracker=[]",
]  # fmt: skip


def issued_rows() -> pd.DataFrame:
    """A load that follows the temperature; measured rows, and a forecast of it each morning."""
    rng = np.random.default_rng(0)
    temp = rng.normal(size=N)
    parts = [pd.DataFrame({"time": TIMES, "issued": pd.NaT, "temp": temp, "load": 50 - 5 * temp})]
    for first in range(6, N, 24):
        ahead = np.arange(first, min(first + 36, N))
        values = temp[ahead] + 0.5 * rng.normal(size=len(ahead))
        parts.append(pd.DataFrame({"time": TIMES[ahead], "issued": TIMES[first], "temp": values}))
    return pd.concat(parts).round({"temp": 3, "load": 3})


ROWS = issued_rows()
KNOWN_AT = ROWS["issued"].fillna(ROWS["time"])
END = TIMES[N - 40]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rows as known at END, and a linear run."""
    folder = tmp_path_factory.mktemp("issued")
    ROWS[ROWS["time"] <= END].to_csv(folder / "history.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "model=linear", "run_dir=run")
    return folder


@pytest.fixture(autouse=True)
def inside(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(top)


def newest(origin: pd.Timestamp, until: pd.Timestamp) -> pd.DataFrame:
    """The newest issue by the origin of each later row, by filtering."""
    ahead = ROWS[(ROWS["time"] > origin) & (ROWS["time"] <= until) & KNOWN_AT.le(origin)]
    return ahead.sort_values(["time", "issued"]).drop_duplicates("time", keep="last")[["time", "temp"]]


def test_the_scores_say_what_foresight_would_pretend() -> None:
    """Red if the scores have foresight, or the number next to them has none: the load follows the temperature, and
    errors of the forecast have a quarter of its variance."""
    metrics = json.loads(Path("run/metrics.json").read_text())
    honest = metrics["scores"]["linear"]["scaled"]["overall"]["mse"]
    foresight = metrics["breakdown"]["with foresight"]["scaled"]["mse"]
    (remark,) = (line for line in metrics["remarks"] if "foresight" in line)
    assert f"would be {foresight:.4g} instead of {honest:.4g}" in remark
    assert foresight < 0.01
    assert 0.2 < honest < 0.3


def test_a_forecast_reads_the_newest_issue_of_its_origin() -> None:
    """Red if `predict` reads an issue after the last row of history, or not the newest one before it: it must be the
    forecast from the rows that filtering finds."""
    ROWS[ROWS["time"] > END].drop(columns="load").to_csv("issues.csv", index=False)
    newest(END, END + pd.Timedelta("6h")).to_csv("plain.csv", index=False)
    for name in ("issues", "plain"):
        done("predict", "checkpoint=run", "input=history.csv", f"future={name}.csv", f"output={name}", "plots=false")
    one, two = (pd.read_csv(f"{name}/history.forecast.csv") for name in ("issues", "plain"))
    pd.testing.assert_frame_equal(one, two)
    together = ROWS[(ROWS["time"] <= END) | ROWS["issued"].notna()]  # rows ahead of the measured ones are no history
    from_python = Forecaster.load("run").predict(together, future=together)
    np.testing.assert_allclose(from_python["load"], one["load"], rtol=1e-5)
    together.to_csv("together.csv", index=False)
    words = ["target=load", "horizon=6", "dataset.issued_at=issued", "future_covariates=[temp]", "model=linear"]
    done("forecast", "together.csv", *words, "output=whole")
    done("predict", "checkpoint=whole", "input=history.csv", "future=plain.csv", "output=again", "plots=false")
    again = pd.read_csv("again/history.forecast.csv")
    whole = pd.read_csv("whole/forecasts/together.forecast.csv")
    pd.testing.assert_frame_equal(whole[["time", "load"]], again)
    np.testing.assert_allclose(again["load"], 50 - 5 * pd.read_csv("plain.csv")["temp"], atol=2.5)


def test_a_forecast_needs_what_was_issued() -> None:
    """Red if rows that were issued later, or measured ones, count as known ahead."""
    late = ROWS[(ROWS["time"] > END) & KNOWN_AT.gt(END)]
    late.drop(columns="load").to_csv("late.csv", index=False)
    error = refusal("predict", "checkpoint=run", "input=history.csv", "future=late.csv", "output=never", "plots=false")
    assert f"late.csv, as issued by {END}: expected future covariates for 6 times" in error
    assert f"missing: {TIMES[N - 39]}" in error


@pytest.mark.parametrize("horizon", [6, 12])
def test_what_is_issued_after_an_origin_changes_none_of_its_forecasts(horizon: int) -> None:
    """Red if a rolling forecast reads something that was issued after its origin: all of it is changed here. With 12
    rows half of them are forecast from the model's own output."""
    cut = TIMES[600]
    later = KNOWN_AT.gt(cut)
    ROWS.assign(temp=ROWS["temp"].mask(later, ROWS["temp"] - 30)).to_csv("changed.csv", index=False)
    ROWS.to_csv("whole.csv", index=False)
    tables = []
    for name in ("whole", "changed"):
        done(
            "predict", "checkpoint=run", f"input={name}.csv", "mode=rolling", "stride=1", f"horizon={horizon}",
            f"output={name}_{horizon}", f"from={TIMES[560]}",
        )  # fmt: skip
        tables.append(pd.read_csv(f"{name}_{horizon}/{name}.rolling.csv", parse_dates=["origin"]))
    one, two = tables
    assert (one["origin"] == two["origin"]).all()
    before = one["origin"] <= cut
    assert before.sum() > 100
    assert (one["forecast"] == two["forecast"])[before].all()
    soon = (one["origin"] > cut) & (
        one["origin"] <= TIMES[620]
    )  # until the history has changed as much as what is ahead
    assert not np.isclose(one["forecast"], two["forecast"])[soon].any()


def test_a_covariate_whose_forecasts_do_not_help_has_no_effect() -> None:
    """Red if effects are chosen as if measured values were known ahead: these forecasts know nothing."""
    noise = np.random.default_rng(1).normal(size=len(ROWS))
    ROWS.assign(temp=ROWS["temp"].where(ROWS["issued"].isna(), noise)).to_csv("noise.csv", index=False)
    outcome = done("train", *RUN, "model=linear", "dataset.path=noise.csv", "run_dir=noise")
    assert "known ahead, with an effect on held-out blocks: none of temp" in outcome.out + outcome.err
    assert "with an effect on held-out blocks: temp of temp" in Path("run/train.log").read_text()


def test_a_network_reads_them() -> None:
    """Red if a network cannot be trained with issues, or its scores do not say what foresight would pretend."""
    small = ["model=tiny", "label_len=6", "trainer.max_epochs=2", "optim.lr=1e-2", "run_dir=network"]
    outcome = done("train", *RUN, *small)
    assert "with foresight that no forecast has, the scaled MSE of informer" in outcome.err + outcome.out


@pytest.mark.parametrize(
    ("entry", "words", "message"),
    [
        ("train", [*RUN[:4], *RUN[5:]], "dataset.issued_at: history has no columns known ahead, which are issued"),
        ("forecast", ["history.csv", "dataset.issued_at=issued"], "expected the columns that are issued"),
        ("watch", ["checkpoint=run", "input=whole.csv"], "watch does not support covariates that are issued"),
        ("predict", ["checkpoint=run", "input=plain.csv", "mode=rolling"], "issued_at=issued: plain.csv has no such"),
        ("predict", ["checkpoint=run", "input=whole.csv", "mode=rolling", "horizon=60"], "choose a shorter horizon"),
    ],
)
def test_what_is_not_supported_is_one_line(entry: str, words: list[str], message: str) -> None:
    ROWS.to_csv("whole.csv", index=False)
    ROWS[ROWS["issued"].isna()].drop(columns="issued").to_csv("plain.csv", index=False)
    assert message in refusal(entry, *words, *(["model=linear"] if entry == "train" else []))


def test_text_is_refused_with_a_cure() -> None:
    """Red if categories that are issued are read, or the cure that is named does not help."""
    ROWS[ROWS["time"] <= END].assign(sky="clear").to_csv("sky.csv", index=False)
    words = [*RUN, "model=linear", "dataset.path=sky.csv", "future_covariates=[temp,sky]"]
    assert "found categories in sky; leave them out with dataset.exclude=[sky]" in refusal("train", *words)
    done("train", *words[:-1], "dataset.exclude=[sky]", "run_dir=without_sky")


def test_inspect_says_which_setting_reads_them() -> None:
    assert "dataset.issued_at=issued" in call("inspect", "history.csv").out
    assert "'future_covariates=[...]'" in done("inspect", "history.csv", "dataset.issued_at=issued").out
