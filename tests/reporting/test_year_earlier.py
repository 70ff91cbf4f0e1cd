"""The first sentence of a page compares with the year before, on the days of clock changes too."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done


@pytest.mark.parametrize("end", ["2026-10-25", "2026-03-29"])
def test_the_day_of_a_clock_change_of_the_year_before(end: str, folder: Path) -> None:
    """Red if an hour that last year's clock change repeats or leaves out ends the command."""
    hours = pd.date_range(end=end, periods=1000, freq="h", tz="Europe/Berlin", inclusive="left")
    load = 100 + 10 * np.sin(2 * np.pi * np.arange(len(hours)) / 24)
    pd.DataFrame({"time": hours.strftime("%Y-%m-%d %H:%M"), "load": load.round(2)}).to_csv("load.csv", index=False)
    done("forecast", "load.csv", "horizon=2days", "dataset.timezone=Europe/Berlin", "output=out")
    assert "Expect " in Path("out/report.html").read_text()
