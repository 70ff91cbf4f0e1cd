"""Panels stored in files: the same windows as in memory however the file is split, written once and verified."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from dataset_cases import SIZES, made, write
from stores import load_data

from informer.base.errors import InputError
from informer.config.data import Calendar, DatasetConfig, FeatureMode, ScalerConfig, ScalerKind, Short, Transform
from informer.config.model import CalendarEmbed
from informer.data import large, scaler, store
from informer.data.columns import Roles
from informer.data.dataset import Data
from informer.data.store import Cache
from informer.data.windows import DataUnits
from informer.read import table
from informer.read.table import read_pieces
from informer.scoring.scores import training_scale


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few kilobytes are cut into many pieces; sizes that no row or series ends with."""
    monkeypatch.setattr(table, "PIECE", 1500)
    monkeypatch.setattr(store, "ROWS", 17)
    monkeypatch.setattr(scaler, "BLOCK", 100)


def load(
    config: DatasetConfig, roles: Roles, scaling: ScalerConfig, calendar: CalendarEmbed = CalendarEmbed.timeF
) -> Data:
    return load_data(config, SIZES, roles, Path(str(config.path)).parent, scaler=scaling, calendar=Calendar(calendar))


def frames() -> dict[str, pd.DataFrame]:
    return {"p": made(150), "q": made(130, start="2020-01-02"), "r": made(20), "s": made(100)}


def one_file(path: Path) -> DatasetConfig:
    return DatasetConfig(name="one", path=str(write(made(301), path / "one.csv")))


def german(path: Path) -> DatasetConfig:
    made(200).to_csv(path / "german.csv", index=False, sep=";", decimal=",", date_format="%d.%m.%Y %H:%M")
    return DatasetConfig(name="german", path=str(path / "german.csv"), time_format="%d.%m.%Y %H:%M")


def folder(path: Path) -> DatasetConfig:
    (path / "in").mkdir(exist_ok=True)
    for name, frame in frames().items():
        write(frame, path / "in" / f"{name}.csv")
    return DatasetConfig(name="many", path=str(path / "in"), short=Short.skip)


def padded(path: Path) -> DatasetConfig:
    return replace(folder(path), short=Short.pad)


def long_file(path: Path) -> DatasetConfig:
    rows = pd.concat(frame.assign(id=name) for name, frame in frames().items())
    return DatasetConfig(path=str(write(rows, path / "long.csv.gz")), series_col="id", short=Short.skip)


ROLES = [Roles(), Roles(features=FeatureMode.S, target="b"), Roles(targets=["b"], future_covariates=["a"])]


def same(one: Any, other: Any) -> bool:
    """Whether these parts of two batches are equal, or both missing; of longer histories, of 20 rows."""
    if callable(one) and callable(other):
        return all(torch.equal(*pair) for pair in zip(one(20), other(20), strict=True))
    if isinstance(one, DataUnits):
        return all(same(*pair) for pair in zip(one, other, strict=True))
    return one is other if one is None or other is None else torch.equal(one, other)


@pytest.mark.parametrize("stored", [one_file, german, folder, padded, long_file])
@pytest.mark.parametrize(
    "roles",
    [pytest.param(ROLES[0], marks=pytest.mark.slow), pytest.param(ROLES[1], marks=pytest.mark.slow), ROLES[2]],
    ids=["M", "S", "lists"],
)
def test_batches_are_those_of_memory(stored: Callable[[Path], DatasetConfig], roles: Roles, tmp_path: Path) -> None:
    config = stored(tmp_path)
    rooted = ScalerConfig(transform=Transform.sqrt, per_series=True)
    for scaling in (ScalerConfig(), ScalerConfig(kind=ScalerKind.robust, per_series=True), rooted):
        here, there = (load(replace(config, memmap=memmap), roles, scaling) for memmap in (False, True))
        assert here.scaler.state() == there.scaler.state()
        assert here.columns == there.columns
        assert [one.name for one in here.panel] == [one.name for one in there.panel]
        assert all(one.timestamps.equals(other.timestamps) for one, other in zip(here.panel, there.panel, strict=True))
        for part in ("train", "val", "test"):
            ours, theirs = (getattr(data, part).batches(7) for data in (here, there))
            for one, other in zip(ours, theirs, strict=True):
                assert all(same(*pair) for pair in zip(one, other, strict=True))
        assert np.array_equal(training_scale(here), training_scale(there), equal_nan=True)
        assert isinstance(there.panel[0].values, np.memmap)


