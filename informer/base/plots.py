"""Figures of forecasts and errors, without pyplot: no global state, no display, thread-safe."""

import io
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from informer.base.errors import InputError
from informer.base.files import write_atomic

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import Normalize, PowerNorm
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.font_manager import get_font_names
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError as error:
    raise InputError("plots: expected matplotlib, found none; pip install matplotlib") from error
except ValueError as error:  # of a setting, which matplotlib reads when it is imported
    raise InputError(f"plots: matplotlib cannot start ({error}); unset MPLBACKEND, or fix matplotlibrc") from error

log = logging.getLogger(__name__)

HISTORY, FORECAST, ACTUAL = "#8a8f98", "#d1495b", "#2b2f36"
BASELINES = ("#30638e", "#edae49", "#3d8b6e")
MAX_PANELS = 12
ASIAN = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Micro Hei", "Microsoft YaHei", "SimHei",
    "PingFang SC", "Hiragino Sans", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS",
)  # fmt: skip
MISSING_SIGN = r"Glyph (\d+) \(.*\) missing from font"
WIDTH = 9.0
"""Width of figures in inches."""

Band = tuple[pd.DataFrame, pd.DataFrame]
"""Lower and upper ends of an interval, shaped like the forecast."""


def shown_columns(names: Sequence[str], max_columns: int, target: str | None = None) -> list[str]:
    """The first names, always including `target`, or the last name if `target` is None or not in `names`."""
    chosen, required = list(names[:max_columns]), names[-1] if target is None or target not in names else target
    return chosen if required in chosen else [*chosen[:-1], required]


def plot_forecast(
    history: pd.DataFrame,
    forecast: pd.DataFrame,
    *,
    bands: Mapping[str, Band] | None = None,
    title: str = "",
    target: str | None = None,
) -> Figure:
    """One panel per column of `forecast` over time: history and forecast.

    Args:
        history: values before the forecast, indexed by timestamp; the last four horizons (or 48 rows) are drawn.
        forecast: forecast values, indexed by timestamp. Both may be indexed by numbers instead.
        bands: intervals around the forecast by name, widest first.
        title: heading of the figure.
        target: column that is always drawn; None: the last.

    At most 12 columns are drawn; the heading says so if there are more.
    """
    columns = shown_columns(list(forecast.columns), MAX_PANELS, target)
    if len(columns) < forecast.shape[1]:
        title = f"{title} ({len(columns)} of {forecast.shape[1]} columns)".strip()
    figure, panels = _stack(len(columns), title)
    recent = history.iloc[-max(4 * len(forecast), 48) :]
    for axes, column in zip(panels, columns, strict=True):
        axes.set_title(str(column), loc="left", fontsize=9, parse_math=False, family=_families())
        axes.axvline(_times(forecast)[0], color=HISTORY, linewidth=0.8, linestyle=":")
        _line(axes, _times(recent), recent[column], "history", HISTORY)
        for place, (name, band) in enumerate((bands or {}).items()):
            low, high = (end[column].to_numpy(dtype=float) for end in band)
            times, look = _times(forecast), dict[str, Any](color=FORECAST, label=name)
            if len(times) == 1:  # a filled area would have no width
                axes.vlines(times, low, high, alpha=0.4, linewidth=3 + 3 * place, **look)
            else:  # narrower intervals, which come later, are darker
                axes.fill_between(times, low, high, alpha=min(0.16 + 0.1 * place, 0.5), linewidth=0, **look)
        _line(axes, _times(forecast), forecast[column], "forecast", FORECAST)
    if isinstance(forecast.index, pd.DatetimeIndex):
        locator = AutoDateLocator(tz=forecast.index.tz)
        panels[-1].xaxis.set_major_locator(locator)
        panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=forecast.index.tz))
        panels[-1].xaxis.get_offset_text().set_fontsize(8)
    _legend(figure, panels[0])
    return figure


