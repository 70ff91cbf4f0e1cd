"""Any file that is read gives exactly what was written; otherwise there is a question in one line for each problem."""

import itertools
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from dialects import Written, draw
from examples import examples
from hypothesis import given, note
from hypothesis import strategies as st
from stores import series_from_table

from informer import InputError
from informer.config.data import DatasetConfig
from informer.data.panel import read_panel
from informer.read.cells import key_cells
from informer.read.series import Series, table_of_file

SEEDS = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def assert_read(series: Series, written: Written, last: int = 0, late: int = 0) -> None:
    """The last times (all with 0) are those that were written, or so many seconds later, and so are the values."""
    times = series.timestamps.tz_convert("UTC").tz_localize(None) if series.timestamps.tz else series.timestamps
    assert list(times) == list((written.times + pd.Timedelta(seconds=late))[-last:])
    np.testing.assert_allclose(series.values, written.values[-last:], rtol=1e-12, atol=0)


def test_any_dialect_gives_what_was_written_or_a_question(tmp_path: Path) -> None:
    """Red if a separator, mark, encoding, title, header, date format or step is taken for another, if the last rows are
    read in another way after training, or if nothing is misread because nearly everything is refused."""
    path, read = tmp_path / "written.csv", list[bool]()

    @examples(quick=100, a_minute=600)
    @given(rng=SEEDS)
    def any_dialect(rng: np.random.Generator) -> None:
        written = draw(rng)
        note(written.how)
        path.write_bytes(written.content)
        read.append(False)
        with suppress(InputError):
            table = table_of_file(path, DatasetConfig())
            series = series_from_table(table, DatasetConfig(), "written")
            read[-1] = True
            assert_read(series, written)
            last, config = int(rng.integers(2, len(written.times) + 1)), DatasetConfig(frequency=series.frequency.code)
            rows = replace(table, frame=table.frame.iloc[-last:])
            later = series_from_table(rows, config, "written", series.time_format, history=last)
            # rows that are all equally late are regular
            assert_read(later, written, last, int(written.late[-1]) if np.ptp(written.late[-last:]) == 0 else 0)

    any_dialect()
    assert np.mean(read) > 0.3


KEYS = (["shop a", "shop b", "c"], ["007", "7", "1e3"], ["1", "2", "3"], ["true", "null", "no"], ["1.10", "1.1", "x;y"])
"""Names of series that other programs change."""

HOURS = {
    "time": "{:02d}:00", "hour": "{:d}", "Hour": "H{:02d}", "clock": "{:02d}.00", "interval": "{0:02d}:00-{0:02d}:59"
}  # fmt: skip
"""Names of a column of hours, and how these are written."""


@examples(quick=15, a_minute=100)
@given(rng=SEEDS)
def test_series_keep_their_names_and_values(rng: np.random.Generator, tmp_path: Path) -> None:
    """Red if a name becomes a number, or a value is taken for one of another series, or not for missing: keys in one or
    two columns, scales that differ by up to 1e12, spikes, numbers for missing values."""
    kinds = [KEYS[kind] for kind in rng.choice(len(KEYS), 1 + int(rng.random() < 0.5), replace=False)]
    columns, missing = ["store", "item"][: len(kinds)], int(rng.choice([-999, -9999, 99999]))
    hours = str(rng.choice(list(HOURS)))
    times = pd.date_range("2024-01-13", periods=24 * int(rng.integers(3, 7)), freq="h")
    tables, values = [], {}
    for cells in itertools.product(*kinds):
        size = 10.0 ** rng.uniform(-6, 6)
        load = size * (1 + 0.1 * np.sin(np.arange(len(times)) / 24 * 2 * np.pi) + 0.02 * rng.normal(size=len(times)))
        if rng.random() < 0.2:
            load[rng.integers(len(load))] *= 1e6
        load[rng.random(len(times)) < rng.choice([0.0, 0.05])] = missing
        values[cells] = load
        parts = dict(zip(columns, cells, strict=True)) | {"date": times.strftime("%d.%m.%Y")}
        tables.append(pd.DataFrame(parts | {hours: [HOURS[hours].format(hour) for hour in times.hour], "load": load}))
    text = pd.concat(tables).to_csv(index=False, sep=str(rng.choice([*";,\t"])))
    text = str(rng.choice(["", "Export of loads\n\n", "# unit: kW\n"])) + text
    note(f"keys {kinds}, hours as {hours}; {text[:160]!r}")
    (tmp_path / "f.csv").write_text(text)
    key = columns[0] if len(columns) == 1 else f"[{','.join(columns)}]"
    config = DatasetConfig(series_col=key, missing_values=[str(missing)], fill="mask")
    panel = read_panel([tmp_path / "f.csv"], config)
    found = {tuple(key_cells(key, each.name).values()): each for each in panel}
    assert found.keys() == values.keys()
    for cells, load in values.items():
        n, read = int(np.flatnonzero(load != missing)[-1]) + 1, found[cells]  # a series ends with its last value
        assert read.timestamps.equals(times[:n])
        np.testing.assert_array_equal(read.values[:, 0], np.where(load == missing, np.nan, load)[:n])
