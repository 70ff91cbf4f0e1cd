"""Properties of a job over generated files: it writes the forecasts of the Forecaster, at the following times."""

import csv
import io
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, Trained, done
from generated_tables import Writing, tables, writings
from hypothesis import given, settings
from hypothesis import strategies as st

from informer import Forecaster

STEPS = ["h", "B", "ME"]
TINY = {"model": "tiny", "seq_len": 12, "label_len": 5, "pred_len": 4, "device": "cpu"}
COLUMNS = ["north", "south, east", "größe"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Forecaster, Path]]:
    """For each step a model that has hardly learned anything, and its file."""
    folder, random = tmp_path_factory.mktemp("saved"), np.random.default_rng(0)
    fitted: dict[str, tuple[Forecaster, Path]] = {}
    for step in STEPS:
        times = pd.date_range("2000-01-03", periods=200, freq=step)
        frame = pd.DataFrame(random.normal(size=(200, len(COLUMNS))), times, COLUMNS)
        fitted[step] = Forecaster(**TINY, **{"trainer.max_steps": 1}).fit(frame), folder / f"{step}.safetensors"
        fitted[step][0].save(fitted[step][1])
    return fitted


def forecast_bytes(checkpoint: Path, path: Path, named: dict[str, str]) -> bytes:
    """Content of the file that `informer predict` writes for one file."""
    words = [f"dataset.{key}={value!r}" for key, value in named.items()]
    done("predict", str(checkpoint), str(path), f"output={path.parent}/out", "digits=null", *words)
    (written,) = (path.parent / "out").iterdir()
    return written.read_bytes()


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    drawn=tables(n_rows=(12, 40), steps=STEPS, columns=st.just(COLUMNS)),
    writing=writings(),
    order=st.permutations(["date", "besides", *COLUMNS]),
)
def test_a_forecast_goes_through_a_file_unchanged(
    drawn: tuple[pd.DataFrame, str],
    writing: Writing,
    order: list[str],
    saved: dict[str, tuple[Forecaster, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Red if a digit, a time or the place of a column is lost on the way in or out."""
    frame, step = drawn
    forecaster, checkpoint = saved[step]
    path = writing.write(frame, tmp_path_factory.mktemp("in"))
    content = forecast_bytes(checkpoint, path, writing.named)

    marks = {"sep": ",", "decimal": ".", "encoding": "utf-8"} if writing.ending == ".parquet" else writing.dialect
    text = content.decode(marks["encoding"])
    header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=marks["sep"])
    expected = forecaster.predict(frame)
    assert header == list(expected.columns) == ["date", *COLUMNS]
    times = pd.date_range(frame["date"].iloc[-1], periods=len(rows) + 1, freq=step)[1:]
    assert [pd.Timestamp(row[0]) for row in rows] == list(times)
    numbers = [[float(cell.replace(marks["decimal"], ".")) for cell in row[1:]] for row in rows]
    np.testing.assert_array_equal(numbers, expected.drop(columns="date").to_numpy())
    assert list(expected["date"]) == list(times)

    again = writing.write(frame.assign(besides="x")[order], tmp_path_factory.mktemp("reordered"))
    assert forecast_bytes(checkpoint, again, writing.named) == content


@pytest.mark.parametrize(
    ("unit", "places", "step", "decimal", "start"),
    [
        ("s", 0, "1h", ".", "2023-11-14 22:13:20"),
        ("s", 0, "100ms", ",", "1969-12-31 23:59:50"),
        ("ms", 3, "500ms", ".", "1969-12-31 23:59:50"),
        ("ms", 3, "250us", ",", "2023-11-14 22:13:20"),
        ("us", 6, "2s", ".", "2023-11-14 22:13:20"),
    ],
)
def test_counts_since_1970_go_on_as_counts(
    unit: str, places: int, step: str, decimal: str, start: str, folder: Path
) -> None:
    """Red if fractions of a count are cut off, or whole counts are written as floats."""
    times = pd.date_range(start, periods=40, freq=step)
    counts = [format(Decimal(time.value).scaleb(places - 9).normalize(), "f") for time in times]
    cells = [count.replace(".", decimal) for count in counts]
    pd.DataFrame({"date": cells[:30], "a": range(30)}).to_csv("f.csv", index=False, sep=";")
    form = [f"dataset.time_format={unit}", "dataset.separator=;", f"dataset.decimal='{decimal}'"]
    done("forecast", "f.csv", "model=zero", "horizon=10", "output=out", *form)
    written = pd.read_csv("out/forecasts/f.forecast.csv", sep=";", dtype=str)["date"]
    found = [Decimal(cell.replace(decimal, ".")) for cell in written]
    assert found == [Decimal(count) for count in counts[30:]]
    if not any("." in count for count in counts[30:]):
        assert written.tolist() == counts[30:]


def test_the_time_column_of_training_is_taken_among_several(
    trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Red if a job looks for the time column of a file that has the one of training."""
    caplog.set_level("INFO", "informer")
    model, frame = Forecaster.load(trained.run_dir), pd.read_csv(ROOT / "data/sample.csv", nrows=24)
    times = pd.DatetimeIndex(frame["date"])
    later = times + pd.Timedelta("3min")
    for more in ({}, {"date created": later}, {"timestamp": later[::-1]}):
        frame.assign(**more).to_csv(tmp_path / "f.csv", index=False)
        assert model.predict(tmp_path / "f.csv")["date"].tolist() == list(times[-6:] + pd.Timedelta("6h"))
    assert caplog.messages == []
