"""A horizon beyond all use is one line at once, not hours of work or all of the memory."""

from pathlib import Path

import pandas as pd
import pytest
from entry_points import Trained, refusal

from informer import Forecaster
from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.inference import model as predictor

SAMPLE = resource("data/sample.csv")


@pytest.mark.parametrize("horizon", [100_001, 1_000_000, 10**15])
def test_a_horizon_is_bounded(horizon: int, folder: Path, trained: Trained) -> None:
    line = refusal("predict", f"checkpoint={trained.run_dir}", f"input={SAMPLE}", f"horizon={horizon}", "output=out")
    assert line.startswith(f"error: horizon={horizon}: expected at most 100000 rows of 4 targets")
    assert not Path("out").exists()


def test_the_bound_counts_targets_too(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forecasts up to the limit are made; pred_len rows are always allowed."""
    forecaster, rows = Forecaster.load(trained.run_dir), pd.read_csv(SAMPLE, nrows=60)
    monkeypatch.setattr(predictor, "MOST_VALUES", 4 * 20 + 3)
    assert len(forecaster.predict(rows, horizon=20)) == 20
    with pytest.raises(InputError, match="at most 20 rows of 4 targets"):
        forecaster.predict(rows, horizon=21)
    monkeypatch.setattr(predictor, "MOST_VALUES", 4)
    assert len(forecaster.predict(rows)) == 6
