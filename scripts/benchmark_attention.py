"""Time and peak memory of one forward and backward pass of every attention mechanism, against the sequence length.

    python scripts/benchmark_attention.py --output runs/benchmark_attention         # all mechanisms, 128 to 16384
    python scripts/benchmark_attention.py --draw --output runs/benchmark_attention  # tables and plot again

One batch item, 8 heads of 64 features, float32, training mode without dropout. For each cell the mechanism and torch's
fused full attention take turns in one process; the medians of their times and of the ratio within a turn are reported.
Peak memory is measured in a separate process: what mechanism and pass need beyond q, k, v. A mechanism stops at a
length at which its last cell, extrapolated with the square of the length, would exceed 60 s or 8 GiB; the table says
which.

Every cell is saved in results.csv as it is measured, and the same command continues where it stopped; failed cells are
measured again. Tables are written to table.md, the plot to scaling.png.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from result_files import markdown_table, open_folder, read_rows, resident, write_rows
from rich.console import Console
from torch import Tensor

from informer.base.errors import InputError
from informer.base.files import write_atomic
from informer.base.plots import save_figure
from informer.checkpoint.network import attention_class, attention_names, attention_node, build_attention
from informer.networks.attention.base import AttentionSpec

BASELINE = "full"
LENGTHS = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
HEADS, WIDTH = 8, 64
MAX_SECONDS, MAX_BYTES = 60.0, 8 << 30
TURNS, SECONDS_A_CELL = 15, 5.0
"""A pair takes TURNS turns, fewer once they have taken SECONDS_A_CELL together: one, where that takes as long."""
SHORT, LONG = 128, 1024
"""Lengths of the pass that brings in libraries and threads: before memory is read, and at most before time is."""
FIT_FROM = 2048
"""Length from which the growth exponent is fitted: below it the costs of calls count."""

Result = TypeVar("Result")


@dataclass(kw_only=True, slots=True)
class Cell:
    """Medians over turns of a mechanism and of full attention at one length."""

    attn: str
    length: int
    seconds: float = math.nan
    ratio: float = math.nan
    """Seconds of the mechanism over those of full attention, within a turn."""
    spread: float = math.nan
    """Slowest over fastest turn of the mechanism."""
    turns: int = 0
    peak_bytes: float = math.nan
    stopped: str = ""
    """Why it was not measured; empty where it was."""


@dataclass(kw_only=True, frozen=True, slots=True)
class Setup:
    """Settings shared by all measurements of a run."""

    causal: bool
    device: str
    threads: int
    clock: str
    """wall, or cpu: seconds that the threads worked, whoever else uses the machine."""

    def inputs(self, length: int) -> list[Tensor]:
        """q, k, v and the gradient of the output, [1 HEADS length WIDTH]; sets the process up."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(0)
        q, k, v, upstream = (torch.randn(1, HEADS, length, WIDTH, device=self.device) for _ in range(4))
        return [q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), upstream]

    def make_pass(self, name: str, inputs: list[Tensor]) -> Callable[[], None]:
        """A call that runs forward and backward once and waits for the device."""
        *leaves, upstream = inputs
        length = upstream.shape[2]
        spec = AttentionSpec(n_heads=HEADS, d_head=WIDTH, len_q=length, len_k=length, causal=self.causal)
        attn = build_attention(name, spec).to(self.device).train()

        def run() -> None:
            attn(*leaves).backward(upstream)
            for leaf in (*leaves, *attn.parameters()):
                leaf.grad = None
            if self.device == "cuda":
                torch.cuda.synchronize()

        return run


def seconds_of_turns(setup: Setup, names: list[str], length: int) -> list[list[float]]:
    """Seconds of every turn of each mechanism; they take turns, so that noise affects all alike."""
    warm = setup.inputs(min(length, LONG))
    for name in names:
        setup.make_pass(name, warm)()
    inputs = setup.inputs(length)
    passes = [setup.make_pass(name, inputs) for name in names]
    now = time.perf_counter if setup.clock == "wall" else time.process_time
    seconds: list[list[float]] = [[] for _ in names]
    while len(seconds[0]) < TURNS and sum(map(sum, seconds)) < SECONDS_A_CELL:
        for run, turns in zip(passes, seconds, strict=True):
            start = now()
            run()
            turns.append(now() - start)
    return seconds


