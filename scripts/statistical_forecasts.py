"""Forecasts by exponential smoothing and theta of statsforecast, for `score_methods.py`, which runs this file.

It runs in an environment of its own, since statsforecast and this package need different versions of pandas. Reads
from standard input one JSON object: `histories` (lists of numbers), `season`, `horizon`, `levels` in percent; writes
one JSON object: for each method and history the rows of the mean, then of each level's lower and upper ends.
"""

import json
import sys

import numpy as np
from statsforecast.models import AutoETS, DynamicOptimizedTheta, SeasonalNaive


def main() -> None:
    """Answer one request."""
    asked = json.load(sys.stdin)
    season, horizon, levels = asked["season"], asked["horizon"], asked["levels"]
    answers: dict[str, list[list[list[float]]]] = {"ETS": [], "theta": []}
    for history in asked["histories"]:
        values = np.array(history)
        for name, method in (("ETS", AutoETS), ("theta", DynamicOptimizedTheta)):
            try:
                found = method(season_length=season).forecast(y=values, h=horizon, level=levels)
            except (
                ValueError,
                IndexError,
                ZeroDivisionError,
                NotImplementedError,
            ) as error:  # too short for the method
                print(f"{name}, {len(values)} rows: {error}; seasonal naive instead", file=sys.stderr)
                found = SeasonalNaive(season_length=season).forecast(y=values, h=horizon, level=levels)
            names = ["mean", *(f"{end}-{level}" for level in levels for end in ("lo", "hi"))]
            answers[name].append([[*map(float, found[each])] for each in names])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
