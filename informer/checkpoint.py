"""One file holds a trained model and all that is needed to use it: plain containers and tensors, nothing executable."""

import io
import pickle
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from informer.errors import InputError
from informer.files import write_atomic

FORMAT = 2
"""Raised whenever a reader of an older format would misread the file."""

BEST, LAST = "best.pt", "last.pt"


@dataclass(kw_only=True, slots=True)
class Checkpoint:
    """Content of a checkpoint file."""

    config: dict[str, Any]
    """The whole configuration of the run, resolved."""
    dims: dict[str, Any]
    """What the data decided of the network (`ModelDims`)."""
    inputs: list[str]
    """Columns the model reads, in its order."""
    targets: list[str]
    """Columns it forecasts, in its order."""
    future_covariates: list[str]
    """Inputs that it must be given over the horizon too."""
    frequency: str
    """Step of the series, as a pandas offset."""
    scaler: dict[str, Any]
    """State of the `PanelScaler` over `inputs`."""
    weights: dict[str, Tensor]
    data: dict[str, Any]
    """Where the training data came from: path, sha256, rows."""
    epoch: int
    step: int
    val_loss: float
    training: dict[str, Any] | None = None
    """Optimiser, early stopping and random-number states; only in `last.pt`."""


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically: the file is there whole or not at all."""
    content = {"format": FORMAT} | {field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomic(path, buffer.getvalue())


def locate(path: Path) -> Path:
    """The checkpoint file that `checkpoint=` means: a file, or the best of a run directory."""
    if path.is_dir():
        if not (path / BEST).exists():
            raise InputError(f"checkpoint: no {BEST} in the folder {path}; give a run directory or a .pt file")
        return path / BEST
    if not path.exists():
        raise InputError(f"checkpoint: {path} does not exist; give a run directory or a .pt file")
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU.

    Args:
        path: a file or a run directory.

    Raises:
        InputError: there is none, it is no checkpoint of this program, or its format is not the one read here.
    """
    path = locate(path)
    if not zipfile.is_zipfile(path):  # torch.load would try older formats on it, with warnings
        raise InputError(f"checkpoint: {path} cannot be read as a checkpoint: not an archive of tensors")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise InputError(f"checkpoint: {path} cannot be read as a checkpoint: {_first_line(error)}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise InputError(f"checkpoint: {path} was not written by this program (it has no format number)")
    if content.pop("format") != FORMAT:
        raise InputError(f"checkpoint: {path} has another format than {FORMAT}; train again or use a matching version")
    names = {field.name for field in fields(Checkpoint)}
    if set(content) != names:
        raise InputError(f"checkpoint: {path}: expected the entries {sorted(names)}, found {sorted(content)}")
    return Checkpoint(**content)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].split(". ")[0]
