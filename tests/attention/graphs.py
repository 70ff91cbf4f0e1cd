"""Compile every mechanism and print, as JSON, how each attempt ended (run by test_contract.py).

A program of its own, because the import hook of the tests decorates every function with shape checks, and the compiler
cannot trace those.
"""

import gc
import json
import sys

import torch

from informer.checkpoint import build_attention
from informer.networks import AttentionSpec

N_HEADS, LENGTH, D_HEAD = 3, 97, 8


def difference(name: str, causal: bool) -> float:
    """Largest difference of outputs and input gradients from the eager mechanism, of one graph without breaks and
    without generated C++."""
    torch.manual_seed(0)
    rounds = {"n_hashes": 2} if name == "reformer" else {}  # the least that overlap; each takes a second to trace
    attn = build_attention(name, AttentionSpec(N_HEADS, D_HEAD, LENGTH, LENGTH, causal), **rounds).double().eval()
    inputs = tuple(torch.randn(2, N_HEADS, LENGTH, D_HEAD, dtype=torch.float64, requires_grad=True) for _ in "qkv")
    pairs = []
    torch._dynamo.reset()
    for module in (attn, torch.compile(attn, backend="aot_eager", fullgraph=True)):
        out = module(*inputs)
        gradients = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
        pairs.append([out, *(x for x in gradients if x is not None)])
    return max(float((a - b).detach().abs().max()) for a, b in zip(*pairs, strict=True))


def attempt(name: str, causal: bool) -> float | str:
    """The difference, or the error that kept the graph from being made."""
    try:
        return difference(name, causal)
    except Exception as error:  # whatever it is becomes the failure of this mechanism's test
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    gc.set_threshold(100_000, 20, 20)  # as in conftest.py
    cases = [argument.split(":") for argument in sys.argv[1:]]
    print(json.dumps({f"{name}:{causal}": attempt(name, causal == "True") for name, causal in cases}))
