"""Seconds of a training step at the paper's size, beside the matrix products that such a step consists of.

    python scripts/benchmark_training.py [--threads 1] [--steps 12]

For each setting (seq/label/pred) one step is forward, loss, backward and Adam on a batch of 32. The products of its
linear maps are noted as the step runs, then run alone, same shapes, same process: through torch's BLAS, which is what
`torch.mm` runs and "the matrix rate of the machine" means, and through oneDNN, which the network's linear maps take on
the CPU. Steps and products alternate, medians are printed; the ratio is the time of the products over that of the step.
Products inside attention are counted but not among those run alone.
"""

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from informer.build import attention_node, build_model
from informer.layers.linear import ONEDNN, _product
from informer.model import Informer, ModelConfig, ModelDims
from informer.training.optim import OptimConfig, build_optimizer, gradient_norm

SETTINGS = [(96, 48, 24), (48, 48, 24), (336, 336, 720), (720, 336, 336)]
BATCH, COLUMNS, MARKS = 32, 7, 4


class Products(TorchDispatchMode):
    """Counts the matrix products of linear maps by shape (rows, inner, columns); batched ones of attention apart."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            a, b = args[-2:]
            self.shapes[a.shape[0], a.shape[1], b.shape[1]] += 1
        elif "mkldnn" in str(func) and "_linear_pointwise" in str(func):
            x, weight = args[:2]
            self.shapes[x.shape[:-1].numel(), x.shape[-1], weight.shape[0]] += 1
        return func(*args, **(kwargs or {}))


def make_step(sizes: tuple[int, int, int], attn: str, device: str) -> Callable[[], None]:
    """One step of the paper's model on random data."""
    seq_len, label_len, pred_len = sizes
    dims = ModelDims(
        enc_in=COLUMNS, dec_in=COLUMNS, c_out=COLUMNS, mark_sizes=(1,) * MARKS,
        seq_len=seq_len, label_len=label_len, pred_len=pred_len,
    )  # fmt: skip
    node = attention_node(attn)
    model: Informer = build_model(
        ModelConfig(), dims, attn=node, decoder_attn=node, cross_attn=attention_node("full")
    ).to(device)
    optimizer = build_optimizer(OptimConfig(), model)
    rows = [(seq_len, COLUMNS), (seq_len, MARKS), (dims.dec_len, COLUMNS), (dims.dec_len, MARKS)]
    batch = [torch.randn(BATCH, *shape, device=device) for shape in rows]
    target = torch.randn(BATCH, pred_len, COLUMNS, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(model(*batch), target).backward()
        gradient_norm(model, None)
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def make_products(
    shapes: Counter[tuple[int, int, int]], product: Callable[[Tensor, Tensor], Tensor], device: str
) -> Callable[[], None]:
    """The same products alone: x [rows inner] times weight [columns inner] transposed."""
    operands = [
        (torch.randn(m, k, device=device), torch.randn(n, k, device=device), times)
        for (m, k, n), times in shapes.items()
    ]

    def run() -> None:
        for x, weight, times in operands:
            for _ in range(times):
                product(x, weight)
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def seconds(act: Callable[[], None]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def measure(sizes: tuple[int, int, int], attn: str, steps: int, device: str) -> list[str]:
    """One row of the table."""
    step = make_step(sizes, attn, device)
    with Products() as counted, FlopCounterMode(display=False) as flops:
        step()
    runs = {"step": step, "BLAS": make_products(counted.shapes, lambda x, w: x @ w.t(), device)}
    if ONEDNN and device == "cpu":
        runs["oneDNN"] = make_products(counted.shapes, _product, device)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(steps + 2):
        for name, act in runs.items():
            took = seconds(act)
            if turn >= 2:
                times[name].append(took)
    median = {name: statistics.median(values) for name, values in times.items()}
    work = sum(2 * m * k * n * times for (m, k, n), times in counted.shapes.items())
    batched = flops.get_total_flops() - sum(
        count for op, count in flops.get_flop_counts()["Global"].items() if str(op) in ("aten.mm", "aten.addmm")
    )
    shares = [f"{median[name] / median['step']:.2f}" if name in median else "-" for name in ("BLAS", "oneDNN")]
    rates = [f"{work / median[name] / 1e9:.0f}" if name in median else "-" for name in ("BLAS", "oneDNN")]
    return [
        "/".join(map(str, sizes)),
        f"{median['step'] * 1e3:.0f}",
        f"{BATCH / median['step']:.0f}",
        f"{work / 1e9:.0f}",
        f"{batched / 1e9:.1f}",
        *rates,
        *shares,
    ]


def main() -> None:
    """Measure the settings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attn", default="prob")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=10, help="timed repetitions of each")
    parser.add_argument("--settings", nargs="*", default=["/".join(map(str, sizes)) for sizes in SETTINGS])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    table = Table(
        title=f"d_model 512, batch {BATCH}, float32, attn={given.attn}, {given.device}, {given.threads} threads"
    )
    for heading in ("seq/label/pred", "step ms", "samples/s", "GFLOP linear", "GFLOP attention",
                    "BLAS GFLOP/s", "oneDNN GFLOP/s", "BLAS time/step", "oneDNN time/step"):  # fmt: skip
        table.add_column(heading, justify="right")
    for setting in given.settings:
        torch.manual_seed(0)
        table.add_row(*measure(tuple(map(int, setting.split("/"))), given.attn, given.steps, given.device))
    Console().print(table)


if __name__ == "__main__":
    main()
