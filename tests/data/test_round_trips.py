"""Properties of reading generated tables: what was written is read back, missing rows are reported and repaired."""

import re
from ast import literal_eval

import numpy as np
import pandas as pd
import pytest
from generated_tables import Writing, tables, writings
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stores import read_series, series_from_frame

from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Fill

FORMATS = [
    "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M", "%d %b %Y %H:%M:%S", "%d %B %Y",
    "%m-%d-%Y",
]  # fmt: skip
Drawn = tuple[pd.DataFrame, str]


def filled(frame: pd.DataFrame, fill: Fill) -> pd.DataFrame:
    """As pandas fills."""
    if fill is Fill.mask:
        return frame
    if fill is Fill.ffill:
        return frame.ffill()
    return frame.interpolate(limit_area="inside") if fill is Fill.linear else frame.fillna(0.0)


@settings(max_examples=60, deadline=None)
@given(drawn=tables(), writing=writings())
def test_what_was_written_is_read_back(
    drawn: Drawn, writing: Writing, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Red if a dialect, an encoding, a step or the order of columns is taken for another."""
    frame, step = drawn
    path = writing.write(frame, tmp_path_factory.mktemp("written"))
    series = read_series(path, DatasetConfig(**writing.named))
    assert (series.name, series.time_col) == ("table", "date")
    assert list(series.columns) == [name for name in frame.columns if name != "date"]
    # pandas 2 reads some numbers of 16 digits with another last bit
    np.testing.assert_allclose(series.values, frame.drop(columns="date").to_numpy(), rtol=1e-14)
    assert series.timestamps.equals(pd.DatetimeIndex(frame["date"]))
    longer = pd.date_range(frame["date"].iloc[0], periods=len(frame) + 5, freq=step)
    assert list(series.frequency.future(series.timestamps[-1], 5)) == list(longer[-5:])


@settings(max_examples=40, deadline=None)
@given(drawn=tables(n_rows=(1, 12)))
def test_a_step_that_is_given_holds_from_the_first_row_on(drawn: Drawn) -> None:
    """Red if a step's anchor is not kept where few rows show it."""
    frame, step = drawn
    series = series_from_frame(frame, DatasetConfig(frequency=step), "few")
    assert list(series.timestamps) == list(frame["date"])
    longer = pd.date_range(frame["date"].iloc[0], periods=len(frame) + 3, freq=step)
    assert list(series.frequency.future(series.timestamps[-1], 3)) == list(longer[-3:])


@settings(max_examples=40, deadline=None)
@given(drawn=tables(), time_format=st.sampled_from(FORMATS))
def test_times_are_read_as_they_are_written(
    drawn: Drawn, time_format: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Red if day and month are swapped, or a part of the time is dropped."""
    frame, _ = drawn
    text = frame["date"].dt.strftime(time_format)
    shown = pd.to_datetime(text, format=time_format)
    assume((shown == frame["date"]).all())
    settled = time_format.startswith("%Y") or "%b" in time_format.lower() or (shown.dt.day > 12).any()
    path = tmp_path_factory.mktemp("times") / "f.csv"
    frame.assign(date=text).to_csv(path, index=False)
    if settled:
        assert list(read_series(path, DatasetConfig()).timestamps) == list(shown)
    else:  # equal steps may show it
        try:
            found = list(read_series(path, DatasetConfig()).timestamps)
        except InputError as error:
            if not re.search(r"the order of day, month and year is ambiguous.*dataset.time_format=", str(error)):
                raise
        else:
            assert found == list(shown)
    told = read_series(path, DatasetConfig(time_format=time_format))
    assert list(told.timestamps) == list(shown)


@settings(max_examples=40, deadline=None)
@given(drawn=tables(), data=st.data(), fill=st.sampled_from(Fill))
def test_missing_rows_are_counted_and_put_in(drawn: Drawn, data: st.DataObject, fill: Fill) -> None:
    """Red if a gap is missed, reported at another row or with another count, or filled differently from pandas."""
    frame, _ = drawn
    inner = st.integers(1, len(frame) - 2)
    missing = sorted(data.draw(st.sets(inner, min_size=1, max_size=5)))
    held = frame.drop(index=missing)
    first = int((held.index > missing[0]).argmax())  # frames count their rows from 0
    gaps = sum(place - 1 not in missing for place in missing)
    with pytest.raises(InputError) as error:
        series_from_frame(held, DatasetConfig(), "held")
    rows = "1 row is missing" if len(missing) == 1 else f"{len(missing)} rows are missing"
    message = f"held, row {first}, column 'date': expected {frame['date'][missing[0]]} "
    assert str(error.value).startswith(message)
    assert f": {rows}{f' in {gaps} gaps' if gaps > 1 else ''}; " in str(error.value)
    assert len(str(error.value).splitlines()) == 1

    series = series_from_frame(held, DatasetConfig(fill=fill), "held")
    expected = filled(held.set_index("date").reindex(frame["date"]), fill)
    assert list(series.timestamps) == list(expected.index)
    np.testing.assert_allclose(series.values, expected.to_numpy(), rtol=1e-13)


@settings(max_examples=40, deadline=None)
@given(drawn=tables(), data=st.data(), fill=st.sampled_from([one for one in Fill if one is not Fill.mask]))
def test_empty_cells_are_counted_and_filled(drawn: Drawn, data: st.DataObject, fill: Fill) -> None:
    """Red if an empty cell is missed, reported at another row or with another count, or filled differently."""
    frame, _ = drawn
    columns = [name for name in frame.columns if name != "date"]
    place = st.tuples(st.integers(1, len(frame) - 2), st.sampled_from(columns))
    empty = data.draw(st.sets(place, min_size=1, max_size=12))
    held = frame.copy()
    for row, column in empty:
        held.loc[row, column] = np.nan
    with pytest.raises(InputError) as error:
        series_from_frame(held, DatasetConfig(), "held")
    told = {
        literal_eval(match[2]): (int(match[1]), int(match[3] or 1))
        for line in str(error.value).splitlines()
        if (match := re.fullmatch(r"held, row (\d+), column (.*): expected .*NaN(?: \((\d+) such cells\))?; .*", line))
    }
    expected = {
        column: (int(held[column].isna().argmax()), int(held[column].isna().sum()))
        for column in columns
        if held[column].isna().any()
    }
    assert told == expected

    marks = ["".join(" x"[cell] for cell in held[column].isna()) for column in columns]
    longest = max(len(run) for column in marks for run in column.split(" "))
    for max_gap in (longest, None):
        config = DatasetConfig(fill=fill, max_gap=max_gap)
        series = series_from_frame(held, config, "held")
        np.testing.assert_allclose(series.values, filled(held[columns], fill).to_numpy(), rtol=1e-13)
    if longest > 1:
        with pytest.raises(InputError, match=f"cannot fill it within dataset.max_gap={longest - 1}"):
            series_from_frame(held, DatasetConfig(fill=fill, max_gap=longest - 1), "held")
