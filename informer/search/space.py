"""What a search tries: rows of history that the seasons of the data suggest, then networks of different sizes."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from informer.config.conversion import flat, to_plain
from informer.config.dataset import Short
from informer.config.lengths import WindowSizes
from informer.config.model import CalendarEmbed, InformerConfig
from informer.config.schema import SEARCHED, TrainConfig, check
from informer.data.panel import divide
from informer.data.pipeline import Source
from informer.data.seasonality import bridged, find_seasons
from informer.data.split import cut_rows
from informer.errors import InputError

MOST_ROWS = 1024
"""Of a history that is tried."""

MOST_LENGTHS = 16
"""Histories that are tried."""

SEASONS = (2, 3, 4, 5, 7, 10, 14, 21, 28)
"""Of each season, one or so many fill a history."""

APART = 1.1
"""Least ratio of two histories."""

HORIZONS = (1, 2)
"""So many times pred_len fill one."""

START_ROWS = 48
"""Rows of the decoder's start token, where half of the history holds them."""

MOST_COLUMNS, MOST_SEASONS = 12, 3
"""Target columns whose seasons are looked for, and seasons that are taken."""

PATCH, TOKENS, WIDEST_PATCH = 8, 42, 48
"""Rows of a token: about the first, more where a history would make more tokens than the second, up to the third."""

MOST_TOKENS = 384
"""Rows of a history that may each be a token of its own; longer ones are cut into wider tokens alone."""

WIDTH, OTHER_WIDTHS = 32, (16, 64)
RATE, OTHER_RATES = 5e-4, (1e-3, 2e-4)
DROPOUT, OTHER_DROPOUTS = 0.2, (0.05, 0.4)
EMBED, OTHER_EMBEDS = CalendarEmbed.none.value, (CalendarEmbed.timeF.value,)
"""What networks begin with, and what is tried in its place."""

FEED_FORWARD = 4
"""d_ff in widths."""

Values = Mapping[str, Any]
"""Values by dotted key."""


def with_values(settings: TrainConfig, values: Values) -> TrainConfig:
    """The configuration with these values, and nothing left open."""
    nodes: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        node, _, name = key.rpartition(".")
        nodes.setdefault(node, {})[name] = value
    own = nodes.pop("", {})
    parts = {node: _replaced(getattr(settings, node), inside) for node, inside in nodes.items()}
    parts["trainer"] = replace(parts.get("trainer", settings.trainer), time_budget_minutes=None, refit=False)
    return replace(settings, **own, **parts, search=[])


def _replaced(node: Any, values: Values) -> Any:
    """`node` with these values; a choice is given by its name."""
    kinds = {name: type(getattr(node, name)) for name in values}
    return replace(node, **{k: kinds[k](v) if issubclass(kinds[k], Enum) else v for k, v in values.items()})


def left_open(settings: TrainConfig, values: Values) -> Values:
    """Those that the user has not given."""
    return {key: value for key, value in values.items() if key in settings.search}


def least_sizes(settings: TrainConfig) -> WindowSizes:
    """The shortest windows that may be chosen."""
    least = 1 if "label_len" in settings.search else max(settings.label_len, 1)
    seq_len = least if "seq_len" in settings.search else settings.seq_len
    return WindowSizes(seq_len=seq_len, label_len=0, pred_len=settings.pred_len, offset=settings.model.offset)


