"""Seconds and memory of a training step at the paper's size, compared with its matrix products and published Informers.

    python scripts/benchmark_training.py [--threads 1] [--steps 12] [--clock cpu] [--settings 96/48/24]

For each setting (seq/label/pred) one step is forward, loss, backward and Adam on a batch of 32, in float32 and in
bfloat16. The products of its linear maps are recorded during the step and then run by themselves, with the same shapes
in the same process: with torch's BLAS (`torch.mm`, "the matrix rate of the machine"), and with oneDNN, which the
network's linear maps use on processors that are not Intel's. Published Informers are also measured where they are
installed: that of neuralforecast (the extra `bench`), which forecasts one column, needs label_len < seq_len and also
uses sparse attention in the decoder's cross-attention, and that of transformers, which has no start token. All take
turns, and medians are printed; a share is the time of the products by themselves divided by that of the step. Products
inside attention are not included. Peak memory is what a process with only this network adds
between its first line and the end of its third step. `--compiled` also measures float32 steps with `compile=true`;
compiling is not part of the time.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from result_files import markdown_table, resident
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from informer.checkpoint.network import attention_node, build_model
from informer.config.training import OptimConfig, Precision
from informer.members.network import ForecastModel
from informer.networks.models.base import ModelDims
from informer.networks.models.config import InformerConfig
from informer.networks.ops.fast import HAS_ONEDNN, onednn
from informer.training.loop import Compiled
from informer.training.optim import autocast, build_optimizer, gradient_norm

SETTINGS = ["96/48/24", "336/336/720", "720/336/336"]
TYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
COMPILED = "float32 compiled"
BATCH, COLUMNS, MARKS = 32, 7, 4

Act = Callable[[], None]
Shapes = Counter[tuple[int, int, int]]


aten = torch.ops.aten
_PRODUCTS = (aten.mm.default, aten.mm.out, aten.addmm.default, aten.addmm.out, aten.addmm_.default)


class Products(TorchDispatchMode):
    """Counts the matrix products of linear maps by shape (rows, inner, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Shapes = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _PRODUCTS:
            a, b = args[-2:]
            self.shapes[a.shape[0], a.shape[1], b.shape[1]] += 1
        elif "mkldnn" in str(func) and "_linear_pointwise" in str(func):
            x, weight = args[:2]
            self.shapes[x.shape[:-1].numel(), x.shape[-1], weight.shape[0]] += 1
        return func(*args, **(kwargs or {}))


def our_step(setting: str, arm: str, attn: str, device: str) -> Act:
    """One step of the paper's model on random data."""
    seq_len, label_len, pred_len = map(int, setting.split("/"))
    dims = ModelDims(
        enc_in=COLUMNS, c_out=COLUMNS, mark_sizes=(1,) * MARKS,
        seq_len=seq_len, label_len=label_len, pred_len=pred_len,
    )  # fmt: skip
    node = attention_node(attn)
    model: ForecastModel = build_model(
        InformerConfig(), dims, attn=node, decoder_attn=node, cross_attn=attention_node("full")
    ).to(device)
    optimizer = build_optimizer(OptimConfig(), model)
    network = Compiled(model, torch.device(device)) if arm == COMPILED else model
    precision: Precision = "bf16" if arm == "bf16" else "float32"
    rows = [(seq_len, COLUMNS), (seq_len, MARKS), (dims.dec_len, COLUMNS), (dims.dec_len, MARKS)]
    batch = [torch.randn(BATCH, *shape, device=device) for shape in rows]
    target = torch.randn(BATCH, pred_len, COLUMNS, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with autocast(precision, torch.device(device)):
            forecast = network(*batch).float()
        loss = F.mse_loss(forecast, target)
        loss.backward()
        optimizer.step_while_finite(loss.detach(), gradient_norm(model, None))
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def neuralforecast_step(setting: str) -> Act:
    """One step of neuralforecast's Informer in the paper's sizes on random data, with MARKS known-future columns."""
    from neuralforecast.losses.pytorch import MSE
    from neuralforecast.models import Informer

    seq_len, label_len, pred_len = map(int, setting.split("/"))
    model = Informer(
        h=pred_len, input_size=seq_len, futr_exog_list=[f"mark{i}" for i in range(MARKS)],
        decoder_input_size_multiplier=min(label_len, seq_len - 1) / seq_len, hidden_size=512, dropout=0.05, factor=5,
        n_head=8, conv_hidden_size=2048, encoder_layers=2, decoder_layers=1, loss=MSE(),
    ).train()  # fmt: skip
    rows = {"insample_y": (seq_len, 1), "futr_exog": (seq_len + pred_len, MARKS)}
    windows = {name: torch.randn(BATCH, *shape) for name, shape in rows.items()}
    target = torch.randn(BATCH, pred_len, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss(y=target, y_hat=model(windows)).backward()
        optimizer.step()

    return step


def transformers_step(setting: str) -> Act:
    """One step of transformers' InformerForPrediction in the paper's sizes on random data, with one lag."""
    from transformers import InformerConfig as Config
    from transformers import InformerForPrediction

    seq_len, _, pred_len = map(int, setting.split("/"))
    config = Config(
        prediction_length=pred_len, context_length=seq_len, input_size=COLUMNS, lags_sequence=[1],
        num_time_features=MARKS, d_model=512, encoder_layers=2, decoder_layers=1, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, sampling_factor=5,
    )  # fmt: skip
    model = InformerForPrediction(config).train()
    rows = {"past": seq_len + 1, "future": pred_len}  # one more for the lag
    windows = {f"{part}_values": torch.randn(BATCH, n, COLUMNS) for part, n in rows.items()}
    windows |= {f"{part}_time_features": torch.randn(BATCH, n, MARKS) for part, n in rows.items()}
    windows["past_observed_mask"] = torch.ones(BATCH, seq_len + 1, COLUMNS)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(**windows).loss.backward()
        optimizer.step()

    return step


PUBLISHED = {"neuralforecast": neuralforecast_step, "transformers": transformers_step}


def make_step(arm: str, setting: str, attn: str, device: str) -> Act:
    """The step of our model (by type, or `COMPILED`) or of one of `PUBLISHED`."""
    return PUBLISHED[arm](setting) if arm in PUBLISHED else our_step(setting, arm, attn, device)


def make_products(shapes: Shapes, product: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype, device: str) -> Act:
    """The recorded products by themselves: x [rows inner] times weight [columns inner] transposed."""
    operands = [
        (torch.randn(m, k, device=device, dtype=dtype), torch.randn(n, k, device=device, dtype=dtype), times)
        for (m, k, n), times in shapes.items()
    ]

    def run() -> None:
        for x, weight, times in operands:
            for _ in range(times):
                product(x, weight)
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def medians(acts: dict[str, Act], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median seconds of each; they take turns, after two warm-up rounds."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    for turn in range(rounds + 2):
        for name, act in acts.items():
            started = clock()
            act()
            if turn >= 2:
                times[name].append(clock() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_memory(arm: str, setting: str, options: argparse.Namespace) -> float:
    """MiB that a separate process adds by building the network and making three steps."""
    memory_options = ["--only-memory-of", arm, "--settings", setting, "--attn", options.attn]
    command = [sys.executable, __file__, *memory_options, "--device", options.device, "--threads", str(options.threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def own_peak_memory(arm: str, setting: str, attn: str, device: str) -> float:
    """Peak memory of this process, as in `peak_memory`; GPU memory with device=cuda."""
    before = resident("VmRSS")
    step = make_step(arm, setting, attn, device)
    for _ in range(3):
        step()
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return (resident("VmHWM") - before) / 2**20


def measure(setting: str, options: argparse.Namespace) -> list[dict[str, str | float]]:
    """One row for each network."""
    published = [name for name in PUBLISHED if options.device == "cpu" and find_spec(name)]
    arms = [*options.types, *([COMPILED] if options.compiled else []), *published]
    steps = {arm: make_step(arm, setting, options.attn, options.device) for arm in arms}
    acts = dict(steps)
    work = 0.0
    for name in options.types:
        dtype = TYPES[name]
        with Products() as counted:
            steps[name]()
        work = sum(2 * m * k * n * times for (m, k, n), times in counted.shapes.items())
        acts[f"{name} BLAS"] = make_products(counted.shapes, lambda x, w: x @ w.t(), dtype, options.device)
        if HAS_ONEDNN and options.device == "cpu":
            acts[f"{name} oneDNN"] = make_products(counted.shapes, onednn, dtype, options.device)
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    seconds = medians(acts, options.steps, clock)
    return [
        {
            "setting": setting,
            "network": arm if arm in published else f"informer {arm}",
            "step_ms": seconds[arm] * 1e3,
            "samples_per_s": BATCH / seconds[arm],
            "peak_mib": peak_memory(arm, setting, options),
            "blas_gflops": work / seconds[f"{arm} BLAS"] / 1e9 if arm in TYPES else float("nan"),
            "onednn_gflops": work / seconds[f"{arm} oneDNN"] / 1e9 if f"{arm} oneDNN" in seconds else float("nan"),
            "blas_share": seconds[f"{arm} BLAS"] / seconds[arm] if arm in TYPES else float("nan"),
            "onednn_share": seconds[f"{arm} oneDNN"] / seconds[arm] if f"{arm} oneDNN" in seconds else float("nan"),
            **{f"times_as_fast_as_{name}": seconds[name] / seconds[arm] for name in published},
        }
        for arm in arms
    ]


def main() -> None:
    """Measure the settings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attn", default="prob")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=10, help="timed repetitions of each")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"], help="cpu: on a busy machine, one thread")
    parser.add_argument("--settings", nargs="*", default=SETTINGS)
    parser.add_argument("--types", nargs="*", default=list(TYPES), choices=TYPES, help="of ours")
    parser.add_argument("--compiled", action="store_true", help="also ours in float32 with compile=true")
    parser.add_argument("--only-memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.only_memory_of:
        print(own_peak_memory(options.only_memory_of, options.settings[0], options.attn, options.device))
        return
    where = f"{options.device}, {options.threads} threads, {options.clock} time"
    rows = [row for setting in options.settings for row in measure(setting, options)]
    print(f"d_model 512, batch {BATCH}, attn={options.attn}, {where}\n")
    cells = [[value if isinstance(value, str) else f"{value:.4g}" for value in row.values()] for row in rows]
    print(markdown_table(list(rows[0]), cells))


if __name__ == "__main__":
    main()
