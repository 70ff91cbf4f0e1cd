"""Target rows of the training, validation and test part. They never overlap; rows after the test part are not used."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import pandas as pd

from informer.base.errors import InputError
from informer.config.data import SplitConfig
from informer.config.model import WindowSizes
from informer.read.frequency import Frequency

Bound = int | float | str | None

WITHOUT_TRAINING = "or forecast without training: informer forecast FILE (in Python, Forecaster().predict)"
"""What works with any number of rows."""

MOST = 1e12
"""Largest number of rows or months of a part."""
LEAST_SHARE = 1e-6
"""Smallest share for which a sufficient number of rows is suggested."""

LEAST_TRAIN = 0.5
"""Minimum share of training rows when validation and test need more than the default."""
CALIBRATION_WINDOWS = 5
"""Calibration windows, from the later half of the validation part, that allow an 80 % interval."""
SEASONS_OF_HISTORY, MOST_HISTORY = 2, 1024
"""Rows of the history: seasons of the strongest, at least the horizon, at most a quarter of all, and at
most MOST_HISTORY."""


@dataclass(frozen=True, slots=True)
class Split:
    """Ranges of target rows; the lookback window of a validation or test window may start in the previous part."""

    train: range
    val: range
    test: range

    def clip(self, n: int, *, shift: int = 0) -> "Split":
        """A copy limited to the first n rows, after `shift` others."""
        parts = (self.train, self.val, self.test)
        return Split(*(range(min(rows.start, n) + shift, min(rows.stop, n) + shift) for rows in parts))


def cut_rows(timestamps: pd.DatetimeIndex, frequency: Frequency, config: SplitConfig) -> Split:
    """Split a series without checking lengths, see `shortage`; rows and months may end after the last row.

    Args:
        timestamps: timestamp of every row.
        frequency: step of the series, needed for months.
        config: kind and bounds of the split.

    Raises:
        InputError: invalid bounds.
    """
    if config.kind == "dates":
        return _cut(*_date_borders(timestamps, config))
    return _cut(*_count_borders(len(timestamps), frequency, config))


def shortage(split: Split, n: int, config: SplitConfig, *, sizes: WindowSizes, name: str) -> str | None:
    """A message with the rows needed and found if a series of n rows is too short for one window per part, else None.

    Args:
        split, config: the split, and how it was made.
        sizes: each part must have room for one window of these sizes.
        name: name of the series.
    """
    ranges = [("train", split.train), ("val", split.val), ("test", split.test)]
    found = {part: max(0, min(rows.stop, n) - rows.start) for part, rows in ranges}
    needed = {part: sizes.least_rows(rows.start) for part, rows in ranges}
    short = [part for part, _ in ranges if found[part] < needed[part]]
    beyond = split.test.stop > n
    if not short and not beyond:
        return None
    least = split.test.stop if beyond else _rows_for_ratio(n, sizes, config)
    at_least = f", at least {least} in all" if least else ""
    parts = (f"{part} needs {needed[part]}, has {found[part]}" for part in short)
    lacking = "; ".join(parts) or f"test ends at row {split.test.stop}"
    # a part far enough from the first row has the history of its windows before it
    helps = {"seq_len": any(needed[part] > sizes.pred_len for part in short), "pred_len": bool(short)}
    shorter = [name for name in helps if helps[name] and getattr(sizes, name) > 1 and all(found[x] for x in short)]
    return (
        f"{name}: {n} rows are too few for seq_len={sizes.seq_len}, pred_len={sizes.pred_len} and split "
        f"{config.kind} {config.train}/{config.val}/{config.test}: {lacking}{at_least}; "
        f"{'shorten ' + ' or '.join(shorter) if shorter else 'add rows'}"
    )


REMEDY = f", or change dataset.split, or, next to longer series, set dataset.short=skip or pad; {WITHOUT_TRAINING}"
"""What to do if a series is too short, after the message of `shortage`."""


def _cut(train: int, val: int, test: int) -> Split:
    return Split(range(train), range(train, val), range(val, test))


def _count_borders(n: int, frequency: Frequency, config: SplitConfig) -> Sequence[int]:
    train, val, test = (_number(config, part) for part in ("train", "val", "test"))
    if config.kind == "ratio":
        return _ratio_borders(n, train, val, test)
    per_unit = 1
    if config.kind == "months":
        if frequency.per_day is None:
            raise InputError(
                f"dataset.split.kind=months counts months of 30 days, which rows of frequency {frequency.code} do not "
                "divide: use ratio, dates or rows"
            )
        per_unit = 30 * frequency.per_day
    return [int(end * per_unit) for end in (train, train + val, train + val + test)]


def _ratio_borders(n: int, train: float, val: float, test: float) -> tuple[int, int, int]:
    if abs(train + val + test - 1) > 1e-6:
        raise InputError(f"dataset.split: expected shares that add up to 1, found {train} + {val} + {test}")
    return int(n * train), n - int(n * test), n


def _number(config: SplitConfig, part: str) -> float:
    value: Bound = getattr(config, part)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MOST:
        raise InputError(f"dataset.split.{part}: expected a number above 0 for kind={config.kind}, found {value!r:.40}")
    if config.kind == "rows" and value != int(value):
        raise InputError(f"dataset.split.{part}: expected whole rows, found {value!r}")
    return float(value)


def _date_borders(timestamps: pd.DatetimeIndex, config: SplitConfig) -> Sequence[int]:
    rows = []
    for part in ("train", "val", "test"):
        value: Bound = getattr(config, part)
        if value is None and part == "test":
            rows.append(len(timestamps))
            continue
        # a number belongs to another kind of split
        date = pd.to_datetime(value if isinstance(value, str) else "", format="ISO8601", errors="coerce")
        if pd.isna(date):
            raise InputError(f"dataset.split.{part}: expected a date such as 2017-07-01, found {value!r}")
        rows.append(int(timestamps.searchsorted(_in_zone(date, timestamps, f"dataset.split.{part}: found {value!r}"))))
    if rows != sorted(rows):
        raise InputError(
            f"dataset.split: expected train <= val <= test, found {config.train}, {config.val}, {config.test}"
        )
    return rows


def _in_zone(date: pd.Timestamp, timestamps: pd.DatetimeIndex, prefix: str) -> pd.Timestamp:
    """The date in the time zone of the timestamps, if it has none itself; `prefix` starts the error message."""
    if date.tz is None:
        # at clock changes: nonexistent times move forward, of ambiguous ones take the first
        return date.tz_localize(timestamps.tz, nonexistent="shift_forward", ambiguous=True)
    if timestamps.tz is None:
        raise InputError(f"{prefix}, expected a date without a time zone, like the data; remove the zone")
    return date.tz_convert(timestamps.tz)


def _rows_for_ratio(n: int, sizes: WindowSizes, config: SplitConfig) -> int | None:
    if config.kind != "ratio":
        return None
    shares = [_number(config, part) for part in ("train", "val", "test")]
    if min(shares) < LEAST_SHARE:
        return None
    # a lower bound for the search; rounding gives a part at most two rows more than its share
    least = (sizes.least_rows(0), sizes.pred_len, sizes.pred_len)
    fewest = max(int((rows - 2) / share) for rows, share in zip(least, shares, strict=True))
    return next(
        rows
        for rows in count(max(n, fewest))
        if all(
            len(part) >= sizes.least_rows(part.start)
            for split in [_cut(*_ratio_borders(rows, *shares))]
            for part in (split.train, split.val, split.test)
        )
    )


def lookback(rows: int, horizon: int, season: int) -> int:
    """The default rows of history of a model that is trained on series of so many rows."""
    return max(min(max(SEASONS_OF_HISTORY * season, horizon), rows // 4, MOST_HISTORY), 1)


def split_for(rows: int, horizon: int) -> SplitConfig:
    """The default split, or one with enough validation windows for an 80 % interval and at least one test window."""
    usual = SplitConfig()
    val, test = 2 * (horizon + CALIBRATION_WINDOWS) / rows, (horizon + 1) / rows
    shares = [max(float(usual.val or 0), _rounded_up(val)), max(float(usual.test or 0), _rounded_up(test))]
    if shares == [usual.val, usual.test]:
        return usual
    if sum(shares) > 1 - LEAST_TRAIN:
        shares[1] = _rounded_up(test)
    if sum(shares) > 1 - LEAST_TRAIN:  # too few rows for intervals
        shares = [_rounded_up((horizon + 1) / rows)] * 2
    return SplitConfig(kind="ratio", train=round(1 - sum(shares), 2), val=shares[0], test=shares[1])


def _rounded_up(share: float) -> float:
    return -(-share * 100 // 1) / 100
