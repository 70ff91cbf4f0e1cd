"""Golden runs: whole runs through the commands, of which numbers in the files that users see are stored, a file each.

A stored number changes only in a commit that names the decision behind it.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from entry_points import ROOT, done, script
from golden_inputs import INPUTS, write

Numbers = dict[str, list[float | str | None]]
STORED = Path(__file__).parent / "results"
MOST_VALUES = 4
"""Values stored of a longer column next to its mean, evenly spaced."""
CLOSE, CLOSE_TRAINED = 1e-6, 3e-4
"""Largest differences relative to the largest value of a column, as processors round differently: without training, and
with it."""

STEPS = "trainer.max_steps=12 trainer.batch_size=16 model.dropout=0 optim.lr=5e-3"
"""Few steps, but large ones, so that what training does is seen in the forecasts; no masks of dropout, which differ
between processors."""
LARGE = f"{STEPS} model.distil_norm=false"
SMALL = f"{STEPS} optim.lr=2e-4"
"""With normalised distilling, whose convolution has a bias without gradient: Adam makes whole steps of its rounding
errors, and the running mean, which removes the bias from the forecasts, follows late."""
TINY = f"train model=tiny {LARGE}"
SIZES = "model.d_model=16 model.n_heads=2 model.d_ff=32"
INFORMER = f"train model=informer {SIZES}"
STACK = f"train model=informer_stack {SIZES}"
ZERO = "forecast {}.csv model=zero"
AHEAD, FURTHER, ROLLING = "predict", "predict horizon=15", "predict mode=rolling stride=10"
IMPORT = (
    "import {} --data custom --target g --seq_len 48 --label_len 24 --pred_len 12 --d_model 16 --n_heads 4 --d_ff 32"
)

RUNS: dict[str, tuple[str, ...]] = {
    # without training
    "zero_hours": ("hours", f"{ZERO} target=f horizon=24"),
    "zero_panel": (
        "panel", f"{ZERO} horizon=10 dataset.series_col=store aggregate=[region,week] above=[1900]",
        f"{ZERO} horizon=6 dataset.series_col=store target=sales total=true",
    ),
    "zero_gaps": ("gaps", f"{ZERO} horizon=30 dataset.fill=mask dataset.frequency=h"),
    "zero_months": ("months", f"{ZERO} horizon=12 intervals=[50]"),
    "zero_new": (
        "shops", "forecast {}.csv horizon=10 dataset.series_col=store target=sales future=shops.future.csv",
    ),
    "zero_family": ("months", "train model=zero", FURTHER, ROLLING),
    "stored_full": ("hours", IMPORT.format("informer_full_timef --attn full"), AHEAD, "predict horizon=30"),
    "stored_prob": ("hours", IMPORT.format("informer_full_timef --attn prob"), ROLLING),
    "stored_stack": (
        "hours", IMPORT.format("informer_stack_fixed --model informerstack --attn full --embed fixed"), AHEAD,
    ),
    "score_hours": ("hours", "score season=24"),
    "score_panel": ("panel", "score season=7 dataset.series_col=store"),
    "linear_panel": ("panel", "train model=linear", AHEAD, ROLLING),
    "linear_short": ("panel", "train model=linear dataset.short=pad seq_len=112", AHEAD),
    "linear_intervals": (
        "panel", "train model=linear", "predict horizon=9 intervals=[50,80]",
        "predict mode=rolling stride=3 horizon=9 intervals=[80,95] adaptive=true",
    ),
    # with training
    "zero_trained": ("months", "train model=zero trainer.max_steps=3 trainer.batch_size=16 optim.lr=1e-5", AHEAD),
    "tiny_one_pass": ("hours", f"{TINY} scaler=minmax", AHEAD, "eval model.decoding=step"),
    "tiny_step": ("panel", f"{TINY} attn=full model.decoding=step model.instance_norm=true", AHEAD, ROLLING),
    "tiny_known": ("known", f"{TINY} attn=full model.decoding=step model.skip=ridge", AHEAD),
    "tiny_gaps": ("gaps", f"{TINY} model.channel_independent=true scaler=robust", FURTHER, ROLLING),
    "tiny_quantile": ("counts", f"{TINY} model.decoding=step loss=quantile", FURTHER),
    "tiny_normal": ("known", f"{TINY} loss=normal", AHEAD),
    "tiny_student_t": ("gaps", f"{TINY} loss=student_t model.decoding=step", AHEAD),
    "tiny_counts": ("counts", f"{TINY} loss=negative_binomial", AHEAD),
    "small_months": ("months", f"train model=small {LARGE} scaler.transform=sqrt", AHEAD),
    "small_patches": ("hours", f"train model=small {LARGE} model.patch_len=12 model.channel_independent=true", AHEAD),
    "tiny_steps": (
        "counts", f"{TINY} loss.training=mae optim.clip_norm=0.2 optim.schedule=cosine optim.ema=0.9", AHEAD,
    ),
    "informer_mae": ("hours", f"{INFORMER} {LARGE} model.embed=fixed model.mix=true loss=mae optim.ema=0.9", AHEAD),
    "informer_offset": ("known", f"{INFORMER} {SMALL} model.offset=2 model.decoding=step loss=huber", AHEAD),
    "informer_static": (
        "panel", f"{INFORMER} {LARGE} dataset.static_covariates=[region,size] model.series_embedding=4"
        " scaler.per_series=false attn=full model.distil=max model.embed=learned", AHEAD,
    ),
    "informer_ridge": (
        "known", "train model=small model.d_ff=128 model.skip=ridge model.instance_norm=true"
        f" {LARGE} optim.schedule=cosine loss=spectral", AHEAD,
    ),
    "stack_hours": ("hours", f"{STACK} {SMALL}", AHEAD),
    "lstma_gaps": ("gaps", f"train model=lstma model.d_model=8 {STEPS} loss=quantile", AHEAD),
}  # fmt: skip
"""Input and commands of each; the k-th command writes into the folder k."""


def run(name: str, folder: Path) -> Numbers:
    """The numbers of a run, by file and column; `folder` must be empty and the working directory."""
    data, *lines = RUNS[name]
    write(data, folder)
    found: Numbers = {}
    for k, line in enumerate(lines):
        command, *words = line.format(data).split()
        if command == "import":
            _import(words, k)
        else:
            done(command, *_settings(command, data), *words, f"{'run_dir' if command == 'train' else 'output'}={k}")
        for ending in ("metrics.csv", "scores.csv", "totals.csv", ".forecast.csv", ".rolling.csv"):
            for path in sorted((folder / str(k)).rglob(f"*{ending}")):
                found |= {f"{k}/{path.name}/{place}": values for place, values in _numbers(path).items()}
    return found


def _settings(command: str, data: str) -> list[str]:
    """What a command needs on this input."""
    if command == "train":
        split = "dataset.split.train=0.6 dataset.split.val=0.2 dataset.split.test=0.2 trainer.tracker=[]"
        return f"dataset=csv dataset.path={data}.csv {split} {INPUTS[data][1]}".split()
    if command == "predict":
        ahead = ["future=known.future.csv"] if data == "known" else []
        return ["checkpoint=0", f"input={data}.csv", "digits=null", "plots=false", *ahead]
    if command == "score":
        return [f"forecasts={data}.guess.csv", f"actuals={data}.newer.csv", f"history={data}.csv"]
    return ["checkpoint=0", "plots=none"] if command == "eval" else []


def _import(words: list[str], k: int) -> None:
    """A trained model from weights of the authors' code."""
    arrays = np.load(ROOT / "tests" / "parity" / f"{words[0]}.npz")
    state = {key[6:]: torch.from_numpy(arrays[key]) for key in arrays.files if key.startswith("state/")}
    torch.save({key: x.float() if x.is_floating_point() else x for key, x in state.items()}, "theirs.pth")
    script("import_informer2020").main(["theirs.pth", str(k), "--csv", "hours.csv", "--", *words[1:]])


