"""Read files of tensors from untrusted sources: no code is executed, nothing unpacks to more than the file's size."""

import json
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from informer.errors import InputError

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
        _check_containers(content)
    except (pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise refusal(path, str(error).strip().split("\n")[0].split(". ")[0]) from error
    except MemoryError as error:
        raise refusal(path, "it asks for more memory than there is") from error
    except Exception as error:  # a damaged or forged pickle can raise anything
        raise refusal(path, f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}") from error
    if sum(x.numel() * x.element_size() for x in _leaves(content) if isinstance(x, Tensor)) > path.stat().st_size:
        raise refusal(path, "its tensors claim more numbers than the file holds")
    return content


def read_safetensors(path: Path) -> Any:
    """Read a file written by `safetensors_bytes`: the metadata, with the tensors as entry `weights`.

    Raises:
        InputError: it is not such a file, or the safetensors library is not installed.
    """
    library = _safetensors()
    try:
        with library.safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {})[METADATA_KEY])
            _check_containers(content)
            return content | {"weights": {name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118
    except Exception as error:  # as above
        raise refusal(path, f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}") from error


def safetensors_bytes(weights: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> bytes:
    """Content of a .safetensors file with dense tensors, and plain metadata as JSON under one key of the header."""
    _safetensors()
    from safetensors.torch import save

    dense = {name: tensor.contiguous() for name, tensor in weights.items()}
    return save(dense, {METADATA_KEY: json.dumps(metadata)})


def _safetensors() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise InputError("a .safetensors file needs safetensors: pip install safetensors") from error
    return safetensors


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


def _check_containers(content: Any) -> None:
    """Check that no container occurs twice, since sharing could expand without end, and that all tensors are dense."""
    visited: set[int] = set()

    def visit(node: Any, depth: int) -> None:
        if isinstance(node, Tensor) and (node.layout is not torch.strided or node.is_quantized):
            raise pickle.UnpicklingError("expected only dense tensors")
        if not isinstance(node, CONTAINERS) or _is_small(node):
            return
        if id(node) in visited or depth > MAX_DEPTH:
            raise pickle.UnpicklingError(f"expected containers in one place each, at most {MAX_DEPTH} deep")
        visited.add(id(node))
        for child in _children(node):
            visit(child, depth + 1)

    visit(content, 0)


def _is_small(node: Any) -> bool:
    """Whether it is a short tuple of numbers and names; optimisers share these between parameter groups."""
    return isinstance(node, tuple) and len(node) <= 8 and not any(isinstance(element, CONTAINERS) for element in node)


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from node  # keys may be tuples
        yield from node.values()
    else:
        yield from node


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, CONTAINERS):
        for child in _children(node):
            yield from _leaves(child)
    else:
        yield node
