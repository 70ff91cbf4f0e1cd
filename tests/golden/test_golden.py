"""Whole runs give the results that are stored; `record.py` stores them anew if a change is meant."""

import json
from pathlib import Path

import pytest
from golden_runs import CASES, STORED, differences, run


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_results_stay(name: str, folder: Path) -> None:
    stored = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    lines = list(differences(run(name, folder), stored))
    assert not lines, "\n".join(lines)


def test_what_is_not_rounding_is_a_difference() -> None:
    stored = {"forecast": [1000.0, 0.001, "2024-01-01"], "mse": 0.5, "said": ["12 rows (penalty 10)"], "floor": True}
    rounded = {"forecast": [1000.01, 0.002, "2024-01-01"], "mse": 0.50001, "said": ["12 rows (penalty 10.1)"]}
    assert not [*differences({**rounded, "floor": True}, stored)]
    other = {"forecast": [1000.5, 0.001, "2024-01-02"], "mse": 0.501, "said": ["12 rows (penalty 30)"], "floor": False}
    places = [line.split(":")[0] for line in differences({**other, "new": 1}, stored)]
    assert places == ["/forecast[0]", "/forecast[2]", "/mse", "/said[0]", "/floor", "/new"]
    assert [*differences({"forecast": [1.0]}, {"forecast": [1.0, 2.0]})]
