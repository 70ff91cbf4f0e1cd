"""Borders against arithmetic by hand, and the error that counts the rows."""

import pandas as pd
import pytest

from informer import InputError
from informer.config.data import SplitConfig
from informer.config.model import WindowSizes
from informer.data import Frequency
from informer.read.split import cut_rows, shortage

SMALL = WindowSizes(seq_len=3, label_len=1, pred_len=2)


def cut(n: int, freq: str, config: SplitConfig, sizes: WindowSizes = SMALL) -> list[tuple[int, int]]:
    split = cut_rows(pd.date_range("2020-01-01", periods=n, freq=freq), Frequency.parse(freq), config)
    if lacking := shortage(split, n, config, sizes=sizes, name="series"):
        raise InputError(lacking)
    return [(part.start, part.stop) for part in (split.train, split.val, split.test)]


def config(kind: str, train: int | float | str, val: int | float | str, test: int | float | str | None) -> SplitConfig:
    return SplitConfig(kind=kind, train=train, val=val, test=test)


@pytest.mark.parametrize(("freq", "per_month"), [("h", 720), ("15min", 2880), ("D", 30), ("4h", 180)])
def test_months_have_thirty_days(freq: str, per_month: int) -> None:
    n = 20 * per_month + 11
    assert cut(n, freq, config("months", 12, 4, 4)) == [
        (0, 12 * per_month),
        (12 * per_month, 16 * per_month),
        (16 * per_month, 20 * per_month),
    ]
    with pytest.raises(InputError, match="months of 30 days, which rows of frequency B"):
        cut(n, "B", config("months", 12, 4, 4))


@pytest.mark.parametrize("n", [100, 101, 109, 35064, 26304])
def test_ratio_rounds_as_the_authors_do(n: int) -> None:
    train, test = int(n * 0.7), int(n * 0.2)
    assert cut(n, "h", config("ratio", 0.7, 0.1, 0.2)) == [(0, train), (train, n - test), (n - test, n)]


def test_rows_and_dates() -> None:
    assert cut(100, "D", config("rows", 50, 20, 10)) == [(0, 50), (50, 70), (70, 80)]
    assert cut(100, "D", config("dates", "2020-02-01", "2020-03-01", "2020-03-11")) == [(0, 31), (31, 60), (60, 70)]
    assert cut(100, "D", config("dates", "2020-02-01", "2020-03-01", None)) == [(0, 31), (31, 60), (60, 100)]


def test_dates_of_a_zone() -> None:
    timestamps = pd.date_range("2020-01-01", periods=100, freq="D", tz="Asia/Tokyo")
    split = cut_rows(timestamps, Frequency.parse("D"), config("dates", "2020-02-01", "2020-03-01", None))
    assert split.train == range(31)


def test_a_date_that_names_its_zone() -> None:
    """Red if the zone is dropped: 2020-01-31 15:00 in UTC is February in Tokyo."""
    timestamps = pd.date_range("2020-01-01", periods=100, freq="D", tz="Asia/Tokyo")
    dates = config("dates", "2020-01-31T15:00:00Z", "2020-03-01T00:00+09:00", None)
    split = cut_rows(timestamps, Frequency.parse("D"), dates)
    assert split.train == range((timestamps < pd.Timestamp("2020-01-31T15:00:00Z")).sum()) == range(31)
    assert split.val == range(31, 60)
    with pytest.raises(InputError, match="found '2020-01-31T15:00:00Z', expected a date without a time zone"):
        cut(100, "D", dates)


def test_a_date_that_a_clock_change_leaves_out() -> None:
    """In Santiago 8 September 2024 began at 1:00."""
    timestamps = pd.date_range("2024-09-01", periods=600, freq="h", tz="America/Santiago")
    split = cut_rows(timestamps, Frequency.parse("h"), config("dates", "2024-09-08", "2024-09-20", None))
    assert timestamps[split.val.start] == pd.Timestamp("2024-09-08T01:00-03:00")
