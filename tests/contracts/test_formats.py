"""The contract of every format of tables: the same rows give the same forecast, whatever file they are in."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from entry_points import ROOT, Trained, done, refusal

WRITERS: dict[str, Callable[[pd.DataFrame, str], object]] = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    ".parquet": lambda frame, path: frame.to_parquet(path),
    ".xlsx": lambda frame, path: frame.to_excel(path, index=False),
}


def test_every_format_gives_the_same_forecast(trained: Trained, folder: Path) -> None:
    """Red if a format that commands name has no writer here, or if times or values of one are read otherwise."""
    Path("none").mkdir()
    checkpoint = f"checkpoint={trained.run_dir}"
    named = re.findall(r"\.[a-z]+(?:\.gz)?\b", refusal("predict", checkpoint, "input=none").partition(", found")[0])
    assert {*WRITERS} == {*named}
    frame = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).tail(60)
    for place, (suffix, write) in enumerate(WRITERS.items()):
        write(frame, f"f{suffix}")
        done("predict", checkpoint, f"input=f{suffix}", f"output=out{place}", "plots=false")
    (first, *others) = (next(Path(f"out{place}").glob("*.csv")).read_bytes() for place in range(len(WRITERS)))
    assert first.count(b"\n") == 7
    assert [other.replace(b"\t", b",") == first for other in others] == [True] * len(others)  # the marks of the input
