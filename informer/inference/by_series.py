"""Scores of each series of a panel."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int64

from informer.metrics import Errors

SCORES = ("mse_scaled", "mae_scaled", "mae")
MOST_WORST = 5
"""Series named as the worst."""


def by_series(
    errors: Mapping[str, Errors], series: Sequence[str], owners: Int64[np.ndarray, "windows"], model: str
) -> pd.DataFrame:
    """One row per series and forecaster, sorted by the model's scaled MSE, highest first.

    Every observed value of a series has equal weight; a series without observed values is left out.

    Columns: series, windows, model, mse_scaled, mae_scaled, mae (in data units, over all targets), and for the model
    skill: 1 - MSE / MSE of the series' best baseline.

    Args:
        errors: errors of the model and the baselines over the same windows, by name.
        series: names of the series.
        owners: index in `series` of each window's series.
        model: name of the model in `errors`.
    """
    counts = np.bincount(owners, minlength=len(series))
    shares = errors[model].shares()
    totals = np.bincount(owners, shares, len(series))
    observed = np.flatnonzero(totals)
    means = {}
    for name, forecaster_errors in errors.items():
        sums = [np.bincount(owners, shares * column, len(series)) for column in forecaster_errors.by_window().T]
        means[name] = np.stack(sums, axis=1)[observed] / totals[observed, None]
    rivals = np.min([values[:, 0] for name, values in means.items() if name != model], axis=0)
    worst = np.argsort(-means[model][:, 0], kind="stable")
    tables = []
    for name, values in means.items():
        table = pd.DataFrame(values, columns=list(SCORES))
        table.insert(0, "model", name)
        table.insert(0, "windows", counts[observed])
        table.insert(0, "series", [series[int(place)] for place in observed])
        with np.errstate(divide="ignore", invalid="ignore"):
            table["skill"] = 1 - values[:, 0] / rivals if name == model else np.nan
        tables.append(table.iloc[worst])
    combined = pd.concat(tables)
    order = np.arange(len(combined)).reshape(len(tables), -1).T.ravel()
    return combined.iloc[order].reset_index(drop=True).replace([np.inf, -np.inf], np.nan)


def worst_series(
    errors: Mapping[str, Errors], series: Sequence[str], owners: Int64[np.ndarray, "windows"], model: str
) -> str:
    """One line: the series with the highest errors, and the number of series for which a baseline is better."""
    table = by_series(errors, series, owners, model)
    model_rows = table[table["model"] == model]
    named = ", ".join(
        f"{name} {mse:.3g}" for name, mse in model_rows[["series", "mse_scaled"]].head(MOST_WORST).to_numpy()
    )
    behind = int((model_rows["skill"] < 0).sum())
    return (
        f"by series (metrics_by_series.csv): highest scaled MSE for {named}; "
        f"a baseline is better for {behind} of {len(model_rows)}"
    )
