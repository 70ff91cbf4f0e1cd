"""Checkpoints with a changed entry or a flipped bit: they work, or are a one-line error.

For a changed entry the digest is recomputed to match; a flipped bit must be detected, or change nothing.
"""

import json
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import fuzz_runs
import mutations
import numpy as np
import torch

from informer import Forecaster, checkpoint
from informer.base.errors import InputError, ReportError
from informer.checkpoint.format import Checkpoint, content_digest, to_safetensors
from informer.inference.export import description

MOST_SIGNS = 700
"""Of a line that refuses a file."""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint file with this content and its digest, also recorded in the facts of its run, if any."""
    try:
        digest = content_digest(content)
    except (TypeError, ValueError):  # no digest can match
        digest = "0" * 64
    torch.save(content | {"digest": digest}, path)
    facts = path.with_name("run.json")
    if facts.exists():
        noted = json.loads(facts.read_text())
        facts.write_text(json.dumps(noted | {"digests": noted.get("digests", {}) | {path.name: digest}}))


def use(path: Path, kind: str = "numbers") -> None:
    """Load, describe and forecast the table of a run.

    Raises:
        InputError: the checkpoint is invalid.
    """
    with np.errstate(all="ignore"):  # of a changed scale: numbers that single precision does not hold are refused
        forecaster = Forecaster.load(path)
        assert repr(forecaster)
        description(forecaster.trained.checkpoint)
        forecaster.predict(fuzz_runs.table(kind), future=fuzz_runs.horizon(kind), intervals=80)


def problem_of(error: InputError, case: str) -> str | None:
    """What is wrong with an error message, if anything."""
    for line in error.lines if isinstance(error, ReportError) else [str(error)]:
        if "\n" in line or len(line) > MOST_SIGNS:
            return f"{case}: refused with {len(line)} signs: {line[:MOST_SIGNS]}"
    return None


def changed_entry(rng: np.random.Generator, folder: Path) -> str | None:
    """One entry deleted or replaced."""
    kind = str(rng.choice(list(fuzz_runs.RUNS)))
    name = "refit.pt" if kind == "maps" else "best.pt"
    content, case = mutations.draw(fuzz_runs.entries(name, kind), rng)
    case = f"{kind}: {case}"
    write(folder / "changed.pt", content)
    try:
        use(folder / "changed.pt", kind)
    except InputError as error:
        return problem_of(error, case)
    except Exception as error:
        raise AssertionError(case) from error
    return None


@cache
def whole(suffix: str, kind: str) -> bytes:
    """The content of a valid file."""
    path = fuzz_runs.run(kind) / "best.pt"
    return path.read_bytes() if suffix == ".pt" else to_safetensors(checkpoint.load(path))


def flipped_bit(rng: np.random.Generator, folder: Path) -> str | None:
    """One bit of a .pt or .safetensors file."""
    suffix, kind = str(rng.choice([".pt", ".safetensors"])), str(rng.choice(list(fuzz_runs.RUNS)))
    path = folder / f"flipped{suffix}"
    path.write_bytes(mutations.flipped(whole(suffix, kind), rng))
    try:
        loaded = checkpoint.load(path)
    except InputError as error:
        return problem_of(error, suffix)
    same = is_same(loaded, checkpoint.load(fuzz_runs.run(kind) / "best.pt"))
    return None if same else f"{kind}, {suffix}: other content was loaded"


def is_same(first: Checkpoint, second: Checkpoint) -> bool:
    """Whether two checkpoints are equal, bit for bit; the oracle of the digest."""
    return all(_same(getattr(first, field.name), getattr(second, field.name)) for field in fields(Checkpoint))


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return (
            isinstance(second, torch.Tensor)
            and (first.dtype, first.shape) == (second.dtype, second.shape)
            and first.numpy().tobytes() == second.numpy().tobytes()
        )
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(_same(first[key], second[key]) for key in first)
        )
    if isinstance(first, list | tuple):
        return isinstance(second, list | tuple) and len(first) == len(second) and all(map(_same, first, second))
    return type(first) is type(second) and (first == second or (first != first and second != second))
