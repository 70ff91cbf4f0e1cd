"""Rows of the test part decide nothing about what is chosen, fitted and forecast from the rows before them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from informer import Forecaster

ROWS, TEST = 300, 60
SPLIT = {"dataset.split.train": 0.6, "dataset.split.val": 0.2, "dataset.split.test": TEST / ROWS}
SIZES = {"seq_len": 24, "label_len": 12, "pred_len": 6, "trainer.tracker": []}
KNOWN = {"future_covariates": ["price", "promo"], "dataset.categorical": ["promo"], "targets": ["y"]}


def series(step: str = "h", seed: int = 0) -> pd.DataFrame:
    """Waves with noise, and two columns known ahead that move them."""
    rng, n = np.random.default_rng(seed), np.arange(ROWS)
    price, promo = rng.normal(size=ROWS), rng.choice(["no", "tv"], ROWS)
    y = 10 + 3 * np.sin(2 * np.pi * n / 24) + rng.normal(size=ROWS) + 2 * price + 4 * (promo == "tv")
    return pd.DataFrame(
        {"date": pd.date_range("2023", periods=ROWS, freq=step), "y": y, "price": price, "promo": promo}
    )


def other_end(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with other numbers in the last rows of each series: another season, range and level."""
    parts = []
    for _, part in frame.groupby("shop", sort=False) if "shop" in frame else [("", frame)]:
        is_test = np.arange(len(part)) >= len(part) - TEST
        wave = 1e3 * np.sin(2 * np.pi * np.arange(len(part)) / 10) - 500
        parts.append(
            part.assign(y=part["y"].mask(is_test & part["y"].notna(), wave), price=part["price"] + 50 * is_test)
        )
    return pd.concat(parts)


def numbers(**changed: Any) -> pd.DataFrame:
    """A series of numbers with other values in some rows: y300 is that of row 300."""
    frame = series()[["date", "y", "price"]]
    frame.loc[[int(name[1:]) for name in changed], "y"] = [*changed.values()]
    return frame


SHOPS = pd.concat([series(seed=k).assign(shop=f"s{k}") for k in range(2)])
GAPS = dict.fromkeys(["y30", "y31", "y200", "y238", "y239"], np.nan)
CASES: dict[str, tuple[str, pd.DataFrame, dict[str, Any]]] = {
    "a gap up to the test part": ("linear", numbers(**GAPS), {"dataset.fill": "linear"}),
    "an outlier": ("linear", numbers(y50=1500.0), {"dataset.fill": "mask", "dataset.outliers": "missing"}),
    "columns known ahead of several series": (
        "linear", SHOPS, {**KNOWN, "dataset.series_col": "shop", "dataset.holidays": ["DE"]},
    ),
    "a network": ("tiny", SHOPS, {**KNOWN, "dataset.series_col": "shop", "trainer.max_steps": 8}),
    "the pretrained network": ("zero", numbers(), {"trainer.max_steps": 3}),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if CASES[name][0] != "linear" else []) for name in CASES]
)
def test_other_rows_of_the_test_part(name: str) -> None:
    """Red if a filled gap, an outlier, a scaler, a fit, a calibration or a choice depends on rows of the test part."""
    model, frame, settings = CASES[name]
    target = {} if "targets" in settings else {"target": "y"}
    before = frame[frame["date"] < frame["date"].iloc[ROWS - TEST]]
    found = [
        Forecaster(model, **SPLIT, **SIZES, **target, **settings).fit(rows).backtest(before, intervals=80)
        for rows in (frame, other_end(frame))
    ]
    pd.testing.assert_frame_equal(*found, check_exact=True)


@pytest.mark.parametrize("known", [False, True])
def test_later_rows_decide_nothing_about_earlier_forecasts_without_training(known: bool) -> None:
    """Red if the seasons of a forecast from earlier rows are those of all rows, or forecasts do not follow the rows."""
    frame = series("D")[["date", "y", "price"]] if known else series("D")[["date", "y"]]
    forecaster = Forecaster(future_covariates=["price"] if known else [])
    tables = [
        forecaster.backtest(rows, horizon=10, start="2023-07-15")
        for rows in (frame, other_end(frame) if known else other_end(frame.assign(price=0.0))[["date", "y"]])
    ]
    border = frame["date"].iloc[ROWS - TEST]
    before = [table[table.groupby("origin")["date"].transform("max") < border] for table in tables]
    assert len(before[0]) > 0
    pd.testing.assert_frame_equal(*before, check_exact=True)
    assert (tables[0]["forecast"] != tables[1]["forecast"]).any()
