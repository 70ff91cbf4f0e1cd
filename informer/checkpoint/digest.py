"""SHA-256 of a checkpoint's content, independent of the file format; detects damaged files and files of another run.

It is not a signature: anyone who changes a file on purpose can also write a matching digest.
"""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


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
