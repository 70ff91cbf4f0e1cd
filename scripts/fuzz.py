"""`python scripts/fuzz.py --minutes 5 [--seed 0]`: random inputs until the time is up, each with its result checked.

A part is a function of a random generator and an empty folder that returns a failure in one sentence, or None;
exceptions also count as failures. Every case depends only on the seed and its number, so that
`--seed S --first N --cases 1 --parts P` repeats it. The exit status is 1 after a failure.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from fuzz_dialect import dialect
from fuzz_files import changed_entry, changed_run, flipped_bit
from fuzz_series import series, test_rows

MOST_SHOWN = 20
"""Failures of a part that are printed."""

Part = Callable[[np.random.Generator, Path], str | None]

PARTS: dict[str, Part] = {
    "dialect": dialect, "series": series, "test_rows": test_rows,
    "checkpoint": changed_entry, "flips": flipped_bit, "run_dir": changed_run,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts in turn; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=5.0, help="time for all parts together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each part")
    parser.add_argument("--cases", type=int, help="maximum cases of each part; default: as many as the time allows")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.minutes
    failures = 0
    for i, name in enumerate(options.parts):
        # the remaining time is divided among the remaining parts
        until = time.monotonic() + (end - time.monotonic()) / (len(options.parts) - i)
        n_cases, wrong = run_part(name, seed=options.seed, first=options.first, cases=options.cases, until=until)
        failures += len(wrong)
        print(f"{name}: {n_cases} cases, {len(wrong)} wrong")
        for line in wrong[:MOST_SHOWN]:
            print(f"  {line}")
    return int(failures > 0)


def run_part(name: str, *, seed: int, first: int, cases: int | None, until: float) -> tuple[int, list[str]]:
    """Run cases of a part until the time `until`; returns their number and the failures."""
    failures: list[str] = []
    number = first
    with tempfile.TemporaryDirectory() as scratch:
        while (cases is None or number < first + cases) and time.monotonic() < until:
            folder = Path(scratch, str(number))
            folder.mkdir()
            try:
                failure = PARTS[name](np.random.default_rng([seed, number]), folder)
            except Exception:
                failure = traceback.format_exc(limit=-3)
            if failure is not None:
                failures.append(f"--seed {seed} --first {number} --cases 1 --parts {name}: {failure}")
            number += 1
    return number - first, failures


if __name__ == "__main__":
    sys.exit(main())