def lengths(settings: TrainConfig, source: Source) -> list[int]:
    """Rows of history to try, the shortest first; what is given is the only one."""
    if "seq_len" not in settings.search:
        return [settings.seq_len]
    step = _sizes(settings).patch_len
    if "model.patch_len" in settings.search:
        step = _divisor(settings.pred_len, near=PATCH, most=2 * PATCH)
    least, most = least_sizes(settings).seq_len, _most_rows(settings, source)
    periods = seasons(settings, source)
    multiples = [period * n for n in SEASONS for period in periods]
    wanted = [*periods, *(settings.pred_len * n for n in HORIZONS), *multiples]
    chosen: list[int] = []
    for rows in (-(-rows // step) * step for rows in wanted):
        apart = all(max(rows, other) >= APART * min(rows, other) for other in chosen)
        if least <= rows <= most and apart and _takes(settings, rows):
            chosen.append(rows)
    # where the data are too short for all of them, the longest that they allow
    return sorted(chosen[:MOST_LENGTHS]) or [max(least, most)]


def seasons(settings: TrainConfig, source: Source) -> list[int]:
    """Rows of the seasons in the targets' training rows, the clearest first, and of the calendar's."""
    strengths: dict[int, float] = defaultdict(float)
    for values in _training_columns(settings, source):
        for season in find_seasons(bridged(values)):
            strengths[season.period] += season.strength
    found = sorted(strengths, key=lambda period: -strengths[period])[:MOST_SEASONS]
    return list(dict.fromkeys([*found, source.panel[0].frequency.season]))


def _training_columns(settings: TrainConfig, source: Source) -> Iterator[Any]:
    positions = source.columns.positions(source.columns.targets)[:MOST_COLUMNS]
    for series in source.panel[: max(MOST_COLUMNS // len(positions), 1)]:
        train = cut_rows(series.timestamps, series.frequency, settings.dataset.split).train
        yield from series.values[train.start : train.stop, positions].T


def _most_rows(settings: TrainConfig, source: Source) -> int:
    """Half of the training rows of the shortest series, or of the median one where short ones are no error."""
    split = settings.dataset.split
    rows = sorted(len(cut_rows(one.timestamps, one.frequency, split).clip(len(one)).train) for one in source.panel)
    own = rows[0] if settings.dataset.short is Short.error else rows[len(rows) // 2]
    return min(max((own - settings.pred_len) // 2, 1), MOST_ROWS)


def _takes(settings: TrainConfig, seq_len: int) -> bool:
    """Whether what is given leaves a network for this history."""
    try:
        return bool(networks(settings, [seq_len], n_targets=1))
    except InputError:
        return False


def patch_len(settings: TrainConfig, seq_len: int) -> int:
    """Rows of a token that divide history, horizon and a given start token; 1 where none do."""
    if "model.patch_len" not in settings.search:
        return _sizes(settings).patch_len
    given = [] if "label_len" in settings.search else [settings.label_len]
    return _divisor(math.gcd(settings.pred_len, seq_len, *given), near=max(PATCH, seq_len / TOKENS), most=WIDEST_PATCH)


def _divisor(number: int, *, near: float | int, most: int) -> int:
    divisors = [rows for rows in range(2, most + 1) if number % rows == 0]
    return min(divisors, key=lambda rows: abs(math.log(rows / near)), default=1)


def comparable(settings: TrainConfig, source: Source, seq_lens: Sequence[int]) -> Source:
    """Series that are long enough for every history, so that all are judged on the same windows."""
    widest = with_values(settings, cheapest(settings, max(seq_lens)))
    kept = {series.name for series in divide(source.panel, settings.dataset, widest.sizes)[0]}
    return replace(source, panel=[series for series in source.panel if series.name in kept])


def given_values(settings: TrainConfig) -> dict[str, Any]:
    """Those of the searched keys that are not open."""
    return {
        key: value for key, value in flat(to_plain(settings)).items() if key in set(SEARCHED) - set(settings.search)
    }


def label_len(settings: TrainConfig, seq_len: int) -> int:
    """Rows of the start token for a history: whole tokens."""
    if "label_len" not in settings.search:
        return settings.label_len
    patch = patch_len(settings, seq_len)
    return min(START_ROWS, seq_len // 2) // patch * patch


def networks(settings: TrainConfig, seq_lens: Sequence[int], *, n_targets: int) -> list[Values]:
    """Networks to begin with: different shapes for the first history, the cheapest first; that one for the others.

    Raises:
        InputError: what is given leaves none.
    """
    first, *others = seq_lens
    wanted = [_network(settings, first, *shape) for shape in _shapes(settings, first, n_targets)]
    wanted += [_network(settings, seq_len, *_shapes(settings, seq_len, n_targets)[0]) for seq_len in others]
    sound = _sound(settings, wanted)
    if not sound:
        check(with_values(settings, wanted[0]))
    return sound


def variants(settings: TrainConfig, values: Values) -> list[Values]:
    """The network with one choice made otherwise."""
    widths = [_widths(width) for width in OTHER_WIDTHS] if "model.d_model" in settings.search else []
    others = {"model.embed": OTHER_EMBEDS, "optim.lr": OTHER_RATES, "model.dropout": OTHER_DROPOUTS}
    changes = [*widths, *({key: value} for key, choices in others.items() for value in choices)]
    changed = _sound(settings, [{**values, **left_open(settings, change)} for change in changes])
    return [other for other in changed if other != values]


def _sound(settings: TrainConfig, wanted: Sequence[Values]) -> list[Values]:
    """Those that can be built, each once."""
    different = [values for i, values in enumerate(wanted) if values not in wanted[:i]]
    return [values for values in different if not with_values(settings, values).problems()]


def _shapes(settings: TrainConfig, seq_len: int, n_targets: int) -> list[tuple[int, bool]]:
    """patch_len and channel_independent, the cheapest first."""
    patch = patch_len(settings, seq_len)
    whole = [(1, False)] if seq_len <= MOST_TOKENS else []
    return [(patch, False), (patch, n_targets > 1), *whole]


def cheapest(settings: TrainConfig, seq_len: int) -> Values:
    """The network for a history that costs least."""
    return networks(settings, [seq_len], n_targets=1)[0]


def _network(settings: TrainConfig, seq_len: int, patch: int, apart: bool) -> Values:
    values = {
        "seq_len": seq_len,
        "label_len": label_len(settings, seq_len),
        **_widths(WIDTH if "model.d_model" in settings.search else _sizes(settings).d_model),
        "model.dropout": DROPOUT,
        "model.embed": EMBED,
        "model.patch_len": patch,
        "model.channel_independent": apart,
        "optim.lr": RATE,
    }
    return left_open(settings, values)


def _sizes(settings: TrainConfig) -> InformerConfig:
    assert isinstance(settings.model, InformerConfig), "see TrainConfig.problems"
    return settings.model


def _widths(width: int) -> Values:
    return {"model.d_model": width, "model.n_heads": math.gcd(width, 4), "model.d_ff": FEED_FORWARD * width}
