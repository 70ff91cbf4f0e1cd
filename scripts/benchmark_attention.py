"""Time and peak memory of one forward and backward pass of every attention mechanism, against the sequence length.

    python scripts/benchmark_attention.py --output runs/benchmark_attention            # all mechanisms, 128 to 16384
    python scripts/benchmark_attention.py --packages --output runs/benchmark_packages  # published packages
    python scripts/benchmark_attention.py --draw --output runs/benchmark_attention     # tables and plot again
    python scripts/benchmark_attention.py --decode --output runs/benchmark_decode      # steps of decoding

One batch item, 8 heads of 64 features, float32, training mode without dropout. For each cell the mechanism and its
rival (torch's fused full attention; with --packages the published implementation) take turns in one process; the
medians of their times and of the ratio within a turn are reported. Peak memory is measured in a separate process: what
mechanism and pass need beyond q, k, v. A mechanism stops at a length at which its last cell, extrapolated with the
square of the length, would exceed 60 s or 8 GiB; the table says which.

Every cell is saved in results.csv as it is measured, and the same command continues where it stopped; failed cells are
measured again. Tables are written to table.md, the plot to scaling.png.

--decode measures a row of the horizon with model.decoding=step, for horizons of --lengths: mechanisms with a recurrent
form, and a decoder that is run anew for each row. It always measures all cells, and writes results.csv and table.md.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from attention_decode import ANEW, DecodeCell, decode, decode_table, recurrent_names
from attention_packages import PACKAGES
from attention_passes import HEADS, WIDTH, Contender, Setup, in_fresh_process, peak_bytes, seconds_of_turns
from attention_report import BASELINE, Cell, markdown, plot
from result_files import open_folder, read_rows, write_rows
from rich.console import Console

from informer.base.errors import InputError
from informer.base.files import write_atomic
from informer.build import attention_class, attention_names, attention_node
from informer.networks.attention.base import Attention

LENGTHS = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
MAX_SECONDS, MAX_BYTES = 60.0, 8 << 30


def mechanism(name: str) -> type[Attention]:
    """The class of a mechanism."""
    return attention_class(attention_node(name)["_target_"])


def pairs(options: argparse.Namespace, length: int) -> Iterator[tuple[Contender, Contender | None]]:
    """Contenders at a length and their rivals; full attention comes first and has no rival."""
    if options.packages:
        for name, package in PACKAGES.items():
            if package.causal or not options.causal:
                ours = Contender(name=package.ours, params=package.params(length))
                yield ours, Contender(name=name, is_package=True)
        return
    for name in dict.fromkeys([BASELINE, *options.attn]):
        if mechanism(name).CAUSAL or not options.causal:
            yield Contender(name=name), None if name == BASELINE else Contender(name=BASELINE)


def limit_passed(last: Cell | None, length: int) -> str:
    """The limit that quadratic growth from the previous cell exceeds here; empty if none."""
    if last is None or last.stopped:
        return last.stopped if last else ""
    growth, rival_counts = (length / last.length) ** 2, last.rival in PACKAGES
    seconds = max(last.seconds, last.rival_seconds) if rival_counts else last.seconds
    n_bytes = max(last.peak_bytes, last.rival_peak_bytes) if rival_counts else last.peak_bytes
    if seconds * growth > MAX_SECONDS:
        return f"> {MAX_SECONDS:.0f} s"
    return f"> {MAX_BYTES >> 30} GiB" if n_bytes * growth > MAX_BYTES else ""


def measure(setup: Setup, ours: Contender, rival: Contender | None, cell: Cell) -> None:
    """Measure a cell, or record why it is empty."""
    contenders = [ours, rival] if rival else [ours]
    # a GPU counts its memory by itself, and takes seconds to start
    in_process = in_fresh_process if setup.device == "cpu" else _here
    try:
        cell.peak_bytes = in_process(peak_bytes, setup, ours, cell.length)
        if rival and rival.is_package:  # full attention has a row of its own
            cell.rival_peak_bytes = in_process(peak_bytes, setup, rival, cell.length)
        turns = in_process(seconds_of_turns, setup, contenders, cell.length)
    except BrokenProcessPool:
        cell.stopped = "killed by the system"
    except ModuleNotFoundError as error:
        cell.stopped = f"{error.name} is not installed"
    except Exception as error:  # whatever a package of another time raises is reported in its cell
        cell.stopped = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
    else:
        cell.turns, cell.seconds, cell.spread = len(turns[0]), median(turns[0]), max(turns[0]) / min(turns[0])
        if rival:
            cell.rival_seconds, cell.ratio = median(turns[1]), median(a / b for a, b in zip(*turns, strict=True))


def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def run(setup: Setup, options: argparse.Namespace, console: Console) -> list[Cell]:
    """Measure all cells, shortest length first; saved ones are not measured again."""
    path = options.output / "results.csv"
    cells = [cell for cell in read_rows(Cell, path) if not cell.stopped or cell.stopped.startswith(">")]
    measured = {(cell.attn, cell.rival, cell.length): cell for cell in cells}
    last: dict[tuple[str, str], Cell] = {}
    for length in sorted(set(options.lengths)):
        full_fits = not limit_passed(last.get((BASELINE, "")), length)
        for ours, rival in pairs(options, length):
            key = ours.name, rival.name if rival else ""
            cell = measured.get((*key, length))
            if cell is None:
                cell = Cell(attn=key[0], rival=key[1], length=length, stopped=limit_passed(last.get(key), length))
                if not cell.stopped:
                    measure(setup, ours, rival if options.packages or full_fits else None, cell)
                cells.append(cell)
                write_rows(Cell, cells, path)
                console.print(f"{length} {key[0]}: {_summary(cell)}", markup=False, highlight=False, soft_wrap=True)
            last[key] = cell
    return cells


def run_decode(setup: Setup, options: argparse.Namespace, console: Console) -> str:
    """Measure a row of each horizon, run anew and with every recurrent form; returns the table."""
    cells: list[DecodeCell] = []
    for name in [ANEW, *(name for name in recurrent_names() if name in options.attn)]:
        for cell in decode(setup, name, options.lengths):
            cells.append(cell)
            console.print(f"{cell.horizon} {name}: {1e3 * cell.seconds:.3g} ms a row", highlight=False)
    write_rows(DecodeCell, cells, options.output / "results.csv")
    return decode_table(cells)


def _summary(cell: Cell) -> str:
    if cell.stopped:
        return cell.stopped
    ratio = f", {cell.ratio:.2f} of {cell.rival}" if cell.rival else ""
    return f"{1e3 * cell.seconds:.3g} ms{ratio}, {cell.peak_bytes / 2**20:.3g} MiB"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attn", nargs="+", choices=attention_names(), default=attention_names(), metavar="NAME")
    parser.add_argument("--packages", action="store_true", help="compare with packages of the extra bench")
    parser.add_argument("--decode", action="store_true", help="time of a row with model.decoding=step")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="L")
    parser.add_argument("--causal", action="store_true", help="causal attention; leaves out mechanisms without it")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: for a shared machine")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark_attention"), help="folder to write")
    parser.add_argument("--draw", action="store_true", help="only write tables and plot of saved cells")
    options = parser.parse_args()
    if options.device == "cuda" and options.clock == "cpu":
        parser.error("--clock cpu says nothing about a GPU")
    if options.decode and (options.packages or options.draw):
        parser.error("--decode goes with neither --packages nor --draw")
    return options


def main() -> None:
    """Measure, print, write."""
    options, console = parse(), Console()
    if options.draw:
        cells = read_rows(Cell, options.output / "results.csv")
        if not cells:
            sys.exit(f"error: {options.output / 'results.csv'}: nothing measured yet")
    else:
        setup = Setup(causal=options.causal, device=options.device, threads=options.threads, clock=options.clock)
        facts = asdict(setup) | {"torch": torch.__version__, "heads": HEADS, "width": WIDTH}
        facts |= {"decode": True} if options.decode else {}
        try:
            open_folder(options.output, facts)
        except InputError as error:
            sys.exit(f"error: {error}")
        console.print(facts, highlight=False)
        if options.decode:
            table = run_decode(setup, options, console)
            write_atomic(options.output / "table.md", table)
            print(table)
            return
        cells = run(setup, options, console)
    write_atomic(options.output / "table.md", markdown(cells))
    plot(cells, options.output / "scaling.png")
    print(markdown(cells))
    spreads = [cell.spread for cell in cells if not cell.stopped]
    if spreads:
        print(f"slowest turn over fastest, median of all cells: {median(spreads):.2f}; written to {options.output}")


if __name__ == "__main__":
    main()