def test_no_calendar_needs_no_file(tmp_path: Path) -> None:
    """Red if a file without a byte is to be mapped."""
    config = replace(one_file(tmp_path), memmap=True)
    data = load(config, Roles(), ScalerConfig(), CalendarEmbed.none)
    assert data.train.batch(torch.arange(2)).enc_mark.shape == (2, SIZES.seq_len, 0)


def written(path: Path) -> dict[Path, tuple[bytes, int]]:
    return {
        file: (file.read_bytes(), file.stat().st_mtime_ns) for file in (path / "cache").rglob("*") if file.is_file()
    }


def test_files_are_written_once_and_anew_where_they_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = replace(long_file(tmp_path), memmap=True)
    load(config, Roles(), ScalerConfig())
    first = written(tmp_path)
    assert {file.suffix for file in first} == {".float64", ".float32", ".json", ".sha256"}
    load(config, Roles(), ScalerConfig())
    assert written(tmp_path) == first
    # another scaler is another file, of the same values
    load(config, Roles(), ScalerConfig(kind=ScalerKind.minmax))
    more = written(tmp_path)
    assert {file.suffix for file in set(more) - set(first)} == {".float32", ".sha256"}
    assert all(more[file] == first[file] for file in first)
    for file in first:
        if file.suffix.startswith(".float"):
            file.write_bytes(b"\1" + first[file][0][1:])
    load(config, Roles(), ScalerConfig())
    assert caplog.text.count("damaged cache file; writing it again") == 3
    assert {file: content for file, (content, _) in written(tmp_path).items() if file in first} == {
        file: content for file, (content, _) in first.items()
    }


def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    def blocks() -> list[np.ndarray]:
        raise InputError("stop")

    cache = Cache.below(tmp_path, "key")
    with pytest.raises(InputError, match="stop"):
        cache.array("values", blocks, dtype=np.float32)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"expected a writable path, found: Not a directory; set dataset\.cache_dir"):
        Cache.below(tmp_path / "file", "key").array("x", lambda: [np.ones(3)], dtype=np.float32)


def worded(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(b=["x" if row == 200 else value for row, value in enumerate(frame["b"])])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (worded, r"one\.csv, row 202, column 'b': expected a number, found 'x'"),
        (lambda frame: frame.drop(index=140), r"one\.csv, row \d+, column 'date': expected 2020-01-"),
        (lambda frame: pd.concat([frame, frame[250:]]), r"one\.csv, row 303, column 'date': expected "),
    ],
)
def test_mistakes_are_named_by_their_row(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str, tmp_path: Path
) -> None:
    config = replace(one_file(tmp_path), memmap=True)
    write(change(made(301).assign(date=lambda frame: frame["date"].astype(str))), tmp_path / "one.csv")
    with pytest.raises(InputError, match=message):
        load(config, Roles(), ScalerConfig())
    assert written(tmp_path) == {}


