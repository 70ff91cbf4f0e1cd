"""Windows whose horizon begins some rows after the history, and the baselines on them."""

import numpy as np
import pytest
import torch

from informer.base.errors import InputError
from informer.config.model import WindowSizes
from informer.data.windows import Batch, Store, Windows
from informer.scoring.baselines import fit_ridge, seasonal_naive

SIZES = WindowSizes(seq_len=5, label_len=2, pred_len=3, offset=4)


def over(n: int, starts: range, values: torch.Tensor | None = None) -> Windows:
    store = Store(
        values=torch.arange(n).float()[:, None] if values is None else values,
        marks=100 + torch.arange(n).float()[:, None],
        first_rows=torch.tensor([0]),
        first_marks=torch.tensor([0]),
        center=torch.zeros(1, 1, dtype=torch.float64),
        scale=torch.ones(1, 1, dtype=torch.float64),
        numbers=torch.tensor([0]),
    )
    return Windows(store, starts=torch.tensor(starts), sizes=SIZES, targets=[0])


def test_no_row_of_the_offset_is_in_a_batch() -> None:
    batch = over(30, range(19)).batch(torch.tensor([7]))
    assert batch.enc_x.flatten().tolist() == [7, 8, 9, 10, 11]
    assert batch.dec_x.flatten().tolist() == [10, 11, 0, 0, 0]
    assert batch.dec_mark.flatten().tolist() == [110, 111, 116, 117, 118]
    assert batch.target.flatten().tolist() == [16, 17, 18]


def test_targets_stay_in_their_part() -> None:
    """Red if the first or the last window of a part has a target outside it, or one that fits is left out."""
    starts = SIZES.starts(range(20, 26))
    assert [(start + 9, start + 11) for start in starts] == [(20, 22), (21, 23), (22, 24), (23, 25)]
    assert SIZES.least_rows(2) == 10
    assert len(SIZES.starts(range(2, 12))) == 1
    assert len(SIZES.starts(range(2, 11))) == 0
    with pytest.raises(InputError, match=r"model\.offset: expected at least 0, found -2"):
        WindowSizes(seq_len=5, label_len=2, pred_len=3, offset=-2)


def test_the_season_goes_on_through_the_offset() -> None:
    season = 3
    values = torch.arange(30).remainder(season).float()[:, None]
    batch = over(30, range(19), values).batch(torch.arange(19))
    forecast = seasonal_naive(season, [0], seq_len=5, offset=4)(batch)
    assert torch.equal(forecast, batch.target)


def test_ridge_is_fitted_on_the_rows_that_are_forecast() -> None:
    """Compared with the normal equations."""
    draw = np.random.default_rng(0)
    values = torch.from_numpy(draw.standard_normal((60, 1)).cumsum(0)).float()
    windows = over(60, range(40), values)
    fitted = fit_ridge(windows, windows, [0], penalties=[1.0])
    rows = values[:, 0].double().numpy()
    x = np.stack([rows[i : i + 5] for i in range(40)])
    y = np.stack([rows[i + 9 : i + 12] for i in range(40)]) - x.mean(1, keepdims=True)
    x = x - x.mean(1, keepdims=True)
    expected = np.linalg.solve(x.T @ x + np.eye(5), x.T @ y)
    np.testing.assert_allclose(fitted.weight.numpy(), expected, atol=1e-8)
    batch = windows.batch(torch.arange(40))
    assert isinstance(batch, Batch)
    assert fitted(batch).shape == (40, 3, 1)
