"""A digest over plain content, whatever file it is written to: damage, and files of another run, show as another one.

It is no signature: who changes a file on purpose can write a matching digest.
"""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


def content_digest(content: Any) -> str:
    """SHA-256 over containers of numbers, texts and dense tensors, as hex.

    The order of a mapping does not count, nor whether a sequence is a list or a tuple, nor the device of a tensor: what
    the formats of files lose is not part of the content.

    Raises:
        TypeError: it holds something else.
    """
    digest = hashlib.sha256()
    for part in _encoded(content):
        digest.update(part)
    return digest.hexdigest()


def _encoded(node: Any) -> Iterator[bytes | memoryview]:
    """The pieces of an encoding in which no content is the beginning of another."""
    if isinstance(node, dict):
        yield f"dict {len(node)};".encode()
        for key in sorted(node, key=lambda key: (type(key).__name__, str(key))):
            yield from _encoded(key)
            yield from _encoded(node[key])
    elif isinstance(node, list | tuple) and node and all(type(part) is float for part in node):
        numbers = np.array(node, dtype="<f8")  # at once: scalers hold many
        yield f"floats {len(node)};".encode() + np.where(np.isnan(numbers), np.nan, numbers).tobytes()
    elif isinstance(node, list | tuple):
        yield f"list {len(node)};".encode()
        for part in node:
            yield from _encoded(part)
    elif isinstance(node, Tensor):
        # a single bit of a .pt file makes a tensor one that asks for gradients
        yield f"tensor {node.dtype} {list(node.shape)}{' requires_grad' * node.requires_grad};".encode()
        flat = node.detach().cpu().contiguous().reshape(-1)
        # torch calls a single number contiguous whatever its stride, which a bit of a .pt file can change
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
