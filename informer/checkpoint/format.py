"""The checkpoint: one file with a trained model and everything needed to use it, as plain data without code.

Files come from untrusted sources: reading one executes no code, and unpacks nothing to more than the file's size. A
SHA-256 of the content, independent of the file format, detects damaged files and files of another run. It is not a
signature: anyone who changes a file on purpose can also write a matching digest.
"""

import hashlib
import io
import json
import math
import pickle
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from informer.base.errors import InputError, listed
from informer.base.files import write_atomic
from informer.checkpoint.paths import FACTS, locate, read_facts, resolve_latest
from informer.config.conversion import check_plain, model_of, node_of
from informer.config.data import Calendar, DatasetConfig, without_location
from informer.config.training import LossKind


def content_digest(content: Any) -> str:
    """SHA-256 over nested containers of numbers, strings and dense tensors, as hex.

    The order of mappings, the difference between lists and tuples and the device of tensors do not change it, because
    file formats do not keep them.

    Raises:
        TypeError: `content` contains something else.
    """
    digest = hashlib.sha256()
    for chunk in _encoded(content):
        digest.update(chunk)
    return digest.hexdigest()


def _encoded(node: Any) -> Iterator[bytes | memoryview]:
    """Pieces of a prefix-free encoding: no content encodes to the beginning of another."""
    if isinstance(node, dict):
        yield f"dict {len(node)};".encode()
        for key in sorted(node, key=lambda key: (type(key).__name__, str(key))):
            yield from _encoded(key)
            yield from _encoded(node[key])
    elif isinstance(node, list | tuple) and node and all(type(element) is float for element in node):
        numbers = np.array(node, dtype="<f8")  # all at once: scalers contain many numbers
        yield f"floats {len(node)};".encode() + np.where(np.isnan(numbers), np.nan, numbers).tobytes()
    elif isinstance(node, list | tuple):
        yield f"list {len(node)};".encode()
        for element in node:
            yield from _encoded(element)
    elif isinstance(node, Tensor):
        # flipping a single bit of a .pt file can set requires_grad
        yield f"tensor {node.dtype} {list(node.shape)}{' requires_grad' * node.requires_grad};".encode()
        flat = node.detach().cpu().contiguous().reshape(-1)
        # torch calls a tensor of one element contiguous whatever its stride, which a flipped bit can change
        flat = flat if flat.stride() == (1,) else flat.clone(memory_format=torch.contiguous_format)
        yield flat.view(torch.uint8).numpy().data
    elif isinstance(node, str):
        text = node.encode(errors="surrogatepass")
        yield f"str {len(text)};".encode() + text
    elif isinstance(node, float):
        yield b"float nan;" if math.isnan(node) else f"float {node.hex()};".encode()
    elif node is None or isinstance(node, bool | int):
        yield f"{type(node).__name__} {node};".encode()
    else:
        raise TypeError(f"expected plain content, found {type(node).__name__}")


MAX_DEPTH = 20
"""Deepest nesting of containers; a configuration has four levels."""
SAFETENSORS = ".safetensors"
METADATA_KEY = "informer"
"""Key in the header of a .safetensors file; the header only maps strings to strings."""
CONTAINERS = (dict, list, tuple, set)


