"""Future covariates: found by time and name in any order; everything that is missing is named."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dataset_cases import SIZES, made, write
from stores import STANDARD, future_from_frame, series_from_frame

from informer import InputError
from informer.config.data import DatasetConfig, ScalerConfig
from informer.data.columns import Columns
from informer.data.history import Future, future_of_table, windows_ahead
from informer.data.scaler import PanelScaler
from informer.data.windows import Batch
from informer.read.table import read_table

FRAME = made(60)
AHEAD = pd.DatetimeIndex(FRAME["date"][40:44])
COLUMNS = Columns(inputs=("a", "b", "c"), targets=("b",), future_covariates=("a", "c"))
CONFIG = DatasetConfig()


def batch(futures: list[Future] | None, columns: Columns = COLUMNS, pad: bool = False, rows: int = 40) -> Batch:
    scaler = PanelScaler.fit(ScalerConfig(), {"x": FRAME[["a", "b", "c"]].to_numpy()[:30]})
    series, how = series_from_frame(FRAME[40 - rows : 40], CONFIG, "mine"), STANDARD | {"scaler": scaler}
    _, windows = windows_ahead([series], columns=columns, sizes=SIZES, futures=futures, pad=pad, **how)
    return windows.batch(torch.arange(1))


@pytest.mark.parametrize("rows", [slice(40, 44), slice(None), slice(None, None, -1), slice(38, 47)])
def test_the_decoder_reads_them_scaled_where_the_horizon_is(rows: slice, tmp_path: Path) -> None:
    given = FRAME.iloc[rows][["c", "date", "a"]]
    training = FRAME[["a", "b", "c"]][:30]
    scaled = (FRAME[["a", "b", "c"]] - training.mean()) / training.std(ddof=0)
    for future in (
        future_from_frame(given, CONFIG, "f"),
        future_of_table(read_table(write(given, tmp_path / "f.csv")), CONFIG),
    ):
        outputs = batch([future])
        np.testing.assert_allclose(outputs.enc_x[0], scaled[27:40], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(outputs.dec_x[0, :5], scaled[35:40], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(outputs.dec_x[0, 5:, [0, 2]], scaled[["a", "c"]][40:44], rtol=1e-5, atol=1e-6)
        assert not outputs.dec_x[0, 5:, 1].any()
        assert outputs.target.isnan().all()


def test_the_time_of_a_frame_may_be_its_index() -> None:
    plain, indexed = (future_from_frame(frame, CONFIG, "f") for frame in (FRAME, FRAME.set_index("date")))
    np.testing.assert_array_equal(plain.at(AHEAD, ["c", "a"]), indexed.at(AHEAD, ["c", "a"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda part: part.drop(columns=["a"]), "f: future covariates missing: a; found the columns date, b, c"),
        (
            lambda part: part.drop(index=[5, 7]),
            "f: expected future covariates for 4 times, .* missing: 2020-01-02 17:00:00, 2020-01-02 19:00:00",
        ),
        (lambda part: pd.concat([part, part[6:7]]), "f: duplicate timestamp 2020-01-02 18:00:00"),
        (
            lambda part: part.assign(date=part["date"].dt.tz_localize("UTC")),
            "f: expected times without a time zone as in the history, found times in UTC",
        ),
        (
            lambda part: part.assign(c=part["c"].where(part.index != 5)),
            "f, row 5, column 'c': expected a number, found an empty cell",
        ),
    ],
)
def test_what_is_missing_is_named(change: Callable[[pd.DataFrame], pd.DataFrame], message: str) -> None:
    with pytest.raises(InputError, match=message):
        batch([future_from_frame(change(FRAME[36:50].reset_index(drop=True)), CONFIG, "f")])


def test_none_where_they_are_needed_and_some_where_they_are_not() -> None:
    with pytest.raises(InputError, match="future: expected future values of a, c, found none"):
        batch(None)
    with pytest.raises(InputError, match="future: the model has no future covariates"):
        batch([future_from_frame(FRAME, CONFIG, "f")], Columns(inputs=("a", "b", "c"), targets=("b",)))


def test_a_short_history_is_lengthened_by_its_first_row_on_request() -> None:
    future = future_from_frame(FRAME, CONFIG, "f")
    with pytest.raises(InputError, match="mine: expected at least seq_len=13 rows of history, found 3"):
        batch([future], rows=3)
    short, whole = batch([future], rows=3, pad=True), batch([future])
    assert torch.equal(short.enc_x[0, 10:], whole.enc_x[0, 10:])
    assert torch.equal(short.enc_x[0, :10], whole.enc_x[0, 10:11].expand(10, -1))
    assert torch.equal(short.enc_mark, whole.enc_mark)
    assert torch.equal(short.dec_x[0, 2:], whole.dec_x[0, 2:])
