"""Windows against pandas slicing, row by row, also some rows after the history; the rows a split gives their parts."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch
from stores import one_series

from informer.config.model import WindowSizes
from informer.data.windows import Batch, Store, Windows
from informer.members.baselines import fit_ridge


def over(
    n: int, sizes: WindowSizes, part: range, *, targets: list[int], future: list[int] | None = None
) -> tuple[Windows, pd.DataFrame]:
    values = torch.arange(n * 3, dtype=torch.float32).view(n, 3)
    marks = torch.arange(n * 2, dtype=torch.float32).view(n, 2) / 7
    starts = torch.tensor(list(sizes.starts(part)), dtype=torch.long)
    windows = Windows(one_series(values, marks), starts=starts, sizes=sizes, targets=targets, future=future or [])
    return windows, pd.DataFrame(values.numpy()).join(pd.DataFrame(marks.numpy(), columns=["0_mark", "1_mark"]))


@pytest.mark.parametrize(("seq_len", "label_len", "pred_len"), [(7, 3, 2), (1, 0, 1), (5, 5, 3), (4, 0, 9), (1, 1, 1)])
@pytest.mark.parametrize(("targets", "future"), [([0, 1, 2], []), ([1], []), ([2, 0], []), ([0], [2]), ([1], [2, 0])])
def test_windows_are_slices(seq_len: int, label_len: int, pred_len: int, targets: list[int], future: list[int]) -> None:
    sizes = WindowSizes(seq_len=seq_len, label_len=label_len, pred_len=pred_len)
    windows, frame = over(40, sizes, range(20, 37), targets=targets, future=future)
    first_target = range(max(20, seq_len), 37 - pred_len + 1)
    assert len(windows) == len(first_target)
    batch = windows.batch(torch.arange(len(windows)))
    for i, row in enumerate(first_target):
        history, horizon = frame.iloc[row - seq_len : row], frame.iloc[row : row + pred_len]
        token, values = history.tail(label_len), [0, 1, 2]
        np.testing.assert_array_equal(batch.enc_x[i], history[values])
        np.testing.assert_array_equal(batch.enc_mark[i], history[["0_mark", "1_mark"]])
        known = horizon[values].where([[column in future for column in values]] * pred_len, 0.0)
        np.testing.assert_array_equal(batch.dec_x[i], np.vstack([token[values], known]))
        np.testing.assert_array_equal(batch.dec_mark[i], pd.concat([token, horizon])[["0_mark", "1_mark"]])
        np.testing.assert_array_equal(batch.target[i], horizon[targets])


def tensors(batch: Batch) -> list[torch.Tensor]:
    return [part for part in (*batch, *batch.units) if isinstance(part, torch.Tensor)]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_windows_on_the_gpu_are_those_of_the_cpu() -> None:
    windows, _ = over(50, WindowSizes(seq_len=5, label_len=2, pred_len=3), range(50), targets=[1], future=[2])
    parts = {field.name: getattr(windows.store, field.name) for field in fields(Store)}
    on_gpu = {name: part.cuda() if isinstance(part, torch.Tensor) else part for name, part in parts.items()}
    on_gpu["units"] = windows.store.units.mapped(torch.Tensor.cuda)
    there = Windows(Store(**on_gpu), starts=windows.starts, sizes=windows.sizes, targets=[1], future=[2])
    for here, other in zip(*(each.batches(8) for each in (windows, there)), strict=True):
        moved = zip(tensors(other), tensors(here), strict=True)
        assert all(part.is_cuda and torch.equal(part.cpu(), own) for part, own in moved)


SIZES = WindowSizes(seq_len=5, label_len=2, pred_len=3, offset=4)


def shifted_over(n: int, starts: range, values: torch.Tensor | None = None) -> Windows:
    count = torch.arange(n).float()[:, None]
    store = one_series(count if values is None else values, 100 + count)
    return Windows(store, starts=torch.tensor(starts), sizes=SIZES, targets=[0])


def test_no_row_of_the_offset_is_in_a_batch() -> None:
    batch = shifted_over(30, range(19)).batch(torch.tensor([7]))
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


def test_ridge_is_fitted_on_the_rows_that_are_forecast() -> None:
    """Compared with the normal equations."""
    draw = np.random.default_rng(0)
    values = torch.from_numpy(draw.standard_normal((60, 1)).cumsum(0)).float()
    windows = shifted_over(60, range(40), values)
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
