"""A cache is used for the same reading only: whatever changes the rows that are read is part of its key."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dataset_cases import SIZES, made, write

from informer.base.errors import InputError
from informer.config.data import Calendar, DatasetConfig, Ended, Short, SplitConfig, SplitKind
from informer.config.model import CalendarEmbed
from informer.data import store
from informer.data.columns import Roles
from informer.data.dataset import read_source
from informer.data.store import dataset_cache
from informer.read.series import Series

NOT_READING: Mapping[str, list[Any]] = {
    "name": ["x"],
    "short": [Short.skip, Short.pad],
    "memmap": [False],
    "calendar": [["hour", "month"]],
    "holidays": ["DE"],
    "split": [SplitConfig(kind=SplitKind.rows, train=30, val=20, test=10)],
    "ended": [Ended.forecast],
    "min_observed": [0.01],
}
"""Other values of the settings that are declared not to affect reading, except places."""


def key(dataset: DatasetConfig) -> str:
    return dataset_cache(dataset, Path("data"), [Path("x.csv")], "sha256").folder.name


def read(dataset: DatasetConfig) -> list[Series]:
    """The series of the dataset; in memory if it says so."""
    return read_source(dataset, sizes=SIZES, roles=Roles(), data_dir=Path("data")).panel


def outcome(dataset: DatasetConfig) -> object:
    """Everything about the series that are read, comparable, or the error."""
    try:
        panel = read(dataset)
    except InputError as error:
        return str(error)
    return [(series.name, series.columns, list(series.timestamps), series.values.tolist()) for series in panel]


@pytest.mark.parametrize("field", fields(DatasetConfig), ids=lambda field: field.name)
def test_a_setting_is_in_the_key_unless_declared_not_to_affect_reading(field: Any) -> None:
    """Fails for a new setting until `setting` declares what it is."""
    changed = key(replace(DatasetConfig(), **{field.name: "another"})) != key(DatasetConfig())
    assert changed == field.metadata["reading"]


def test_settings_declared_not_to_affect_reading_do_not(tmp_path: Path) -> None:
    """Fails for a new one without an example of another value, and where rows depend on such a setting after all."""
    declared = {field.name for field in fields(DatasetConfig) if not field.metadata["reading"]}
    places = {field.name for field in fields(DatasetConfig) if field.metadata.get("place")}
    assert NOT_READING.keys() == declared - places
    dataset = DatasetConfig(path=str(write(made(), tmp_path / "f.csv")), memmap=True, cache_dir=str(tmp_path / "usual"))
    expected = outcome(dataset)
    for name, values in NOT_READING.items():
        for number, value in enumerate(values):
            fresh = replace(dataset, cache_dir=str(tmp_path / f"{name}{number}"))
            assert outcome(replace(fresh, **{name: value})) == expected


def test_versions_of_libraries_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(DatasetConfig())
    monkeypatch.setattr(store, "versions", lambda: {"pandas": "0"})
    assert key(DatasetConfig()) != before


def test_marks_of_holidays_are_those_of_the_installed_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if marks of another version are read from the cache."""
    dataset = DatasetConfig(path=str(write(made(), tmp_path / "f.csv")), memmap=True, cache_dir=str(tmp_path / "c"))
    source = read_source(dataset, sizes=SIZES, roles=Roles(), data_dir=tmp_path)

    def files(holidays: tuple[str, ...]) -> int:
        store._shared_marks(source.panel, Calendar(CalendarEmbed.timeF, holidays=holidays), source.cache)
        return len(list(tmp_path.rglob("*.float32")))

    assert [files(()), files(("DE",)), files(("DE",))] == [1, 2, 2]
    monkeypatch.setattr(store, "version", lambda name: f"another {name}")
    assert [files(()), files(("DE",))] == [2, 3]


def dates(n: int, pattern: str = "%Y-%m-%d") -> list[str]:
    return [f"{day:{pattern}}" for day in pd.date_range("2020-01-01", periods=n)]


def table(header: str, *columns: Any, sep: str = ",") -> str:
    return "\n".join([header, *(sep.join(map(str, row)) for row in zip(*columns, strict=True))]) + "\n"


COUNT = list(range(1, 61))
SPOILT = table("date,a,b", dates(60), COUNT, [-999 if day == 7 else day for day in COUNT])
CASES: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    (table("date,a,b", dates(60), COUNT, [-999] * 60), {}, {"missing_values": ["-999"]}),
    (SPOILT, {}, {"missing_values": ["-999"]}),
    (table("date;a", dates(60), ["1.234"] * 60, sep=";"), {"decimal": "."}, {"thousands": ".", "decimal": ","}),
    (table("id,date,a", COUNT, dates(60), COUNT), {"time_col": "date"}, {"time_col": "date", "target": "id"}),
    (table("date,a", dates(12, "%d/%m/2020"), COUNT[:12]), {"time_format": "%d/%m/%Y"}, {"time_format": "%m/%d/%Y"}),
    (table("date,a,b", dates(60), COUNT, COUNT), {}, {"exclude": ["b"]}),
    (table("date,a", dates(60), COUNT), {"frequency": "D"}, {"frequency": "h"}),
    (table("date,\u00e3", dates(60), COUNT), {"encoding": "latin-1"}, {"encoding": "cp1250"}),
    (table("date,a,note", dates(60), COUNT, ["x" * 500] * 60), {}, {"max_cell": 100}),
    (table("date,a,s", dates(30) * 2, COUNT, ["p"] * 30 + ["q"] * 30), {"series_col": "s"}, {}),
]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[1] | case[2]))
def test_a_cache_of_other_settings_is_not_used(
    case: tuple[str, Mapping[str, Any], Mapping[str, Any]], order: tuple[int, int], tmp_path: Path
) -> None:
    """Each reading of a shared cache is that of a new one, whichever came first."""
    text, *settings = case
    (tmp_path / "f.csv").write_text(text)
    dataset = DatasetConfig(path=str(tmp_path / "f.csv"), memmap=True)
    shared, alone = (
        [outcome(replace(dataset, **settings[which], cache_dir=str(tmp_path / folder(which)))) for which in order]
        for folder in (lambda which: "shared", str)
    )
    assert shared == alone
    assert shared[0] != shared[1]


def test_name_and_content_of_a_file_are_in_the_key(tmp_path: Path) -> None:
    """Series are named after their files: a copy with another name is another series."""
    for name, n in (("one", 300), ("two", 300), ("two", 301)):
        write(made(n), tmp_path / f"{name}.csv")
        dataset = DatasetConfig(path=str(tmp_path / f"{name}.csv"), memmap=True, cache_dir=str(tmp_path / "cache"))
        assert [(series.name, len(series)) for series in read(dataset)] == [(name, n)]


def test_values_of_attributes_are_in_the_key(tmp_path: Path) -> None:
    write(pd.concat(made(90).assign(id=one) for one in "pq"), tmp_path / "f.csv")
    dataset = DatasetConfig(
        path=str(tmp_path / "f.csv"), series_col="id", attributes=str(tmp_path / "a.csv"), memmap=True,
        cache_dir=str(tmp_path / "cache"),
    )  # fmt: skip
    for sizes in ([1, 2], [1, 3]):
        write(pd.DataFrame({"id": ["p", "q"], "size": sizes}), tmp_path / "a.csv")
        found = [series.values[0, series.columns.index("size")] for series in read(dataset)]
        assert found == sizes
