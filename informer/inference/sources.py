"""A forecast as a sum of sources, exact for linear maps.

In scaled units a forecast is bound(maps + network), see `informer.members.network`. Its sources are, in
this order,

  level         what the maps answer to the window's mean in every row, and the effects of covariates at their median
                over the window
  season        what they answer to the mean profile of a season in the window
  recent rows   what they answer to all that is left of the column's own window
  NAME          of each covariate and holiday: its effect over the horizon minus that at its median over the window; of
                a column that is not known ahead: what the maps answer to its recent rows
  other columns what they answer to the recent rows of other forecast columns
  network       what it adds to the maps
  transform     with `scaler.transform`: the other sources are in data units by the slope of the transform at the level;
                this is what the curve adds
  bound         what clipping at zero adds, and continuing a constant

The maps are linear in the window, so the first five are exact.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.data.calendar import mark_fields
from informer.data.windows import Batch
from informer.inference.model import TrainedModel
from informer.members.maps import LinearMaps
from informer.members.network import model_forecast
from informer.networks.models.base import point
from informer.networks.ops.gaps import unmasked
from informer.read.frequency import Frequency
from informer.scoring.backtest import matrix
from informer.scoring.forecasts import Matrix

LEVEL, SEASON, RECENT, OTHERS = "level", "season", "recent rows", "other columns"
NETWORK, TRANSFORM, BOUND = "network", "transform", "bound"
SOURCES = (LEVEL, SEASON, RECENT, OTHERS, NETWORK, TRANSFORM, BOUND)

ROUNDING = 1e-5
"""Differences below this share of the largest scaled value are rounding errors of single precision."""

Pass = tuple[Batch, Float[Tensor, "b pred_len n *q"]]
"""Windows, and the scaled output of the model for them."""
Sources = dict[str, Tensor]
"""Contributions by source, each [b pred_len n] in scaled units, in double precision on the CPU."""


@torch.inference_mode()
def sources_of(model: TrainedModel, seen: Sequence[Pass], shape: tuple[int, ...]) -> dict[str, Matrix]:
    """The sources of forecasts by name, from the passes that made them, in order; `shape` is that of their matrix.

    Rows beyond pred_len have the sources of a window that contains the rows forecast before them.
    """
    blocks, (n, h) = [_in_units(model, *each) for each in seen], shape
    names = sorted(dict.fromkeys(name for block in blocks for name in block), key=place_of)
    nothing, n_passes = np.zeros_like(blocks[0][LEVEL]), -(-h // model.sizes.pred_len)
    sources = dict[str, np.ndarray]()
    for name in names:
        rows = np.stack([block.get(name, nothing) for block in blocks])  # the passes of a batch follow one another
        of_batches = [
            np.concatenate([*rows[first : first + n_passes]], axis=1) for first in range(0, len(rows), n_passes)
        ]
        sources[name] = matrix(np.concatenate(of_batches))[:n, :h]
    return sources


def place_of(name: str) -> int:
    """Order of the sources; covariates come after the recent rows."""
    return SOURCES.index(name) if name in SOURCES[:3] else 3 + (SOURCES.index(name) if name in SOURCES else 0)


def _in_units(
    model: TrainedModel, batch: Batch, output: Float[Tensor, "b pred_len n *q"]
) -> dict[str, Float64[np.ndarray, "b pred_len n"]]:
    """Sources of the forecasts of a pass in data units."""
    free = copy(model)
    free.model = copy(model.model)  # without bounds
    free.model.non_negative = ()
    values = torch.from_numpy(model.member.clipped(batch.in_units(point(output, model.quantiles)).cpu().numpy()))
    # of the whole batch, in which matrix products round as they did for the forecasts
    whole = model_forecast(free.model, batch._replace(units=batch.units._replace(constant=None)))
    unbounded = batch.in_units(whole).cpu()
    units = batch.units.mapped(Tensor.cpu)
    sources = {name: part * units.scale[:, None] for name, part in _scaled(free, batch, _exact(whole)).items()}
    sources[LEVEL] = sources[LEVEL] + units.center[:, None]
    if units.power is not None:
        level, inverse = sources[LEVEL], 1 / units.power[:, None]
        slope = inverse * level.abs() ** (inverse - 1)
        sources = {name: slope * part for name, part in sources.items()} | {LEVEL: units.untransformed(level)}
        sources[TRANSFORM] = unbounded - sum(sources.values())
    sources[BOUND] = values - unbounded
    if units.constant is not None:
        held = units.constant[:, None]
        sources = {name: part.masked_fill(held, 0.0) for name, part in sources.items()}
        sources[LEVEL] = torch.where(held, values, sources[LEVEL])
    return {name: part.numpy() for name, part in sources.items()}


def _exact(part: Tensor) -> Float64[Tensor, " *b"]:
    """In double precision, which not every device has."""
    return part.cpu().double()


def _scaled(trained: TrainedModel, batch: Batch, output: Float64[Tensor, "b pred_len n"]) -> Sources:
    """Sources of the output of a model without bounds."""
    model = trained.model
    sources = _of_linear_part(trained, batch)
    rest = output - sum(sources.values(), torch.zeros_like(output))
    largest = max(float(output.abs().max()), float(batch.enc_x.nan_to_num().abs().max()))
    is_rounding = float(rest.abs().max()) <= ROUNDING * (1 + largest)
    assert is_rounding or model.network is not None, "the linear part is exact"
    sources[LEVEL if is_rounding else NETWORK] = rest + (sources[LEVEL] if is_rounding else 0.0)
    return sources


def _of_linear_part(trained: TrainedModel, batch: Batch) -> Sources:
    """Sources of the maps, or of the mean of a normalised window."""
    model, dims, season = trained.model, trained.model.dims, Frequency.parse(trained.checkpoint.frequency).season
    enc_x, dec_x = dims.values(batch.enc_x, batch.dec_x)
    windows = enc_x, batch.enc_mark, dec_x, batch.dec_mark
    if model.maps is None:
        return {LEVEL: _exact(model.start(*windows, batch.series))}
    fields = mark_fields(Frequency.parse(trained.checkpoint.frequency), trained.calendar)
    sources = _of_history(model.maps, windows, batch.series, trained.columns.inputs, season)
    return _add(sources, _of_effects(model.maps, windows, trained.columns.inputs, fields))


def _add(sources: Sources, more: Sources) -> Sources:
    sources.update({name: sources[name] + part if name in sources else part for name, part in more.items()})
    return sources


def split(history: Float[Tensor, "b l n"], season: int) -> dict[str, Float[Tensor, "b l n"]]:
    """A window as the sum of its mean, the mean profile of a season around its line, and the rest, by source; the
    profile is zero in windows of less than two seasons."""
    mean, n_rows = history.mean(dim=1, keepdim=True), history.shape[1]
    rest, profile, n_seasons = history - mean, torch.zeros_like(history), n_rows // season
    if season > 1 and n_seasons > 1:
        time = torch.arange(n_rows, device=history.device).to(history) - (n_rows - 1) / 2
        slope = torch.einsum("l,bln->bn", time, rest) / time.square().sum()
        around = (rest - slope[:, None] * time[:, None])[:, n_rows - n_seasons * season :]
        means = around.unflatten(1, (n_seasons, season)).mean(dim=1)
        phase = (torch.arange(n_rows, device=history.device) - n_rows) % season
        profile = (means - means.mean(dim=1, keepdim=True))[:, phase]
    return {LEVEL: mean.expand_as(history), SEASON: profile, RECENT: rest - profile}


def _of_history(
    maps: LinearMaps, windows: Sequence[Tensor], series: Tensor, names: Sequence[str], season: int
) -> Sources:
    """What the maps answer to each part of a window. They are linear, so the answer to a part is that to a window in
    which everything else is zero."""
    history = maps.without_effects(*windows[:2])

    def answer(part: Tensor) -> Tensor:
        return _exact(maps.of_history(part, series))

    empty, targets, parts = torch.zeros_like(history), list(maps.positions), split(history, season)
    sources: Sources = {}
    for columns in [[column] for column in maps.read] if maps.newest else [targets]:  # maps may read each other's
        places = torch.tensor(columns, device=history.device)
        is_own = torch.isin(torch.tensor(targets), torch.tensor(columns))
        if not is_own.any():
            whole = answer(empty.index_copy(2, places, history[:, :, columns]))
            _add(sources, {covariate_source(names[columns[0]]): whole})
            continue
        for name, part in parts.items():
            own = answer(empty.index_copy(2, places, part[:, :, columns]))
            _add(sources, {name: own * is_own, **({} if is_own.all() else {OTHERS: own * ~is_own})})
    return sources


def _of_effects(maps: LinearMaps, windows: Sequence[Tensor], names: Sequence[str], fields: Sequence[str]) -> Sources:
    """Effects of covariates, holidays and categories over the horizon, against their median over the window."""
    if maps.effects is None:
        return {}
    history, enc_mark, dec_x, dec_mark = map(_exact, (unmasked(windows[0], maps.masked, maps.masks), *windows[1:]))
    effects, steps = _exact(maps.effects.weight), maps.weight.shape[1]
    sources = {LEVEL: 0.0 * dec_x[:, -steps:, :1]}
    inputs = [(names[column], history[:, :, column], dec_x[:, -steps:, column]) for column in maps.effects.columns]
    inputs += [(fields[mark], enc_mark[:, :, mark], dec_mark[:, -steps:, mark]) for mark in maps.effects.marks]
    for (name, past, ahead), effect in zip(inputs, effects[: len(inputs)], strict=True):
        usual, source = past.median(dim=1, keepdim=True).values, covariate_source(name)
        _add(sources, {source: (ahead - usual)[..., None] * effect, LEVEL: usual[..., None] * effect})
    for column, rows in maps.effects.codes.items():
        codes = dec_x[:, -steps:, column].long()
        _add(sources, {covariate_source(names[column]): effects[rows.start : rows.stop][codes]})
    return sources


def covariate_source(column: str) -> str:
    """The source that a column is."""
    return f"column {column}" if column in (*SOURCES, "forecast") else column
