"""The search space: lookback windows suggested by the seasons of the data, and networks of different sizes."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import Any, get_args, get_type_hints

from informer.base.errors import InputError
from informer.config.commands import EngineName
from informer.config.conversion import flat, to_plain
from informer.config.data import Short
from informer.config.model import CalendarEmbed, InformerConfig, WindowSizes
from informer.config.training import SEARCHED, LossKind, TrainConfig, check
from informer.data.dataset import Source
from informer.data.panel import divide
from informer.data.seasonality import find_seasons
from informer.read.split import cut_rows

MOST_ROWS = 1024
"""Longest lookback window."""

MOST_LENGTHS = 16
"""Most lookback windows to try."""

SEASONS = (2, 3, 4, 5, 7, 10, 14, 21, 28)
"""Multiples of a season to try as lookback windows, in addition to the season itself."""

LEAST_RATIO = 1.1
"""Least ratio between two lookback windows."""

HORIZONS = (1, 2)
"""Multiples of the forecast horizon to try as lookback windows."""

START_ROWS = 48
"""Rows of the decoder's start token, if half of the lookback window is at least as long."""

MOST_COLUMNS, MOST_SEASONS = 12, 3
"""Target columns in which seasons are searched, and seasons that are kept."""

PATCH, TOKENS, WIDEST_PATCH = 8, 42, 48
"""A patch has about PATCH rows; more if there would be more than TOKENS patches, but at most WIDEST_PATCH."""

MOST_TOKENS = 384
"""Longest lookback window with one token per row; longer ones are tried with patches only."""

WIDTH, OTHER_WIDTHS = 32, (16, 64)
RATE, OTHER_RATES = 5e-4, (1e-3, 2e-4)
DROPOUT, OTHER_DROPOUTS = 0.2, (0.05, 0.4)
EMA, OTHER_EMAS = 0.0, (0.99,)
OTHER_LOSSES = (LossKind.mae.value,)
EMBED, OTHER_EMBEDS = CalendarEmbed.none.value, (CalendarEmbed.timeF.value,)
"""First values, and the alternatives that are tried for the best shape."""

FEED_FORWARD = 4
"""d_ff as a multiple of d_model."""

Values = Mapping[str, Any]
"""Configuration values by dotted key."""


def with_values(settings: TrainConfig, values: Values) -> TrainConfig:
    """The configuration with these values and no open keys."""
    nodes: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        node, _, name = key.rpartition(".")
        nodes.setdefault(node, {})[name] = value
    top_level = nodes.pop("", {})
    sections = {node: _replaced(getattr(settings, node), inside) for node, inside in nodes.items()}
    sections["trainer"] = replace(sections.get("trainer", settings.trainer), time_budget_minutes=None, refit=False)
    return replace(settings, **top_level, **sections, search=[], engine=EngineName.local, workers=None)


def _replaced(node: Any, values: Values) -> Any:
    """The node with these values; text becomes a member of the Enum that its field expects."""
    hints, typed = get_type_hints(type(node)), dict(values)
    for name, value in values.items():
        for kind in (hints[name], *get_args(hints[name])):
            if isinstance(value, str) and isinstance(kind, type) and issubclass(kind, Enum):
                typed[name] = kind(value)
    return replace(node, **typed)


def left_open(settings: TrainConfig, values: Values) -> Values:
    """The values whose keys the user has left open."""
    return {key: value for key, value in values.items() if key in settings.search}


def least_sizes(settings: TrainConfig) -> WindowSizes:
    """Sizes of the shortest windows that the search may choose."""
    least = 1 if "label_len" in settings.search else max(settings.label_len, 1)
    seq_len = least if "seq_len" in settings.search else settings.seq_len
    return WindowSizes(seq_len=seq_len, label_len=0, pred_len=settings.pred_len, offset=settings.model.offset)


