"""Time and peak memory of one forward and backward pass of every attention mechanism, against the sequence length.

    python scripts/benchmark_attention.py --attn prob full --lengths 512 2048 8192 --output runs/benchmark_attention

One batch item, 8 heads of 64 features, float32, training mode without dropout. At each length all mechanisms take turns
in one process, torch's fused full attention among them, so that noise of the machine falls on all alike; the median of
their turns counts. Peak memory is that of a fresh process for each cell: what mechanism and pass need beyond q, k, v.
A mechanism stops where its last cell, growing with the square of the length, would pass 60 s or 8 GiB.

Writes results.csv and scaling.png, and prints the times, the growth exponent fitted from 2048 steps up, and the
length from which on a mechanism beats full attention.
"""

import argparse
import csv
import math
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from informer.attention.base import AttentionSpec
from informer.build import attention_class, attention_names, attention_node, build_attention

LENGTHS = [96, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
HEADS, WIDTH = 8, 64
BASELINE = "full"
FIT_FROM = 2048
MAX_SECONDS, MAX_BYTES = 60.0, 8 << 30
TURNS, MIN_TURNS, SECONDS_A_CELL = 15, 3, 5.0
"""A cell takes TURNS turns, fewer once they have taken SECONDS_A_CELL together, but MIN_TURNS at least."""


@dataclass(kw_only=True, slots=True)
class Cell:
    """One mechanism at one length."""

    attn: str
    length: int
    seconds: float
    fastest: float
    slowest: float
    turns: int
    peak_bytes: float


@dataclass(kw_only=True, frozen=True, slots=True)
class Setup:
    """What all cells share."""

    causal: bool
    device: str
    threads: int

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
            if self.device.startswith("cuda"):
                torch.cuda.synchronize()

        return run


def time_length(setup: Setup, names: list[str], length: int) -> dict[str, list[float]]:
    """Seconds of every turn of every mechanism, turn by turn around the circle."""
    inputs = setup.inputs(length)
    passes = {name: setup.make_pass(name, inputs) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(TURNS + 1):
        for name, run in passes.items():
            if turn > MIN_TURNS and sum(seconds[name]) > SECONDS_A_CELL:
                continue
            start = time.perf_counter()
            run()
            if turn > 0:  # the first call warms up
                seconds[name].append(time.perf_counter() - start)
    return seconds


def resident(field: str) -> int:
    """Bytes of this process from /proc: VmRSS now, VmHWM at its highest."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def peak_memory(setup: Setup, name: str, length: int) -> float:
    """Bytes that building and one pass need at their highest, beyond the inputs; NaN where the system does not tell."""
    setup.make_pass(name, setup.inputs(64))()  # libraries and threads that the first call brings in
    inputs = setup.inputs(length)
    if setup.device.startswith("cuda"):
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        setup.make_pass(name, inputs)()
        return torch.cuda.max_memory_allocated() - before
    if not Path("/proc/self/status").exists():
        return math.nan
    before = resident("VmRSS")
    setup.make_pass(name, inputs)()
    return resident("VmHWM") - before


def in_fresh_process(function, *arguments):
    """`function(*arguments)` computed by a new interpreter."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def would_pass_limits(last: Cell | None, length: int) -> bool:
    """Whether quadratic growth from the cell before passes a limit here."""
    if last is None:
        return False
    growth = (length / last.length) ** 2
    return last.seconds * growth > MAX_SECONDS or last.peak_bytes * growth > MAX_BYTES


def measure(setup: Setup, names: list[str], lengths: list[int], console: Console) -> list[Cell]:
    """All cells, the shortest length first."""
    cells: dict[str, Cell] = {}
    results = []
    for length in track(lengths, "length", console=console):
        names = [name for name in names if not would_pass_limits(cells.get(name), length)]
        peaks = {}
        for name in names:
            try:
                peaks[name] = in_fresh_process(peak_memory, setup, name, length)
            except BrokenProcessPool:
                console.print(
                    f"{name} at {length}: the system ended its process, most likely for memory; it stops here"
                )
        names = list(peaks)
        for name, turns in in_fresh_process(time_length, setup, names, length).items():
            cells[name] = Cell(
                attn=name,
                length=length,
                seconds=statistics.median(turns),
                fastest=min(turns),
                slowest=max(turns),
                turns=len(turns),
                peak_bytes=peaks[name],
            )
            results.append(cells[name])
    return results


def exponent(cells: list[Cell]) -> float:
    """Slope of log time over log length from FIT_FROM up; NaN with fewer than two lengths there."""
    long = [cell for cell in cells if cell.length >= FIT_FROM]
    if len(long) < 2:
        return math.nan
    return float(np.polyfit(np.log([c.length for c in long]), np.log([c.seconds for c in long]), 1)[0])


def crossover(cells: list[Cell], baseline: list[Cell]) -> int | None:
    """The shortest measured length from which on every cell beats the baseline's."""
    full, found = {cell.length: cell.seconds for cell in baseline}, None
    for cell in sorted(cells, key=lambda cell: -cell.length):
        if cell.length in full and cell.seconds >= full[cell.length]:
            break
        found = cell.length
    return found


def table(title: str, groups: dict[str, list[Cell]], lengths: list[int], show: Callable[[Cell], str]) -> Table:
    """Mechanisms down, lengths across."""
    result = Table("attn", *map(str, lengths), title=title)
    for name, cells in groups.items():
        at = {cell.length: show(cell) for cell in cells}
        result.add_row(name, *(at.get(length, "stopped") for length in lengths))
    return result


def summary(groups: dict[str, list[Cell]]) -> Table:
    """How each mechanism grows, and from where on it pays."""
    result = Table("attn", f"exponent from {FIT_FROM}", "faster than full from", title="growth")
    for name, cells in groups.items():
        beats = "" if name == BASELINE else str(crossover(cells, groups[BASELINE]) or "nowhere")
        result.add_row(name, f"{exponent(cells):.2f}", beats)
    return result


def plot(groups: dict[str, list[Cell]], path: Path) -> None:
    """Time and memory over length, both axes logarithmic."""
    figure = Figure(figsize=(13, 6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, (name, cells) in enumerate(groups.items()):
        style = {"color": colormaps["turbo"](i / len(groups)), "marker": "o", "markersize": 3}
        style |= {"color": "black", "linewidth": 2.5} if name == BASELINE else {}
        lengths = [cell.length for cell in cells]
        left.plot(lengths, [1e3 * cell.seconds for cell in cells], label=name, **style)
        right.plot(lengths, [max(cell.peak_bytes, 2**18) / 2**20 for cell in cells], **style)
    left.set(ylabel="milliseconds, forward and backward", title="Time")
    right.set(ylabel="MiB beyond the inputs", title="Peak memory")
    for axes in (left, right):
        axes.set(xlabel="sequence length", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(path, dpi=120)


def write_csv(cells: list[Cell], path: Path) -> None:
    """One row a cell, seconds and bytes."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in cells)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attn", nargs="+", choices=attention_names(), default=attention_names(), metavar="NAME")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="L")
    parser.add_argument("--causal", action="store_true", help="rows see the past only; leaves out what cannot")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of the CPU")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark_attention"), help="folder to write")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    options, console = parse(), Console()
    names = list(dict.fromkeys([BASELINE, *options.attn]))
    if options.causal:
        names = [name for name in names if attention_class(attention_node(name)["_target_"]).CAUSAL]
    lengths = sorted(set(options.lengths))
    setup = Setup(causal=options.causal, device=options.device, threads=options.threads)
    cells = measure(setup, names, lengths, console)
    groups = {name: [cell for cell in cells if cell.attn == name] for name in names}
    options.output.mkdir(parents=True, exist_ok=True)
    write_csv(cells, options.output / "results.csv")
    plot(groups, options.output / "scaling.png")
    console.print(f"torch {torch.__version__}, {setup}, 1 x {HEADS} heads x {WIDTH} features, medians")
    console.print(table("milliseconds", groups, lengths, lambda cell: f"{1e3 * cell.seconds:.4g}"))
    console.print(table("peak MiB", groups, lengths, lambda cell: f"{cell.peak_bytes / 2**20:.4g}"))
    console.print(summary(groups))
    spread = statistics.median(cell.slowest / cell.fastest for cell in cells)
    console.print(f"slowest turn over fastest, median of all cells: {spread:.2f}; written to {options.output}")


if __name__ == "__main__":
    main()
