"""Marks of numbers that are in doubt are warned of; settings that no file has are refused."""

from pathlib import Path

import numpy as np
import pytest
from stores import read_series

from informer import InputError
from informer.config.data import DatasetConfig
from informer.config.fields import problems_of
from informer.read.series import Reading, Series
from informer.read.table import read_table

DAYS = [f"2024-03-{day:02}" for day in range(1, 31)]
COUNTS = np.array([950, 972, 993, 1011, 1025, 1104, 1250, 998, 987, 1002])


def write(path: Path, cells: list[list[str]], separator: str = ";", header: str = "date a") -> Path:
    lines = [separator.join(header.split()), *(separator.join(row) for row in cells)]
    path.write_text("\n".join(lines) + "\n")
    return path


def counts(path: Path, mark: str, separator: str) -> Path:
    """Whole numbers below and above a thousand, with a mark between thousands."""
    return write(path, [[day, f"{n:,}".replace(",", mark)] for day, n in zip(DAYS, COUNTS, strict=False)], separator)


def read(path: Path, **config: str) -> Series:
    return read_series(path, DatasetConfig(**config))


def test_points_among_whole_numbers_between_commas_are_doubtful(tmp_path: Path) -> None:
    """Red if it is an error, or there is no warning; values that are smoother as decimals give none."""
    path = counts(tmp_path / "f.csv", ".", ",")
    series, report = Reading.of(read_table(path), DatasetConfig(), "f").check()
    assert series is not None
    assert [line for line in report.warnings if "may be 1011 or 1.011" in line] == report.warnings[:1]
    write(path, [[day, "1" if i % 3 else "1.125"] for i, day in enumerate(DAYS)], ",")
    assert Reading.of(read_table(path), DatasetConfig(), "f").check()[1].warnings == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("encoding", name) for name in ("rot13", "hex", "zlib", "base64", "undefined", "no\0such", "")),
        *(("separator", mark) for mark in ("\n", "\r", "😀", "", "ab", "5", "a", '"', "\0")),
        *(("decimal", mark) for mark in ("", "5", ";", "😀")),
        *(("thousands", mark) for mark in ("5", ", ", "😀")),
        *(("time_format", text) for text in ("%d/%m/%Y %f %f", "%Y %Y", "%Q", "date", "%d/%m/%Y%")),
    ],
)
def test_settings_that_no_file_has(setting: str, value: str) -> None:
    """Red if one of them ends in a traceback, or is taken."""
    config = DatasetConfig(**{setting: value})
    assert [line.startswith(f"dataset.{setting}: expected ") for line in problems_of(config)] == [True]


def test_a_null_character_in_a_path() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(Path("a\0b.csv"))
