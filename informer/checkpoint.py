"""One file holds a trained model and all that is needed to use it: plain containers and tensors, nothing executable."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from informer import archive
from informer.errors import InputError
from informer.files import write_atomic

FORMAT = 2
"""Raised whenever a reader of an older format would misread the file."""

BEST, LAST = "best.pt", "last.pt"
CALIBRATION = "calibration."
"""How the names of its tensors begin in a .safetensors file."""
MECHANISM = re.compile(r"informer\.attention\.\w+\.\w+")
"""What a `_target_` may name."""


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
    calibration: dict[str, Tensor] | None = None
    """State of the `Calibration` of intervals."""
    training: dict[str, Any] | None = None
    """Optimiser, early stopping and random-number states; only in `last.pt`."""

    @property
    def quantiles(self) -> list[float]:
        """Levels that the network forecasts; none where it gives one value for each column."""
        return self.config["loss"].get("quantiles", [])  # a run of before quantiles has no word of them


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically: the file is there whole or not at all."""
    content = {"format": FORMAT} | {field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomic(path, buffer.getvalue())


def to_safetensors(checkpoint: Checkpoint) -> bytes:
    """Content of a .safetensors file that `load` reads: the weights, all else as its metadata; no training state.

    Raises:
        InputError: the safetensors library is not there.
    """
    plain = {field.name: getattr(checkpoint, field.name) for field in fields(checkpoint) if field.name != "weights"}
    tensors = checkpoint.weights | {
        f"{CALIBRATION}{name}": part for name, part in (checkpoint.calibration or {}).items()
    }
    return archive.safetensors_bytes(tensors, {"format": FORMAT} | plain | {"calibration": None, "training": None})


def differing_shape(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> tuple[str, str, str] | None:
    """The first name under which two sets of weights hold arrays of different shapes, and both; None if they agree."""
    for name in {**one, **other}:
        shapes = [str(tuple(part[name].shape)) if name in part else "nothing" for part in (one, other)]
        if shapes[0] != shapes[1]:
            return name, shapes[0], shapes[1]
    return None


def _with_calibration(content: dict[str, Any]) -> dict[str, Any]:
    """Content of a .safetensors file, whose tensors lie all in one place, with the calibration in its own."""
    found = {name: part for name, part in content["weights"].items() if name.startswith(CALIBRATION)}
    weights = {name: part for name, part in content["weights"].items() if name not in found}
    own = {name.removeprefix(CALIBRATION): part for name, part in found.items()}
    return content | {"weights": weights, "calibration": own or None}


def locate(path: Path) -> Path:
    """The checkpoint file that `checkpoint=` means: a file, or the best of a run directory."""
    path = path.expanduser()
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
    content = (
        _with_calibration(archive.read_safetensors(path)) if path.suffix == archive.SAFETENSORS else archive.read(path)
    )
    if not isinstance(content, dict) or "format" not in content:
        raise InputError(f"checkpoint: {path} was not written by this program (it has no format number)")
    return from_content(content, path)


def from_content(content: dict[str, Any], path: Path) -> Checkpoint:
    """The entries of a checkpoint file, checked for their types; its configuration is data and nothing more.

    Raises:
        InputError: another format, missing entries, entries of other types, a configuration that names code or refers
            to something outside itself.
    """
    if content.get("format") != FORMAT:
        raise InputError(f"checkpoint: {path} has another format than {FORMAT}; train again or use a matching version")
    entries = {name: value for name, value in content.items() if name != "format"}
    expected = get_type_hints(Checkpoint)
    if set(entries) != set(expected):
        raise InputError(f"checkpoint: {path}: expected the entries {sorted(expected)}, found {sorted(entries)}")
    wrong = [name for name, hint in expected.items() if not _fits(entries[name], hint)]
    if wrong:
        name, kind = wrong[0], getattr(expected[wrong[0]], "__name__", expected[wrong[0]])
        raise InputError(f"checkpoint: {path}: expected {name} to be a {kind}, found {type(entries[name]).__name__}")
    _refuse_code(entries["config"], path)
    return Checkpoint(**entries)


def _fits(value: Any, hint: Any) -> bool:
    """Whether `value` is what a type hint of `Checkpoint` says."""
    if hint is Any:
        return True
    if get_origin(hint) is UnionType:
        return any(_fits(value, option) for option in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(part, get_args(hint)[0]) for part in value)
    if get_origin(hint) is dict:
        key, part = get_args(hint)
        return isinstance(value, dict) and all(_fits(k, key) and _fits(v, part) for k, v in value.items())
    return isinstance(value, int | float if hint is float else hint)


def _refuse_code(config: Any, path: Path) -> None:
    """No `_target_` outside the package's mechanisms; no `${...}`, which could read the environment."""
    if isinstance(config, str) and "${" in config:
        raise InputError(f"checkpoint: {path}: its configuration refers to something outside itself: {config!r}")
    if isinstance(config, list | tuple):
        for part in config:
            _refuse_code(part, path)
    if isinstance(config, dict):
        for key, part in config.items():
            if key == "_target_" and not MECHANISM.fullmatch(str(part)):
                raise InputError(
                    f"checkpoint: {path}: expected a _target_ below informer.attention, found {part!r}; nothing was run"
                )
            _refuse_code(key, path)
            _refuse_code(part, path)
