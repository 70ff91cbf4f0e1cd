"""Files of several series, and rows of a test part: read as written, and nothing else is changed by them.

series: keys in one or two columns, also as numbers, scales that differ by up to 1e12, hour labels, missing values as
far numbers, spikes; the names, times and values are those written.
test_rows: the rows of the test part are replaced; every choice, the scaler and the linear maps stay as they are.
"""

import itertools
from pathlib import Path
from typing import Any

import fuzz_files
import numpy as np
import pandas as pd

from informer import Forecaster
from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Fill
from informer.config.model import WindowSizes
from informer.data.panel import read_panel
from informer.read.cells import key_cells

KEYS = (["shop a", "shop b", "c"], ["007", "7", "1e3"], ["1", "2", "3"], ["true", "null", "no"], ["1.10", "1.1", "x;y"])
"""Names of series that other programs change."""

HOURS = {
    "time": "{:02d}:00", "hour": "{:d}", "Hour": "H{:02d}", "clock": "{:02d}.00", "interval": "{0:02d}:00-{0:02d}:59"
}  # fmt: skip
"""Names of a column of hours, and how these are written."""


MODELS: tuple[dict[str, Any], ...] = (
    {"model": "linear", "scaler.transform": "auto", "non_negative": "all"},
    {"model": "linear", "trainer.max_steps": 2, "scaler.per_series": True},
    fuzz_files.TINY | {"loss": "quantile"},
)
"""Models whose fits are compared."""

PUBLISHED = ("calibration.recent", "data.too_narrow", "data.path", "data.absolute", "data.sha256", "config.run_dir")
"""Beginnings of entries of a checkpoint about all rows: intervals of forecasts after the file's end, and its name."""


def series(rng: np.random.Generator, folder: Path) -> str | None:
    """Draw and read a file of series; returns what was misread, or None."""
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
    (folder / "f.csv").write_text(text)
    key = columns[0] if len(columns) == 1 else f"[{','.join(columns)}]"
    config = DatasetConfig(series_col=key, missing_values=[str(missing)], fill=Fill.mask)
    how = f"keys {kinds}, hours as {hours}; {text[:160]!r}"
    try:
        panel = read_panel([folder / "f.csv"], config, WindowSizes(seq_len=6, label_len=0, pred_len=1))
    except InputError as error:
        return f"refused: {error}; {how}"
    found = {tuple(key_cells(key, each.name).values()): each for each in panel}
    if found.keys() != values.keys():
        return f"series {list(found)}; {how}"
    for cells, load in values.items():
        n, read = int(np.flatnonzero(load != missing)[-1]) + 1, found[cells]  # a series ends with its last value
        expected = np.where(load == missing, np.nan, load)[:n]
        if not read.timestamps.equals(times[:n]) or not np.array_equal(read.values[:, 0], expected, equal_nan=True):
            return f"series {cells}, to {read.timestamps[-1]}: read {read.values[:3, 0]} for {load[:3]}; {how}"
    return None


def test_rows(rng: np.random.Generator, folder: Path) -> str | None:
    """Fit to a table, and to one with other rows in the test part; returns what differs, or None."""
    n, several = int(rng.integers(200, 400)), rng.random() < 0.5
    times, day = pd.date_range("2024-01-01", periods=n, freq="h"), np.sin(np.arange(n) / 24 * 2 * np.pi)
    waves = {name: 10.0 ** rng.uniform(-3, 6) * (2 + day + rng.normal(size=n)) for name in ("a", "b")[: 1 + several]}
    frame = pd.concat([pd.DataFrame({"date": times, "shop": name, "load": wave}) for name, wave in waves.items()])
    is_test = frame.groupby("shop").cumcount() >= n - int(0.2 * n)
    sizes = {"seq_len": 24, "pred_len": 6, "label_len": 6}
    settings = MODELS[rng.integers(len(MODELS))] | sizes | {"dataset.series_col": "shop"}
    other, change = frame.copy(), float(rng.choice([-3.0, 0.0, 1e3]))
    other.loc[is_test.to_numpy(), "load"] = change * frame["load"][is_test.to_numpy()] + float(rng.choice([0.0, 50.0]))
    one, two = (_learnt(table, folder / name, settings) for name, table in (("one", frame), ("two", other)))
    names = sorted(one.keys() | two.keys())
    different = [name for name in names if not fuzz_files.is_equal(one.get(name), two.get(name))]
    return f"{settings['model']}, test rows times {change:g}: other {different}" if different else None


def _learnt(frame: pd.DataFrame, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Entries of the checkpoint of the scored fit, in two levels."""
    Forecaster(run_dir=folder, **settings).fit(frame.reset_index(drop=True))
    content = fuzz_files.read_model(folder / "best.safetensors")
    del content["config"]["dataset"]["path"]
    parts = {part: values for part, values in content.items() if isinstance(values, dict)}
    entries = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    return {name: value for name, value in entries.items() if not name.startswith(PUBLISHED)}