def lengths(settings: TrainConfig, source: Source) -> list[int]:
    """Lookback windows to try in rows, shortest first; only the configured one if `seq_len` is not open."""
    if "seq_len" not in settings.search:
        return [settings.seq_len]
    step = _sizes(settings).patch_len
    if "model.patch_len" in settings.search:
        step = _divisor(settings.pred_len, near=PATCH, most=2 * PATCH)
    split = settings.dataset.split
    rows_of = sorted(len(cut_rows(x.timestamps, x.frequency, split).clip(len(x)).train) for x in source.panel)
    # at most half of the training rows of the shortest series, or of the median if short ones may be left out
    n_rows = rows_of[0 if settings.dataset.short is Short.error else len(rows_of) // 2]
    least, most = least_sizes(settings).seq_len, min(max((n_rows - settings.pred_len) // 2, 1), MOST_ROWS)
    periods = seasons(settings, source)
    multiples = [period * n for n in SEASONS for period in periods]
    candidates = [*periods, *(settings.pred_len * n for n in HORIZONS), *multiples]
    chosen: list[int] = []
    for rows in (-(-rows // step) * step for rows in candidates):
        if least <= rows <= most and all(max(rows, other) >= LEAST_RATIO * min(rows, other) for other in chosen):
            with suppress(InputError):  # the given settings allow no network with this lookback window
                chosen += [rows] if networks(settings, rows, n_targets=1) else []
    # if the data are too short for every candidate: the longest window that they allow
    return sorted(chosen[:MOST_LENGTHS]) or [max(least, most)]


def seasons(settings: TrainConfig, source: Source) -> list[int]:
    """Season lengths in rows: those found in the training rows of the targets, strongest first, then the calendar's."""
    strengths: dict[int, float] = defaultdict(float)
    usual = source.panel[0].frequency.seasons
    positions = source.columns.positions(source.columns.targets)[:MOST_COLUMNS]
    for series in source.panel[: max(MOST_COLUMNS // len(positions), 1)]:
        train = cut_rows(series.timestamps, series.frequency, settings.dataset.split).train
        for values in series.values[train.start : train.stop, positions].T:
            for season in find_seasons(values, usual_periods=usual):
                strengths[season.period] += season.strength
    strongest = sorted(strengths, key=lambda period: -strengths[period])[:MOST_SEASONS]
    return list(dict.fromkeys([*strongest, source.panel[0].frequency.season]))


def patch_len(settings: TrainConfig, seq_len: int) -> int:
    """Rows per patch: a common divisor of lookback window, horizon and a given start token; 1 if there is none."""
    if "model.patch_len" not in settings.search:
        return _sizes(settings).patch_len
    given_lengths = [] if "label_len" in settings.search else [settings.label_len]
    return _divisor(
        math.gcd(settings.pred_len, seq_len, *given_lengths), near=max(PATCH, seq_len / TOKENS), most=WIDEST_PATCH
    )


def _divisor(number: int, *, near: float | int, most: int) -> int:
    divisors = [rows for rows in range(2, most + 1) if number % rows == 0]
    return min(divisors, key=lambda rows: abs(math.log(rows / near)), default=1)


def comparable(settings: TrainConfig, source: Source, seq_lens: Sequence[int]) -> Source:
    """The series that are long enough for every lookback window, so that all are scored on the same windows."""
    widest = with_values(settings, cheapest(settings, max(seq_lens)))
    names = {series.name for series in divide(source.panel, settings.dataset, widest.sizes)[0]}
    return replace(source, panel=[series for series in source.panel if series.name in names])


def fixed_values(settings: TrainConfig) -> dict[str, Any]:
    """Values of the searched keys that the user has set."""
    return {
        key: value for key, value in flat(to_plain(settings)).items() if key in set(SEARCHED) - set(settings.search)
    }


def networks(settings: TrainConfig, seq_len: int, *, n_targets: int) -> list[Values]:
    """Networks of the first round: different shapes for a lookback window, cheapest first.

    Raises:
        InputError: the given settings allow no network.
    """
    patch = patch_len(settings, seq_len)
    shapes = [(patch, False), (patch, n_targets > 1), *([(1, False)] if seq_len <= MOST_TOKENS else [])]
    candidates = [_network(settings, seq_len, *shape) for shape in shapes]
    sound = _sound(settings, candidates)
    if not sound:
        check(with_values(settings, candidates[0]))
    return sound


def variants(settings: TrainConfig, values: Values) -> list[Values]:
    """Networks that differ from this one in one choice."""
    widths = [_widths(width) for width in OTHER_WIDTHS] if "model.d_model" in settings.search else []
    alternatives = {"model.embed": OTHER_EMBEDS, "optim.lr": OTHER_RATES, "model.dropout": OTHER_DROPOUTS}
    alternatives |= {"optim.ema": OTHER_EMAS, "loss.training": OTHER_LOSSES}
    changes = [*widths, *({key: value} for key, choices in alternatives.items() for value in choices)]
    changed = _sound(settings, [{**values, **left_open(settings, change)} for change in changes])
    return [other for other in changed if other != values]


def _sound(settings: TrainConfig, candidates: Sequence[Values]) -> list[Values]:
    """The valid ones, without duplicates."""
    different = [values for i, values in enumerate(candidates) if values not in candidates[:i]]
    return [values for values in different if not with_values(settings, values).problems()]


def cheapest(settings: TrainConfig, seq_len: int) -> Values:
    """The fastest network for a lookback window."""
    return networks(settings, seq_len, n_targets=1)[0]


def _network(settings: TrainConfig, seq_len: int, patch: int, channel_independent: bool) -> Values:
    length = patch_len(settings, seq_len)
    values = {
        "seq_len": seq_len,
        "label_len": min(START_ROWS, seq_len // 2) // length * length,
        **_widths(WIDTH if "model.d_model" in settings.search else _sizes(settings).d_model),
        "model.dropout": DROPOUT,
        "model.embed": EMBED,
        "model.patch_len": patch,
        "model.channel_independent": channel_independent,
        "optim.lr": RATE,
        "optim.ema": EMA,
        "loss.training": settings.loss.kind.value,
    }
    return left_open(settings, values)


def _sizes(settings: TrainConfig) -> InformerConfig:
    assert isinstance(settings.model, InformerConfig), "see TrainConfig.problems"
    return settings.model


def _widths(width: int) -> Values:
    return {"model.d_model": width, "model.n_heads": math.gcd(width, 4), "model.d_ff": FEED_FORWARD * width}
