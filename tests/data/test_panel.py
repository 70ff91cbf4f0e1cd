"""Many series: every window against pandas slices of its own series, whatever way they are stored."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dataset_cases import SIZES, made, write
from stores import STANDARD, load_data, series_from_frame

from informer import InputError
from informer.base.errors import ReportError
from informer.config.data import Calendar, DatasetConfig, ScalerConfig, Short, SplitConfig, SplitKind
from informer.data.calendar import calendar_marks
from informer.data.columns import Roles
from informer.data.dataset import Data
from informer.data.history import future_index, windows_ahead
from informer.data.panel import left_padded, read_panel
from informer.data.scaler import PanelScaler
from informer.networks.models.config import CalendarEmbed
from informer.read.cells import dictionary_encoded, joined_names, key_cells
from informer.read.frequency import Frequency
from informer.read.series import Series, series_codes
from informer.read.table import Table, read_table, table_of_frame

SEQ, LABEL, PRED = SIZES.seq_len, SIZES.label_len, SIZES.pred_len
RATIO = SplitConfig(kind=SplitKind.ratio, train=0.6, val=0.2, test=0.2)
Frames = dict[str, pd.DataFrame]


def frames() -> Frames:
    """Series of different lengths, starts and units; the last has other minutes than the rest."""
    spec = [("p", 150, "2020-01-01 00:00"), ("q", 61, "2020-01-03 05:00"), ("r", 100, "2020-01-01 00:00"),
            ("s", 100, "2020-01-01 00:00"), ("t", 88, "2020-01-02 03:30")]  # fmt: skip
    return {
        name: made(n, start=start).assign(
            b=lambda frame, k=k: frame["b"] * 3**k + k, a=lambda frame, k=k: frame["a"] - k
        )
        for k, (name, n, start) in enumerate(spec)
    }


def folder(series: Frames, path: Path) -> DatasetConfig:
    for name, frame in series.items():
        write(frame, path / f"{name}.csv")
    return DatasetConfig(name="many", path=str(path), split=RATIO)


def pattern(series: Frames, path: Path) -> DatasetConfig:
    (path / "README.csv.txt").write_text("no series")
    return replace(folder(series, path), path=str(path / "?.csv"))


def long_file(series: Frames, path: Path) -> DatasetConfig:
    rows = pd.concat(frame.assign(station=name) for name, frame in series.items())
    return DatasetConfig(name="long", path=str(write(rows, path / "long.csv")), series_col="station", split=RATIO)


def interleaved(series: Frames, path: Path) -> DatasetConfig:
    rows = pd.concat(frame.assign(station=name) for name, frame in series.items())
    write(rows.sort_values("date", kind="stable"), path / "long.csv")
    return DatasetConfig(name="long", path=str(path / "long.csv"), series_col="station", split=RATIO)


STORED: list[Callable[[Frames, Path], DatasetConfig]] = [folder, pattern, long_file, interleaved]


def load(config: DatasetConfig, scaler: ScalerConfig | PanelScaler | None = None, roles: Roles | None = None) -> Data:
    return load_data(config, SIZES, roles, scaler=scaler or ScalerConfig(per_series=False))


def check(data: Data, series: Frames, training: Callable[[str], pd.DataFrame]) -> None:
    """All windows, in the order of the series and of time; `training` gives the rows that scale a series."""
    for part in ("train", "val", "test"):
        windows = getattr(data, part)
        batch = windows.batch(torch.arange(len(windows)))
        i = 0
        for place, name in enumerate(one.name for one in data.panel):
            frame = series[name]
            values, rows, n = frame[["a", "b", "c"]], training(name)[["a", "b", "c"]], len(frame)
            scaled = (values - rows.mean()) / rows.std(ddof=0)
            marks = calendar_marks(pd.DatetimeIndex(frame["date"]), Frequency.parse("h"), Calendar(CalendarEmbed.timeF))
            borders = {"train": 0, "val": int(n * 0.6), "test": n - int(n * 0.2), "end": n}
            first, last = borders[part], list(borders.values())[list(borders).index(part) + 1]
            for row in range(max(first, SEQ), last - PRED + 1):
                close = {"rtol": 1e-5, "atol": 1e-5}
                np.testing.assert_allclose(batch.enc_x[i], scaled[row - SEQ : row], **close)
                np.testing.assert_allclose(batch.target[i], scaled[row : row + PRED], **close)
                np.testing.assert_array_equal(batch.enc_mark[i], marks[row - SEQ : row])
                np.testing.assert_array_equal(batch.dec_mark[i], marks[row - LABEL : row + PRED])
                units = batch.target[i].double() * batch.units.scale[i] + batch.units.center[i]
                np.testing.assert_allclose(units, values[row : row + PRED], rtol=1e-4, atol=1e-4)
                assert windows.series(torch.tensor([i])).item() == place
                i += 1
        assert i == len(windows)


@pytest.mark.parametrize("stored", STORED)
def test_windows_never_cross_series(stored: Callable[[Frames, Path], DatasetConfig], tmp_path: Path) -> None:
    """Red if a window begins in one series and ends in the next, or its marks are another's."""
    series = frames()
    data = load(stored(series, tmp_path))
    assert sorted(one.name for one in data.panel) == list(series)
    everything = pd.concat(frame[: int(len(frame) * 0.6)] for frame in series.values())
    check(data, series, lambda name: everything)