def plot_windows(
    history: np.ndarray, forecast: np.ndarray, actual: np.ndarray, names: Sequence[str], *, target: str | None = None
) -> Figure:
    """Forecast and actual values of a few windows, time in steps from the forecast's start.

    Args:
        history: [w seq_len n]; the last two horizons are drawn.
        forecast: [w pred_len n].
        actual: [w pred_len n].
        names: names of the n columns; at most three columns and four windows are drawn.
        target: column that is always drawn; None: the last.
    """
    positions = [list(names).index(name) for name in shown_columns(names, 3, target)]
    rows, columns = min(len(forecast), 4), len(positions)
    horizon = forecast.shape[1]
    recent = history[:, -2 * horizon :]
    past, ahead = np.arange(-recent.shape[1], 0), np.arange(horizon)
    width, height = 3.4 * columns, 1.7 * rows + 0.5
    # margins in inches instead of a layout that measures every label, which takes two thirds of the time of drawing
    margins = {"left": 0.45 / width, "right": 1 - 0.1 / width, "bottom": 0.55 / height, "top": 1 - 0.3 / height}
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, gridspec_kw={**margins, "wspace": 0.18})
    for row in range(rows):
        for place, column in enumerate(positions):
            axes = _tidy(grid[row, place])
            _line(axes, past, recent[row, :, column], "history", HISTORY)
            _line(axes, ahead, actual[row, :, column], "actual", ACTUAL)
            _line(axes, ahead, forecast[row, :, column], "forecast", FORECAST)
            if row == 0:
                axes.set_title(str(names[column]), loc="left", fontsize=9, parse_math=False, family=_families())
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=8)
    return figure


def plot_error_by_step(errors: Mapping[str, Sequence[float]]) -> Figure:
    """Scaled MSE: one line per forecaster (the model first) over the steps of the horizon, from 1."""
    figure, (axes,) = _stack(1, "", height=3.2)
    for place, (name, values) in enumerate(errors.items()):
        colour = FORECAST if place == 0 else BASELINES[(place - 1) % len(BASELINES)]
        _line(axes, np.arange(1, len(values) + 1), values, name, colour)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step ahead", fontsize=9)
    axes.set_ylabel("MSE (scaled)", fontsize=9)
    _legend(figure, axes)
    return figure


def plot_losses(
    training: Mapping[int, float],
    validation: Mapping[int, float],
    baselines: Mapping[str, float],
    *,
    units: str,
    note: str = "",
) -> Figure:
    """Training and validation loss by epoch; baselines' validation losses as horizontal lines.

    Args:
        training, validation: losses by epoch; 0 is before the first step.
        baselines: losses by name.
        units: label of the losses.
        note: note on the baselines' losses.

    A dot marks the lowest validation loss. The axis is logarithmic if losses differ by more than a factor of 10.
    """
    figure, (axes,) = _stack(1, "", height=3.6)
    for place, (name, value) in enumerate(baselines.items()):
        axes.axhline(value, label=name, color=BASELINES[place % len(BASELINES)], linewidth=1.1, linestyle="--")
    for name, curve, colour in (("training", training, HISTORY), ("validation", validation, FORECAST)):
        axes.plot([*curve], [*curve.values()], label=name, color=colour, linewidth=1.6, marker=".", markersize=4)
    if validation:
        best = min(validation, key=lambda epoch: validation[epoch])
        axes.plot([best], [validation[best]], color=FORECAST, marker="o", linestyle="", label=f"best: epoch {best}")
    losses = [*training.values(), *validation.values(), *baselines.values()]
    if 0 < 10 * min(losses) < max(losses):
        axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"epoch{f' ({note})' if note else ''}", fontsize=9)
    axes.set_ylabel(units, fontsize=9)
    _legend(figure, axes)
    return figure


