"""model=linear against scikit-learn's ridge on materialised windows, with the penalties that its log names."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done
from sklearn.linear_model import Ridge

from informer import Forecaster

SEQ, PRED, ROWS = 80, 4, 420
RUN = ["dataset=csv", "dataset.path=f.csv", "model=linear", f"seq_len={SEQ}", "label_len=0", f"pred_len={PRED}"]


def table(seed: int = 0) -> pd.DataFrame:
    """Hours of two columns that remember, of which the second follows the first, with a time of day."""
    rng, y = np.random.default_rng(seed), np.zeros((ROWS, 2))
    for row in range(1, ROWS):
        y[row] = y[row - 1] @ [[0.3, 0.9], [0.0, 0.3]] + rng.normal(size=2)
    day = np.sin(2 * np.pi * np.arange(ROWS) / 24)[:, None] * y.std(axis=0)
    stamps = pd.date_range("2021-03-01 05:00", periods=ROWS, freq="h")
    return pd.DataFrame({"date": stamps, **dict(zip("ab", (y + day).T, strict=True))})


def penalties_in(log: str) -> dict[int, dict[str, float]]:
    """By rows of history, the penalties that were chosen."""
    found = re.findall(r"(\d+) rows of history with penalties ((?:\w+ [\w.e+]+,? ?)+)", log)
    return {
        int(rows): {name: float(x) for name, x in (pair.split() for pair in text.split(", "))} for rows, text in found
    }


def solved(x: np.ndarray, y: np.ndarray, penalty: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """argmin |x w - y|^2 + sum penalty (w - prior)^2 by scikit-learn: inputs are divided by the roots of penalties."""
    fit = Ridge(1.0, fit_intercept=False, solver="svd").fit(x / penalty**0.5, y - x @ prior)
    return prior + fit.coef_.T / penalty[:, None] ** 0.5


def designs(values: np.ndarray, rows: int, origins: range) -> list[dict[str, np.ndarray]]:
    """Of each column, its history minus its mean, and the newest rows of the other column."""
    found = []
    for column in range(2):
        history = np.stack([values[o - rows : o, column] for o in origins])
        other = np.stack([values[o - SEQ : o, 1 - column] for o in origins])
        mean, newest = history.mean(axis=1, keepdims=True), other[:, -24:] - other.mean(axis=1, keepdims=True)
        found.append({"own": history - mean, "others": newest, "mean": mean})
    return found


def by_hand(values: np.ndarray, chosen: dict[int, dict[str, float]], last: int) -> np.ndarray:
    """Forecast after the last row, by maps of the windows that end at row `last`."""
    forecasts, origins = [], range(SEQ, last - PRED + 1)
    for rows, penalty in chosen.items():
        x, now = designs(values, rows, origins), designs(values, rows, range(len(values), len(values) + 1))
        y = [np.stack([values[o : o + PRED, c] for o in origins]) - x[c]["mean"] for c in range(2)]
        age = np.maximum(np.arange(rows, 0, -1) / 24, 0.2) ** penalty["taper"]
        both = np.concatenate([each["own"] for each in x])
        shared = solved(both, np.concatenate(y), penalty["shared"] * age * (both**2).mean(), np.zeros((rows, PRED)))
        columns = []
        for c in range(2):
            inputs = np.hstack([x[c]["own"], x[c]["others"]])
            own = min(penalty["own"], 1e12) * age * (x[c]["own"] ** 2).mean()
            pens = np.concatenate([own, min(penalty["others"], 1e12) * (x[c]["others"] ** 2).mean(axis=0)])
            weight = solved(inputs, y[c], pens, np.concatenate([shared, np.zeros((24, PRED))]))
            columns.append((np.hstack([now[c]["own"], now[c]["others"]]) @ weight + now[c]["mean"])[0])
        forecasts.append(np.stack(columns, axis=1))
    return np.mean(forecasts, axis=0)


@pytest.mark.parametrize("refit", [False, True])
def test_maps_are_those_of_scikit_learn_on_the_windows(refit: bool, folder: Path) -> None:
    """Red when a penalty, an input, the average of lookbacks or the windows of the fit are others: those of training,
    with trainer.refit all."""
    frame = table()
    frame.to_csv("f.csv", index=False)
    outcome = done("train", *RUN, f"trainer.refit={str(refit).lower()}", "trainer.calibration=0", "run_dir=run")
    chosen = penalties_in(outcome.out)
    assert set(chosen) == {72, 80}  # three days, and seq_len, which is shorter than a week
    assert all(np.isfinite(chosen[72][name]) for name in ("own", "others")), chosen
    n_train = int(0.7 * ROWS)
    values = frame[["a", "b"]].to_numpy()
    center, scale = values[:n_train].mean(axis=0), values[:n_train].std(axis=0)
    expected = by_hand((values - center) / scale, chosen, ROWS if refit else n_train) * scale + center
    forecast = Forecaster.load("run", device="cpu").predict(frame)[["a", "b"]].to_numpy()
    np.testing.assert_allclose(forecast, expected, atol=2e-4)
