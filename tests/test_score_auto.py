"""The scripts that score `model=auto` on lists of files."""

import pandas as pd
from entry_points import script


def test_a_list_names_files_next_to_it_with_horizon_and_series(tmp_path):
    """Red if a path is taken from the working directory, or an empty series column is given to the command."""
    path = tmp_path / "files.csv"
    path.write_text("path,horizon,series_col\na.csv,24,\nb.csv,7,shop\n")
    files = list(script("score_auto").listed(path))
    assert [(one.name, one.data, one.horizon, one.series_col) for one in files] == [
        ("a_24", tmp_path / "a.csv", 24, None),
        ("b_7", tmp_path / "b.csv", 7, "shop"),
    ]


def test_regular_rows_have_the_mean_of_repeated_times_and_no_gaps():
    """The second hour is there twice, the third missing."""
    times = ["2024-01-01T00:10:00Z", "2024-01-01T01:00:00Z", "2024-01-01T01:30:00Z", "2024-01-01T03:00:00Z"]
    frame = pd.DataFrame({"t": times, "x": [1.0, 2.0, 4.0, 5.0]})
    regular = script("real_files")._regular(frame, "t", "h", ["x"])
    assert regular["x"].tolist() == [1.0, 3.0, 4.0, 5.0]
    assert regular["t"].tolist() == list(pd.date_range("2024-01-01", periods=4, freq="h"))
