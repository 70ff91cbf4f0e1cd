"""Whether reconciling totals with a forecast of their own is better than adding up the forecasts of the parts.

    python scripts/score_reconciling.py     # INFORMER_DATA_DIR with ETTh1, ETTm1, M4 hourly and M3

Each series and the total of a panel are forecast by ridge regression on windows of training rows (70 %). MinT (S.
Wickramasuriya, G. Athanasopoulos and R. Hyndman, "Optimal Forecast Reconciliation", JASA 2019) combines them by the
covariance of training errors of each step, shrunk towards its diagonal (J. Schaefer and K. Strimmer 2005). Printed is
the RMSE of the total over the horizon, relative to that of the sum of the parts.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

LOADS = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL"]
SIZE, SPACING, FEWEST = 20, 40, 12
"""Series of a panel of M4, series from one panel to the next, and fewest series of a panel of M3."""


def panels(folder: Path) -> Iterator[tuple[str, Float64[np.ndarray, "t s"], int, int, float]]:
    """Name, rows, history, horizon and penalty of each panel; of M3 and M4, series with equally many rows."""
    for name, rows, history, horizons in (("ETTh1", 14400, 168, (24, 96)), ("ETTm1", 30000, 192, (96,))):
        loads = pd.read_csv(folder / f"{name}.csv")[LOADS].to_numpy()[:rows]
        for horizon in horizons:
            yield f"{name}, 6 loads", loads, history, horizon, 0.01
    m4 = pd.read_csv(folder / "m4_hourly_train.csv.gz").groupby("unique_id")["y"].apply(np.array)
    for length, group in m4.groupby(m4.map(len)):
        for k in range(0, len(group) - SIZE + 1, SPACING):
            series = np.stack(list(group)[k : k + SIZE], axis=1)
            yield f"M4 hourly, {length} rows, series {k + 1} to {k + SIZE}", series, 48, 24, 0.01
    m3 = pd.read_csv(folder / "m3_dev_train.csv.gz").query("frequency == 'monthly'").groupby("series")["value"]
    months = m3.apply(np.array)
    for length, group in months.groupby(months.map(len)):
        if len(group) >= FEWEST and int(str(length)) >= 60:
            yield f"M3 monthly, {length} rows", np.stack(list(group)[:SIZE], axis=1), 12, 6, 0.1


def forecasts(
    series: Float64[np.ndarray, "t"], history: int, horizon: int, fitted: int, penalty: float
) -> tuple[Float64[np.ndarray, "w h"], Float64[np.ndarray, "w h"]]:
    """Forecasts and actual values of every window, by ridge on windows less their means that end before `fitted`."""
    origins = np.arange(history, len(series) - horizon + 1)
    past, future = (np.stack([series[i + a : i + b] for i in origins]) for a, b in ((-history, 0), (0, horizon)))
    mean = past.mean(axis=1, keepdims=True)
    used, x = origins + horizon <= fitted, past - mean
    gram = x[used].T @ x[used]
    weight = np.linalg.solve(
        gram + penalty * np.trace(gram) / history * np.eye(history), x[used].T @ (future - mean)[used]
    )
    return x @ weight + mean, future


def shrunk(errors: Float64[np.ndarray, "w k"]) -> Float64[np.ndarray, "k k"]:
    """Covariance of errors with shrunk correlations."""
    centred, n = errors - errors.mean(axis=0), len(errors)
    standard = centred / centred.std(axis=0)
    correlation, off = standard.T @ standard / n, ~np.eye(errors.shape[1], dtype=bool)
    variance = ((standard**2).T @ standard**2 / n - correlation**2) / n
    share = float(np.clip(variance[off].sum() / (correlation[off] ** 2).sum(), 0, 1))
    return centred.T @ centred / n * np.where(off, 1 - share, 1.0)


def main() -> None:
    print(
        "| panel | history, horizon | validation: own forecast | MinT | test: own forecast | MinT |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    changes = []
    for name, rows, history, horizon, penalty in panels(Path(os.environ.get("INFORMER_DATA_DIR", "data"))):
        fitted, held_out = int(0.7 * len(rows)), int(0.85 * len(rows))
        each = [rows.sum(axis=1), *rows.T.astype(float)]
        pairs = [forecasts(series, history, horizon, fitted, penalty) for series in each]
        ahead, actual = (np.stack(arrays, axis=2) for arrays in zip(*pairs, strict=True))
        origins, sums = (
            np.arange(history, len(rows) - horizon + 1),
            np.vstack([np.ones(rows.shape[1]), np.eye(rows.shape[1])]),
        )
        mint = np.empty(ahead.shape[:2])
        for step in range(horizon):
            inverse = np.linalg.pinv(shrunk((actual - ahead)[origins + horizon <= fitted, step]))
            mint[:, step] = ahead[:, step] @ np.linalg.solve(sums.T @ inverse @ sums, sums.T @ inverse).sum(axis=0)
        cells = []
        for part in ((origins >= fitted) & (origins + horizon <= held_out), origins >= held_out):
            rmse = [
                np.sqrt(((total - actual[..., 0])[part].sum(axis=1) ** 2).mean())
                for total in (ahead[..., 1:].sum(axis=2), ahead[..., 0], mint)
            ]
            cells += [100 * (one / rmse[0] - 1) for one in rmse[1:]]
        changes.append(cells)
        print(f"| {name} | {history}, {horizon} |", " | ".join(f"{cell:+.1f} %" for cell in cells), "|", flush=True)
    print("| median | |", " | ".join(f"{cell:+.1f} %" for cell in np.median(changes, axis=0)), "|")


if __name__ == "__main__":
    main()
