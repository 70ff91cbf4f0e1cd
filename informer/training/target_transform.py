"""Choice of the transform of targets before scaling (`scaler.transform=auto`), on validation data.

For each transform ridge regressions forecast blocks of training and validation windows, each fitted on the other blocks
and scored in the units of the data. A transform is used if it clearly lowers the mean of RMSE, MASE and sMAPE, each
relative to no transform (as the M4 competition's OWA averages relative errors), and RMSE rises by little. Least squares
of transformed values forecast closer to a median than to a mean, so that relative errors may fall while squared errors
rise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float64

from informer.build import build_data
from informer.config.dataset import Transform
from informer.config.schema import TrainConfig
from informer.data.columns import Columns
from informer.data.scaler import POWERS
from informer.data.sources import Source
from informer.data.store import with_columns
from informer.inference.baselines import NonNegative, fit_ridge
from informer.inference.evaluate import evaluate, training_scale
from informer.linear.blocks import folds, starts_of
from informer.linear.moments import joined, runs_of
from informer.training.describe import non_negative

MOST_SERIES, MOST_TARGETS, MOST_VALUES = 200, 32, 20_000_000
"""Series of a panel and targets that are used, evenly spaced; if they have more values than MOST_VALUES, nothing is
transformed."""

MOST_ROWS, MOST_WINDOWS, MOST_FORECASTS = 50_000, 1024, 65_536
"""Most histories in a fit, most held-out windows, and most windows times targets, over all blocks."""

BLOCKS = 4

LEAST_GAIN, SURE, MOST_LOSS = 0.01, 2.0, 0.01
"""Share, and standard errors over blocks, by which a transform must lower the mean of the three errors; share by which
it may raise RMSE."""


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Scores:
    """Errors with one transform, an element per block; RMSE and MASE in scaled units without a transform, sMAPE in
    percent."""

    rmse: Float64[np.ndarray, "blocks"]
    mase: Float64[np.ndarray, "blocks"]
    smape: Float64[np.ndarray, "blocks"]

    def relative(self, reference: "Scores") -> Float64[np.ndarray, "blocks"]:
        """Mean of the errors, relative to those of `reference`."""
        return (self.rmse / reference.rmse + self.mase / reference.mase + self.smape / reference.smape) / 3


def with_transform(settings: TrainConfig, source: Source, device: torch.device) -> tuple[TrainConfig, str]:
    """The configuration with `scaler.transform=auto` replaced by a choice, and a note; "" without a choice.

    Raises:
        InputError: the data have no training or no validation window.
    """
    if settings.scaler.transform is not Transform.auto:
        return settings, ""
    plain = _with(settings, Transform.none)
    if not _is_applicable(plain, source):
        return plain, ""
    panel = _evenly(source.panel, MOST_SERIES)
    targets = tuple(_evenly(source.columns.targets, MOST_TARGETS))
    if len(targets) * sum(map(len, panel)) > MOST_VALUES:
        return plain, f"scaler.transform=none: not chosen with more than {MOST_VALUES:,} values; try sqrt for counts"
    columns = Columns(inputs=targets, targets=targets)
    sample = replace(source, panel=with_columns(panel, targets), columns=columns, labels={}, cache=None)
    scores = {transform: _scores(_with(settings, transform), sample, device) for transform in POWERS}
    chosen, note = choose(scores)
    return _with(settings, chosen), note


def choose(scores: dict[Transform, Scores]) -> tuple[Transform, str]:
    """The transform to use, and why."""
    chosen, base = Transform.none, scores[Transform.none]
    for stronger in (Transform.sqrt, Transform.fourth_root):
        if _is_better(scores[stronger], scores[chosen]):
            chosen = stronger
    if chosen is Transform.none:
        return chosen, "scaler.transform=none: no root of the targets clearly forecasts better on held-out blocks"
    best = scores[chosen]
    return chosen, (
        f"scaler.transform={chosen.value}, for ridge on held-out blocks: MASE {best.mase.mean():.3g} instead of "
        f"{base.mase.mean():.3g}, sMAPE {best.smape.mean():.3g} instead of {base.smape.mean():.3g} %, RMSE "
        f"{best.rmse.mean():.3g} instead of {base.rmse.mean():.3g}"
    )


def _is_better(candidate: Scores, other: Scores) -> bool:
    """Whether the gain is large enough and consistent across blocks, and RMSE not much higher."""
    is_known = all((errors > 0).all() for errors in (other.rmse, other.mase, other.smape))  # MASE may be undefined
    if len(other.rmse) < 2 or not is_known:
        return False
    relative = candidate.relative(other)
    error = relative.std(ddof=1) / len(relative) ** 0.5
    is_gain = relative.mean() <= 1 - max(LEAST_GAIN, SURE * error)
    return bool(is_gain and (candidate.rmse / other.rmse).mean() <= 1 + MOST_LOSS)


def _evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` of the items, evenly spaced."""
    return items[:: -(-len(items) // most)]


def _with(settings: TrainConfig, transform: Transform) -> TrainConfig:
    return replace(settings, scaler=replace(settings.scaler, transform=transform))


def _is_applicable(settings: TrainConfig, source: Source) -> bool:
    """Whether some target has no negative value at all."""
    targets = source.columns.positions(source.columns.targets)
    lows = [np.nanmin(series.values[:, targets], axis=0, initial=np.inf) for series in source.panel]
    return bool((np.min(lows, axis=0) >= 0).any())


def _scores(settings: TrainConfig, source: Source, device: torch.device) -> Scores:
    data = build_data(settings, device, source=source)
    positions = data.columns.positions(data.targets)
    places = tuple(data.targets.index(name) for name in non_negative(settings, data))
    most = max(min(MOST_WINDOWS, MOST_FORECASTS // len(positions)) // BLOCKS, 1)
    scale, rows = training_scale(data), []
    for block in folds(joined(runs_of(data.train), runs_of(data.val)), BLOCKS, data.sizes.pred_len):
        if not (block.held and block.fitted):
            continue
        held_out, fitted = (data.train.at(torch.from_numpy(starts_of(runs))) for runs in (block.held, block.fitted))
        held_out = held_out.thinned(most)
        ridge = fit_ridge(fitted, held_out, positions, max_rows=MOST_ROWS)
        errors = evaluate(NonNegative(ridge, places) if places else ridge, held_out, mase_scale=scale)
        scaled = errors.scaled.overall()
        rows.append((scaled["rmse"], scaled["mase"], errors.original.overall()["smape"]))
    return Scores(*np.array(rows).reshape(-1, 3).T)
