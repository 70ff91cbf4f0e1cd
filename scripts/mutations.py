"""Mutations: entries of nested containers deleted or replaced, and files replaced by something else."""

import copy
import itertools
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

DELETED = object()
REPLACEMENTS: list[Any] = [
    *(DELETED, None, True, 0, -1, 1, 10**30, -(2**63), 2.5, 1e308, math.nan, math.inf),
    *("", "x", "1", "\0", "a\nb", "${x}", "9" * 40, "999999999999999h"),
    *([], [1], ["a"], [[]], {}, {"a": 1}, torch.zeros(2), torch.ones(3, dtype=torch.int8)),
]
SPOILT: list[Callable[[Tensor], Tensor]] = [
    lambda x: x * math.nan,
    lambda x: x.to(torch.int8),
    lambda x: x.to(torch.complex64),
    lambda x: x.reshape(-1)[1:],
]
"""What else may take the place of a tensor."""

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in itertools.pairwise("abcdefghij")
)
TEXTS = ["", "[]", "3", "null", "{", "a: b: c", "\0", "[" * 5000, '{"a":' * 5000, "x" * 2_000_000, BOMB]
KINDS: list[str | bytes] = [*TEXTS, b"\xff\xfe\x00", "a folder", "a pipe", "a link to nothing", "nothing"]
"""What may be in the place of a text file of a run."""

Keys = tuple[Any, ...]


def places(node: Any, above: Keys = ()) -> Iterator[Keys]:
    """Key paths of all entries, containers included; elements of tuples are left out."""
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*above, key)
            yield from places(node[key], (*above, key))


def mutated(content: Any, keys: Keys, value: Any) -> Any:
    """A copy with another value at one key path; `value` may be a function of the present value.

    Only the containers on the path are copied; the copy shares all others with `content`.
    """
    changed = node = copy.copy(content)
    for key in keys[:-1]:
        node[key] = copy.copy(node[key])
        node = node[key]
    if value is DELETED:
        del node[keys[-1]]
    else:
        node[keys[-1]] = value(node[keys[-1]]) if callable(value) else value
    return changed


def draw(content: Any, rng: np.random.Generator, *, texts: bool = False) -> tuple[Any, str]:
    """A copy with one random change, and its description.

    Args:
        content: nested containers.
        texts: the copy will be written as text, so no value becomes a tensor.
    """
    candidates = list(places(content))
    return replaced(content, candidates[rng.integers(len(candidates))], rng, texts=texts)


def replaced(content: Any, keys: Keys, rng: np.random.Generator, *, texts: bool = False) -> tuple[Any, str]:
    """The same, at this place."""
    node = content
    for key in keys:
        node = node[key]
    values = [*REPLACEMENTS, *(SPOILT if isinstance(node, Tensor) else ())]
    values = [value for value in values if not (texts and isinstance(value, Tensor))]
    value = values[rng.integers(len(values))]
    return mutated(content, keys, value), f"{keys}: {'deleted' if value is DELETED else value!r:.40}"


def spoil(path: Path, kind: str | bytes) -> None:
    """Replace a file by one of KINDS."""
    path.unlink(missing_ok=True)
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link to nothing":
        path.symlink_to("nowhere")
    elif kind != "nothing":
        path.write_bytes(kind if isinstance(kind, bytes) else kind.encode())


def flipped(original: bytes, rng: np.random.Generator) -> bytes:
    """A copy with one bit changed."""
    content = bytearray(original)
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(content)