def read(path: Path) -> Any:
    """Read a file written by `torch.save` that contains plain containers and dense tensors, onto the CPU.

    Raises:
        InputError: it is not such a file, or its content is larger than the file.
    """
    try:
        _check_directory(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        n_bytes = _checked_size(content)
    except (pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise refusal(path, str(error).strip().split("\n")[0].split(". ")[0]) from error
    except MemoryError as error:
        raise refusal(path, "it asks for more memory than there is") from error
    except Exception as error:  # a damaged or forged pickle can raise anything
        raise refusal(path, f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}") from error
    if n_bytes > path.stat().st_size:
        raise refusal(path, "its tensors claim more numbers than the file holds")
    return content


def read_safetensors(path: Path) -> Any:
    """Read a file written by `safetensors_bytes`: the metadata, with the tensors as entry `weights`.

    Raises:
        InputError: it is not such a file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {})[METADATA_KEY])
            _checked_size(content)
            return content | {"weights": {name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118
    except Exception as error:  # as above
        raise refusal(path, f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}") from error


def safetensors_bytes(weights: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> bytes:
    """Content of a .safetensors file with dense tensors, and plain metadata as JSON under one key of the header."""
    dense = {name: tensor.contiguous() for name, tensor in weights.items()}
    return tensors_to_bytes(dense, {METADATA_KEY: json.dumps(metadata)})


def refusal(path: Path, reason: str) -> InputError:
    """The error for a file that is not a checkpoint."""
    return InputError(f"checkpoint: {path} cannot be read as a checkpoint: {reason}")


def _check_directory(path: Path) -> None:
    """Check that the zip archive is not compressed and its entries do not overlap, so it cannot unpack to more."""
    if not zipfile.is_zipfile(path):  # torch.load would try older formats on it, with warnings
        raise zipfile.BadZipFile("not an archive of tensors, or not the whole of it")
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size for entry in entries):
        raise zipfile.BadZipFile("its entries are compressed, which torch.save never does")
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise zipfile.BadZipFile("its entries overlap")


def _checked_size(content: Any) -> int:
    """Bytes of all tensors, checked to be dense; checks that no container occurs twice, since sharing could expand
    without end."""
    visited: set[int] = set()

    def size(node: Any, depth: int) -> int:
        if isinstance(node, Tensor):
            if node.layout is not torch.strided or node.is_quantized:
                raise pickle.UnpicklingError("expected only dense tensors")
            return node.numel() * node.element_size()
        if not isinstance(node, CONTAINERS):
            return 0
        # optimisers share short tuples of numbers and names between parameter groups
        is_small = isinstance(node, tuple) and len(node) <= 8 and not any(isinstance(one, CONTAINERS) for one in node)
        if (id(node) in visited and not is_small) or depth > MAX_DEPTH:
            raise pickle.UnpicklingError(f"expected containers in one place each, at most {MAX_DEPTH} deep")
        visited.add(id(node))
        children = [*node, *node.values()] if isinstance(node, dict) else node  # keys may be tuples
        return sum(size(child, depth + 1) for child in children)

    return size(content, 0)


FORMAT = 4
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

NAMES = "names"
"""Entry of `Checkpoint.data`: names of the training series."""

CATEGORIES = "categories"
"""Entry of `Checkpoint.data`: categories of each categorical column, in the order of their codes, which start at 1."""

STATIC = "static_covariates"
"""Entry of `Checkpoint.data`: inputs that are constant within a series."""

UNTIL = "until"
"""Entry of `Checkpoint.data`: last time of the rows of all parts."""

REFITTED = "refit"
"""Entry of `Checkpoint.data`: number of windows of the second fit, on all rows."""

MASE_SCALES = "mase_scales"
"""Entry of `Checkpoint.data`: denominators of MASE of each target on the training rows, by series."""

SHORTFALLS = "too_narrow"
"""Entry of `Checkpoint.data`: coverage in percent, on the test part, of intervals that are too narrow; see
`informer.scoring.intervals.shortfalls`."""


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
    def fitted_until(self) -> str | None:
        """Last time of the rows that the model was fitted or chosen on; None: not recorded."""
        until = self.data.get(UNTIL if self.refit else "trained_until")
        return until if isinstance(until, str) else None

    @property
    def calendar(self) -> Calendar:
        """The calendar marks that the network reads.

        Raises:
            InputError: unknown calendar fields, or the package for holidays is missing.
        """
        dataset = node_of(DatasetConfig, without_location(self.config.get("dataset", {})))
        return dataset.marked(model_of(self.config["model"]).embed)

    @property
    def quantiles(self) -> list[float]:
        """Quantile levels that the model forecasts; empty for point forecasts."""
        return self.config["loss"].get("quantiles", [])

    @property
    def loss(self) -> LossKind:
        """The loss, which says whether the network forecasts a distribution."""
        names = [kind.value for kind in LossKind]
        return LossKind(name) if (name := self.config["loss"].get("kind")) in names else LossKind.mse


PREFIXED = [name for name, hint in get_type_hints(Checkpoint).items() if hint == dict[str, Tensor] | None]
"""Entries with tensors besides the weights; in a .safetensors file their names follow that of the entry and a dot."""


def save(path: Path, checkpoint: Checkpoint) -> str:
    """Write atomically, so that the file is either complete or not there; returns the digest."""
    buffer, digest = io.BytesIO(), checkpoint.digest
    torch.save(checkpoint.entries() | {"digest": digest}, buffer)
    write_atomic(path, buffer.getvalue())
    return digest


def to_safetensors(checkpoint: Checkpoint) -> bytes:
    """Content of a .safetensors file that `load` can read: weights as tensors, everything else as metadata.

    The training state is left out, so training cannot be resumed from it.

    Raises:
        InputError: the safetensors library is not installed.
    """
    checkpoint = replace(checkpoint, training=None)
    others = {entry: getattr(checkpoint, entry) or {} for entry in PREFIXED}
    tensors = checkpoint.weights | {f"{entry}.{name}": x for entry, part in others.items() for name, x in part.items()}
    plain = {name: value for name, value in checkpoint.entries().items() if name != "weights"}
    return safetensors_bytes(tensors, plain | dict.fromkeys(PREFIXED) | {"digest": checkpoint.digest})


def load(path: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU, checked for damage and types.

    The configuration is only data: it must not name code or refer to anything outside itself.

    Args:
        path: a file or a run directory.

    Raises:
        InputError: there is no checkpoint, this program cannot read its format, it is damaged, has missing or
            unexpected entries or entries of a wrong type, its configuration is not plain data, or it is not the file
            that the run directory contained when the run ended.
    """
    of_run = resolve_latest(path).is_dir()
    path = locate(path)
    content = read_safetensors(path) if path.suffix == SAFETENSORS else read(path)
    if not isinstance(content, dict) or "format" not in content:
        raise InputError(f"checkpoint: {path} was not written by this program (it has no format number)")
    if path.suffix == SAFETENSORS:  # which has only one set of tensors
        for entry in PREFIXED:
            names = [name for name in content["weights"] if name.startswith(f"{entry}.")]
            tensors = {name.removeprefix(f"{entry}."): content["weights"].pop(name) for name in names}
            content[entry] = tensors or None
    if type(content["format"]) is not int or content["format"] != FORMAT:
        raise InputError(f"checkpoint: {path} has another format than {FORMAT}; train again or use a matching version")
    try:
        is_whole = content_digest({key: x for key, x in content.items() if key != "digest"}) == content.get("digest")
    except (TypeError, ValueError):  # types that are never written
        is_whole = False
    if not is_whole:
        raise InputError(f"checkpoint: {path} is damaged: its content is not what was written; use another copy")
    entries = {name: value for name, value in content.items() if name not in ("format", "digest")}
    expected = get_type_hints(Checkpoint)
    if differing := sorted(map(str, set(entries) ^ set(expected))):
        raise InputError(
            f"checkpoint: {path}: expected the entries of this version, {listed(differing)} missing or unknown; train "
            "again or use a matching version"
        )
    _check_types(path, {name: (entries[name], hint) for name, hint in expected.items()})
    check_plain(entries["config"], f"checkpoint: {path}")
    for entry, required in READ_DIRECTLY.items():
        inside = {".".join((entry, *keys)): (_inside(entries[entry], keys), hint) for keys, hint in required.items()}
        _check_types(path, inside)
    # a run that is still running has noted no digest
    noted = read_facts(path.parent).get("digests", {}).get(path.name) if of_run else None
    if noted is not None and noted != content["digest"]:
        raise InputError(
            f"checkpoint: {path} is not the one that {path.with_name(FACTS)} describes; put the run's own file back, "
            f"or name the file itself: checkpoint={path}"
        )
    return Checkpoint(**entries | {"val_loss": float(entries["val_loss"])})


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