def peak_bytes(setup: Setup, name: str, length: int) -> float:
    """Peak bytes of building and one pass, beyond the inputs."""
    setup.make_pass(name, setup.inputs(SHORT))()
    inputs = setup.inputs(length)
    if setup.device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        setup.make_pass(name, inputs)()
        return float(torch.cuda.max_memory_allocated() - before)
    before = resident("VmRSS")
    setup.make_pass(name, inputs)()
    return float(resident("VmHWM") - before)


def in_fresh_process(function: Callable[..., Result], setup: Setup, *arguments: object) -> Result:
    """`function(setup, *arguments)` in a new process; in this one for a GPU, which counts its memory by itself, and
    takes seconds to start.

    Raises:
        BrokenProcessPool: the system killed it, most likely for memory.
    """
    if setup.device == "cuda":
        return function(setup, *arguments)
    context = get_context("forkserver")
    context.set_forkserver_preload(
        ["torch", "informer.checkpoint.network"]
    )  # imported once, in a server that runs nothing itself
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, setup, *arguments).result()


def limit_passed(last: Cell | None, length: int) -> str:
    """The limit that quadratic growth from the previous cell exceeds here; empty if none."""
    if last is None or last.stopped:
        return last.stopped if last else ""
    growth = (length / last.length) ** 2
    if last.seconds * growth > MAX_SECONDS:
        return f"> {MAX_SECONDS:.0f} s"
    return f"> {MAX_BYTES >> 30} GiB" if last.peak_bytes * growth > MAX_BYTES else ""


def measure(setup: Setup, cell: Cell, *, with_baseline: bool) -> None:
    """Measure a cell, or record why it is empty."""
    try:
        cell.peak_bytes = in_fresh_process(peak_bytes, setup, cell.attn, cell.length)
        names = [cell.attn, *([BASELINE] if with_baseline else [])]
        turns = in_fresh_process(seconds_of_turns, setup, names, cell.length)
    except (BrokenProcessPool, torch.OutOfMemoryError):
        cell.stopped = "out of memory"
        return
    cell.turns, cell.seconds, cell.spread = len(turns[0]), median(turns[0]), max(turns[0]) / min(turns[0])
    if with_baseline:
        cell.ratio = median(a / b for a, b in zip(*turns, strict=True))


def run(setup: Setup, options: argparse.Namespace, console: Console) -> list[Cell]:
    """Measure all cells, shortest length first; saved ones are not measured again."""
    path = options.output / "results.csv"
    cells = [cell for cell in read_rows(Cell, path) if not cell.stopped or cell.stopped.startswith(">")]
    measured = {(cell.attn, cell.length): cell for cell in cells}
    classes = {name: attention_class(attention_node(name)["_target_"]) for name in [BASELINE, *options.attn]}
    last: dict[str, Cell] = {}
    for length in sorted(set(options.lengths)):
        full_fits = not limit_passed(last.get(BASELINE), length)
        for name in [name for name, cls in classes.items() if cls.CAUSAL or not setup.causal]:
            cell = measured.get((name, length))
            if cell is None:
                cell = Cell(attn=name, length=length, stopped=limit_passed(last.get(name), length))
                if not cell.stopped:
                    measure(setup, cell, with_baseline=name != BASELINE and full_fits)
                cells.append(cell)
                write_rows(Cell, cells, path)
                figures = f"{1e3 * cell.seconds:.3g} ms, {cell.peak_bytes / 2**20:.3g} MiB"
                console.print(f"{length} {name}: {cell.stopped or figures}", highlight=False)
            last[name] = cell
    return cells


def grouped(cells: list[Cell]) -> dict[str, list[Cell]]:
    """Cells by mechanism, in order of appearance, the shortest length first."""
    groups: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.length):
        groups.setdefault(cell.attn, []).append(cell)
    return groups


