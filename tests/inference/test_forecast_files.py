"""Properties of a job over generated files: it writes the forecasts of the Forecaster, at the following times."""

from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, Trained, done

from informer import Forecaster


@pytest.mark.parametrize(
    ("unit", "places", "step", "decimal", "start"),
    [
        ("s", 0, "100ms", ",", "1969-12-31 23:59:50"),
        ("ms", 3, "500ms", ".", "1969-12-31 23:59:50"),
        ("ms", 3, "250us", ",", "2023-11-14 22:13:20"),
    ],
)
def test_counts_since_1970_go_on_as_counts(
    unit: str, places: int, step: str, decimal: str, start: str, folder: Path
) -> None:
    """Red if fractions of a count are cut off, or whole counts are written as floats."""
    times = pd.date_range(start, periods=40, freq=step)
    counts = [format(Decimal(time.value).scaleb(places - 9).normalize(), "f") for time in times]
    cells = [count.replace(".", decimal) for count in counts]
    pd.DataFrame({"date": cells[:30], "a": range(30)}).to_csv("f.csv", index=False, sep=";")
    form = [f"dataset.time_format={unit}", "dataset.separator=;", f"dataset.decimal='{decimal}'"]
    done("forecast", "f.csv", "model=zero", "horizon=10", "output=out", *form)
    written = pd.read_csv("out/forecasts/f.forecast.csv", sep=";", dtype=str)["date"]
    found = [Decimal(cell.replace(decimal, ".")) for cell in written]
    assert found == [Decimal(count) for count in counts[30:]]
    if not any("." in count for count in counts[30:]):
        assert written.tolist() == counts[30:]


def test_the_time_column_of_training_is_taken_among_several(
    trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Red if a job looks for the time column of a file that has the one of training."""
    caplog.set_level("INFO", "informer")
    model, frame = Forecaster.load(trained.run_dir), pd.read_csv(ROOT / "data/sample.csv", nrows=24)
    times = pd.DatetimeIndex(frame["date"])
    later = times + pd.Timedelta("3min")
    for more in ({}, {"date created": later}, {"timestamp": later[::-1]}):
        frame.assign(**more).to_csv(tmp_path / "f.csv", index=False)
        assert model.predict(tmp_path / "f.csv")["date"].tolist() == list(times[-6:] + pd.Timedelta("6h"))
    assert caplog.messages == []
