"""`informer watch`: yesterday's forecasts compared with what has happened since, and what to do."""

import json
from enum import Enum
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from rich.console import Console
from scipy.stats import t

from informer.base.console import logging_to, say
from informer.base.errors import counted, signed_percent
from informer.base.files import write_atomic
from informer.checkpoint.paths import only_output
from informer.config.commands import ScoreConfig, WatchConfig
from informer.config.conversion import without_nan
from informer.scoring.forecasts import Forecasts
from informer.scoring.metrics import inside_cells
from informer.scoring.score import OWN, read_matched, score_paths

JSON = "watch.json"
USUAL = 80
"""Level in percent of the intervals whose coverage is judged: the one closest to it."""
OFF = 0.05
"""Deviation of coverage from the level that is tolerated before intervals are recalibrated."""
SURE = 0.99
"""Confidence level of the test of coverage."""
FEWEST = 8
"""Minimum number of origins for a verdict other than ok."""
SHOWN = 12
"""Newest origins in the file."""


class Verdict(Enum):
    """What to do, and the exit status that says so."""

    ok = 0
    recalibrate = 10
    retrain = 12


def is_covering(coverage: Float64[np.ndarray, " n"], level: int, horizon: int) -> bool:
    """Whether the coverage of a few origins is within OFF of the level, or within noise (t test over origins).

    Args:
        coverage: share of values inside, of each origin.
        level: of the intervals, in percent.
        horizon: values of an origin.
    """
    n, share = len(coverage), level / 100
    if n < FEWEST:
        return True
    # a few origins may agree by chance: at least the standard deviation for independent values
    spread = max(float(coverage.std(ddof=1)), (share * (1 - share) / horizon) ** 0.5)
    return abs(float(coverage.mean()) - share) <= max(OFF, float(t.ppf((1 + SURE) / 2, n - 1)) * spread / n**0.5)


def by_origin(paths: Forecasts) -> pd.DataFrame:
    """A row for each origin, in order: mean absolute error, and coverage by level; means over series and columns."""
    means = {"mae": np.nanmean(np.abs(paths.mean - paths.actual), axis=1)}
    for name, cells in inside_cells(paths).items():
        counts, shares = (~np.isnan(cells)).sum(axis=1), np.full(len(cells), np.nan)
        means[name] = np.divide(np.nansum(cells, axis=1), 100.0 * counts, out=shares, where=counts > 0)
    return pd.DataFrame(means).groupby(paths.keys["origin"].to_numpy()).mean()


def watch(settings: WatchConfig, console: Console) -> tuple[Verdict, str]:
    """Print and return the verdict and its reason, and write the findings to `output` if it is given.

    Errors in the later half of the origins are compared with the baselines, coverage in all.

    Raises:
        InputError: a file cannot be read, or no logged forecast has an actual value.
    """
    names = {name: getattr(settings, name) for name in ("log", "actuals", "history", "season", "dataset")}
    with logging_to(console, quiet=True):
        by_model, histories, season, notes = read_matched(ScoreConfig(**names))
        paths = next(iter(by_model.values()))
        origins = by_origin(paths)
        later = paths.keys["origin"].to_numpy() >= origins.index[len(origins) // 2]
        recent = {OWN: paths.part(np.flatnonzero(later))}
        _, differences = score_paths(recent, list(compress(histories, later)), season)
    skills = [each for each in differences if each["metric"] == "mse"]
    worst = min(skills, key=lambda each: each["skill"], default=None)
    levels = {int(name.removeprefix("coverage")): origins[name].dropna() for name in origins.columns[1:]}
    level = min(levels, key=lambda each: abs(each - USUAL), default=None)
    verdict, reason = Verdict.ok, f"errors and coverage of {counted(len(origins), 'origin')} are as expected"
    if len(origins) < FEWEST:
        reason = f"{counted(len(origins), 'origin')} so far; a verdict needs {FEWEST}"
    elif worst is not None and worst["high"] < 0:
        ends = f"{signed_percent(worst['low'])} to {signed_percent(worst['high'])}"
        verdict = Verdict.retrain
        reason = f"worse than {worst['baseline']} on the later half of the origins (95 % interval of the skill {ends})"
    elif level is not None and not is_covering(levels[level].to_numpy(), level, paths.mean.shape[1]):
        verdict = Verdict.recalibrate
        reason = f"intervals of {level} % cover {levels[level].mean():.1%} of the actual values"
    say(console, f"{verdict.name}: {reason}")
    for line in notes:
        say(console, line)
    if settings.output:
        newest = origins.tail(SHOWN).reset_index(names="origin").assign(origin=lambda rows: rows["origin"].astype(str))
        facts: dict[str, Any] = {
            "verdict": verdict.name,
            "reason": reason,
            "exit_status": verdict.value,
            "origins": len(origins),
            "mae": float(origins["mae"].mean()),
            "coverage": {str(each): float(shares.mean()) for each, shares in levels.items() if len(shares)},
            "skill": skills,
            "newest": newest.to_dict("records"),
            "notes": notes,
        }
        path, inputs = Path(settings.output, JSON), [Path(str(names[name])) for name in ("log", "actuals")]
        with only_output(Path(settings.output), [path], inputs=inputs, overwrite=settings.overwrite):
            write_atomic(path, json.dumps(without_nan(facts), indent=2, allow_nan=False) + "\n")
        say(console, str(path))
    return verdict, reason