def exponent(cells: list[Cell]) -> float:
    """Slope of log time over log length from FIT_FROM up; NaN with fewer than two lengths there."""
    long = [cell for cell in cells if cell.length >= FIT_FROM and not cell.stopped]
    if len(long) < 2:
        return math.nan
    return float(np.polyfit(np.log([c.length for c in long]), np.log([c.seconds for c in long]), 1)[0])


def crossover(cells: list[Cell]) -> int | None:
    """The shortest measured length from which on the mechanism takes less time than full attention."""
    shortest = None
    for cell in sorted((cell for cell in cells if not math.isnan(cell.ratio)), key=lambda cell: -cell.length):
        if cell.ratio >= 1:
            break
        shortest = cell.length
    return shortest


def markdown(cells: list[Cell]) -> str:
    """The tables of all cells."""
    groups, lengths = grouped(cells), sorted({cell.length for cell in cells})

    def row(name: str, show: Callable[[Cell], float]) -> list[str]:
        shown = {cell.length: cell.stopped or f"{float(f'{show(cell):.3g}'):g}" for cell in groups[name]}
        return [f"`{name}`", *(shown.get(length, "") for length in lengths)]

    def growth(name: str) -> list[str]:
        power = exponent(groups[name])
        less_from = "" if name == BASELINE else str(crossover(groups[name]) or "nowhere")
        return ["" if math.isnan(power) else f"L^{power:.2f}", less_from]

    heading = ["milliseconds", *map(str, lengths), f"growth from {FIT_FROM}", f"less than {BASELINE} from"]
    times = [[*row(name, lambda cell: 1e3 * cell.seconds), *growth(name)] for name in groups]
    ratios = [row(name, lambda cell: 1 / cell.ratio) for name in groups if name != BASELINE]
    peaks = [row(name, lambda cell: cell.peak_bytes / 2**20) for name in groups]
    tables = [
        markdown_table(heading, times),
        markdown_table([f"times the speed of {BASELINE}", *map(str, lengths)], ratios),
        markdown_table(["peak MiB", *map(str, lengths)], peaks),
    ]
    return "\n".join(tables)


def plot(cells: list[Cell], path: Path) -> None:
    """Time and memory over length, both axes logarithmic; quadratic mechanisms dashed."""
    groups = {name: [c for c in group if not c.stopped] for name, group in grouped(cells).items()}
    figure = Figure(figsize=(14, 7), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, (name, group) in enumerate(sorted(groups.items())):
        colour = colormaps["turbo"](i / len(groups))
        style = {"color": colour, "marker": "osv^D"[i % 5], "markersize": 4, "linewidth": 1}
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


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attn", nargs="+", choices=attention_names(), default=attention_names(), metavar="NAME")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="L")
    parser.add_argument("--causal", action="store_true", help="causal attention; leaves out mechanisms without it")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: for a shared machine")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark_attention"), help="folder to write")
    parser.add_argument("--draw", action="store_true", help="only write tables and plot of saved cells")
    options, console = parser.parse_args(), Console()
    if options.device == "cuda" and options.clock == "cpu":
        parser.error("--clock cpu says nothing about a GPU")
    if options.draw:
        cells = read_rows(Cell, options.output / "results.csv")
        if not cells:
            sys.exit(f"error: {options.output / 'results.csv'}: nothing measured yet")
    else:
        setup = Setup(causal=options.causal, device=options.device, threads=options.threads, clock=options.clock)
        facts = asdict(setup) | {"torch": torch.__version__, "heads": HEADS, "width": WIDTH}
        try:
            open_folder(options.output, facts)
        except InputError as error:
            sys.exit(f"error: {error}")
        console.print(facts, highlight=False)
        cells = run(setup, options, console)
    write_atomic(options.output / "table.md", markdown(cells))
    plot(cells, options.output / "scaling.png")
    print(markdown(cells))
    if spreads := [cell.spread for cell in cells if not cell.stopped]:
        print(f"slowest turn over fastest, median of all cells: {median(spreads):.2f}; written to {options.output}")


if __name__ == "__main__":
    main()
