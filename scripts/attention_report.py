"""Cells of the attention benchmark as Markdown tables and as a plot."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attention_packages import PACKAGES
from matplotlib import colormaps
from matplotlib.figure import Figure
from result_files import markdown_table

from informer.base.plots import save_figure

BASELINE = "full"
FIT_FROM = 2048
"""Length from which the growth exponent is fitted: below it the costs of calls count."""


@dataclass(kw_only=True, slots=True)
class Cell:
    """Medians over turns of a mechanism and its rival at one length."""

    attn: str
    rival: str
    """`full` or a package; empty for `full` itself."""
    length: int
    seconds: float = math.nan
    rival_seconds: float = math.nan
    ratio: float = math.nan
    """Seconds of the mechanism over those of the rival, within a turn."""
    spread: float = math.nan
    """Slowest over fastest turn of the mechanism."""
    turns: int = 0
    peak_bytes: float = math.nan
    rival_peak_bytes: float = math.nan
    stopped: str = ""
    """Why it was not measured; empty where it was."""


Groups = dict[str, list[Cell]]
"""Cells by mechanism (of packages: by package), the shortest length first."""


def grouped(cells: list[Cell]) -> Groups:
    """Cells by mechanism or package, in order of appearance."""
    groups: Groups = {}
    for cell in sorted(cells, key=lambda cell: cell.length):
        groups.setdefault(cell.rival if cell.rival in PACKAGES else cell.attn, []).append(cell)
    return groups


def exponent(cells: list[Cell]) -> float:
    """Slope of log time over log length from FIT_FROM up; NaN with fewer than two lengths there."""
    long = [cell for cell in cells if cell.length >= FIT_FROM and not cell.stopped]
    if len(long) < 2:
        return math.nan
    return float(np.polyfit(np.log([c.length for c in long]), np.log([c.seconds for c in long]), 1)[0])


def crossover(cells: list[Cell]) -> int | None:
    """The shortest measured length from which on the mechanism takes less time than its rival."""
    shortest = None
    for cell in sorted((cell for cell in cells if not math.isnan(cell.ratio)), key=lambda cell: -cell.length):
        if cell.ratio >= 1:
            break
        shortest = cell.length
    return shortest


def markdown(cells: list[Cell]) -> str:
    """The tables of all cells."""
    groups, lengths = grouped(cells), sorted({cell.length for cell in cells})
    if any(cell.rival in PACKAGES for cell in cells):
        return _package_tables(groups, lengths)
    times = markdown_table(
        ["milliseconds", *map(str, lengths), f"growth from {FIT_FROM}", f"less than {BASELINE} from"],
        [
            [f"`{name}`", *_row(group, lengths, lambda cell: _short(1e3 * cell.seconds)), *_growth(group)]
            for name, group in groups.items()
        ],
    )
    ratios = markdown_table(
        [f"times the speed of {BASELINE}", *map(str, lengths)],
        [
            [f"`{name}`", *_row(group, lengths, lambda cell: _short(1 / cell.ratio))]
            for name, group in groups.items()
            if name != BASELINE
        ],
    )
    peaks = markdown_table(
        ["peak MiB", *map(str, lengths)],
        [
            [f"`{name}`", *_row(group, lengths, lambda cell: _short(cell.peak_bytes / 2**20))]
            for name, group in groups.items()
        ],
    )
    return "\n".join([times, ratios, peaks])


def _package_tables(groups: Groups, lengths: list[int]) -> str:
    shows: list[tuple[str, Callable[[Cell], str]]] = [
        ("time, ours / theirs", lambda cell: f"{cell.ratio:.2f}"),
        ("peak memory, ours / theirs", lambda cell: f"{cell.peak_bytes / cell.rival_peak_bytes:.2f}"),
    ]
    return "\n".join(
        markdown_table(
            [heading, "ours", *map(str, lengths), "work"],
            [
                [name, f"`{group[0].attn}`", *_row(group, lengths, show), PACKAGES[name].note]
                for name, group in groups.items()
            ],
        )
        for heading, show in shows
    )


def _short(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):g}"


def _row(cells: list[Cell], lengths: list[int], show: Callable[[Cell], str]) -> list[str]:
    texts = {cell.length: cell.stopped or show(cell) for cell in cells}
    return [texts.get(length, "") for length in lengths]


def _growth(cells: list[Cell]) -> list[str]:
    power = exponent(cells)
    rival = any(cell.rival for cell in cells)
    return ["" if math.isnan(power) else f"L^{power:.2f}", str(crossover(cells) or "nowhere") if rival else ""]


def plot(cells: list[Cell], path: Path) -> None:
    """Time and memory over length, both axes logarithmic; quadratic mechanisms dashed."""
    groups = {name: [c for c in group if not c.stopped] for name, group in grouped(cells).items()}
    figure = Figure(figsize=(14, 7), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, (name, group) in enumerate(sorted(groups.items())):
        style = {
            "color": colormaps["turbo"](i / len(groups)),
            "marker": "osv^D"[i % 5],
            "markersize": 4,
            "linewidth": 1,
        }
        style |= {"linestyle": "--"} if exponent(group) > 1.7 else {}
        style |= {"color": "black", "linewidth": 3, "linestyle": "-"} if name == BASELINE else {}
        lengths = [cell.length for cell in group]
        left.plot(lengths, [1e3 * cell.seconds for cell in group], label=name, **style)
        right.plot(lengths, [max(cell.peak_bytes, 2**18) / 2**20 for cell in group], **style)
    left.set(ylabel="milliseconds, forward and backward", title="Time")
    right.set(ylabel="MiB beyond the inputs", title="Peak memory")
    ticks = sorted({cell.length for cell in cells})
    for axes in (left, right):
        axes.set(xlabel="sequence length", yscale="log")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, labels=map(str, ticks))
        axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=9)
    save_figure(figure, path)