def plot_attention(weights: np.ndarray, *, lengths: tuple[int, int], rows: Sequence[str], layer_name: str) -> Figure:
    """Heat maps of one layer: windows down, heads across, queries down and keys across within each.

    Every map has its own colour scale, up to its largest weight, which is shown above it. Colours follow the square
    root of the weight, so that small weights are visible; with negative weights they are linear, from blue (negative)
    to red.

    Args:
        weights: [w h rows columns]; may be coarser than `lengths`.
        lengths: number of queries and of keys, for the axes.
        rows: names of the w windows.
        layer_name: heading.
    """
    n_windows, n_heads = weights.shape[:2]
    n_queries, n_keys = lengths
    height = float(np.clip(n_queries / n_keys, 0.4, 1.5))
    figure = Figure(figsize=(1.9 * n_heads + 0.6, (1.9 * height + 0.35) * n_windows + 0.5), layout="constrained")
    figure.suptitle(f"{layer_name}: {n_queries} queries, {n_keys} keys", x=0.01, ha="left", fontsize=11)
    corners = (-0.5, n_keys - 0.5, n_queries - 0.5, -0.5)
    grid = figure.subplots(n_windows, n_heads, squeeze=False, sharex=True, sharey=True)
    for window, head in product(range(n_windows), range(n_heads)):
        cells = weights[window, head]
        signed, largest = bool((cells < 0).any()), float(np.abs(cells).max())
        norm = Normalize(-largest, largest) if signed else PowerNorm(0.5, 0.0, largest)
        panel = grid[window, head]
        panel.imshow(cells, cmap="RdBu_r" if signed else "magma", norm=norm, extent=corners, aspect="auto")
        panel.set_title(f"head {head + 1}, up to {largest:.2g}", loc="left", fontsize=8)
        panel.tick_params(labelsize=7)
    for name, axes in zip(rows, grid[:, 0], strict=True):
        axes.set_ylabel(f"{name}\nquery", fontsize=8, parse_math=False)
    for lowest in grid[-1]:
        lowest.set_xlabel("key", fontsize=8)
    return figure


def png(figure: Figure, *, dpi: int = 130) -> bytes:
    """The figure as a PNG; the same figure gives the same bytes.

    Characters without an installed font are reported in one log line; matplotlib would warn for each.
    """
    buffer = io.BytesIO()
    figure.set_dpi(dpi)
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=MISSING_SIGN)
        # `savefig` draws twice to find the layout, which drawing does by itself; the bytes are the same
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    absent = {match[1] for warning in caught if (match := re.match(MISSING_SIGN, str(warning.message)))}
    for warning in caught:
        if not re.match(MISSING_SIGN, str(warning.message)):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if absent:
        signs = "".join(chr(int(code)) for code in sorted(absent, key=int))
        log.warning(f"no font for {signs} in a picture; install one that has them, such as Noto Sans CJK")
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a PNG atomically.

    Raises:
        InputError: the path cannot be written.
    """
    write_atomic(path, png(figure))


@cache
def _families() -> list[str]:
    """Font families: matplotlib's own, then installed fonts with Asian characters."""
    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in ASIAN if name in installed)]


def _stack(count: int, title: str, height: float = 1.7) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH, height * count + 0.8), layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, parse_math=False, family=_families())
    panels = figure.subplots(count, 1, squeeze=False, sharex=True)
    return figure, [_tidy(axes) for axes in panels[:, 0]]


def _tidy(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e8eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    return axes


def _line(axes: Axes, x: np.ndarray, y: ArrayLike, label: str, colour: str) -> None:
    marker = "o" if len(x) == 1 else None
    width = 1.6 if colour == FORECAST else 1.1
    axes.plot(x, y, label=label, color=colour, linewidth=width, marker=marker, markersize=4)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)


def _times(frame: pd.DataFrame) -> np.ndarray:
    """Timestamps in UTC, as matplotlib interprets naive times; the axis is labelled in the data's own time zone."""
    index = frame.index
    if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    return index.to_numpy()
