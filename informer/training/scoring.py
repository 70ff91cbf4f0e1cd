"""Score the best checkpoint of a run on the test part, within the remaining time budget."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from rich.console import Console
from torch import Tensor

from informer import checkpoint
from informer.checkpoint.format import COMBINED, SHORTFALLS
from informer.checkpoint.restore import restore_model
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.inference.baselines import FittedBaseline
from informer.inference.coverage import shortfalls
from informer.inference.evaluate import baselines_for, score
from informer.inference.evaluation import Evaluation
from informer.inference.intervals import MOST_RECENT, RECENT, Calibration, Residuals, joined, residuals_of
from informer.inference.quantile_forecasts import CalibratedBaseline
from informer.metrics import WQL
from informer.models.base import ForecastModel
from informer.training.combination import combined, combiner, table_of
from informer.training.describe import checkpoint_facts
from informer.training.linear_skip import FittedMaps, calibration_errors
from informer.training.run_dir import RunFolder
from informer.training.stopping import EarlyStopping
from informer.training.tracking.curves import tag_of

PROBE, MORE = 16, 4
"""Scoring is timed on PROBE and on MORE * PROBE test windows."""

LEAST, LEAST_VALUES = 128, 1 << 22
"""Minimum number of windows, or of their values, that are scored regardless of time."""

SAFE = 1.3
"""Safety factor on measured times."""


class SearchResult(NamedTuple):
    """Results of a search for its final run.

    Args:
        maps: fitted linear maps to start from; None: not fitted yet.
        fit_seconds: time for fitting them.
        seconds_left: returns the remaining seconds of the budget.
    """

    maps: FittedMaps | None
    fit_seconds: float
    seconds_left: Callable[[], float]


def score_best(
    settings: TrainConfig,
    data: Data,
    folder: RunFolder,
    console: Console,
    device: torch.device,
    baselines: Sequence[FittedBaseline],
    searched: SearchResult | None,
) -> tuple[Evaluation, Residuals | None]:
    """Choose the combination, calibrate the intervals, save the best checkpoint and score it on the test part.

    Returns:
        The scores, and the errors used for calibration.

    Raises:
        InputError: the checkpoint belongs to another run.
    """
    path = folder.path / checkpoint.BEST
    saved = checkpoint.load(path)
    folder.check_own(settings, saved, checkpoint.BEST)
    if settings.trainer.combine and COMBINED not in saved.data:
        saved, losses = combined(saved, settings, data, device)
        console.print(table_of(losses))
    config = checkpoint_facts(settings, data)["config"]
    is_continued, saved = saved.config != config, replace(saved, config=config)
    best = restore_model(saved).to(device)
    errors = calibration_errors(best, settings, data, finish=combiner(saved, data))
    calibration = None if errors is None else errors.calibration()
    calibrated = baselines_for(best, data, baselines)
    evaluation = _scored(best, settings, data, calibration, calibrated, searched)
    short = shortfalls(evaluation.intervals, data.targets)
    if settings.trainer.calibration or COMBINED in saved.data or short or is_continued:
        state = states(best, data, errors, calibration, settings) if settings.trainer.calibration else None
        checkpoint.save(path, replace(saved, calibration=state, data=saved.data | {SHORTFALLS: short}))
    return evaluation, errors


def states(
    model: ForecastModel, data: Data, errors: Residuals | None, calibration: Calibration | None, settings: TrainConfig
) -> dict[str, Tensor] | None:
    """Tensors for the checkpoint of the scored model: its calibration, and one for forecasts after the end of the data
    (prefix RECENT), which includes errors on the test part, the newest there are; None without earlier errors.

    Args:
        errors, calibration: errors on windows before the test part, and the calibration from them.
    """
    if errors is None:
        return None
    errors_of = residuals_of(data, settings.trainer.eval_batch_size)
    test_errors = errors_of(model.eval(), data.test, most=MOST_RECENT)
    newer = test_errors if errors.lag != test_errors.lag else joined([errors, test_errors])
    recent = newer.calibration()
    state = {} if calibration is None else calibration.state()
    if bool(recent.is_learned.any()):
        state |= {f"{RECENT}{name}": tensor for name, tensor in recent.state().items()}
    return state or None


def _scored(
    model: ForecastModel,
    settings: TrainConfig,
    data: Data,
    calibration: Calibration | None,
    baselines: Sequence[CalibratedBaseline],
    searched: SearchResult | None,
) -> Evaluation:
    """Score on all test windows, or on evenly spaced ones if the time budget requires it."""
    n_windows = len(data.test)

    def scores(of: Data) -> Evaluation:
        batch_size = settings.trainer.eval_batch_size
        return score(model, of, batch_size=batch_size, calibration=calibration, baselines=baselines)

    least = max(LEAST, LEAST_VALUES // (data.sizes.pred_len * len(data.targets)))
    if searched is None or math.isinf(searched.seconds_left()) or n_windows <= least:
        return scores(data)
    probes = [data.test.thinned(PROBE), data.test.thinned(MORE * PROBE)]
    marks = [searched.seconds_left()]
    for probe in probes:
        scores(replace(data, test=probe))
        marks.append(searched.seconds_left())
    seconds = [earlier - later for earlier, later in pairwise(marks)]
    # the difference cancels the fixed cost of scoring
    pace = (seconds[1] - seconds[0]) / (len(probes[1]) - len(probes[0]))
    room = searched.seconds_left() - seconds[0] - SAFE * searched.fit_seconds * settings.trainer.refit
    most = max(int(room / (SAFE * pace)), least) if pace > 0 else n_windows
    if most >= n_windows:
        return scores(data)
    fewer = data.test.thinned(most)
    evaluation = scores(replace(data, test=fewer))
    note = f"scored on {len(fewer):,} evenly spaced of {n_windows:,} test windows, as many as the time budget allowed"
    stride = -(-n_windows // most)
    return replace(evaluation, notes=(*evaluation.notes, note), block=max(-(-evaluation.block // stride), 1))


def final_metrics(evaluation: Evaluation, stopping: EarlyStopping) -> dict[str, float]:
    """Scores of the run by tag, the most important first."""
    scaled = {name: errors.scaled.overall() for name, errors in evaluation.errors.items()}
    model_scores = scaled.pop(evaluation.model)
    metrics = {"test/skill": evaluation.skill, "test/mse": model_scores["mse"], "test/mae": model_scores["mae"]}
    metrics |= {f"test/mse_{tag_of(name)}": other["mse"] for name, other in scaled.items()}
    metrics |= {f"test/coverage_{name}": means.overall()["coverage"] for name, means in evaluation.intervals.items()}
    original = evaluation.errors[evaluation.model].original.overall()
    if WQL in original:
        metrics["test/wql"] = original[WQL]
    if evaluation.quantiles:
        metrics["test/pinball"] = evaluation.mean_pinball
    return metrics | {"val/best_loss": stopping.best_loss}
