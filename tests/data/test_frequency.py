"""Every pandas offset, old spelling or new: one unit, season and grid, and inferred from its own timestamps."""

import numpy as np
import pandas as pd
import pytest

from informer.data.frequency import Frequency, Unit
from informer.errors import InputError

# spelling -> canonical code, unit, rows in a season, rows in a day
OFFSETS = {
    "s": ("s", Unit.second, 3600, 86400),
    "S": ("s", Unit.second, 3600, 86400),
    "10S": ("10s", Unit.second, 360, 8640),
    "500ms": ("500ms", Unit.second, 7200, 172800),
    "L": ("ms", Unit.second, 3_600_000, 86_400_000),
    "us": ("us", Unit.second, 3_600_000_000, 86_400_000_000),
    "N": ("ns", Unit.second, 3_600_000_000_000, 86_400_000_000_000),
    "t": ("min", Unit.minute, 1440, 1440),
    "T": ("min", Unit.minute, 1440, 1440),
    "1min": ("min", Unit.minute, 1440, 1440),
    "15min": ("15min", Unit.minute, 96, 96),
    "15t": ("15min", Unit.minute, 96, 96),
    "30T": ("30min", Unit.minute, 48, 48),
    "90min": ("90min", Unit.minute, 16, 16),
    "2h30min": ("150min", Unit.minute, 48, None),
    "60min": ("h", Unit.hour, 24, 24),
    "h": ("h", Unit.hour, 24, 24),
    "H": ("h", Unit.hour, 24, 24),
    "4H": ("4h", Unit.hour, 6, 6),
    "7h": ("7h", Unit.hour, 24, None),
    "1D12h": ("36h", Unit.hour, 2, None),
    "bh": ("bh", Unit.hour, 8, None),
    "BH": ("bh", Unit.hour, 8, None),
    "24h": ("D", Unit.day, 7, 1),
    "d": ("D", Unit.day, 7, 1),
    "D": ("D", Unit.day, 7, 1),
    "2D": ("2D", Unit.day, 7, None),
    "B": ("B", Unit.business_day, 5, None),
    "b": ("B", Unit.business_day, 5, None),
    "C": ("C", Unit.business_day, 5, None),
    "7D": ("7D", Unit.week, 52, None),
    "w": ("W-SUN", Unit.week, 52, None),
    "W-MON": ("W-MON", Unit.week, 52, None),
    "2W": ("2W-SUN", Unit.week, 26, None),
    "SM": ("SME-15", Unit.week, 24, None),
    "SMS": ("SMS-15", Unit.week, 24, None),
    "m": ("ME", Unit.month, 12, None),
    "M": ("ME", Unit.month, 12, None),
    "ME": ("ME", Unit.month, 12, None),
    "MS": ("MS", Unit.month, 12, None),
    "BM": ("BME", Unit.month, 12, None),
    "BMS": ("BMS", Unit.month, 12, None),
    "CBM": ("CBME", Unit.month, 12, None),
    "CBMS": ("CBMS", Unit.month, 12, None),
    "WOM-3FRI": ("WOM-3FRI", Unit.month, 12, None),
    "LWOM-FRI": ("LWOM-FRI", Unit.month, 12, None),
    "Q": ("QE-DEC", Unit.quarter, 4, None),
    "Q-MAR": ("QE-MAR", Unit.quarter, 4, None),
    "QS": ("QS-JAN", Unit.quarter, 4, None),
    "BQ": ("BQE-DEC", Unit.quarter, 4, None),
    "BQS": ("BQS-JAN", Unit.quarter, 4, None),
    "REQ-N-DEC-MON-1": ("REQ-N-DEC-MON-1", Unit.quarter, 4, None),
    "A": ("YE-DEC", Unit.year, 1, None),
    "a": ("YE-DEC", Unit.year, 1, None),
    "Y": ("YE-DEC", Unit.year, 1, None),
    "A-JUN": ("YE-JUN", Unit.year, 1, None),
    "AS": ("YS-JAN", Unit.year, 1, None),
    "BA": ("BYE-DEC", Unit.year, 1, None),
    "BAS": ("BYS-JAN", Unit.year, 1, None),
    "RE-N-DEC-MON": ("RE-N-DEC-MON", Unit.year, 1, None),
}


@pytest.mark.parametrize("text", OFFSETS)
def test_every_spelling_has_one_meaning(text: str) -> None:
    frequency = Frequency.parse(text)
    assert (frequency.code, frequency.unit, frequency.season, frequency.per_day) == OFFSETS[text]
    assert Frequency.parse(frequency.code) == frequency


