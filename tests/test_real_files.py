"""scripts/real_files.py: rows of published files at equal steps."""

import pandas as pd
from entry_points import script


def test_regular_rows_have_the_mean_of_repeated_times_and_no_gaps():
    """The second hour is there twice, the third missing."""
    times = ["2024-01-01T00:10:00Z", "2024-01-01T01:00:00Z", "2024-01-01T01:30:00Z", "2024-01-01T03:00:00Z"]
    frame = pd.DataFrame({"t": times, "x": [1.0, 2.0, 4.0, 5.0]})
    regular = script("real_files")._regular(frame, "t", "h", ["x"])
    assert regular["x"].tolist() == [1.0, 3.0, 4.0, 5.0]
    assert regular["t"].tolist() == list(pd.date_range("2024-01-01", periods=4, freq="h"))
