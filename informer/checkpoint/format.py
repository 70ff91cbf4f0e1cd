"""One file holds a trained model and all that is needed to use it: plain containers and tensors, nothing executable."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from informer.checkpoint import safe_load as archive
from informer.checkpoint.digest import content_digest
from informer.checkpoint.facts import read_facts
from informer.checkpoint.migrations import FIRST_WITH_DIGEST, FORMAT, format_of, to_today
from informer.checkpoint.paths import FACTS, followed, locate
from informer.config.calendar import Calendar
from informer.config.conversion import model_of, node_of
from informer.config.dataset import DatasetConfig, without_places
from informer.config.plain import check_plain
from informer.config.renames import renamed_keys, renamed_weights
from informer.errors import InputError
from informer.files import write_atomic

READ_DIRECTLY: dict[str, dict[tuple[str, ...], Any]] = {
    "config": {
        **dict.fromkeys([("seq_len",), ("label_len",), ("pred_len",)], int),
        **dict.fromkeys([("dataset",), ("model",), ("loss",)], dict[str, Any]),
        ("model", "embed"): str,
        ("model", "offset"): int | None,
        **dict.fromkeys([("attn", "_target_"), ("decoder_attn", "_target_"), ("cross_attn", "_target_")], str),
    },
    "data": {
        **dict.fromkeys([("path",), ("sha256",), ("time_col",)], str),
        **dict.fromkeys([("time_format",), ("timezone",)], str | None),
        ("marks",): list[str] | None,
    },
}
"""Entries inside others that are used as they are, with their types; dataclasses read the rest of `config`."""

COMBINED = "combination"
"""Entry of `Checkpoint.data`: the weights of network, linear forecast and seasonal naive in the forecast."""

NAMES = "names"
"""Entry of `Checkpoint.data`."""

CATEGORIES = "categories"
"""Entry of `Checkpoint.data`: by column of categories, these in the order of their numbers, from 1."""

STATIC = "static_covariates"
"""Entry of `Checkpoint.data`: inputs that are constant within a series."""

REFITTED = "refit"
"""Entry of `Checkpoint.data`: how many windows it was fitted on once more."""

CALIBRATION = "calibration."
"""How the names of its tensors begin in a .safetensors file."""


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
    """Where the training data came from: path, sha256, rows; the names of its series, where it had many."""
    epoch: int
    step: int
    val_loss: float
    calibration: dict[str, Tensor] | None = None
    """State of the `Calibration` of intervals."""
    training: dict[str, Any] | None = None
    """Optimiser, early stopping and random-number states; only in `last.pt`."""

    def entries(self) -> dict[str, Any]:
        """What a file holds of it."""
        return {"format": FORMAT} | {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def digest(self) -> str:
        """Of all its content."""
        return content_digest(self.entries())

    @property
    def series(self) -> list[str]:
        """Names of the series of training, in the order of their numbers; none of one series."""
        return self.data.get(NAMES, [])  # older files do not contain them

    @property
    def categories(self) -> dict[str, list[str]]:
        """By column, its categories in the order of their numbers; none of a model that reads only numbers."""
        return self.data.get(CATEGORIES, {})

    @property
    def static_covariates(self) -> list[str]:
        """Inputs that are constant within a series; older files have none."""
        return self.data.get(STATIC, [])

    @property
    def refit(self) -> bool:
        """It was fitted on the rows of all parts."""
        return bool(self.data.get(REFITTED))

    @property
    def calendar(self) -> Calendar:
        """The marks that the network reads.

        Raises:
            InputError: unknown fields, or holidays whose package is missing.
        """
        dataset = node_of(DatasetConfig, without_places(self.config.get("dataset", {})))
        return dataset.marked(model_of(self.config["model"]).marks)

    @property
    def quantiles(self) -> list[float]:
        """Levels that the network forecasts; none where it gives one value for each column."""
        return self.config["loss"].get("quantiles", [])  # a run from before quantiles does not contain them


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically: the file is there whole or not at all."""
    buffer = io.BytesIO()
    torch.save(checkpoint.entries() | {"digest": checkpoint.digest}, buffer)
    write_atomic(path, buffer.getvalue())


def to_safetensors(checkpoint: Checkpoint) -> bytes:
    """Content of a .safetensors file that `load` reads: the weights, all else as its metadata; no training state.

    Raises:
        InputError: the safetensors library is not installed.
    """
    checkpoint = replace(checkpoint, training=None)
    tensors = checkpoint.weights | {
        f"{CALIBRATION}{name}": part for name, part in (checkpoint.calibration or {}).items()
    }
    plain = {name: value for name, value in checkpoint.entries().items() if name != "weights"}
    return archive.safetensors_bytes(tensors, plain | {"calibration": None, "digest": checkpoint.digest})


