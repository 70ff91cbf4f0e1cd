"""Saved state of a linear fit, to which later rows can be added without the earlier ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from informer.config.lengths import WindowSizes
from informer.config.model import CalendarEmbed
from informer.data.windows import Store
from informer.errors import InputError
from informer.linear.features import OriginFeatures
from informer.linear.fit import LinearFit
from informer.linear.held_out import Channel
from informer.linear.moments import Moments, Run
from informer.linear.offered import LinearConfig
from informer.linear.select import has_own_maps
from informer.linear.strengths import Strengths
from informer.linear.sums import Sums, packed, unpacked

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
    strengths: Sequence[Strengths]
    weights: Sequence[float]
    sums: Sums

    @classmethod
    def of(cls, fit: LinearFit, strengths: Sequence[Strengths], runs: Sequence[Run]) -> "KeptFit":
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


def bytes_of(fit: LinearFit, strengths: Sequence[Strengths]) -> int:
    """Size of the moments that `KeptFit` would hold, in bytes."""
    size = fit.sizes.seq_len + fit.sizes.pred_len + len(fit.features.groups)
    return 4 * size * (size + 1) * (1 + len(fit.channels) * has_own_maps(strengths))


def _strengths(plain: Sequence[Any], of: Reads, where: str) -> list[Strengths]:
    strengths = [Strengths.from_plain(entry) for entry in plain if isinstance(entry, dict)]
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
