"""Properties of reading generated tables: a given step holds, missing rows and cells are reported and repaired."""

import re
from ast import literal_eval

import numpy as np
import pandas as pd
import pytest
from generated_tables import tables
from hypothesis import given, settings
from hypothesis import strategies as st

from informer import InputError
from informer.data import Series, read

Drawn = tuple[pd.DataFrame, str]


NO_TEST = {"kind": "rows", "train": 10_000, "val": 1, "test": 1}
"""No row is of the test part, before which gaps are filled without the rows after them."""


FILLS = ["ffill", "linear", "zero", "mask"]


def one(frame: pd.DataFrame, **settings: object) -> Series:
    (series,) = read(frame, **settings)
    return series


def filled(frame: pd.DataFrame, fill: str) -> pd.DataFrame:
    """As pandas fills."""
    if fill == "mask":
        return frame
    if fill == "ffill":
        return frame.ffill()
    return frame.interpolate(limit_area="inside") if fill == "linear" else frame.fillna(0.0)


@settings(max_examples=40, deadline=None)
@given(drawn=tables(n_rows=(1, 12)))
def test_a_step_that_is_given_holds_from_the_first_row_on(drawn: Drawn) -> None:
    """Red if a step's anchor is not kept where few rows show it."""
    frame, step = drawn
    series = one(frame, frequency=step)
    assert list(series.timestamps) == list(frame["date"])
    longer = pd.date_range(frame["date"].iloc[0], periods=len(frame) + 3, freq=step)
    assert list(series.frequency.future(series.timestamps[-1], 3)) == list(longer[-3:])


@settings(max_examples=40, deadline=None)
@given(drawn=tables(), data=st.data(), fill=st.sampled_from(FILLS))
def test_missing_rows_are_counted_and_put_in(drawn: Drawn, data: st.DataObject, fill: str) -> None:
    """Red if a gap is missed, reported at another row or with another count, or filled differently from pandas."""
    frame, _ = drawn
    inner = st.integers(1, len(frame) - 2)
    missing = sorted(data.draw(st.sets(inner, min_size=1, max_size=5)))
    held = frame.drop(index=missing)
    first = int((held.index > missing[0]).argmax())  # frames count their rows from 0
    gaps = sum(place - 1 not in missing for place in missing)
    with pytest.raises(InputError) as error:
        read(held)
    rows = "1 row is missing" if len(missing) == 1 else f"{len(missing)} rows are missing"
    message = f"frame, row {first}, column 'date': expected {frame['date'][missing[0]]} "
    assert str(error.value).startswith(message)
    assert f": {rows}{f' in {gaps} gaps' if gaps > 1 else ''}; " in str(error.value)
    assert len(str(error.value).splitlines()) == 1

    series = one(held, fill=fill, split=NO_TEST)
    expected = filled(held.set_index("date").reindex(frame["date"]), fill)
    assert list(series.timestamps) == list(expected.index)
    np.testing.assert_allclose(series.values, expected.to_numpy(), rtol=1e-13)


@settings(max_examples=40, deadline=None)
@given(drawn=tables(), data=st.data(), fill=st.sampled_from(FILLS[:-1]))
def test_empty_cells_are_counted_and_filled(drawn: Drawn, data: st.DataObject, fill: str) -> None:
    """Red if an empty cell is missed, reported at another row or with another count, or filled differently."""
    frame, _ = drawn
    columns = [name for name in frame.columns if name != "date"]
    place = st.tuples(st.integers(1, len(frame) - 2), st.sampled_from(columns))
    empty = data.draw(st.sets(place, min_size=1, max_size=12))
    held = frame.copy()
    for row, column in empty:
        held.loc[row, column] = np.nan
    with pytest.raises(InputError) as error:
        read(held)
    told = {
        literal_eval(match[2]): (int(match[1]), int(match[3] or 1))
        for line in str(error.value).splitlines()
        if (match := re.fullmatch(r"frame, row (\d+), column (.*): expected .*NaN(?: \((\d+) such cells\))?; .*", line))
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
        series = one(held, fill=fill, max_gap=max_gap, split=NO_TEST)
        np.testing.assert_allclose(series.values, filled(held[columns], fill).to_numpy(), rtol=1e-13)
    if longest > 1:
        with pytest.raises(InputError, match=f"cannot fill it within dataset.max_gap={longest - 1}"):
            read(held, fill=fill, max_gap=longest - 1)
