"""The checkpoint: one file with a trained model and everything needed to use it, as plain data without code."""

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
from informer.checkpoint.paths import FACTS, locate, resolve_latest
from informer.config.calendar import Calendar
from informer.config.conversion import model_of, node_of
from informer.config.dataset import DatasetConfig, without_location
from informer.config.plain import check_plain
from informer.errors import InputError
from informer.files import write_atomic

FORMAT = 3
"""Format of the files; it increases whenever an older reader would misread them."""

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
"""Nested entries that are used directly, with their types; dataclasses check the rest of `config`."""

COMBINED = "combination"
"""Entry of `Checkpoint.data`: weights of network, linear forecast and seasonal naive in the combined forecast."""

NAMES = "names"
"""Entry of `Checkpoint.data`: names of the training series."""

CATEGORIES = "categories"
"""Entry of `Checkpoint.data`: categories of each categorical column, in the order of their codes, which start at 1."""

STATIC = "static_covariates"
"""Entry of `Checkpoint.data`: inputs that are constant within a series."""

ATTRIBUTES = "attributes"
"""Entry of `Checkpoint.data`: attributes of the training series, if they came from a table of their own. In run.json:
the names of their columns."""

REFITTED = "refit"
"""Entry of `Checkpoint.data`: number of windows of the second fit, on all rows."""

SHORTFALLS = "too_narrow"
"""Entry of `Checkpoint.data`: coverage in percent, on the test part, of intervals that are too narrow; see
`informer.inference.coverage.shortfalls`."""

CALIBRATION = "calibration."
"""Prefix of the calibration's tensors in a .safetensors file."""


