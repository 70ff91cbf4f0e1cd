"""Gaps that are kept: which values are read, which windows are used and how columns are scaled, against pandas and
loops."""

import numpy as np
import pytest
from dataset_cases import made
from stores import series_from_frame

from informer.config.data import DatasetConfig, Fill, ScalerConfig, ScalerKind
from informer.config.model import WindowSizes
from informer.data.scaler import PanelScaler, Scaler
from informer.data.windows import are_observed, observed_rows

MASK = DatasetConfig(fill=Fill.mask)


@pytest.mark.parametrize("least", [0.1, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("offset", [0, 2])
def test_windows_need_observed_rows(least: float, offset: int) -> None:
    """By loops over windows; red if rows between history and horizon count, or a row past either."""
    rng = np.random.default_rng(0)
    frame = made(80)
    frame.loc[rng.random(80) < 0.5, ["a", "b"]] = np.nan
    frame.loc[rng.random(80) < 0.2, "a"] = np.nan
    frame.loc[30:40, ["a", "b"]] = np.nan
    series = series_from_frame(frame, MASK, "mine")
    observed = observed_rows([series, series], [0, 1])
    sizes = WindowSizes(seq_len=7, label_len=0, pred_len=4, offset=offset)
    starts = np.concatenate([np.arange(80 - sizes.rows + 1), 80 + np.arange(80 - sizes.rows + 1)])
    wanted = []
    for start in starts:
        rows = [place % 80 for place in range(start, start + sizes.rows)]
        known = [not (np.isnan(series.values[row, 0]) and np.isnan(series.values[row, 1])) for row in rows]
        history, horizon = known[:7], known[7 + offset :]
        if min(sum(history) / 7, sum(horizon) / 4) >= least - 1e-12 and any(history) and any(horizon):
            wanted.append(start)
    found = are_observed(starts, 7, observed, least) & are_observed(starts + sizes.first, 4, observed, least)
    assert starts[found].tolist() == wanted


@pytest.mark.parametrize("kind", [kind for kind in ScalerKind if kind is not ScalerKind.none])
def test_scalers_count_observed_values(kind: ScalerKind) -> None:
    """Compared with each column as a separate table without gaps."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(5, 3, (40, 3)), rng.normal(1, 2, (30, 3))]
    tables[0][rng.random(40) < 0.5, 1] = np.nan
    tables[1][:, 2] = np.nan
    scaler = Scaler.fit(kind, tables)
    for column in range(3):
        values = np.concatenate([table[:, column] for table in tables])
        alone = Scaler.fit(kind, [values[~np.isnan(values)][:, None]])
        assert scaler.center[column] == pytest.approx(alone.center[0])
        assert scaler.scale[column] == pytest.approx(alone.scale[0])


def test_a_series_without_a_value_has_the_scale_of_all() -> None:
    rng = np.random.default_rng(0)
    training = {"a": rng.normal(5, 3, (40, 2)), "b": rng.normal(1, 2, (30, 2))}
    training["b"][:, 1] = np.nan
    scaler = PanelScaler.fit(ScalerConfig(per_series=True), training)
    assert scaler.by_series["b"].center[1] == pytest.approx(training["a"][:, 1].mean())
    assert scaler.by_series["b"].center[0] == pytest.approx(training["b"][:, 0].mean())
    assert np.isfinite(PanelScaler.model_validate(scaler.state()).of("new", np.full((5, 2), np.nan)).center).all()