def test_series_at_the_same_times_share_their_marks(tmp_path: Path) -> None:
    series = {name: frame for name, frame in frames().items() if name != "t"}
    data = load(folder(series, tmp_path))
    assert len(data.train.store.marks) == len({time for frame in series.values() for time in frame["date"]})
    (same_folder := tmp_path / "same").mkdir()
    same = load(folder({name: made(100) for name in "xyz"}, same_folder))
    assert len(same.train.store.marks) == 100
    assert same.panel[0].timestamps is same.panel[2].timestamps


def test_each_series_is_cut_at_the_dates(tmp_path: Path) -> None:
    split = SplitConfig(kind=SplitKind.dates, train="2020-01-04", val="2020-01-04 20:00", test=None)
    series = {name: frame for name, frame in frames().items() if name in "prs"}
    data = load(replace(folder(series, tmp_path), split=split))
    for one, part in zip(data.panel, data.splits, strict=True):
        times = one.timestamps
        assert times[part.val.start] == pd.Timestamp("2020-01-04")
        assert times[part.test.start] == pd.Timestamp("2020-01-04 20:00")
        assert part.test.stop == len(times)


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_prediction_scales_a_known_series_as_training_did(kind: str, tmp_path: Path) -> None:
    series = frames()
    data = load(folder(series, tmp_path), ScalerConfig(per_series=True))
    name = "q" if kind == "known" else "elsewhere"
    history = series["q"].tail(20)
    _, windows = windows_ahead(
        [series_from_frame(history, DatasetConfig(), name)],
        columns=data.columns,
        sizes=SIZES,
        **STANDARD | {"scaler": data.scaler},
    )
    batch = windows.batch(torch.arange(1))  # fmt: skip
    rows = series["q"][:36] if kind == "known" else history.tail(SEQ)
    values = ["a", "b", "c"]
    scaled = (history.tail(SEQ)[values] - rows[values].mean()) / rows[values].std(ddof=0)
    np.testing.assert_allclose(batch.enc_x[0], scaled, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(batch.in_units(torch.zeros(1, PRED, 3))[0, 0], rows[values].mean())


def short_ones() -> Frames:
    return {"long": made(100), "brief": made(40).assign(a=lambda frame: frame["a"] * 2), "tiny": made(PRED)}


def test_a_short_series_is_an_error_unless_told_otherwise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^brief: 40 rows are too few .* val needs .*\ntiny: 4 rows are too few .*$"):
        load(replace(folder(short_ones(), tmp_path), split=SplitConfig(train=0.85, val=0.05, test=0.1)))


def test_short_series_are_left_out_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = replace(folder({**short_ones(), "brief": made(20)}, tmp_path), short=Short.skip)
    data = load(config)
    assert [one.name for one in data.panel] == ["long"]
    assert "skipped 2 of 3 series: brief: 20 rows are too few" in caplog.text
    assert "tiny: 4 rows are too few" in caplog.text
    with pytest.raises(InputError, match=r"brief: 20 rows are too few .* \(and 1 series more\)"):
        load(replace(config, path=str(tmp_path / "[bt]*.csv")))


def test_short_series_are_padded_with_their_first_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Targets are real rows from the second on; a part shorter than the horizon has no window."""
    brief = made(20).assign(a=lambda frame: frame["a"] * 2)
    config = replace(folder({"brief": brief, "long": made(100), "tiny": made(PRED)}, tmp_path), short=Short.pad)
    data = load(config)
    assert [one.name for one in data.panel] == ["brief", "long"]
    assert "skipped 1 of 3 series: tiny" in caplog.text
    training = pd.concat([brief[:12], made(100)[:60]])[["a", "b", "c"]]
    scaled = ((brief[["a", "b", "c"]] - training.mean()) / training.std(ddof=0)).to_numpy()
    # 12 rows train: targets begin at rows 1 to 8; 4 rows validate and test
    for windows, firsts in ((data.train, range(1, 9)), (data.val, [12]), (data.test, [16])):
        batch = windows.batch(torch.arange(len(firsts)))
        assert windows.series(torch.arange(len(firsts) + 1)).tolist() == [0] * len(firsts) + [1]
        for i, first in enumerate(firsts):
            rows = np.maximum(np.arange(first - SEQ, first), 0)
            np.testing.assert_allclose(batch.enc_x[i], scaled[rows], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(batch.target[i], scaled[first : first + PRED], rtol=1e-5, atol=1e-6)
            stamps = pd.date_range(brief["date"][first] - SEQ * pd.Timedelta("1h"), periods=SEQ, freq="h")
            marks = calendar_marks(stamps, data.frequency, Calendar(CalendarEmbed.timeF))
            np.testing.assert_array_equal(batch.enc_mark[i], marks)


def test_a_part_without_any_window_is_an_error(tmp_path: Path) -> None:
    config = replace(folder({"brief": made(18)}, tmp_path), short=Short.pad)
    with pytest.raises(InputError, match="many: no series has a window in its test part"):
        load(config)


def test_a_cell_of_a_long_file_is_named_by_its_row(tmp_path: Path) -> None:
    config = interleaved(frames(), tmp_path)
    lines = (tmp_path / "long.csv").read_text().splitlines()
    row = [i for i, line in enumerate(lines) if line.endswith(",q")][40]
    cells = lines[row].split(",")
    lines[row] = ",".join([cells[0], "oops", *cells[2:]])
    (tmp_path / "long.csv").write_text("\n".join(lines))
    with pytest.raises(
        InputError, match=rf"long\.csv, station {cells[-1]}, row {row + 1}, column 'a': .* found 'oops'"
    ):
        load(config)
    lines[row] = ",".join([*cells[:-1], ""])
    (tmp_path / "long.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"long\.csv, row {row + 1}, column 'station': expected the name of a series"):
        load(config)
    with pytest.raises(InputError, match=r"dataset.series_col=id: long\.csv has no such column"):
        load(replace(config, series_col="id"))


@pytest.mark.parametrize("header", ["note,id,x,x,y", 'note, "id",x, x,y'])
def test_the_other_columns_are_read_as_without_names(header: str, tmp_path: Path) -> None:
    """Red if a word for an empty cell is missed, or applied to another column; compared with pandas."""
    words = [" ", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan"]
    words += ["-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", ""]
    lines = [header, "a,7,1.5,7,1", *(f"{word},{word},{word},7,{word}" for word in words), "b,x,2.5,8,True", ",,,,"]
    (path := tmp_path / "f.csv").write_text("\n".join(lines))
    table = read_table(path, DatasetConfig(categorical=["id"])).frame
    expected = pd.read_csv(path, skipinitialspace=True)[:-1]
    assert list(table.columns) == ["note", "id", "x", "x.1", "y"]
    assert (
        table.drop(columns="id").astype(object).fillna("").equals(expected.drop(columns="id").astype(object).fillna(""))
    )
    assert table["id"].fillna("empty").tolist() == ["7", "empty", *words[1:-1], "empty", "x"]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        write(made(100), tmp_path / name / "load.csv")
    config = DatasetConfig(path=str(tmp_path / "*" / "load.csv"), split=RATIO)
    assert [one.name for one in load(config).panel] == ["east/load", "west/load"]
    for name in ("east", "west"):
        write(made(100).assign(id="same"), tmp_path / name / "load.csv")
    with pytest.raises(InputError, match="same: series of that name in more than one file"):
        load(replace(config, series_col="id"))


def test_a_folder_without_series(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(InputError, match=r"expected files ending in \.csv, .* found none"):
        load(DatasetConfig(path=str(tmp_path)))
    with pytest.raises(InputError, match="expected files that match the pattern, found none"):
        load(DatasetConfig(path=str(tmp_path / "*.csv")))


def test_the_checksum_is_over_all_files(tmp_path: Path) -> None:
    config = folder({name: made(100) for name in "xy"}, tmp_path)
    first = load(config).provenance
    assert first.path == tmp_path
    write(made(100).assign(a=1.0), tmp_path / "y.csv")
    assert load(config).provenance.sha256 != first.sha256


def test_rows_before_and_after_a_clock_change_keep_the_time_of_day() -> None:
    """Red if the day that has no midnight sets the time of the days next to it, in Santiago on 8 September 2024."""
    days = pd.DatetimeIndex([*pd.date_range("2024-09-06", periods=2), "2024-09-08 01:00", "2024-09-09", "2024-09-10"])
    times = days.tz_localize("America/Santiago")
    series = series_from_frame(pd.DataFrame({"date": times, "y": range(5)}), DatasetConfig(name="x"), "x")
    up_to, since = (
        replace(series, timestamps=series.timestamps[rows], values=series.values[rows])
        for rows in (slice(None, 3), slice(2, None))
    )
    assert list(future_index(up_to, 2)) == list(times[3:])
    assert list(left_padded(since, 2).timestamps) == list(times)


CONFIG = DatasetConfig(series_col="id", short=Short.pad)


def frame_of(**starts: str) -> pd.DataFrame:
    random = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"date": pd.date_range(start, periods=20 + k, freq="h"), "id": name}).assign(
            a=random.normal(size=20 + k), b=random.integers(0, 9, 20 + k)
        )
        for k, (name, start) in enumerate(starts.items())
    ]
    return pd.concat(parts, ignore_index=True)


FRAME = frame_of(z="2024-01-01", y="2024-01-01", x="2023-05-02 07:00", w="2024-01-01")


def read(frame: pd.DataFrame, config: DatasetConfig = CONFIG) -> list[Series]:
    return read_panel(table_of_frame(frame, "sales"), config, SIZES)


@pytest.mark.parametrize("order", ["together", "by time"])
def test_each_series_has_its_own_rows(order: str) -> None:
    """Red when rows go to another series."""
    frame = FRAME if order == "together" else FRAME.sort_values("date", kind="stable")
    tables = read(frame)
    assert [one.name for one in tables] == list(dict.fromkeys(frame["id"]))
    for one in tables:
        rows = frame[frame["id"] == one.name]
        assert one.timestamps.equals(pd.DatetimeIndex(rows["date"]))
        np.testing.assert_array_equal(one.values, rows[["a", "b"]].to_numpy())
        assert (one.n_rows, one.columns, one.frequency.code) == (len(rows), ("a", "b"), "h")


def test_the_same_times_are_one_object() -> None:
    frame = frame_of(a="2024-01-01", b="2024-01-01").groupby("id").head(20)
    first, second = read(frame)
    assert first.timestamps is second.timestamps


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"a": np.nan}, "sales, id y, row 25, column 'a': expected a number, found an empty cell or NaN"),
        ({"a": 1e31}, "sales, id y, row 25, column 'a': expected a number of at most 1e\\+30"),
        ({"date": pd.Timestamp("2024-01-01 04:00")}, "sales, id y, row 25, column 'date': duplicate timestamp"),
        ({"date": pd.Timestamp("2024-01-01 05:30")}, "sales, id y, row 25, column 'date': expected 2024-01-01 05:00"),
    ],
)
def test_a_flaw_is_reported_with_its_row(change: dict[str, object], problem: str) -> None:
    """Fails when a series that has something to report is read together with the others."""
    frame = FRAME.copy()
    for column, value in change.items():
        frame.loc[25, column] = value
    with pytest.raises(ReportError, match=problem):
        read(frame)


def test_a_constant_column_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    frame = FRAME.assign(b=FRAME["b"].where(FRAME["id"] != "x", 3))
    with caplog.at_level(logging.WARNING):
        read(frame)
    assert [line for line in caplog.messages if "id x, column 'b': 3 in every row" in line]


@pytest.mark.parametrize(
    "codes", [[0, 0, 1, 2, 1], [1, 0, 2], [0, 2, 2], [0, 2, 1], [2, 2], [0, 1, 2, 0]], ids=lambda codes: str(codes)
)
def test_texts_kept_once_are_numbered_by_their_first_rows(codes: list[int]) -> None:
    """As pandas numbers them; red if the numbers of a whole file are taken for those of some of its rows."""
    cells = dictionary_encoded(np.array(codes, dtype=np.int32), ["b", "a", "c"])
    frame = pd.DataFrame({"id": cells, "y": 0.0})
    numbers, names = series_codes(Table("t.csv", frame, first_row=2), "id")
    expected, texts = pd.factorize(cells.astype(str))
    assert (numbers.tolist(), list(names)) == (expected.tolist(), list(texts))


def test_a_text_kept_once_that_is_empty() -> None:
    """Red if the empty cell, whose number is -1, counts as a series."""
    cells = dictionary_encoded(np.array([0, -1, 1], dtype=np.int32), ["b", "a"])
    table = Table("t.csv", pd.DataFrame({"id": cells, "y": 0.0}), first_row=2)
    with pytest.raises(InputError, match="row 3, column 'id': expected the name of a series, found an empty cell"):
        series_codes(table, "id")


def test_names_of_several_columns_are_read_back() -> None:
    """Red if a line break, or a mark of CSV text, in a cell ends the name that is joined from several."""
    cells = ["a\nb", "a\rb", 'a"b', "a,b", " a", "a"]
    names = joined_names(pd.DataFrame({"x": cells, "y": "q"}))
    assert [key_cells("[x,y]", name) for name in names] == [{"x": cell, "y": "q"} for cell in cells]
