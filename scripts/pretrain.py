"""Train the network of `informer.pretrained` on generated series, or score it on development tasks.

    python scripts/pretrain.py out=runs/pretrain [init_from=pretraining] [minutes=90]
    python scripts/pretrain.py out=runs/release init_from=runs/pretrain steps=5000 decay=1 rate=5e-4
    python scripts/pretrain.py out=runs/gpu device=cuda workers=14 batch_size=512 views=2 steps=60000 decay=0.35
    python scripts/pretrain.py score=pretraining [data=FOLDER]
    python scripts/pretrain.py release=zero-4 score=pretraining

One thread: AdamW, a warm-up, then a constant rate, or one that falls to zero over the last `decay` of `steps`. The
weights that are saved are the moving average of those trained. `init_from` starts with saved weights, a new optimiser
and a new warm-up; no series is generated twice.

`out` receives `weights.safetensors` and `state.json` (series and steps so far, CPU seconds, scores) every few minutes,
events for TensorBoard, and `training.safetensors`, from which the same command goes on wherever it was stopped: the
weights are then the same as without the stop. `workers` processes generate series for a GPU.

`release` writes the weights of `score` as float16 into the package and prints their digest, which
`informer.pretrained.weights.VERSIONS` records.

The development score is that of the weights on generated series held out, and on inner origins of the training parts
of real series, as far as `data` has the files; test parts are never read. Errors are divided by those of the seasonal
naive forecast.
"""

import copy
import hashlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from omegaconf import OmegaConf
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.tensorboard import SummaryWriter

from informer.networks.models.zero import Zero, pinball, quantile_loss
from informer.networks.ops.zero_inputs import DECILES, HISTORY, LEVELS, read
from informer.pretrained.weights import weights_path
from pretraining.generate import Generated, generate

SAVE_MINUTES, SCORE_MINUTES = 3.0, 30.0
GENERATED_AT_ONCE = 512
SHAPES = ((512, 96, 0.25), (1024, 96, 0.35), (2048, 192, 0.2), (4096, 384, 0.2))
"""Rows of the history and the horizon of generated series, and shares of the steps."""
HELD_OUT_SEED = 1_000_003
"""Seed of the generated series of the development score; training uses pairs (seed, series so far)."""
AHEAD = 96
"""Rows after an origin of generated series and long real ones."""
SIZES = {
    "d_model": 128,
    "d_ff": 512,
    "n_heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "distil": True,
}


@dataclass
class Settings:
    """Arguments of the command line, `name=value`."""

    minutes: float = 90.0
    """Until it stops; the same command goes on."""
    steps: int = 0
    """All steps of the run; 0 for no end."""
    init_from: str = ""
    """Folder of weights to start with; empty: new ones."""
    out: str = "runs/pretrain"
    score: str = ""
    release: str = ""
    data: str = os.environ.get("INFORMER_DATA_DIR", "data")
    batch_size: int = 128
    rate: float = 1e-3
    warm_up: int = 300
    decay: float = 0.0
    """Share of the steps, at their end, in which the rate falls to zero."""
    average: float = 0.999
    seed: int = 0
    device: str = "cpu"
    views: int = 1
    """How often each series is used, after the first time from an earlier origin: where generating takes longest."""
    workers: int = 0
    """Processes that generate series, the same number when a run goes on; 0: the one that trains."""
    network: dict[str, Any] = field(default_factory=lambda: dict(SIZES))
    """Arguments of `Zero`, of a new network."""


@dataclass
class State:
    """What `state.json` says about weights."""

    network: dict[str, Any]
    series: int = 0
    steps: int = 0
    run_series: int = 0
    run_steps: int = 0
    """Series before the run, and steps of it."""
    cpu_seconds: float = 0.0
    scores: list[dict[str, float]] = field(default_factory=list)


def load(folder: Path) -> tuple[Zero, State]:
    """The network in a folder and its state."""
    state = State(**json.loads((folder / "state.json").read_text()))
    network = Zero(**state.network)
    network.load_state_dict(load_file(folder / "weights.safetensors"))
    return network, state


