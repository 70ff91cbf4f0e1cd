"""From files to windows: equal to slices of the scaled frame, whole, without a look ahead; the same at prediction."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dataset_cases import SIZES, dataset, made, write
from published_files import published_folder
from stores import STANDARD, load_data, read_series, series_from_frame

from informer import InputError
from informer.config.data import Calendar, DatasetConfig, FeatureMode, ScalerConfig, ScalerKind, SplitConfig, SplitKind
from informer.config.model import WindowSizes
from informer.data.columns import Columns, Roles
from informer.data.dataset import Data
from informer.data.history import future_index, windows_ahead
from informer.data.scaler import PanelScaler
from informer.networks.models.config import CalendarEmbed

ROWS = SplitConfig(kind=SplitKind.rows, train=150, val=60, test=70)


def load(
    config: DatasetConfig,
    folder: Path,
    *,
    sizes: WindowSizes = SIZES,
    features: FeatureMode = FeatureMode.M,
    target: str | None = None,
    kind: ScalerKind = ScalerKind.standard,
    calendar: CalendarEmbed = CalendarEmbed.timeF,
) -> Data:
    roles, scaler = Roles(features=features, target=target), ScalerConfig(kind=kind)
    return load_data(config, sizes, roles, folder, scaler=scaler, calendar=Calendar(calendar))


@pytest.mark.parametrize("kind", ScalerKind)
def test_the_scaler_sees_training_rows_only(kind: ScalerKind, tmp_path: Path) -> None:
    frame = made()
    other = frame.copy()
    other.loc[150:, ["a", "b", "c"]] *= -37
    states = [
        load(DatasetConfig(path=str(write(each, tmp_path / "f.csv")), split=ROWS), tmp_path, kind=kind).scaler.state()
        for each in (frame, other)
    ]
    assert states[0] == states[1]
    other.loc[149, "a"] = 1e6
    changed = load(DatasetConfig(path=str(write(other, tmp_path / "f.csv")), split=ROWS), tmp_path, kind=kind)
    # the median stays where it is when one row of 150 leaves, its quartiles may not
    assert kind is ScalerKind.none or changed.scaler.state() != states[0]


def test_the_target_is_the_callers_the_datasets_or_the_last(tmp_path: Path) -> None:
    path = str(write(made(), tmp_path / "made.csv"))
    config = DatasetConfig(path=path, split=ROWS, target="a")
    assert load(config, tmp_path, features=FeatureMode.MS, target="b").targets == ("b",)
    assert load(config, tmp_path, features=FeatureMode.MS).targets == ("a",)
    assert load(replace(config, target=None), tmp_path, features=FeatureMode.MS).targets == ("c",)


@pytest.mark.parametrize("calendar", CalendarEmbed)
@pytest.mark.parametrize("freq", ["15min", "h", "B", "W-WED", "MS"])
def test_prediction_sees_the_window_that_training_saw(calendar: CalendarEmbed, freq: str, tmp_path: Path) -> None:
    """The history before a test window, passed as a separate file with columns in another order and additional ones."""
    frame = made(freq=freq)
    data = load(DatasetConfig(path=str(write(frame, tmp_path / "f.csv")), split=ROWS), tmp_path, calendar=calendar)
    trained = data.test.batch(torch.tensor([0, 9]))
    histories = [frame.iloc[30:210], frame.iloc[206:219]]
    new = [
        read_series(
            write(history[["c", "date", "b", "a"]].assign(extra=1, note="x"), tmp_path / f"{number}.csv"),
            DatasetConfig(frequency=data.frequency.code),
        )
        for number, history in enumerate(histories)
    ]
    _, windows = windows_ahead(
        new, columns=data.columns, scaler=data.scaler, sizes=data.sizes, calendar=Calendar(calendar), device="cpu"
    )
    batch = windows.batch(torch.arange(2))
    for name in ("enc_x", "enc_mark", "dec_x", "dec_mark"):
        assert torch.equal(getattr(batch, name), getattr(trained, name)), name
    assert batch.target.isnan().all()
    assert future_index(new[0], 4).tolist() == frame["date"][210:214].tolist()


def test_what_prediction_cannot_use() -> None:
    data = made(20)
    scaler = PanelScaler.fit(ScalerConfig(), {"x": data[["a", "b", "c"]].to_numpy()})

    def batch(frame: pd.DataFrame) -> None:
        columns = Columns(inputs=("a", "b", "c"), targets=("b",))
        series = series_from_frame(frame, DatasetConfig(), "mine")
        windows_ahead([series], columns=columns, sizes=SIZES, **STANDARD | {"scaler": scaler})

    batch(data.tail(13))
    with pytest.raises(InputError, match="mine: expected at least seq_len=13 rows of history, found 12"):
        batch(data.tail(12))
    with pytest.raises(InputError, match="mine: columns missing: a, c; its value columns are b"):
        batch(data[["date", "b"]])


# name -> rows of the parts, target, frequency, columns, windows of 96 -> 24
PUBLISHED = {
    "ETTh1": ((8640, 2880, 2880), "OT", "h", 7, (8521, 2857, 2857)),
    "ETTm1": ((34560, 11520, 11520), "OT", "15min", 7, (34441, 11497, 11497)),
    "WTH": ((24544, 3508, 7012), "WetBulbCelsius", "h", 12, (24425, 3485, 6989)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_data(name: str) -> None:
    parts, target, code, n_columns, counts = PUBLISHED[name]
    config = dataset(name)
    sizes = WindowSizes(seq_len=96, label_len=48, pred_len=24)
    folder = published_folder(f"{name}.csv")
    data = load(config, folder, sizes=sizes, features=FeatureMode.MS)
    split = data.splits[0]
    assert (len(split.train), len(split.val), len(split.test)) == parts
    assert (len(data.train), len(data.val), len(data.test)) == counts
    assert (data.targets, data.frequency.code, len(data.inputs)) == ((target,), code, n_columns)
    assert data.provenance.sha256 == config.sha256
    seen = sum(len(batch.target) for batch in data.test.batches(512))
    assert seen == counts[2]
    frame = pd.read_csv(folder / f"{name}.csv")
    mean, std = frame[target][: parts[0]].mean(), frame[target][: parts[0]].std(ddof=0)
    last = data.test.batch(torch.tensor([counts[2] - 1])).target[0, -1, 0]
    assert float(last) == pytest.approx((frame[target][sum(parts) - 1] - mean) / std, rel=1e-5)


@pytest.mark.parametrize("start", [1659, 2400])
def test_years_that_nanoseconds_do_not_reach(start: int, tmp_path: Path) -> None:
    """Red if times are counted in nanoseconds somewhere: central England's temperature begins in 1659."""
    dates = [f"{year}-{month:02}-01" for year in range(start, start + 30) for month in range(1, 13)]
    frame = pd.DataFrame({"date": dates, "a": np.sin(np.arange(360.0))})
    path = write(frame, tmp_path / "long_ago.csv")
    config = DatasetConfig(path=str(path), split=ROWS)
    data = load(config, tmp_path)
    series = data.panel[0]
    assert (series.frequency.code, str(series.timestamps[-1].date())) == ("MS", dates[-1])
    # month of the last row of each history, scaled as timeF does
    marks = data.test.batch(torch.arange(len(data.test))).enc_mark[:, -1, 0].numpy()
    months = [int(date[5:7]) for date in dates[210 - 1 :]][: len(marks)]
    np.testing.assert_allclose(marks, (np.array(months) - 1) / 11 - 0.5, atol=1e-6)
    assert [str(time.date()) for time in future_index(series, 2)] == [f"{start + 30}-01-01", f"{start + 30}-02-01"]