def _with_calibration(content: dict[str, Any]) -> dict[str, Any]:
    """Content of a .safetensors file, whose tensors lie all in one place, with the calibration in its own."""
    found = {name: part for name, part in content["weights"].items() if name.startswith(CALIBRATION)}
    weights = {name: part for name, part in content["weights"].items() if name not in found}
    own = {name.removeprefix(CALIBRATION): part for name, part in found.items()}
    return content | {"weights": weights, "calibration": own or None}


def load(path: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU.

    Args:
        path: a file or a run directory.

    Raises:
        InputError: there is none, it is no checkpoint of this program, its format is not one that is read here, it is
            damaged, or not the one that the run directory had when the run ended.
    """
    of_run = followed(path).is_dir()
    path = locate(path)
    content = _content(path)
    found = from_content(content, path)
    if of_run:
        _check_own(path, content.get("digest"))
    return found


def written_digest(path: Path) -> str | None:
    """The digest in a checkpoint file, after it was compared with the content; None in files of before there were any.

    Raises:
        InputError: see `load`.
    """
    content = _content(path)
    _check_digest(content, path)
    return content.get("digest")


def _content(path: Path) -> dict[str, Any]:
    content = (
        _with_calibration(archive.read_safetensors(path)) if path.suffix == archive.SAFETENSORS else archive.read(path)
    )
    if not isinstance(content, dict) or "format" not in content:
        raise InputError(f"checkpoint: {path} was not written by this program (it has no format number)")
    return content


def _check_own(path: Path, digest: str | None) -> None:
    """Compare a file of a run directory with what the run noted of it at its end; an older run has no such note."""
    noted = read_facts(path.parent).get("digests", {}).get(path.name)
    if noted is not None and noted != digest:
        raise InputError(
            f"checkpoint: {path} is not the one that {path.with_name(FACTS)} describes; put the run's own file back, "
            f"or name the file itself: checkpoint={path}"
        )


def from_content(content: dict[str, Any], path: Path) -> Checkpoint:
    """The entries of a checkpoint file of any format, checked for damage and for their types.

    Its configuration is data and nothing more.

    Raises:
        InputError: a format that this version does not know, another content than was written, missing entries, entries
            of other types, a configuration that names code or refers to something outside itself.
    """
    _check_digest(content, path)
    entries = {name: value for name, value in to_today(content, path).items() if name not in ("format", "digest")}
    expected = get_type_hints(Checkpoint)
    if set(entries) != set(expected):
        found = sorted(map(str, entries))
        raise InputError(f"checkpoint: {path}: expected the entries {sorted(expected)}, found {found}")
    _check_types(path, {name: (entries[name], hint) for name, hint in expected.items()})
    check_plain(entries["config"], f"checkpoint: {path}")
    for part, needed in READ_DIRECTLY.items():
        inside = {".".join((part, *keys)): (_inside(entries[part], keys), hint) for keys, hint in needed.items()}
        _check_types(path, inside)
    renamed = {"config": renamed_keys(entries["config"]), "weights": renamed_weights(entries["weights"])}
    return Checkpoint(**entries | renamed | {"val_loss": float(entries["val_loss"])})


def _check_digest(content: dict[str, Any], path: Path) -> None:
    """Refuse content that is not what was written; files of the first formats have no digest."""
    if format_of(content, path) < FIRST_WITH_DIGEST:
        return
    try:
        is_whole = content_digest({key: x for key, x in content.items() if key != "digest"}) == content.get("digest")
    except (TypeError, ValueError):  # content of kinds that are never written
        is_whole = False
    if not is_whole:
        raise InputError(f"checkpoint: {path} is damaged: its content is not what was written; use another copy")


def _check_types(path: Path, found: Mapping[str, tuple[Any, Any]]) -> None:
    """Refuse the first of some entries, by name, that is not what its type hint says."""
    for name, (value, hint) in found.items():
        if not _fits(value, hint):
            kind = getattr(hint, "__name__", str(hint))
            raise InputError(f"checkpoint: {path}: expected {name} to be a {kind}, found {type(value).__name__}")


def _inside(node: Any, keys: Sequence[str]) -> Any:
    """The entry of nested mappings; None where there is none."""
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node


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
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)