@pytest.mark.parametrize("text", ["", "hourly", "0h", "-1h", "-2M", "5"])
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="frequency"):
        Frequency.parse(text)


INFERRED = ["s", "10s", "500ms", "min", "15min", "90min", "h", "7h", "36h", "bh", "D", "2D", "B", "W-MON", "2W-WED"]
INFERRED += ["SME", "SMS", "ME", "MS", "2MS", "BME", "BMS", "QE-DEC", "QS-JAN", "QE-JAN", "BQE-DEC", "YE-DEC", "YS-MAR"]
INFERRED += ["BYS-JAN", "2YS-JAN", "4ME"]


@pytest.mark.parametrize("code", INFERRED)
def test_inferred_from_its_own_timestamps(code: str) -> None:
    timestamps = pd.date_range("2021-03-01 09:00", periods=37, freq=code)
    found = Frequency.infer(timestamps)
    given = Frequency.parse(code)
    assert (found.unit, found.multiple) == (given.unit, given.multiple)
    assert found.grid(timestamps[0], len(timestamps)).equals(timestamps)


@pytest.mark.parametrize("code", sorted({code for code, *_ in OFFSETS.values()} - {"ns", "us"}))
def test_future_continues_the_grid(code: str) -> None:
    timestamps = pd.date_range("2020-01-03", periods=20, freq=code)
    future = Frequency.parse(code).future(timestamps[12], 7)
    assert future.equals(timestamps[13:])
    assert len(Frequency.parse(code).future(timestamps[12], 0)) == 0


def test_three_months_of_31_days_are_months() -> None:
    assert Frequency.infer(pd.DatetimeIndex(["2020-12-01", "2021-01-01", "2021-02-01"])).code == "MS"


def test_two_rows_show_a_step() -> None:
    assert Frequency.infer(pd.DatetimeIndex(["2020-12-01 10:00", "2020-12-01 10:20"])).code == "20min"


def test_closest_counts_the_rows_before_the_gap() -> None:
    for code in ("15min", "B", "MS"):
        timestamps = pd.date_range("2020-01-01", periods=60, freq=code)
        frequency, kept = Frequency.closest(timestamps.delete(41))
        assert (frequency.code, kept) == (code, 41)
        with pytest.raises(ValueError, match="no regular step"):
            Frequency.infer(timestamps.delete(41))


@pytest.mark.parametrize("code", ["15min", "B", "MS", "W-WED", "36h", "1500ms", "QE-DEC"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_strides_count_the_steps_between_rows(code: str, zone: str | None) -> None:
    """Rows taken out leave strides as long as the hole; a row beside the grid leaves none on either side of it."""
    timestamps = pd.date_range("2020-01-01", periods=60, freq=code, tz=zone)
    kept = np.array([0, 1, 2, 7, 8, 20, 59])
    frequency = Frequency.parse(code)
    np.testing.assert_array_equal(frequency.strides(timestamps[kept]), np.diff(kept))
    moved = timestamps[kept].insert(4, timestamps[7] + pd.Timedelta("77ms"))
    np.testing.assert_array_equal(frequency.strides(moved), [1, 1, 5, 0, 0, 12, 39])


def test_the_step_shows_through_gaps_at_the_start() -> None:
    """Days would do for the first four rows of business days."""
    timestamps = pd.date_range("2020-01-06", periods=60, freq="B")
    assert Frequency.closest(timestamps.delete([2, 30]))[0].code == "B"
    days = pd.date_range("2020-01-06", periods=60, freq="D")
    assert Frequency.closest(days.delete([2, 30]))[0].code == "D"


def test_years_far_away() -> None:
    timestamps = pd.DatetimeIndex(np.array(["2021-01-01", "2021-01-02", "2021-01-03", "9021-01-04"], "datetime64[s]"))
    assert Frequency.closest(timestamps)[0].code == "D"
    assert Frequency.parse("D").strides(timestamps)[-1] == (timestamps[3] - timestamps[2]).days


def test_a_zone_with_clock_changes() -> None:
    """Hours are counted through the change, days are calendar days."""
    for code in ("h", "D"):
        timestamps = pd.date_range("2024-03-20", periods=400 if code == "h" else 40, freq=code, tz="Europe/Berlin")
        assert Frequency.infer(timestamps).code == code
        assert Frequency.parse(code).future(timestamps[-8], 7).equals(timestamps[-7:])


def test_seasons_return_to_the_same_phase() -> None:
    """A season of steps is a whole number of its cycle, whatever the multiple."""
    for hours in (1, 2, 5, 7, 9, 23):
        season = Frequency.parse(f"{hours}h").season
        assert season * hours % 24 == 0
        assert not np.any(np.arange(1, season) * hours % 24 == 0)
