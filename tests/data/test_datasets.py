"""Data sets by name: files in their published form are read and split; the sample is what its generator makes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from entry_points import ROOT, script

from informer.config.conversion import node_of
from informer.config.data import DatasetConfig
from informer.data.columns import Roles
from informer.data.dataset import read_source
from informer.read.split import cut_rows


def test_the_sample_is_what_its_generator_writes(folder: Path) -> None:
    script("make_sample").write_sample(Path("sample.csv"))
    assert Path("sample.csv").read_bytes() == (ROOT / "data/sample.csv").read_bytes()


PUBLISHED_FORMS = {
    "Exchange": (7588, "%Y/%-m/%-d %-H:%M", "1990-01-01", "D", [*map(str, range(7)), "OT"]),
    "ILI": (
        966, "%Y-%m-%d %H:%M:%S", "2002-01-01", "7D",
        ["% WEIGHTED ILI", "%UNWEIGHTED ILI", "AGE 0-4", "AGE 5-24", "ILITOTAL", "NUM. OF PROVIDERS", "OT"],
    ),
    "Traffic": (1000, "%Y-%m-%d %H:%M:%S", "2016-07-01 02:00", "h", [*map(str, range(30)), "OT"]),
    "Weather": (52704, "%Y-%m-%d %H:%M:%S", "2020-01-01 00:10", "10min", [*(f"w{i} (%)" for i in range(20)), "OT"]),
    "Solar": (2000, "%Y-%m-%d %H:%M:%S", "2006-01-01", "10min", [*map(str, range(137))]),
}  # fmt: skip
"""Rows, form of the times, first time, step and columns as published; of Traffic and Solar only a part."""


@pytest.mark.parametrize("name", PUBLISHED_FORMS)
def test_a_file_in_its_published_form_is_read_and_split(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Red if a form is not read, parts differ from those of the literature (int(0.7 n), int(0.2 n) at the end), or
    another content than the published one is an error, or unnoticed where its checksum is known."""
    n, form, start, step, columns = PUBLISHED_FORMS[name]
    times = pd.date_range(start, periods=n, freq=step).strftime(form).to_series()
    values = np.random.default_rng(3).integers(1, 1000, (n, len(columns)))
    frame = pd.DataFrame(values, columns=columns)
    frame.insert(0, "date", times.to_numpy())
    if name == "Weather":  # a row is there twice, nine are missing: 52,696 rows
        frame = pd.concat([frame[:19044], frame[19043:30000], frame[30009:]])
    config = node_of(DatasetConfig, yaml.safe_load((ROOT / f"conf/dataset/{name}.yaml").read_text()))
    assert config.file is not None
    frame.to_csv(tmp_path / config.file, index=False)
    source = read_source(config, roles=Roles(), data_dir=tmp_path)
    (series,) = source.panel
    assert list(series.columns) == columns
    assert source.columns.targets[-1] == config.target
    assert np.isfinite(series.values).all()
    assert len(series.values) == n
    split = cut_rows(series.timestamps, series.frequency, config.split)
    assert (split.train, split.test) == (range(int(0.7 * n)), range(n - int(0.2 * n), n))
    assert ("differs from the published file's" in caplog.text) == (config.sha256 is not None)
