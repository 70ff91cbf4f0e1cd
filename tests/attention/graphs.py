"""Compile and export every mechanism and print, as JSON, how each attempt ended (run by test_contract.py).

A program of its own, because the import hook of the tests decorates every function with shape checks, and the compiler
cannot trace those.
"""

import gc
import json
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from informer.build import build_attention
from informer.networks.attention.base import AttentionSpec

N_HEADS, LENGTH, D_HEAD = 3, 97, 8


def compiled(attn: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    """One graph, no breaks, without generated C++."""
    torch._dynamo.reset()
    return torch.compile(attn, backend="aot_eager", fullgraph=True)


def exported(attn: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    """The program that `torch.export` stores."""
    return torch.export.export(attn, inputs).module()


def difference(transform: Callable[..., nn.Module], name: str, causal: bool) -> float:
    """Largest difference of outputs and input gradients from the eager mechanism."""
    torch.manual_seed(0)
    rounds = {"n_hashes": 2} if name == "reformer" else {}  # the least that overlap; each takes a second to trace
    attn = build_attention(name, AttentionSpec(N_HEADS, D_HEAD, LENGTH, LENGTH, causal), **rounds).double().eval()
    inputs = tuple(torch.randn(2, N_HEADS, LENGTH, D_HEAD, dtype=torch.float64, requires_grad=True) for _ in "qkv")
    pairs = []
    for module in (attn, transform(attn, inputs)):
        out = module(*inputs)
        gradients = torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)
        pairs.append([out, *(x for x in gradients if x is not None)])
    return max(float((a - b).detach().abs().max()) for a, b in zip(*pairs, strict=True))


def attempt(transform: Callable[..., nn.Module], name: str, causal: bool) -> float | str:
    """The difference, or the error that kept the graph from being made."""
    try:
        return difference(transform, name, causal)
    except Exception as error:  # whatever it is becomes the failure of this mechanism's test
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    gc.set_threshold(100_000, 20, 20)  # as in conftest.py
    cases = [argument.split(":") for argument in sys.argv[1:]]
    print(
        json.dumps(
            {
                f"{kind}:{name}:{causal}": attempt(globals()[kind], name, causal == "True")
                for kind, name, causal in cases
            }
        )
    )
