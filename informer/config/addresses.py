"""Settings that are paths, and those of them that may be remote addresses (`s3://`, `https://`, ...)."""

import re
from typing import Any

from informer.config.dataset import OWN_PLACES

PATHS = {
    *("input", "output", "future", "checkpoint", "data_dir", "run_dir", "resume", "init_from"),
    *(f"dataset.{name}" for name in OWN_PLACES),
    *("forecasts", "actuals", "history"),
}
"""Keys whose value is a single path."""

SCHEMES = ("s3", "gs", "gcs", "az", "abfs", "abfss", "https", "http", "memory")

TAKEN_BY = {
    "TrainConfig": ("dataset.path", "dataset.attributes"),
    "EvalConfig": ("dataset.path", "dataset.attributes"),
    "PredictConfig": ("input", "future", "output", "dataset.attributes"),
    "InspectConfig": ("input", "dataset.attributes"),
    "ForecastConfig": ("input", "dataset.attributes"),
    "ReportConfig": ("input", "history", "actuals", "dataset.path", "dataset.attributes"),
    "UpdateConfig": ("dataset.attributes",),
    "WatchConfig": ("dataset.attributes",),
}
"""By configuration: the keys that may be addresses."""

_ANY = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+)://")


def is_address(word: str) -> bool:
    """Whether a word of the command line is an address, which may contain `=`."""
    return _ANY.match(word) is not None


def address_problems(config: Any, paths: set[str]) -> list[str]:
    """One sentence for each of these keys whose value is an address but must not be one, or has an unknown scheme.

    Otherwise a local folder called `s3:` would be created. The rest of an address may contain a password and is not
    shown.
    """
    allowed = TAKEN_BY.get(type(config).__name__, ())
    problems = []
    for key in sorted(paths):
        value = config
        for attribute in key.split("."):
            value = getattr(value, attribute, None)
        scheme = _ANY.match(value) if isinstance(value, str) else None
        if scheme is None:
            continue
        if key not in allowed:
            problems.append(
                f"{key}: expected a local path, found an address ({scheme[0]}...); addresses are read as "
                "dataset.path by train, eval and report, and as input by predict, forecast, inspect and report; only "
                "predict can write to one"
            )
        elif scheme[1] not in SCHEMES:
            schemes = ", ".join(f"{name}://" for name in SCHEMES)
            problems.append(f"{key}: expected a local path or one of {schemes}, found {scheme[0]}...")
    return problems
