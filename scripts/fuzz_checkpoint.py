"""Checkpoints with an entry changed or a bit flipped: they work, or are refused in one line.

Where an entry was changed on purpose the digest is made to match; a flipped bit must be seen, or change nothing.
"""

import atexit
import json
import tempfile
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pandas as pd
import torch

from informer import Forecaster, checkpoint
from informer.checkpoint.digest import content_digest
from informer.checkpoint.format import Checkpoint, to_safetensors
from informer.errors import InputError
from informer.inference.exporting import description

MOST_SIGNS = 700
"""Of a line that refuses a file."""

TINY: dict[str, Any] = {
    "features": "S",
    "model": "tiny",
    **{f"model.{name}": size for name, size in {"d_model": 4, "n_heads": 1, "d_ff": 4, "encoder_stacks": [1]}.items()},
    "seq_len": 24,
    "label_len": 6,
    "pred_len": 6,
    "trainer.max_steps": 2,
    "trainer.batch_size": 32,
}
"""Of the smallest run."""


@cache
def run() -> Path:
    """A finished run on a table of its own, the same for all cases; removed when the program ends."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    folder = Path(place.name, "run")
    Forecaster.fit(table(), run_dir=folder, **TINY)
    return folder


@cache
def table() -> pd.DataFrame:
    """A daily wave of 260 hours."""
    times = pd.date_range("2024-01-01", periods=260, freq="h")
    return pd.DataFrame({"date": times, "load": np.sin(np.arange(260) / 24 * 2 * np.pi) + np.arange(260) / 100})


@cache
def entries(name: str) -> dict[str, Any]:
    """What a checkpoint of the run holds, without the digest."""
    content: dict[str, Any] = torch.load(run() / name, weights_only=True)
    del content["digest"]
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    """A checkpoint file with this content and a digest of it, which is noted in the run that it lies in, if any."""
    try:
        digest = content_digest(content)
    except (TypeError, ValueError):  # no digest can match
        digest = "0" * 64
    torch.save(content | {"digest": digest}, path)
    facts = path.with_name("run.json")
    if facts.exists():
        noted = json.loads(facts.read_text())
        facts.write_text(json.dumps(noted | {"digests": noted.get("digests", {}) | {path.name: digest}}))


def use(path: Path) -> None:
    """Load, describe and forecast.

    Raises:
        InputError: it is refused.
    """
    with np.errstate(all="ignore"):  # of a changed scale: numbers that single precision does not hold are refused
        forecaster = Forecaster.load(path)
        assert repr(forecaster)
        description(forecaster.trained.checkpoint)
        forecaster.predict(table(), intervals=80)


def problem_of(error: InputError, case: str) -> str | None:
    """What is wrong with a line that refuses a file."""
    line = str(error)
    if "\n" in line or len(line) > MOST_SIGNS:
        return f"{case}: refused with {len(line)} signs: {line[:MOST_SIGNS]}"
    return None


def changed_entry(rng: np.random.Generator, folder: Path) -> str | None:
    """One entry deleted or replaced."""
    content, case = mutations.draw(entries("best.pt"), rng)
    write(folder / "changed.pt", content)
    try:
        use(folder / "changed.pt")
    except InputError as error:
        return problem_of(error, case)
    except Exception as error:
        raise AssertionError(case) from error
    return None


@cache
def whole(suffix: str) -> bytes:
    """The content of a file that is good."""
    if suffix == ".pt":
        return (run() / "best.pt").read_bytes()
    return to_safetensors(checkpoint.load(run() / "best.pt"))


def flipped_bit(rng: np.random.Generator, folder: Path) -> str | None:
    """One bit of a .pt or .safetensors file."""
    suffix = str(rng.choice([".pt", ".safetensors"]))
    path = folder / f"flipped{suffix}"
    path.write_bytes(mutations.flipped(whole(suffix), rng))
    try:
        found = checkpoint.load(path)
    except InputError as error:
        return problem_of(error, suffix)
    return None if is_same(found, checkpoint.load(run() / "best.pt")) else f"{suffix}: other content was loaded"


def is_same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints are one, bit for bit; the oracle of the digest."""
    return all(_same(getattr(one, field.name), getattr(other, field.name)) for field in fields(Checkpoint))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.numpy().tobytes() == other.numpy().tobytes()
        )
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))
