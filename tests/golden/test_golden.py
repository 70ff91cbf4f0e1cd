"""Whole runs give the numbers that are stored; `record.py` stores them anew if a change is meant."""

import json
from pathlib import Path

import pytest
from golden_runs import RUNS, STORED, differences, run

SLOW = {
    *("informer_mae", "informer_offset", "informer_static", "linear_panel", "small_patches", "stack_hours"),
    *("tiny_counts", "tiny_one_pass", "tiny_quantile", "tiny_step", "tiny_student_t", "zero_trained"),
}
"""Runs that take longer than the others, which have gaps, columns known ahead and panels too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in RUNS]
)
def test_numbers_stay(name: str, folder: Path) -> None:
    """Red if a number in a file that a command writes is not the stored one."""
    stored = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    lines = differences(name, run(name, folder), stored)
    assert not lines, "\n".join(["name, place, stored, found, relative difference", *lines])


@pytest.mark.parametrize(("name", "close"), [("zero_hours", 1e-6), ("tiny_step", 3e-4)])
def test_what_is_not_rounding_is_a_difference(name: str, close: float) -> None:
    """Red if the tolerance is not that of the run, or not relative to the largest value of the column."""
    stored = {"f": [1000.0, 0.001, None], "time": ["2024-01-01"]}
    assert not differences(name, {**stored, "f": [1000.0, 0.001 + 900 * close, None]}, stored)
    found = {"f": [1000.0, 0.001 + 1100 * close, 1.0], "time": ["2024-01-02"], "new": [0.0]}
    places = [line.split()[1] for line in differences(name, found, stored)]
    assert places == ["f[1]", "f[2]", "time[0]", "new[0]"]
    assert differences(name, {"time": ["2024-01-01"]}, stored)
