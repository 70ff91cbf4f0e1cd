"""`scaler.transform=auto`: the root of the targets that is chosen on validation data.

For each transform ridge regressions forecast blocks of training and validation windows, each fitted on the other blocks
and scored in the units of the data. A transform is used if it clearly lowers the mean of RMSE, MASE and sMAPE, each
relative to no transform (as the M4 competition's OWA averages relative errors), and RMSE rises by little. Least squares
of transformed values forecast closer to a median than to a mean, so that relative errors may fall while squared errors
rise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float64

from informer.config.data import Transform
from informer.config.training import TrainConfig
from informer.data.columns import Columns
from informer.data.dataset import Source, build_data, non_negative
from informer.data.scaler import POWERS
from informer.data.store import with_columns
from informer.members.baselines import fit_ridge
from informer.members.ridge import blocks_of, joined
from informer.scoring.evaluate import baseline, evaluate, training_scale

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

BlockErrors = Float64[np.ndarray, "3 blocks"]
"""RMSE, MASE and sMAPE of each block with one transform; RMSE and MASE in scaled units without a transform, sMAPE in
percent."""


def with_transform(settings: TrainConfig, source: Source, device: torch.device) -> tuple[TrainConfig, str]:
    """The configuration with `scaler.transform=auto` replaced by a choice, and a note; "" without a choice.

    Raises:
        InputError: the data have no training or no validation window.
    """
    if settings.scaler.transform != "auto":
        return settings, ""
    plain = _with(settings, "none")
    positions = source.columns.positions(source.columns.targets)
    lows = [np.nanmin(series.values[:, positions], axis=0, initial=np.inf) for series in source.panel]
    if not (np.min(lows, axis=0) >= 0).any():  # every target has a negative value
        return plain, ""
    panel = _evenly(source.panel, MOST_SERIES)
    targets = tuple(_evenly(source.columns.targets, MOST_TARGETS))
    if len(targets) * sum(map(len, panel)) > MOST_VALUES:
        return plain, f"scaler.transform=none: not chosen with more than {MOST_VALUES:,} values; try sqrt for counts"
    columns = Columns(inputs=targets, targets=targets)
    sample = replace(source, panel=with_columns(panel, targets), columns=columns, labels={})
    scores = {transform: _scores(_with(settings, transform), sample, device) for transform in POWERS}
    chosen, note = choose(scores)
    return _with(settings, chosen), note


def choose(scores: Mapping[Transform, BlockErrors]) -> tuple[Transform, str]:
    """The transform to use, and why."""
    chosen: Transform = "none"
    strongest: tuple[Transform, ...] = ("sqrt", "fourth_root")
    for stronger in strongest:
        if _is_better(scores[stronger], scores[chosen]):
            chosen = stronger
    if chosen == "none":
        return chosen, "scaler.transform=none: no root of the targets clearly forecasts better on held-out blocks"
    rmse, mase, smape = scores[chosen].mean(axis=1)
    base_rmse, base_mase, base_smape = scores["none"].mean(axis=1)
    return chosen, (
        f"scaler.transform={chosen}, for ridge on held-out blocks: MASE {mase:.3g} instead of "
        f"{base_mase:.3g}, sMAPE {smape:.3g} instead of {base_smape:.3g} %, RMSE {rmse:.3g} instead of {base_rmse:.3g}"
    )


def _is_better(candidate: BlockErrors, other: BlockErrors) -> bool:
    """Whether the gain is large enough and consistent across blocks, and RMSE not much higher."""
    n_blocks = other.shape[1]
    if n_blocks < 2 or not (other > 0).all():  # MASE may be undefined
        return False
    relative = (candidate / other).mean(axis=0)
    error = relative.std(ddof=1) / n_blocks**0.5
    is_gain = relative.mean() <= 1 - max(LEAST_GAIN, SURE * error)
    return bool(is_gain and (candidate[0] / other[0]).mean() <= 1 + MOST_LOSS)


def _evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` of the items, evenly spaced."""
    return items[:: -(-len(items) // most)]


def _with(settings: TrainConfig, transform: Transform) -> TrainConfig:
    return replace(settings, scaler=replace(settings.scaler, transform=transform))


def _scores(settings: TrainConfig, source: Source, device: torch.device) -> BlockErrors:
    data = build_data(settings, device, source=source)
    positions = data.columns.positions(data.targets)
    places = tuple(data.targets.index(name) for name in non_negative(settings.non_negative, data))
    most = max(min(MOST_WINDOWS, MOST_FORECASTS // len(positions)) // BLOCKS, 1)
    scale, rows = training_scale(data), []
    for block, fitted, _ in blocks_of(joined(data.train, data.val), BLOCKS):
        if not (len(block) and len(fitted)):
            continue
        held_out = block.thinned(most)
        ridge = fit_ridge(fitted, held_out, positions, max_rows=MOST_ROWS)
        scores = evaluate(baseline(ridge, places), held_out, data, change=scale)
        scaled = scores.overall(scores.model)
        rows.append((scaled["rmse"], scaled["mase"], scores.overall(scores.model, "original")["smape"]))
    return np.array(rows).reshape(-1, 3).T
