"""The scores of a run: its best checkpoint on the test part, within the time that a search has left."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from rich.console import Console

from informer import checkpoint
from informer.checkpoint.format import COMBINED
from informer.checkpoint.restore import restore_model
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.inference.baselines import FittedBaseline
from informer.inference.evaluate import score
from informer.inference.evaluation import Evaluation
from informer.inference.intervals import Calibration, Residuals
from informer.models.base import ForecastModel
from informer.training.combination import combined, combiner, table_of
from informer.training.curves import tag_of
from informer.training.describe import checkpoint_facts
from informer.training.linear_skip import FittedMaps, calibration_errors
from informer.training.run_dir import RunFolder
from informer.training.stopping import EarlyStopping

PROBE, MORE = 16, 4
"""Test windows whose scoring is timed, and how many times as many are once more."""

LEAST, LEAST_VALUES = 128, 1 << 22
"""Windows, or values of all of them, that are scored however little time there is."""

SAFE = 1.3
"""Seconds that are kept for each that was measured."""


class Searched(NamedTuple):
    """What a search hands on to its run.

    Args:
        maps: that the run begins with; None: they are still to be fitted.
        fit_seconds: that fitting them takes.
        left: seconds of the budget.
    """

    maps: FittedMaps | None
    fit_seconds: float
    left: Callable[[], float]


def score_best(
    settings: TrainConfig,
    data: Data,
    folder: RunFolder,
    console: Console,
    device: torch.device,
    baselines: Sequence[FittedBaseline],
    searched: Searched | None,
) -> tuple[Evaluation, Residuals | None]:
    """The best checkpoint on the test part, after it has been given its weights and its intervals, and the errors that
    these come from."""
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
    if calibration is not None or COMBINED in saved.data or is_continued:
        checkpoint.save(path, replace(saved, calibration=None if calibration is None else calibration.state()))
    return _scored(best, settings, data, calibration, baselines, searched), errors


def _scored(
    model: ForecastModel,
    settings: TrainConfig,
    data: Data,
    calibration: Calibration | None,
    baselines: Sequence[FittedBaseline],
    searched: Searched | None,
) -> Evaluation:
    """On all test windows, or on as many as there is time for, evenly spaced."""
    whole = len(data.test)

    def scores(of: Data) -> Evaluation:
        batch_size = settings.trainer.eval_batch_size
        return score(model, of, batch_size=batch_size, calibration=calibration, baselines=baselines)

    least = max(LEAST, LEAST_VALUES // (data.sizes.pred_len * len(data.targets)))
    if searched is None or math.isinf(searched.left()) or whole <= least:
        return scores(data)
    probes = [data.test.thinned(PROBE), data.test.thinned(MORE * PROBE)]
    marks = [searched.left()]
    for probe in probes:
        scores(replace(data, test=probe))
        marks.append(searched.left())
    seconds = [earlier - later for earlier, later in pairwise(marks)]
    # a part of them is the same for any number of windows
    pace = (seconds[1] - seconds[0]) / (len(probes[1]) - len(probes[0]))
    room = searched.left() - seconds[0] - SAFE * searched.fit_seconds * settings.trainer.refit
    most = max(int(room / (SAFE * pace)), least) if pace > 0 else whole
    if most >= whole:
        return scores(data)
    fewer = data.test.thinned(most)
    found = scores(replace(data, test=fewer))
    note = f"scored on {len(fewer):,} evenly spaced of {whole:,} test windows, as many as the time budget allowed"
    stride = -(-whole // most)
    return replace(found, notes=(*found.notes, note), block=max(-(-found.block // stride), 1))


def final_metrics(evaluation: Evaluation, stopping: EarlyStopping) -> dict[str, float]:
    """The scores of the run, those that matter most first."""
    scaled = {name: errors.scaled.overall() for name, errors in evaluation.errors.items()}
    own = scaled.pop(evaluation.model)
    metrics = {"test/skill": evaluation.skill, "test/mse": own["mse"], "test/mae": own["mae"]}
    metrics |= {f"test/mse_{tag_of(name)}": other["mse"] for name, other in scaled.items()}
    metrics |= {f"test/coverage_{name}": means.overall()["coverage"] for name, means in evaluation.intervals.items()}
    if evaluation.quantiles:
        metrics["test/pinball"] = evaluation.mean_pinball
    return metrics | {"val/best_loss": stopping.best_loss}