def _numbers(path: Path) -> Numbers:
    """By column; of a table of scores by forecaster and metric. The ridge baseline is taken from score files alone."""
    table = pd.read_csv(path)
    if "metric" not in table:
        return {str(name): _some(values) for name, values in table.items()}
    if "units" in table:
        table = table[(table["units"] == "scaled") & (table["model"] != "ridge")]
    table = table[table["metric"].str.fullmatch(r"mse|mae|mase|owa|wql|coverage\d+")]
    overall = table["step"] == "all"  # errors of single steps are small now and then, so float32 shows
    by = table["value"].groupby([table[table.columns[0]], table["metric"]], sort=False)
    return {" ".join(key): [_rounded(part.mean()), *_some(part[overall])[1:]] for key, part in by}


def _some(column: pd.Series) -> list[float | str | None]:
    """The mean and some values; of texts the first and last."""
    if not pd.api.types.is_numeric_dtype(column):
        return [str(column.iloc[0]), str(column.iloc[-1])]
    places = np.linspace(0, len(column) - 1, min(len(column), MOST_VALUES)).astype(int)
    return [_rounded(x) for x in (column.mean(), *column.iloc[places])]


def _rounded(x: float) -> float | None:
    return float(f"{x:.9g}") if math.isfinite(x) else None


def differences(name: str, found: Numbers, stored: Numbers) -> list[str]:
    """A line for each number that differs by more than rounding: name, place, stored, found, relative difference."""
    close = CLOSE_TRAINED if "max_steps" in " ".join(RUNS[name]) else CLOSE
    lines = []
    for place in {**stored, **found}:
        old, new = stored.get(place, []), found.get(place, [])
        largest = max((abs(x) for x in old if isinstance(x, float)), default=0.0)
        for i in range(max(len(old), len(new))):
            x, y = (values[i] if i < len(values) else None for values in (old, new))
            off = abs(x - y) / (largest or 1) if isinstance(x, float) and isinstance(y, float) else float(x != y)
            if off > close:
                lines.append(f"{name:16} {f'{place}[{i}]':50} {x!s:>16} {y!s:>16} {off:.1e}")
    return lines
