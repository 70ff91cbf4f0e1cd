"""Memory of a training step against the depth of the encoder: plain and checkpointed layers.

    python scripts/benchmark_memory.py [--depths 2 4 6 8] [--length 336] [--d-model 128] [--output runs/memory]

Encoder layers without distilling (all of one length) and with it (each half as long as the previous one). For each
cell a new process builds the model and runs one forward and backward pass on random data, in float32. Activations:
what autograd holds at the end of the forward pass, each storage once, without parameters. Peak: maximum memory of the
process (on a GPU, of its allocator) during the step, above that before it. Writes memory.csv and memory.png.
"""

import argparse
import csv
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from informer.build import attention_node, build_model
from informer.config.model import InformerConfig, Shortening
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.base import ModelDims

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "checkpointing": {"activation_checkpointing": True},
}
DISTIL = (Shortening.none, Shortening.conv)
COLUMNS, MARKS, HORIZON = 7, 4, 24
MIB = 1 << 20


@dataclass(kw_only=True, frozen=True, slots=True)
class Setup:
    """Settings shared by all cells."""

    length: int
    d_model: int
    batch: int
    attn: str
    device: str
    threads: int


@dataclass(kw_only=True, frozen=True, slots=True)
class Cell:
    """One kind of layers at one depth."""

    way: str
    depth: int
    distil: Shortening
    activations_mib: float
    peak_mib: float
    seconds: float


def make_model(setup: Setup, way: str, depth: int, distil: Shortening) -> ForecastModel:
    """One encoder stack of `depth` layers, one decoder layer."""
    config = InformerConfig(
        d_model=setup.d_model, d_ff=4 * setup.d_model, encoder_stacks=[depth], distil=distil, **WAYS[way]
    )
    dims = ModelDims(
        enc_in=COLUMNS, c_out=COLUMNS, mark_sizes=(1,) * MARKS,
        seq_len=setup.length, label_len=HORIZON, pred_len=HORIZON,
    )  # fmt: skip
    full, attn = attention_node("full"), attention_node(setup.attn)
    return build_model(config, dims, attn=attn, decoder_attn=full, cross_attn=full)


def measure(setup: Setup, way: str, depth: int, distil: Shortening) -> Cell:
    """Measure one cell; must run in a separate process, whose peak is that of the cell."""
    torch.set_num_threads(setup.threads)
    torch.manual_seed(0)
    model = make_model(setup, way, depth, distil).to(setup.device).train()
    for parameter in model.parameters():  # their gradients are no activations
        parameter.grad = torch.zeros_like(parameter)
    rows = [(setup.length, COLUMNS), (setup.length, MARKS), (2 * HORIZON, COLUMNS), (2 * HORIZON, MARKS)]
    batch = [torch.randn(setup.batch, *shape, device=setup.device) for shape in rows]
    model(*(x[:2] for x in batch)).sum().backward()  # libraries set themselves up
    before, started = peak_bytes(setup.device), time.perf_counter()
    activations = step(model, batch)
    peak = peak_bytes(setup.device) - before
    return Cell(
        way=way, depth=depth, distil=distil, activations_mib=activations / MIB, peak_mib=peak / MIB,
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def step(model: nn.Module, batch: list[Tensor]) -> int:
    """Run forward and backward; returns the bytes that autograd held between them."""
    storages: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        if not isinstance(x, nn.Parameter):
            storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        loss = model(*batch).square().mean()
    loss.backward()
    return sum(storages.values())


def peak_bytes(device: str) -> int:
    """Peak memory so far."""
    if device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_fresh_process(setup: Setup, way: str, depth: int, distil: Shortening) -> Cell:
    """Run `measure` in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, setup, way, depth, distil).result()


def table(cells: list[Cell]) -> Table:
    """One row per depth, with activations and peak of each kind of layers."""
    rich_table = Table(title="MiB of activations / at the peak of a step, seconds of it")
    for name in ("distil", "depth", *WAYS):
        rich_table.add_column(name, justify="right")
    for distil, depth in product(DISTIL, sorted({cell.depth for cell in cells})):
        row = {cell.way: cell for cell in cells if (cell.distil, cell.depth) == (distil, depth)}
        row_cells = (row[way] for way in WAYS)
        texts = (f"{cell.activations_mib:.0f} / {cell.peak_mib:.0f}  {cell.seconds:.1f} s" for cell in row_cells)
        rich_table.add_row(distil.value, str(depth), *texts)
    return rich_table


def figure(cells: list[Cell]) -> Figure:
    """Plot activations over depth, without and with distilling."""
    drawn = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, distil in zip(drawn.subplots(1, 2), DISTIL, strict=True):
        for way in WAYS:
            line = [cell for cell in cells if cell.way == way and cell.distil is distil]
            axes.plot([cell.depth for cell in line], [cell.activations_mib for cell in line], "o-", label=way)
        axes.set(title=f"model.distil={distil.value}", xlabel="encoder layers", ylabel="activations, MiB")
        axes.set_ylim(bottom=0)
        axes.legend()
    return drawn


def main() -> None:
    """Measure every cell, print the table, write memory.csv and memory.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 4, 6, 8])
    parser.add_argument("--length", type=int, default=336, help="rows of history")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--attn", default="prob", help="mechanism of the encoder")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark_memory"))
    options = vars(parser.parse_args())
    depths, output, console = options.pop("depths"), options.pop("output"), Console()
    setup = Setup(**options)
    jobs = [(way, depth, distil) for distil in DISTIL for depth in depths for way in WAYS]
    cells = [in_fresh_process(setup, *job) for job in track(jobs, console=console, transient=True)]
    output.mkdir(parents=True, exist_ok=True)
    with (output / "memory.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(cells[0])))
        writer.writeheader()
        writer.writerows(asdict(cell) | {"distil": cell.distil.value} for cell in cells)
    figure(cells).savefig(output / "memory.png", dpi=150)
    console.print(table(cells))


if __name__ == "__main__":
    main()
