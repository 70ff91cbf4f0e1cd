"""Published implementations of attention mechanisms, from q, k, v [b h l e] to the output (for the benchmark).

They are in the extra `bench` (`pip install -e '.[bench]'`) and imported when they are built, so that a package that is
missing, or does not work with the installed torch, does not affect the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from einops import rearrange
from torch import Tensor, nn

from informer.networks.attention.base import AttentionSpec

N_FEATURES, PROJ_LEN, N_HASHES, BLOCK = 266, 64, 4, 64
WINDOW = 32
"""Divides the lengths: local-attention pads others with keys that it then attends to."""


class Function(nn.Module):
    """A function of q, k, v as a module, with the modules whose parameters it uses."""

    def __init__(self, function: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[b h l e] three times -> [b h l e]."""
        return self.function(q, k, v)


@dataclass(kw_only=True, frozen=True, slots=True)
class Package:
    """One package: our corresponding mechanism with its parameters, and how far both compute the same."""

    ours: str
    build: Callable[[AttentionSpec], nn.Module]
    params: Callable[[int], Mapping[str, Any]] = field(default=lambda length: {})
    """Parameters of ours at a length."""
    note: str
    causal: bool = True
    """Has a causal form."""


class _Given(nn.Module):
    """Replaces a projection by a given output."""

    def __init__(self, given: dict[str, Tensor], name: str) -> None:
        super().__init__()
        self.given, self.name = given, name

    def forward(self, x: Tensor) -> Tensor:
        return self.given[self.name]


def performer(spec: AttentionSpec) -> nn.Module:
    """performer-pytorch: random features of the softmax kernel."""
    from performer_pytorch import FastAttention

    return FastAttention(spec.d_head, nb_features=N_FEATURES, causal=spec.causal)


def linformer(spec: AttentionSpec) -> nn.Module:
    """linformer: its layer without the four projections, so that both start from q, k, v."""
    from linformer import LinformerSelfAttention

    width = spec.n_heads * spec.d_head
    layer = LinformerSelfAttention(width, spec.len_k, k=PROJ_LEN, heads=spec.n_heads)
    layer.to_out = nn.Identity()
    inputs: dict[str, Tensor] = {}
    layer.to_q, layer.to_k, layer.to_v = (_Given(inputs, name) for name in "qkv")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        inputs.update(zip("qkv", (rearrange(x, "b h l e -> b l (h e)") for x in (q, k, v)), strict=True))
        return rearrange(layer(inputs["q"]), "b l (h e) -> b h l e", h=spec.n_heads)

    return Function(attend, layer)


def reformer(spec: AttentionSpec) -> nn.Module:
    """reformer-pytorch: hashing with shared queries and keys; q is used for both."""
    from reformer_pytorch import LSHAttention

    lsh = LSHAttention(bucket_size=BLOCK, n_hashes=N_HASHES, causal=spec.causal)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, *_ = lsh(q.flatten(0, 1), v.flatten(0, 1))
        return out.unflatten(0, q.shape[:2])

    return Function(attend, lsh)


def local(spec: AttentionSpec) -> nn.Module:
    """local-attention: |i - j| <= window."""
    from local_attention import LocalAttention

    return LocalAttention(WINDOW, causal=spec.causal, exact_windowsize=True, autopad=True, use_rotary_pos_emb=False)


def linear_transformer(spec: AttentionSpec) -> nn.Module:
    """linear-attention-transformer: softmax over features and softmax over positions."""
    from linear_attention_transformer.linear_attention_transformer import causal_linear_attn, linear_attn

    return Function(partial(causal_linear_attn, bucket_size=1) if spec.causal else linear_attn)


PACKAGES: dict[str, Package] = {
    "performer-pytorch": Package(
        ours="performer",
        build=performer,
        params=lambda length: {"n_features": N_FEATURES},
        note=f"{N_FEATURES} random features each, drawn separately",
    ),
    "linformer": Package(
        ours="linformer",
        build=linformer,
        params=lambda length: {"proj_len": PROJ_LEN},
        note=f"{PROJ_LEN} projected rows; ours has a projection for every head, theirs one for all",
        causal=False,
    ),
    "reformer-pytorch": Package(
        ours="reformer",
        build=reformer,
        params=lambda length: {"n_buckets": max(2, 2 * length // BLOCK), "n_hashes": N_HASHES},
        note=f"{N_HASHES} hashes, blocks of {BLOCK} keys, of which a row reads two (ours, not causal, three); theirs "
        "takes queries for keys, and a pair found by several hashes several times",
    ),
    "local-attention": Package(
        ours="truncated",
        build=local,
        params=lambda length: {"window": WINDOW},
        note=f"the same result, window {WINDOW}",
    ),
    "linear-attention-transformer": Package(
        ours="efficient",
        build=linear_transformer,
        note="the same result up to a constant; causal, theirs has one sum of weights for all features",
    ),
}
