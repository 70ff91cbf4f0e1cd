"""What the attention of a trained model looks at: `weights` of every layer and head on given windows."""

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.attention.base import Attention
from informer.data.windows import Batch
from informer.inference.network import model_output
from informer.model import Informer

log = logging.getLogger(__name__)

MAX_WEIGHTS = 1 << 28
"""Weights of one layer on one window above which it is left out: 1 GiB in float32, and as much again to make them."""
MAX_CELLS = 256
"""Cells a side to which a longer map is thinned, about the pixels that a figure has for it."""


@dataclass(kw_only=True, slots=True)
class AttentionMap:
    """One layer on some windows.

    Args:
        place: such as `encoder 1.2`, see `Informer.attention_layers`.
        lengths: queries and keys.
        weights: the matrices on the CPU, thinned where they are long: each cell keeps its strongest weight.
    """

    place: str
    lengths: tuple[int, int]
    weights: Float[Tensor, "w h rows columns"]


@torch.inference_mode()
def attention_maps(model: Informer, batch: Batch) -> list[AttentionMap]:
    """The maps of every layer, in the order in which they run; the model is put into eval mode."""
    model.eval()
    maps: list[AttentionMap] = []
    with ExitStack() as hooks:
        for place, layer in model.attention_layers().items():
            hook = layer.attention.register_forward_pre_hook(partial(_note, maps, place))
            hooks.callback(hook.remove)
        model_output(model, batch)
    return maps


def _note(maps: list[AttentionMap], place: str, attention: Attention, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    q, k, _ = inputs
    n_heads, lengths = q.shape[1], (q.shape[2], k.shape[2])
    if n_heads * lengths[0] * lengths[1] > MAX_WEIGHTS:
        log.warning(f"{place}: {n_heads} maps of {lengths[0]} x {lengths[1]} do not fit into memory and are left out")
        return
    # window by window: the matrices of all at once are what memory may not hold
    weights = [thinned(attention.weights(q[i : i + 1], k[i : i + 1]).float()).cpu() for i in range(len(q))]
    maps.append(AttentionMap(place=place, lengths=lengths, weights=torch.cat(weights)))


def thinned(weights: Float[Tensor, "w h l s"]) -> Float[Tensor, "w h rows columns"]:
    """At most MAX_CELLS a side; a cell keeps the weight of largest size below it, so that single keys stay in sight."""
    cells = min(weights.shape[2], MAX_CELLS), min(weights.shape[3], MAX_CELLS)
    highest, lowest = F.adaptive_max_pool2d(weights, cells), -F.adaptive_max_pool2d(-weights, cells)
    return torch.where(highest >= -lowest, highest, lowest)
