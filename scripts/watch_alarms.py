"""False alarms of `informer watch` on stationary series, and its detection rate for shifts of their level.

    python scripts/watch_alarms.py --series 50 --rows 300 --shift 0 2

Four kinds of series with standard deviation 1: white noise, autoregressions of 0.4 and 0.7, and a daily season with
noise. For each kind, `--models` linear models are trained on separate series of 1,600 hourly rows, and monitor
`--series` futures of `--rows` rows in total. With a shift, the level of the future rises by this number of standard
deviations after 100 rows; it is detected if a test of errors or of the level raises an alarm within the next 100 rows.
"""

import argparse
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd

from informer.forecaster import Forecaster
from informer.watching.findings import Findings
from informer.watching.observe import findings, observe

TRAINED, BEFORE, WITHIN = 1600, 100, 100
"""Rows of training, of a future before its shift, and after it within which it is to be found."""
RUN = {
    "model": "linear", "seq_len": 48, "label_len": 12, "pred_len": 6, "target": "y", "features": "S",
    "dataset.split.kind": "rows", "dataset.split.train": 1000, "dataset.split.val": 400, "dataset.split.test": 200,
}  # fmt: skip


def autoregression(phi: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Rows of an AR(1) process with standard deviation 1."""

    def drawn(rng: np.random.Generator, n: int) -> np.ndarray:
        steps, values = rng.normal(size=n) * (1 - phi**2) ** 0.5, np.zeros(n)
        values[0] = rng.normal()
        for t in range(1, n):
            values[t] = phi * values[t - 1] + steps[t]
        return values

    return drawn


def seasonal(rng: np.random.Generator, n: int) -> np.ndarray:
    """A daily season, half of the variance, and noise."""
    return np.sin(2 * np.pi * np.arange(n) / 24) + rng.normal(size=n) * 0.5**0.5


KINDS = {"white": autoregression(0.0), "ar 0.4": autoregression(0.4), "ar 0.7": autoregression(0.7), "season": seasonal}


def table(values: np.ndarray) -> pd.DataFrame:
    """Hourly rows."""
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=len(values), freq="h"), "y": values})


def seen(model: Forecaster, values: np.ndarray) -> Findings:
    """Findings for the rows after training."""
    trained = model.trained
    panel = trained.reader.frame(table(values), "frame", ahead=trained.sizes.pred_len)
    return findings(trained, observe(trained, panel, str(trained.checkpoint.data["trained_until"]), 256))


def has_alarm(findings: Findings) -> bool:
    """Whether a test of errors or of the level raises an alarm within the rows after the shift."""
    begin = table(np.zeros(TRAINED + BEFORE + 1))["date"].iloc[-1]
    raised = [alarm.at for alarm in (*findings.alarms, *findings.levels) if alarm.after]
    return any(begin <= pd.Timestamp(at) < begin + pd.Timedelta(hours=WITHIN) for at in raised)


def main() -> None:
    """Print the verdicts by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=50, help="futures of each kind")
    parser.add_argument("--models", type=int, default=5, help="models of each kind")
    parser.add_argument("--rows", type=int, default=300, help="rows of a future")
    parser.add_argument("--shift", type=float, nargs="+", default=[0.0, 2.0])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind, draw in KINDS.items():
        verdicts = {shift: Counter[str]() for shift in options.shift}
        hits = Counter[float]()
        for place in range(options.series):
            if place % (options.series // options.models) == 0:
                rng = np.random.default_rng([options.seed, list(KINDS).index(kind), place])
                history = draw(rng, TRAINED)
                model = Forecaster.fit(table(history), **RUN)
            future = draw(rng, TRAINED + options.rows)[-options.rows :]
            for shift in options.shift:
                values = np.concatenate([history, future + shift * (np.arange(options.rows) >= BEFORE)])
                findings = seen(model, values)
                verdicts[shift][findings.decide()[0].name] += 1
                hits[shift] += has_alarm(findings)
        for shift, counts in verdicts.items():
            counts_text = ", ".join(f"{name} {n}" for name, n in counts.most_common())
            found_in_time = f"; shift found in time: {hits[shift]}" if shift else ""
            print(f"{kind}, shift {shift:g}: {options.series} series: {counts_text}{found_in_time}", flush=True)


if __name__ == "__main__":
    main()
