"""Borders against arithmetic by hand."""

import pandas as pd
import pytest

from informer import InputError
from informer.config.data import SplitConfig
from informer.data import Frequency
from informer.read.split import cut_rows


def cut(n: int, freq: str, kind: str, *parts: float | str | None, zone: str | None = None) -> list[tuple[int, int]]:
    """First row of each part, and the row after its last."""
    config = SplitConfig(**dict(zip(("kind", "train", "val", "test"), (kind, *parts), strict=True)))
    split = cut_rows(pd.date_range("2020-01-01", periods=n, freq=freq, tz=zone), Frequency.parse(freq), config)
    return [(part.start, part.stop) for part in (split.train, split.val, split.test)]


@pytest.mark.parametrize(("freq", "month"), [("h", 720), ("15min", 2880), ("D", 30), ("4h", 180)])
def test_months_have_thirty_days(freq: str, month: int) -> None:
    borders = [(0, 12 * month), (12 * month, 16 * month), (16 * month, 20 * month)]
    assert cut(20 * month + 11, freq, "months", 12, 4, 4) == borders
    with pytest.raises(InputError, match="rows of frequency B"):
        cut(20 * month + 11, "B", "months", 12, 4, 4)


@pytest.mark.parametrize("n", [100, 101, 109, 35064, 26304])
def test_ratio_rounds_as_the_authors_do(n: int) -> None:
    train, test = int(n * 0.7), int(n * 0.2)
    assert cut(n, "h", "ratio", 0.7, 0.1, 0.2) == [(0, train), (train, n - test), (n - test, n)]


def test_rows_and_dates() -> None:
    """Red if the zone of a date, or of the rows, is dropped: 2020-01-31 15:00 in UTC is February in Tokyo."""
    assert cut(100, "D", "rows", 50, 20, 10) == [(0, 50), (50, 70), (70, 80)]
    assert cut(100, "D", "dates", "2020-02-01", "2020-03-01", "2020-03-11") == [(0, 31), (31, 60), (60, 70)]
    dates = ["2020-02-01", "2020-03-01", None]
    assert cut(100, "D", "dates", *dates) == [(0, 31), (31, 60), (60, 100)]
    assert cut(100, "D", "dates", *dates, zone="Asia/Tokyo") == [(0, 31), (31, 60), (60, 100)]
    dates = ["2020-01-31T15:00:00Z", "2020-03-01T00:00+09:00", None]
    assert cut(100, "D", "dates", *dates, zone="Asia/Tokyo") == [(0, 31), (31, 60), (60, 100)]


def test_a_date_that_a_clock_change_leaves_out() -> None:
    """In Santiago 6 September 2020 began at 1:00, in row 248 days of 24 hours and one of 25 after the first."""
    borders = cut(7000, "h", "dates", "2020-09-06", "2020-09-20", None, zone="America/Santiago")
    times = pd.date_range("2020-01-01", periods=7000, freq="h", tz="America/Santiago")
    assert times[borders[1][0]] == pd.Timestamp("2020-09-06T01:00-03:00")
