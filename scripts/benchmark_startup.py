"""Start-up cost of commands: CPU time of whole processes, compared with `import torch` in the same run.

    python scripts/benchmark_startup.py [--rounds 7]

Processes take turns, and medians are reported. Prediction is compared with a minimal program that imports torch and
pandas, reads the same file and runs the same pickled network once. Modules are compiled in a first round that is not
measured, as they are once after an installation, also where PYTHONDONTWRITEBYTECODE is set.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from informer.base.runtime import resource

TORCH = "import torch"
BARE = """
import sys, torch, pandas as pd
network, dims, columns = torch.load(sys.argv[1], weights_only=False)
frame = pd.read_csv(sys.argv[2], parse_dates=["date"])
history = torch.tensor(frame[columns].to_numpy()[-dims["seq_len"]:]).float()[None]
ahead, n_marks = dims["label_len"] + dims["pred_len"], len(dims["mark_sizes"])
with torch.no_grad():
    network(
        history, torch.zeros(1, dims["seq_len"], n_marks),
        torch.zeros(1, ahead, dims["enc_in"]), torch.zeros(1, ahead, n_marks),
    )
"""
SAVE = """
import sys, torch
from pathlib import Path
from informer.checkpoint.format import load
from informer.checkpoint.restore import restore_model
saved = load(Path(sys.argv[1]))
torch.save((restore_model(saved), saved.dims, saved.inputs), sys.argv[2])
"""


def cpu_seconds(command: list[str], cwd: str) -> float:
    """User and system time of a process and its children."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=quiet, stderr=quiet)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # Popen need not wait for it again
    return usage.ru_utime + usage.ru_stime


def medians(commands: dict[str, list[str]], rounds: int, cwd: str) -> dict[str, float]:
    """CPU seconds of each command, after one round to compile modules and warm the file cache."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            seconds = cpu_seconds(command, cwd)
            if number:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def commands_of(run_dir: Path, sample: Path) -> dict[str, list[str]]:
    """Every timed command, by its name in the table."""
    calls = {
        "train --help": ["train", "--help"],
        "predict --help": ["predict", "--help"],
        "misspelt key": ["train", "modle=small"],
        "unknown dataset": ["train", "dataset=nothing"],
        "missing file, train": ["train", "dataset=csv", "dataset.path=nothing.csv"],
        "missing file, predict": ["predict", "input=nothing.csv"],
        "missing file, inspect": ["inspect", "nothing.csv"],
        "missing checkpoint": ["predict", f"input={sample}", "checkpoint=nothing"],
        "inspect": ["inspect", str(sample)],
        "predict": ["predict", f"checkpoint={run_dir}", f"input={sample}", "plots=false"],
    }
    bare = [sys.executable, "-c", BARE, str(run_dir / "network.pt"), str(sample)]
    named = {name: [sys.executable, "-m", "informer", *words] for name, words in calls.items()}
    return {TORCH: [sys.executable, "-c", TORCH], "bare forecast": bare, **named}


def main() -> None:
    """Train a small model, then print a line for each command."""
    parser = argparse.ArgumentParser(description="CPU time that commands take to start, next to that of import torch.")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sample = resource("data/sample.csv").resolve()
    with TemporaryDirectory() as scratch:
        run_dir = Path(scratch) / "run"
        small = ["dataset=sample", "model=tiny", "trainer.max_steps=20", "trainer.max_epochs=1", f"run_dir={run_dir}"]
        train = [sys.executable, "-m", "informer.train", *small]
        subprocess.run(train, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        save = [sys.executable, "-c", SAVE, str(run_dir), str(run_dir / "network.pt")]
        subprocess.run(save, cwd=scratch, check=True)
        seconds = medians(commands_of(run_dir, sample), options.rounds, scratch)
    print(f"{'':24}{'CPU s':>8}{'/ torch':>9}")
    for name, value in seconds.items():
        print(f"{name:24}{value:8.3f}{value / seconds[TORCH]:9.2f}")
    print(f"\npredict / bare forecast: {seconds['predict'] / seconds['bare forecast']:.2f}")


if __name__ == "__main__":
    main()