def save(folder: Path, network: nn.Module, state: State) -> None:
    """Write both files, each at once."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: x.contiguous() for name, x in network.state_dict().items()}, folder / "weights.new")
    (folder / "state.new").write_text(json.dumps(asdict(state), indent=1) + "\n")
    os.replace(folder / "weights.new", folder / "weights.safetensors")
    os.replace(folder / "state.new", folder / "state.json")


class Stream(IterableDataset[list[Tensor]]):
    """Batches of generated series without end: values, observed rows and the two seasons, as in `Generated`.

    Many series of one shape (SHAPES) are generated at once; `seed` and the number of series before them seed the draw.
    With several workers each has its own, and batches come from the workers in turn.

    Args:
        seed, batch_size, views: as in `Settings`.
        series: number of series before the run.
        step: steps of the run before this stream.
    """

    def __init__(self, seed: int, series: int, step: int, batch_size: int, views: int = 1) -> None:
        self.seed, self.series, self.step, self.batch_size, self.views = seed, series, step, batch_size, views
        self.at_once = max(GENERATED_AT_ONCE // batch_size, 1) * batch_size

    def __iter__(self) -> Iterator[list[Tensor]]:
        torch.set_num_threads(1)
        worker = get_worker_info()
        index, n = (worker.id, worker.num_workers) if worker else (0, 1)
        per_draw = self.at_once // self.batch_size * self.views
        batches = list[list[Tensor]]()
        for number in itertools.count(self.step + index, n):  # of the batch; those of a worker are n apart
            round_number, place = divmod(number, n * per_draw)
            if not batches or place < n:
                batches = self._draw(round_number * n + place % n)
            yield batches[place // n]

    def _draw(self, number: int) -> list[list[Tensor]]:
        """The batches of the series that are generated at once, the `number`-th of the run."""
        rng = np.random.default_rng([self.seed, self.series + number * self.at_once])
        history, horizon, _ = SHAPES[rng.choice(len(SHAPES), p=[share for *_, share in SHAPES])]
        made, batches = generate(self.at_once, history, horizon, rng), list[list[Tensor]]()
        for view in range(self.views):
            values, observed = (made.values, made.observed) if view == 0 else earlier(made, horizon, rng)
            parts = (values, observed, made.season, made.second)
            batches += map(list, zip(*(torch.from_numpy(x).split(self.batch_size) for x in parts), strict=True))
        return batches


def earlier(made: Generated, horizon: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Values and observed rows of the same series, seen from an origin up to AHEAD rows before, or a third of its
    rows."""
    length = made.values.shape[1]
    n_rows = made.observed[:, : length - horizon].sum(axis=1)
    by = (np.minimum(n_rows / 3, AHEAD) * rng.random(len(n_rows))).astype(int)[:, None]
    source = np.arange(length) - by
    values = np.take_along_axis(made.values, np.maximum(source, 0), 1)
    observed = np.take_along_axis(made.observed, np.maximum(source, 0), 1) & (source >= 0)
    return values, observed


class Objective(nn.Module):
    """The loss of the network on generated series."""

    def __init__(self, network: Zero) -> None:
        super().__init__()
        self.network = network

    def forward(self, values: Tensor, observed: Tensor, season: Tensor, second: Tensor) -> Tensor:
        """A scalar; the parts of a batch of `Stream`."""
        history = {rows + ahead: rows for rows, ahead, _ in SHAPES}[values.shape[1]]
        horizon = values.shape[1] - history
        inputs = read(values[:, :history], observed[:, :history], season, second, horizon)
        return quantile_loss(self.network(inputs), inputs, values[:, history:], observed[:, history:])


@torch.no_grad()
def update(average: nn.Module, network: nn.Module, step: int, most: float) -> None:
    """Move the average towards new weights: over about a third of the steps so far, and later 1 / (1 - most) steps."""
    share = max(1 - most, 3 / (step + 3))
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), share)


