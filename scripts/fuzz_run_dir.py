"""Run directories with a changed entry or file: the run continues, forecasts, or is a one-line error."""

import json
import shutil
from pathlib import Path
from typing import Any

import fuzz_checkpoint
import fuzz_runs
import mutations
import numpy as np
import torch
import yaml
from rich.console import Console

from informer.base.errors import InputError
from informer.checkpoint.restore import restore_model
from informer.config.training import TrainConfig
from informer.search.stage import resume, settings_to_resume
from informer.training.folder import RunFolder
from informer.training.optim import EarlyStopping, WeightAverage, build_optimizer
from informer.training.state import State

WHOLLY = 25
"""One case in so many is resumed to its end, which takes a hundred times as long."""


def changed_run(rng: np.random.Generator, folder: Path) -> str | None:
    """One entry of one file deleted or replaced, or a file that is something else."""
    kind = str(rng.choice(list(fuzz_runs.RUNS)))
    run = Path(shutil.copytree(fuzz_runs.run(kind), folder / "run"))
    (run / "metrics.json").unlink()
    case = f"{kind}: {_spoil(run, rng) if rng.random() < 0.3 else _change(run, rng)}"
    try:
        if rng.random() < 0.3:
            fuzz_checkpoint.use(run, kind)
        elif rng.random() < 1 / WHOLLY:
            resume(RunFolder.of(run), Console(quiet=True))
        else:
            begin_to_resume(run)
    except InputError as error:
        return fuzz_checkpoint.problem_of(error, case)
    except Exception as error:
        raise AssertionError(case) from error
    return None


def _change(run: Path, rng: np.random.Generator) -> str:
    name = str(rng.choice(["config.yaml", "run.json", "last.pt", "last.pt"]))
    changed, case = mutations.draw(content_of(run, name), rng, texts=name != "last.pt")
    write(run, name, changed)
    return f"{name}: {case}"


def content_of(run: Path, name: str) -> Any:
    """Content of a file of a run: a checkpoint (without its digest), run.json or config.yaml."""
    if name.endswith(".pt"):
        content: dict[str, Any] = torch.load(run / name, weights_only=True)
        del content["digest"]
        return content
    return (json.loads if name == "run.json" else yaml.safe_load)((run / name).read_text())


def write(run: Path, name: str, changed: Any) -> None:
    """Write other content, with a matching digest."""
    if name == "last.pt":
        fuzz_checkpoint.write(run / name, changed)
    else:
        (run / name).write_text((json.dumps if name == "run.json" else yaml.safe_dump)(changed))


def _spoil(run: Path, rng: np.random.Generator) -> str:
    path = rng.choice(sorted(run.iterdir()))
    if path.is_file() and rng.random() < 0.5:
        content = path.read_bytes()
        path.write_bytes(
            mutations.flipped(content, rng) if rng.random() < 0.5 else content[: rng.integers(len(content))]
        )
        return f"{path.name}: damaged"
    kind = mutations.KINDS[rng.integers(len(mutations.KINDS))]
    mutations.spoil(path, kind)
    return f"{path.name}: {kind[:20]!r}"


def begin_to_resume(run: Path) -> None:
    """Do what `resume=run` does before training, and one step.

    Raises:
        InputError: the run is invalid.
    """
    folder = RunFolder.of(run)
    folder.check_files()
    last = folder.last()
    settings = settings_to_resume(folder, last, TrainConfig(), ())
    folder.resume(settings, {})
    if last is not None:
        _step(settings, last)


def _step(settings: TrainConfig, last: Any) -> None:
    model = restore_model(last).train()
    optimizer = build_optimizer(settings.optim, model)
    average = WeightAverage(model, settings.optim.ema) if settings.optim.ema else None
    stopping = EarlyStopping(settings.trainer.patience)
    state = State(model=model, optimizer=optimizer, stopping=stopping, average=average)
    state.restore(last.training)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step_while_finite(torch.tensor(1.0))
    assert all(parameter.isfinite().all() for parameter in model.parameters()), "a step made a number that is none"
    assert state.stopping.update(0.5, 1) in (True, False)
