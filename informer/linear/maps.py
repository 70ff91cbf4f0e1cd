"""The fit for `model.family=linear`, and its maps as weights of the network.

Weights of the average that linear maps are part of, and how a model holds it.

Saved state of a linear fit, to which later rows can be added without the earlier ones.

Errors of the linear forecast on rows not used in its fit, over the whole time span of the data.

Each block of training, validation and calibration rows is forecast by maps fitted on the other blocks, with the
penalties already chosen (cross-conformal prediction: V. Vovk, "Cross-conformal predictors", 2015). A single held-out
part at the end may cover only one season, whose errors need not be typical.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from informer.base.errors import InputError, listed
from informer.config.model import CalendarEmbed, WindowSizes
from informer.data.calendar import mark_fields
from informer.data.dataset import Data
from informer.data.windows import Store, Windows
from informer.linear import varying
from informer.linear.effects import KnownEffects, fit_known
from informer.linear.features import OriginFeatures, cycle_turns
from informer.linear.fit import LinearFit, LinearForecast, prepare
from informer.linear.moments import Moments, WindowRun, joined, runs_of
from informer.linear.select import Channel, Fold, Sums, folds, has_own_maps, packed, starts_of, unpacked
from informer.linear.settings import LinearConfig, MapSettings, in_words
from informer.networks.models.base import ForecastModel
from informer.networks.models.informer import Informer
from informer.networks.models.linear import HARMONICS, LinearModel, LinearModelConfig


@final
@dataclass(frozen=True, slots=True)
class CombinationWeights:
    """Weights of the average; they add up to 1.

    Args:
        network, linear, naive: weight of each forecast; `network` is the whole model, linear part included.
    """

    network: float = 0.0
    linear: float = 1.0
    naive: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.network, self.linear, self.naive)
        if not all(weight >= 0 for weight in weights) or abs(sum(weights) - 1) > 1e-6:
            raise InputError(f"combination: expected weights of at least 0 that add up to 1, found {weights}")

    def to_plain(self) -> dict[str, float]:
        """Return the weights as written to a checkpoint."""
        return {"network": self.network, "linear": self.linear, "naive": self.naive}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "CombinationWeights":
        """Read the weights written by `to_plain`.

        Raises:
            InputError: other names, or values that are not floats.
        """
        names = ("network", "linear", "naive")
        if set(plain) != set(names) or not all(isinstance(weight, float) for weight in plain.values()):
            raise InputError(f"combination: expected the weights {', '.join(names)}, found {dict(plain)}")
        return cls(**plain)

    @property
    def in_words(self) -> str:
        """The weights, without those that are zero."""
        names = {"network": "network", "linear": "linear forecast", "naive": "seasonal naive"}
        return " + ".join(f"{weight:.0%} {names[name]}" for name, weight in self.to_plain().items() if weight)


def maps_of(model: ForecastModel) -> LinearModel | None:
    """The closed-form maps of a model: its linear part, or the model itself if it is a `LinearModel`; None without."""
    if isinstance(model, LinearModel):
        return model
    return model.maps if isinstance(model, Informer) else None


@torch.no_grad()
def apply(model: ForecastModel, shares: CombinationWeights, repeated: Tensor | None) -> None:
    """Make the model forecast the average of itself, its linear maps and the seasonal naive."""
    maps = maps_of(model)
    assert maps is not None, "see TrainConfig.problems"
    if isinstance(model, Informer):
        for parameter in model.head.parameters():
            parameter.mul_(shares.network)
    if shares.naive:
        assert repeated is not None, "without a season, the naive forecast has no weight"
        for weight in (maps.own, maps.calendar, maps.others):
            weight.mul_(1 - shares.naive)
        if maps.varying is not None:  # which stays as it is when the maps are fitted again
            maps.varying.share.fill_(1 - shares.naive)
        maps.own[:, repeated, torch.arange(len(repeated))] += shares.naive


MOST_BYTES = 1 << 26
"""Maximum size of saved moments, 64 MiB; larger ones are not saved."""

ENTRIES: dict[str, type | tuple[type, ...]] = {
    "features": dict, "season": int, "repeated": int, "strengths": list, "weights": Tensor, "windows": Tensor,
    "pooled_windows": float, "pooled": Tensor, "own": Tensor,
}  # fmt: skip
FEATURES: dict[str, type] = {
    "n_columns": int, "recent": int, "cycles": list, "fields": list, "kind": str, "left_out": list,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reads:
    """What a model reads and forecasts.

    Args:
        sizes: sizes of a window.
        channels: series and column of each map.
        n_columns: number of columns of a window.
    """

    sizes: WindowSizes
    channels: Sequence[Channel]
    n_columns: int

    @classmethod
    def of(cls, sizes: WindowSizes, *, n_series: int, inputs: Sequence[str], targets: Sequence[str]) -> "Reads":
        """For a model with these columns; `n_series` is 0 for a single series."""
        columns = [list(inputs).index(name) for name in targets]
        return cls(sizes, [(series, column) for series in range(max(n_series, 1)) for column in columns], len(inputs))


@dataclass(frozen=True, eq=False, slots=True)
class KeptFit:
    """A fit on some rows: its strengths, and the moments of its windows.

    Args:
        features: what the maps read at the last row of a window.
        season, repeated: see `LinearFit`.
        strengths: strengths of the maps that are averaged.
        weights: weight of each channel in the shared map.
        sums: moments of the windows.
    """

    features: OriginFeatures
    season: int
    repeated: int
    strengths: Sequence[MapSettings]
    weights: Sequence[float]
    sums: Sums

    @classmethod
    def of(cls, fit: LinearFit, strengths: Sequence[MapSettings], runs: Sequence[WindowRun]) -> "KeptFit":
        """From a fit on runs of windows."""
        sums, weights = fit.sums(strengths, runs), fit.channel_weights(fit.channels)
        return cls(fit.features, fit.season, fit.repeated, list(strengths), weights, sums)

    def fit(self, store: Store, sizes: WindowSizes, positions: Sequence[int]) -> LinearFit:
        """The same fit over other rows of the same series, columns and scales."""
        config = LinearConfig(chosen=self.strengths, left_out=self.features.left_out)
        return LinearFit(
            store=store, sizes=sizes, train=[], val=[], positions=positions, features=self.features,
            season=self.season, repeated=self.repeated, config=config, weights=self.weights,
        )  # fmt: skip

    def to_plain(self) -> dict[str, Any]:
        """State as plain containers and tensors."""
        products = [packed(moments.products) for moments in self.sums.own.values()]
        return {
            "features": self.features.to_plain(),
            "season": self.season,
            "repeated": self.repeated,
            "strengths": [setting.to_plain() for setting in self.strengths],
            "weights": torch.tensor(self.weights, dtype=torch.float64),
            "windows": torch.tensor(
                [float(moments.windows) for moments in self.sums.own.values()], dtype=torch.float64
            ),
            "pooled_windows": float(self.sums.pooled.windows),
            "pooled": torch.from_numpy(packed(self.sums.pooled.products)),
            "own": torch.from_numpy(np.stack(products)) if products else torch.zeros(0, 0, dtype=torch.float64),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], of: Reads, where: str) -> "KeptFit":
        """Restore and check the state from `to_plain`.

        Args:
            plain: the saved state.
            of: what the model reads and forecasts.
            where: name of the file in errors.

        Raises:
            InputError: the state is invalid, or does not fit the model.
        """
        _check(plain, ENTRIES, where)
        features, strengths = _features(plain["features"], of, where), _strengths(plain["strengths"], of, where)
        size = of.sizes.seq_len + of.sizes.pred_len + len(features.groups)
        n_own, triangle = len(of.channels) if has_own_maps(strengths) else 0, size * (size + 1) // 2
        shapes = {
            "weights": (len(of.channels),),
            "windows": (n_own,),
            "pooled": (triangle,),
            "own": (n_own, triangle if n_own else 0),
        }
        for name, shape in shapes.items():
            tensor = plain[name]
            if tensor.dtype is not torch.float64 or tuple(tensor.shape) != shape or not tensor.isfinite().all():
                raise InputError(f"{where}: {name}: expected finite numbers of shape {shape}, found others")
        counts = [plain["pooled_windows"], *plain["windows"].tolist(), *plain["weights"].tolist()]
        season_rows = (plain["season"], plain["repeated"])
        if min(season_rows) < 1 or not all(isfinite(count) and count >= 0 for count in counts):
            raise InputError(f"{where}: expected weights and counts of a linear fit, found others")
        by_channel = {
            channel: Moments(unpacked(products, size), float(n))
            for channel, products, n in zip(of.channels[:n_own], plain["own"].numpy(), plain["windows"], strict=True)
        }
        pooled = Moments(unpacked(plain["pooled"].numpy(), size), plain["pooled_windows"])
        return cls(features, *season_rows, strengths, plain["weights"].tolist(), Sums(pooled, by_channel))


def bytes_of(fit: LinearFit, strengths: Sequence[MapSettings]) -> int:
    """Size of the moments that `KeptFit` would hold, in bytes."""
    size = fit.sizes.seq_len + fit.sizes.pred_len + len(fit.features.groups)
    return 4 * size * (size + 1) * (1 + len(fit.channels) * has_own_maps(strengths))


def _strengths(plain: Sequence[Any], of: Reads, where: str) -> list[MapSettings]:
    strengths = [MapSettings.from_plain(entry) for entry in plain if isinstance(entry, dict)]
    if (
        not strengths
        or len(strengths) < len(plain)
        or not all(0 < setting.lookback <= of.sizes.seq_len for setting in strengths)
    ):
        raise InputError(f"{where}: strengths: expected those of a linear fit, found others")
    return strengths


def _features(plain: Mapping[str, Any], of: Reads, where: str) -> OriginFeatures:
    _check(plain, FEATURES, where)
    cycles, fields, left_out = (plain[name] for name in ("cycles", "fields", "left_out"))
    are_texts = all(isinstance(text, str) for text in (*cycles, *fields))
    numbers = [plain["n_columns"], plain["recent"], *left_out]
    fits = plain["n_columns"] == of.n_columns and plain["recent"] <= of.sizes.seq_len
    if not are_texts or not fits or not all(type(number) is int and number >= 0 for number in numbers):
        raise InputError(f"{where}: features: expected names and whole numbers, found others")
    try:
        kind = CalendarEmbed(plain["kind"])
        features = OriginFeatures(
            plain["n_columns"], plain["recent"], tuple(cycles), tuple(fields), kind, tuple(left_out)
        )
        features.groups  # noqa: B018 (raises KeyError for an unknown cycle)
    except (ValueError, KeyError) as error:
        raise InputError(f"{where}: features: expected those of a linear fit, found {plain!r:.80}") from error
    return features


def _check(plain: Any, entries: Mapping[str, Any], where: str) -> None:
    if not isinstance(plain, dict) or set(plain) != set(entries):
        raise InputError(f"{where}: expected the entries {', '.join(entries)}, found others")
    for name, kind in entries.items():
        if not isinstance(plain[name], kind) or isinstance(plain[name], bool):
            raise InputError(f"{where}: {name}: found {plain[name]!r:.40}")


EFFECTS = "known effects"
"""Key of the known effects in `Data.choices`."""


def linear_fit(model: LinearModel, config: LinearModelConfig, data: Data, lookbacks: Sequence[int] = ()) -> LinearFit:
    """The fit for a network, with known effects subtracted from the rows.

    Args:
        model: the network.
        config: its configuration.
        data: the data.
        lookbacks: candidate rows of history; empty: see `informer.linear.settings.lookback_grid`.

    Raises:
        InputError: see `prepare` and `MapSettings.from_plain`.
    """
    static = data.columns.static_covariates  # constant over a window, so its features would be zero
    offered = LinearConfig(
        own_maps=model.has_own_maps,
        other_columns=model.recent > 0,
        average=config.average,
        left_out=data.columns.positions([name for name in data.inputs if name in (*data.categories, *static)]),
        lookbacks=lookbacks,
        chosen=[MapSettings.from_plain(plain) for plain in config.maps],
    )
    longest = max((setting.lookback for setting in offered.chosen), default=0)
    if longest > data.sizes.seq_len:
        raise InputError(f"model.maps: expected a lookback of at most {data.sizes.seq_len} (seq_len), found {longest}")
    positions = data.columns.positions(data.targets)
    fit = prepare(data.train, data.val, positions, frequency=data.frequency, calendar=data.calendar, config=offered)
    known = effects_of(data)
    return replace(fit, store=known.without(fit.store, positions), known=known)


def effects_of(data: Data) -> KnownEffects:
    """Effects of future covariates, categories and holidays, fitted once; shared by maps, intervals and ridge."""
    if EFFECTS not in data.choices:
        data.choices[EFFECTS] = fit_known(
            data.train,
            data.val,
            data.columns.positions(data.targets),
            columns=data.regressors,
            marks=data.holidays,
            codes=data.known_codes,
            lag=data.frequency.season,
        )
    effects: KnownEffects = data.choices[EFFECTS]
    return effects


def fit_model(model: LinearModel, config: LinearModelConfig, data: Data) -> str:
    """Fit the maps and set them as weights of the network; returns a description of the choice.

    Raises:
        InputError: see `linear_fit`.
    """
    fit = linear_fit(model, config, data)
    strengths, why = choice(fit, data)
    set_weights(fit.fit(strengths, fit.train), model)
    fold_known(fit.known, model)
    fit_varying(model, config, data, data.train)
    notes = [f"linear: {in_words(strengths)}{why}; fitted on {sum(map(len, fit.train))} windows of training"]
    if config.own_maps and not model.has_own_maps:
        notes.append("one map for all: separate maps for series and columns would have too many weights")
    known_codes = [data.inputs[position] for position in data.known_codes]
    if unread := [name for name in data.categories if name not in known_codes]:
        notes.append(f"not read: {', '.join(unread)} (categorical, not known ahead)")
    if fit.known.weight.size:
        notes.append(known_in_words(fit.known, data))
    if config.varying:
        notes.append(varying_in_words(config.varying, config.varying_penalty))
    return "; ".join(notes)


def fit_varying(model: LinearModel, config: LinearModelConfig, data: Data, windows: Windows) -> None:
    """Fit the part of the maps whose weights vary, if there is one, to the errors of the others on these windows."""
    if model.varying is not None:
        varying.fit(model, windows, config.varying_penalty, data.frequency.season)


def choice(fit: LinearFit, data: Data) -> tuple[list[MapSettings], str]:
    """`fit.strengths`, cached by data and candidates."""
    key = repr((fit.config, fit.features, fit.positions))
    if key not in data.choices:
        data.choices[key] = fit.strengths()
    return data.choices[key]


def known_in_words(known: KnownEffects, data: Data) -> str:
    """The columns, holidays and categories with an effect, as text."""
    fields = mark_fields(data.frequency, data.calendar)
    names = [data.inputs[position] for position in known.columns] + [fields[position] for position in known.marks]
    columns = [(data.inputs[position], code) for position, code in known.codes if code]
    names += [f"{name}={data.categories[name][code - 1]}" for name, code in columns]
    effective = [names[position] for position in known.nonzero]
    return f"known ahead, with an effect on held-out blocks: {', '.join(effective) or 'none'} of {', '.join(names)}"


def all_runs(data: Data) -> list[WindowRun]:
    """The windows of all parts and those that span two parts."""
    splits = [split for split in (data.train, data.val, data.calibration, data.test) if split is not None]
    return joined([], [run for split in splits for run in runs_of(split)])


def varying_in_words(chosen: Sequence[str], penalty: float) -> str:
    """What the weights vary with, as text."""
    names = {
        "day": "time of day", "week": "day of week", "year": "time of year", "spread": "variation of the history",
        "season": "mean of the last season", "last": "last value",
    }  # fmt: skip
    return f"weights vary with {listed([names[name] for name in chosen])} (penalty {penalty:g})"


@torch.no_grad()
def fold_known(known: KnownEffects, model: LinearModel) -> None:
    """Set the known effects as weights of the network."""
    if model.effects is not None:
        model.effects.zero_()
        numbers = range(len(known.columns) + len(known.marks))
        rows = [*numbers, *(model.code_rows[column][code] for column, code in known.codes)]
        weight = torch.from_numpy(known.weight).to(model.effects)
        model.effects[torch.tensor(rows)[:, None], torch.tensor(model.positions)] = weight


@torch.no_grad()
def set_weights(fitted: LinearForecast, model: LinearModel) -> None:
    """Set the weights of the network so that it forecasts like `fitted`.

    forecast = last + W^T (history - last) + level mean(history) + features is linear in the history, so one map of the
    history represents all but the features: W, plus 1 - sum W at the last row and level / seq_len at every row.

    Raises:
        InputError: the maps' shape differs from the network's.
    """
    maps = 1 if fitted.by_series and not model.reads_series else len(fitted.weight)
    weight, level, extra = (tensor[:maps].double() for tensor in (fitted.weight, fitted.level, fitted.extra))
    if maps not in (1, len(model.own)) or weight.shape[1:] != model.own.shape[1:]:
        raise InputError(f"linear maps of shape {tuple(weight.shape)}: expected {tuple(model.own.shape)}")
    own_map = weight + level[:, None] / weight.shape[1]
    own_map[:, -1] += 1 - weight.sum(dim=1)
    model.own.copy_(own_map)
    _fold_calendar(fitted, extra, model)
    n_others = fitted.features.recent * len(fitted.features.columns)
    model.others.zero_()
    if n_others:
        model.others[:, -n_others:].copy_(extra[:, -n_others:])


def _fold_calendar(fitted: LinearForecast, extra: Tensor, model: LinearModel) -> None:
    features, sizes = fitted.features, {cycle: 2 * orders for cycle, orders in HARMONICS.items()}
    model.calendar.zero_()
    model.turns.zero_()
    model.phase.zero_()
    model.calendar[:, 0].copy_(extra[:, 0].expand_as(model.calendar[:, 0]))
    source, target = 1, 1
    for index, (cycle, size) in enumerate(sizes.items()):
        if cycle in features.cycles:
            model.calendar[:, target : target + size].copy_(extra[:, source : source + size])
            turns, phase = cycle_turns(features, cycle)
            model.turns[:, index].copy_(turns)
            model.phase[index].copy_(phase)
            source += size
        target += size


MOST_WINDOWS = 2000
"""Largest number of windows of all blocks together, evenly spaced."""

KEPT_BYTES = 256_000_000
"""Maximum size of the maps of all blocks that are kept for a second use."""


def held_out_blocks(
    model: LinearModel,
    config: LinearModelConfig,
    data: Data,
    *,
    n_blocks: int,
    finish: Callable[[LinearModel], None] = lambda model: None,
) -> Iterator[tuple[LinearModel, Windows]]:
    """For each block, the model fitted without it and the block's windows.

    Args:
        model: fitted model; it is not changed. Every block yields the same copy of it, with new weights.
        config: options of the fit.
        data: windows of training, validation and calibration rows; all are used.
        n_blocks: number of blocks.
        finish: called with the model after each fit.

    Raises:
        InputError: see `linear_fit`.
    """
    for scratch, windows, fitted_on in _blocks(model, config, data, n_blocks):
        fit_varying(scratch, config, data, fitted_on)
        finish(scratch)
        yield scratch, windows


def choose_varying(
    model: LinearModel, config: LinearModelConfig, data: Data, *, n_blocks: int
) -> tuple[list[str], float]:
    """See `informer.linear.varying.choose`; for maps that are fitted."""
    cycles = linear_fit(model, config, data).features.cycles
    blocks = ((scratch, windows) for scratch, windows, _ in _blocks(model, config, data, n_blocks))
    return varying.choose(blocks, data.frequency.season, cycles)


def _blocks(
    model: LinearModel, config: LinearModelConfig, data: Data, n_blocks: int
) -> Iterator[tuple[LinearModel, Windows, Windows]]:
    """The model fitted without each block, the block's windows, and those of the fit."""
    fit, scratch = linear_fit(model, config, data), deepcopy(model).eval()
    strengths, _ = choice(fit, data)
    splits = [split for split in (data.train, data.val, data.calibration) if split is not None]
    runs = joined([], [run for split in splits for run in runs_of(split)])
    for block, fitted in _fits(fit, strengths, folds(runs, n_blocks, data.sizes.pred_len), data):
        set_weights(fitted, scratch)
        held_out, fitted_on = (data.train.at(torch.from_numpy(starts_of(part))) for part in (block.held, block.fitted))
        yield scratch, held_out, fitted_on


def _fits(
    fit: LinearFit, strengths: Sequence[MapSettings], blocks: Sequence[Fold], data: Data
) -> Iterator[tuple[Fold, LinearForecast]]:
    """The maps fitted without each block, cached if they are small: weights of an average and intervals need both."""
    key = repr(("held out", fit.config, fit.features, fit.positions, strengths, blocks))
    if key in data.choices:
        yield from data.choices[key]
        return
    cached: list[tuple[Fold, LinearForecast]] = []
    size = 0
    for block, fitted in fit.fit_without(strengths, blocks):
        size += fitted.weight.nbytes
        cached = [*cached, (block, fitted)] if size <= KEPT_BYTES else []
        yield block, fitted
    if cached and size <= KEPT_BYTES:
        data.choices[key] = cached