DAYS = b"".join(f"{day:%Y-%m-%d},1\n".encode() for day in pd.date_range("2020-01-01", periods=200))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"date,a\n", "f.csv: a header without rows"),
        (b"date,a\n" + DAYS + b"2020-09-01,1,2\n", r"row 202: expected 2 cells as in the header, found 3"),
        (b"date,a\n" + DAYS + b"\xff\xfe,1\n", r"f\.csv: not utf-8.* text"),
    ],
)
def test_files_that_are_no_series(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(DatasetConfig(path=str(tmp_path / "f.csv"), memmap=True), Roles(), ScalerConfig())
    with pytest.raises(InputError, match="no such file"):
        load(DatasetConfig(path=str(tmp_path / "g.csv"), memmap=True), Roles(), ScalerConfig())
    with pytest.raises(InputError, match=r"dataset\.memmap: repairs \(sort"):
        load(DatasetConfig(path=str(tmp_path / "f.csv"), memmap=True, sort=True), Roles(), ScalerConfig())


def test_rows_are_counted_over_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the row of a message counts from the start of its piece, here some ten rows."""
    monkeypatch.setattr("informer.read.table.PIECE", 128)
    path = tmp_path / "f.csv"
    for last, message in (
        (b"2020-09-01,1,2\n", "row 202: expected 2 cells as in the header, found 3 in '2020-09-01,1,2'"),
        (b'2020-09-01,"1\n', "row 202: a quotation mark has no partner"),
    ):
        path.write_bytes(b"date,a\n" + DAYS + last)
        with pytest.raises(InputError, match=message):
            list(read_pieces(path))


def test_blank_lines_at_the_end_do_not_matter(tmp_path: Path) -> None:
    config = replace(one_file(tmp_path), memmap=True)
    path = tmp_path / "one.csv"
    path.write_bytes(path.read_bytes() + b",,,\n" * 1000)
    assert len(load(config, Roles(), ScalerConfig()).panel[0]) == 301


def test_a_series_in_two_places_is_refused(tmp_path: Path) -> None:
    rows = pd.concat([made(50).assign(id="x"), made(50).assign(id="y"), made(60)[50:].assign(id="x")])
    config = DatasetConfig(path=str(write(rows, tmp_path / "f.csv")), series_col="id", memmap=True)
    with pytest.raises(InputError, match=r"f\.csv, id x, row 102, .* rows of x are not consecutive"):
        load(config, Roles(), ScalerConfig())


def test_names_do_not_depend_on_the_piece(tmp_path: Path) -> None:
    """Red if a piece that holds only numbers reads its names as numbers."""
    ids = ["007", "A2", "1.10", "NA"]
    path = write(pd.concat(made(90).assign(id=one) for one in ids), tmp_path / "f.csv")
    data = load(DatasetConfig(path=str(path), series_col="id", memmap=True), Roles(), ScalerConfig())
    assert [(one.name, len(one)) for one in data.panel] == [(one, 90) for one in ids]


@pytest.mark.parametrize("series_col", ["id", None])
@pytest.mark.parametrize("worded", [range(90), range(90, 180), range(100, 101)])
def test_text_is_told_by_all_pieces(worded: range, series_col: str | None, tmp_path: Path) -> None:
    """Fails if a piece without text makes the column numeric; numeric cells elsewhere do not make it text."""
    rows = made(180).assign(id=["p"] * 90 + ["q"] * 90)
    rows["note"] = ["warm" if row in worded else None for row in range(180)]
    rows = rows if series_col else rows.drop(columns="id")
    config = DatasetConfig(path=str(write(rows, tmp_path / "f.csv")), series_col=series_col, memmap=True)
    data = load(config, Roles(), ScalerConfig())
    assert {one.columns for one in data.panel} == {("a", "b", "c")}
    assert sum(len(one) for one in data.panel) == 180
    rows.loc[179, "note"] = "7"
    write(rows, tmp_path / "f.csv")
    for memmap in (False, True):
        with pytest.raises(InputError, match=r"column 'note': expected a number|additional: note"):
            load(replace(config, memmap=memmap), Roles(), ScalerConfig())


@pytest.mark.parametrize("memmap", [False, True])
def test_one_series_may_tell_day_and_month_of_another(
    memmap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if the days of a series, none above 12, are all that its dates are read by."""
    monkeypatch.setattr(table, "PIECE", 1 << 20)
    frames = {"p": made(150, start="2020-01-02"), "q": made(150, start="2020-01-20")}
    rows = pd.concat(frame.assign(id=name) for name, frame in frames.items())
    rows.to_csv(tmp_path / "f.csv", index=False, date_format="%d/%m/%Y %H:%M")
    config = DatasetConfig(path=str(tmp_path / "f.csv"), series_col="id", memmap=memmap)
    for one in load(config, Roles(), ScalerConfig()).panel:
        assert list(one.timestamps) == list(frames[one.name]["date"])


def test_no_more_than_a_piece_of_text_is_held(tmp_path: Path) -> None:
    """Red if the reader keeps pieces that it has returned."""
    config = one_file(tmp_path)
    reader = large._Reader(config)
    blocks = [len(block) for block in reader.blocks([Path(str(config.path))])]
    assert sum(blocks) == 301
    assert max(blocks) < 50