def load_training(out: Path, network: Zero, average: Zero, optimizer: torch.optim.Optimizer) -> State:
    """Go on from `training.safetensors`."""
    with safe_open(out / "training.safetensors", framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = State(**json.loads(file.metadata()["state"]))

    def part(name: str) -> dict[str, Tensor]:
        return {key.removeprefix(f"{name}/"): x for key, x in tensors.items() if key.startswith(f"{name}/")}

    network.load_state_dict(part("network"))
    average.load_state_dict(part("average"))
    first, second, step = part("exp_avg"), part("exp_avg_sq"), torch.tensor(float(state.run_steps))
    moments = {
        i: {"step": step.clone(), "exp_avg": first[str(i)], "exp_avg_sq": second[str(i)]} for i in range(len(first))
    }
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return state


def save_training(out: Path, network: Zero, average: Zero, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Write the weights with their state, and `training.safetensors`."""
    save(out, average, state)
    tensors = {
        f"{name}/{key}": x
        for name, each in (("network", network), ("average", average))
        for key, x in each.state_dict().items()
    }
    for i, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"{name}/{i}": moments[name] for name in ("exp_avg", "exp_avg_sq")}
    metadata = {"state": json.dumps(asdict(state))}
    save_file({name: x.contiguous() for name, x in tensors.items()}, out / "training.new", metadata=metadata)
    os.replace(out / "training.new", out / "training.safetensors")


def train(settings: Settings) -> State:
    """Train until `settings.steps`, or for `settings.minutes`."""
    out, began, cpu_began = Path(settings.out), time.monotonic(), time.process_time()
    torch.manual_seed(settings.seed)
    network, state = Zero(**settings.network), State(dict(settings.network))
    if settings.init_from:
        start, state = load(Path(settings.init_from))
        network.load_state_dict(start.state_dict())
        state = replace(state, network=dict(settings.network), run_series=state.series, run_steps=0)
    network = network.to(settings.device)
    average = copy.deepcopy(network)
    trained, betas = list(network.parameters()), (0.9, 0.98)
    optimizer = torch.optim.AdamW(trained, lr=settings.rate, betas=betas, weight_decay=0.01, fused=True)
    if (out / "training.safetensors").exists():
        state = load_training(out, network, average, optimizer)
    cpu_before = state.cpu_seconds
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU; the CPU has no such format
    source = Stream(settings.seed, state.run_series, state.run_steps, settings.batch_size, settings.views)
    on_gpu = settings.device != "cpu"
    stream = DataLoader(source, batch_size=None, num_workers=settings.workers, pin_memory=on_gpu)
    writer = SummaryWriter(str(out / "tensorboard"))
    tasks = list(development_tasks(Path(settings.data)))
    losses: list[Tensor] = []
    saved = scored = reported = began
    print(f"{sum(x.numel() for x in network.parameters()):,} parameters", flush=True)
    objectives: dict[int, Any] = {}
    for on_cpu in stream:
        parts = tuple(x.to(settings.device, non_blocking=True) for x in on_cpu)
        if (length := parts[0].shape[1]) not in objectives:
            objective: Any = Objective(network)
            if on_gpu:  # a step has a thousand small kernels, which take longer to start than to run
                objective = torch.cuda.make_graphed_callables(objective, parts, allow_unused_input=True)
            objectives[length] = objective
        rate = settings.rate * min(1.0, (state.run_steps + 1) / settings.warm_up)
        if settings.decay:
            rate *= min(1.0, (1 - state.run_steps / settings.steps) / settings.decay)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = objectives[length](*parts)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        state.steps += 1
        state.run_steps += 1
        update(average, network, state.run_steps, settings.average)
        state.series += settings.batch_size
        losses.append(loss.detach().clone())
        now = time.monotonic()
        is_last = now - began >= 60 * settings.minutes or state.run_steps >= settings.steps > 0
        state.cpu_seconds = cpu_before + time.process_time() - cpu_began
        if now - reported > 30 or is_last:
            mean, speed = torch.stack(losses).mean().item(), len(losses) * settings.batch_size / (now - reported)
            figures = f"loss {mean:.4f}  {speed:.0f} series/s  CPU {state.cpu_seconds:.0f} s"
            print(f"series {state.series:,}  {figures}", flush=True)
            writer.add_scalar("loss", mean, state.series)
            writer.add_scalar("series_per_second", speed, state.series)
            losses.clear()
            reported = now
        if now - scored > 60 * SCORE_MINUTES or is_last:
            scores = development_score(average, tasks)
            state.scores.append({"series": state.series, "cpu_seconds": round(state.cpu_seconds), **scores})
            print(json.dumps(state.scores[-1]), flush=True)
            for name, value in scores.items():
                writer.add_scalar(f"score/{name}", value, state.series)
            scored = time.monotonic()
        if now - saved > 60 * SAVE_MINUTES or is_last:
            save_training(out, network, average, optimizer, state)
            saved = now
        if is_last:
            break
    writer.close()
    return state


class Task(NamedTuple):
    """Histories [n t] with the rows that follow them [n horizon]."""

    name: str
    values: Float64[np.ndarray, "n t"]
    observed: np.ndarray
    season: np.ndarray
    second: np.ndarray
    target: Float64[np.ndarray, "n h"]
    counted: np.ndarray


def development_tasks(data: Path) -> Iterator[Task]:
    """Generated series, and inner origins of the training parts of real ones."""
    rng = np.random.default_rng(HELD_OUT_SEED)
    made = generate(512, 1024, AHEAD, rng)
    values = made.values.astype(np.float64)
    past, ahead = slice(-AHEAD), slice(-AHEAD, None)
    parts = (values[:, past], made.observed[:, past], made.season, made.second)
    yield Task("generated", *parts, values[:, ahead], made.observed[:, ahead])
    m3 = data / "m3_dev_train.csv.gz"
    if m3.exists():
        table = pd.read_csv(m3)
        for frequency, season, horizon in (("yearly", 1, 6), ("quarterly", 4, 8), ("monthly", 12, 18)):
            series = [x.to_numpy(float) for _, x in table[table.frequency == frequency].groupby("series").value]
            yield _last_rows(f"m3_{frequency}", series, season, 1, horizon)
    m4 = data / "m4_hourly_train.csv.gz"
    if m4.exists():
        series = [x.to_numpy(float) for _, x in pd.read_csv(m4).groupby("unique_id").y]
        yield _last_rows("m4_hourly", series, 24, 168, 48)
    real = (("ETTh1", 0.6, 24, 168, 25), ("ETTm1", 0.6, 96, 672, 25), ("WTH", 0.7, 24, 168, 15))
    for name, part, season, second, n_origins in real:
        if (data / f"{name}.csv").exists():
            rows = pd.read_csv(data / f"{name}.csv").select_dtypes("number").to_numpy(float)
            rows = rows[: int(part * len(rows))]
            origins = np.linspace(len(rows) // 2, len(rows) - AHEAD, n_origins).astype(int)
            series = [rows[max(0, end - HISTORY) : end + AHEAD, c] for end in origins for c in range(rows.shape[1])]
            yield _last_rows(name, series, season, second, AHEAD)


def _last_rows(name: str, series: list[np.ndarray], season: int, second: int, horizon: int) -> Task:
    """The last `horizon` rows of each series as the target."""
    n = len(series)
    rows = min(max(map(len, series)) - horizon, HISTORY)
    values, observed = np.zeros((n, rows)), np.zeros((n, rows), bool)
    for i, x in enumerate(series):
        past = x[:-horizon][-rows:]
        values[i, rows - len(past) :], observed[i, rows - len(past) :] = past, True
    target = np.stack([x[-horizon:] for x in series])
    seasons = np.full(n, season), np.full(n, second)
    return Task(name, values, observed, *seasons, target, np.ones_like(target, bool))


def development_score(network: Zero, tasks: list[Task]) -> dict[str, float]:
    """Errors relative to the seasonal naive: of each task its mean scaled error (MASE) and quantile loss (`_wql`), and
    their geometric means over the real tasks (`MASE`, `WQL`). Of generated series, whose extremes would decide a mean,
    the geometric mean over series."""
    scores: dict[str, float] = {}
    columns = [LEVELS.index(level) for level in DECILES]
    for task in tasks:
        device, horizon = network.patch_position.device, task.target.shape[1]
        values, observed, season, second = (torch.from_numpy(x).to(device) for x in task[1:5])
        forecast = network.predict(values, observed, season, second, horizon)[:, :, columns].cpu()
        naive, scale = _seasonal_naive(task)
        errors, losses = [], []
        for quantiles in (forecast, torch.from_numpy(naive)[:, :, None].expand(-1, -1, len(DECILES))):
            target = torch.from_numpy(task.target)
            distance = (quantiles[:, :, DECILES.index(0.5)] - target).abs().numpy()
            counts = task.counted.sum(axis=1)
            errors.append((distance * task.counted).sum(axis=1) / counts)
            losses.append((pinball(quantiles, target, DECILES).numpy() * task.counted).sum(axis=1) / counts)
        usable = scale > 0
        mase, wql = np.array(errors)[:, usable] / scale[usable], np.array(losses)
        if task.name == "generated":
            scores["generated"], scores["generated_wql"] = (
                np.exp(np.mean(np.log(x[0] + least) - np.log(x[1] + least)))
                for x, least in ((mase, 0.01), (wql[:, usable] / scale[usable], 0.005))
            )
        else:
            scores[task.name], scores[f"{task.name}_wql"] = (x[0].mean() / x[1].mean() for x in (mase, wql))
    real = [task.name for task in tasks if task.name != "generated"]
    if real:
        scores["MASE"] = math.exp(np.mean([math.log(scores[name]) for name in real]))
        scores["WQL"] = math.exp(np.mean([math.log(scores[f"{name}_wql"]) for name in real]))
    return {name: round(float(value), 4) for name, value in scores.items()}


def _seasonal_naive(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The forecast, and the mean absolute change over a season in the history (NaN becomes 0: not counted)."""
    n, length = task.values.shape
    table = pd.DataFrame(np.where(task.observed, task.values, np.nan).T).ffill().to_numpy().T
    rows = np.arange(task.target.shape[1])
    back = (rows // task.season[:, None] + 1) * task.season[:, None]
    naive = np.take_along_axis(table, np.maximum(length + rows - back, 0), 1)
    naive = np.where(np.isnan(naive), table[:, -1:], naive)
    change = np.empty(n)
    for season in np.unique(task.season):
        some = task.season == season
        both = task.observed[some, season:] & task.observed[some, :-season]
        moved = np.abs(task.values[some, season:] - task.values[some, :-season])
        change[some] = (moved * both).sum(1) / np.maximum(both.sum(1), 1)
    return naive, change


def main() -> None:
    """Read the arguments and train or score."""
    settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Settings), OmegaConf.from_cli(sys.argv[1:])))
    assert isinstance(settings, Settings)
    torch.set_num_threads(1)
    if settings.release:
        network, state = load(Path(settings.score))
        path = weights_path(settings.release)
        half = {name: x.half().contiguous() for name, x in network.state_dict().items()}
        save_file(half, path, metadata={"network": json.dumps(state.network), "series": str(state.series)})
        print(f"{path}: sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    elif settings.score:
        network, state = load(Path(settings.score))
        scores = development_score(network, list(development_tasks(Path(settings.data))))
        print(json.dumps({"series": state.series, "cpu_seconds": round(state.cpu_seconds), **scores}, indent=1))
    else:
        train(settings)


if __name__ == "__main__":
    main()