@dataclass(kw_only=True, slots=True)
class Checkpoint:
    """Content of a checkpoint file."""

    config: dict[str, Any]
    """Full configuration of the run."""
    dims: dict[str, Any]
    """Sizes that depend on the data, see `ModelDims`."""
    inputs: list[str]
    """Columns the model reads, in order."""
    targets: list[str]
    """Columns the model forecasts, in order."""
    future_covariates: list[str]
    """Inputs that must also be given for the forecast horizon."""
    frequency: str
    """Step of the series, as a pandas offset."""
    scaler: dict[str, Any]
    """State of the `PanelScaler` for `inputs`."""
    weights: dict[str, Tensor]
    data: dict[str, Any]
    """Origin of the training data: path, sha256, rows; names of the series if there are several."""
    epoch: int
    step: int
    val_loss: float
    calibration: dict[str, Tensor] | None = None
    """State of the `Calibration` of prediction intervals."""
    training: dict[str, Any] | None = None
    """State of the optimiser, early stopping and random-number generators; only in `last.pt`."""

    def entries(self) -> dict[str, Any]:
        """Content of the file."""
        return {"format": FORMAT} | {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def digest(self) -> str:
        """SHA-256 of the whole content, see `content_digest`."""
        return content_digest(self.entries())

    @property
    def series(self) -> list[str]:
        """Names of the training series, in the order of their numbers; empty for a single series."""
        return self.data.get(NAMES, [])

    @property
    def categories(self) -> dict[str, list[str]]:
        """Categories of each categorical column, in the order of their codes; empty if all columns are numeric."""
        return self.data.get(CATEGORIES, {})

    @property
    def static_covariates(self) -> list[str]:
        """Inputs that are constant within a series."""
        return self.data.get(STATIC, [])

    @property
    def refit(self) -> bool:
        """Whether the model was fitted again on all rows."""
        return bool(self.data.get(REFITTED))

    @property
    def calendar(self) -> Calendar:
        """The calendar marks that the network reads.

        Raises:
            InputError: unknown calendar fields, or the package for holidays is missing.
        """
        dataset = node_of(DatasetConfig, without_location(self.config.get("dataset", {})))
        return dataset.marked(model_of(self.config["model"]).marks)

    @property
    def quantiles(self) -> list[float]:
        """Quantile levels that the network forecasts; empty for point forecasts."""
        return self.config["loss"].get("quantiles", [])


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically: the file is either complete or not there."""
    buffer = io.BytesIO()
    torch.save(checkpoint.entries() | {"digest": checkpoint.digest}, buffer)
    write_atomic(path, buffer.getvalue())


def to_safetensors(checkpoint: Checkpoint) -> bytes:
    """Content of a .safetensors file that `load` can read: weights as tensors, everything else as metadata.

    The training state is left out, so training cannot be resumed from it.

    Raises:
        InputError: the safetensors library is not installed.
    """
    checkpoint = replace(checkpoint, training=None)
    tensors = checkpoint.weights | {
        f"{CALIBRATION}{name}": tensor for name, tensor in (checkpoint.calibration or {}).items()
    }
    plain = {name: value for name, value in checkpoint.entries().items() if name != "weights"}
    return archive.safetensors_bytes(tensors, plain | {"calibration": None, "digest": checkpoint.digest})


def _with_calibration(content: dict[str, Any]) -> dict[str, Any]:
    """Content of a .safetensors file with the calibration's tensors moved from the weights to their own entry."""
    calibration = {name: tensor for name, tensor in content["weights"].items() if name.startswith(CALIBRATION)}
    weights = {name: tensor for name, tensor in content["weights"].items() if name not in calibration}
    tensors = {name.removeprefix(CALIBRATION): tensor for name, tensor in calibration.items()}
    return content | {"weights": weights, "calibration": tensors or None}


def load(path: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU.

    Args:
        path: a file or a run directory.

    Raises:
        InputError: there is no checkpoint, this program cannot read its format, it is damaged, or it is not the file
            that the run directory contained when the run ended.
    """
    of_run = resolve_latest(path).is_dir()
    path = locate(path)
    content = _content(path)
    checkpoint = from_content(content, path)
    if of_run:
        _check_own(path, content["digest"])
    return checkpoint


def saved_digest(path: Path) -> str:
    """Digest stored in a checkpoint file, compared with the content.

    Raises:
        InputError: see `load`.
    """
    content = _content(path)
    _check_digest(content, path)
    return str(content["digest"])


def _content(path: Path) -> dict[str, Any]:
    content = (
        _with_calibration(archive.read_safetensors(path)) if path.suffix == archive.SAFETENSORS else archive.read(path)
    )
    if not isinstance(content, dict) or "format" not in content:
        raise InputError(f"checkpoint: {path} was not written by this program (it has no format number)")
    return content


def _check_own(path: Path, digest: str) -> None:
    """Compare a file of a run directory with the digest in its run.json, which a running run does not contain yet."""
    noted = read_facts(path.parent).get("digests", {}).get(path.name)
    if noted is not None and noted != digest:
        raise InputError(
            f"checkpoint: {path} is not the one that {path.with_name(FACTS)} describes; put the run's own file back, "
            f"or name the file itself: checkpoint={path}"
        )


def from_content(content: dict[str, Any], path: Path) -> Checkpoint:
    """Build a checkpoint from the content of a file, checked for damage and types.

    The configuration is only data: it must not name code or refer to anything outside itself.

    Raises:
        InputError: unknown format, damaged content, missing or unexpected entries, entries of a wrong type, or a
            configuration that is not plain data.
    """
    _check_digest(content, path)
    entries = {name: value for name, value in content.items() if name not in ("format", "digest")}
    expected = get_type_hints(Checkpoint)
    if set(entries) != set(expected):
        names = sorted(map(str, entries))
        raise InputError(f"checkpoint: {path}: expected the entries {sorted(expected)}, found {names}")
    _check_types(path, {name: (entries[name], hint) for name, hint in expected.items()})
    check_plain(entries["config"], f"checkpoint: {path}")
    for entry, required in READ_DIRECTLY.items():
        inside = {".".join((entry, *keys)): (_inside(entries[entry], keys), hint) for keys, hint in required.items()}
        _check_types(path, inside)
    return Checkpoint(**entries | {"val_loss": float(entries["val_loss"])})


def _check_digest(content: dict[str, Any], path: Path) -> None:
    """Raise InputError if the file has another format, or its content differs from what was written."""
    if type(content["format"]) is not int or content["format"] != FORMAT:
        raise InputError(f"checkpoint: {path} has another format than {FORMAT}; train again or use a matching version")
    try:
        is_whole = content_digest({key: x for key, x in content.items() if key != "digest"}) == content.get("digest")
    except (TypeError, ValueError):  # types that are never written
        is_whole = False
    if not is_whole:
        raise InputError(f"checkpoint: {path} is damaged: its content is not what was written; use another copy")


def _check_types(path: Path, entries: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise InputError for the first entry that does not match its type hint."""
    for name, (value, hint) in entries.items():
        if not _fits(value, hint):
            kind = getattr(hint, "__name__", str(hint))
            raise InputError(f"checkpoint: {path}: expected {name} to be a {kind}, found {type(value).__name__}")


def _inside(node: Any, keys: Sequence[str]) -> Any:
    """Entry of nested mappings; None if it does not exist."""
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _fits(value: Any, hint: Any) -> bool:
    """Whether `value` matches a type hint of `Checkpoint`."""
    if hint is Any:
        return True
    if get_origin(hint) is UnionType:
        return any(_fits(value, option) for option in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(element, get_args(hint)[0]) for element in value)
    if get_origin(hint) is dict:
        key, value_hint = get_args(hint)
        return isinstance(value, dict) and all(_fits(k, key) and _fits(v, value_hint) for k, v in value.items())
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)
