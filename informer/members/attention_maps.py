"""Attention maps of a model: the `weights` of every layer and head on some windows."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.data.windows import Batch
from informer.members.network import ForecastModel, model_output
from informer.networks.attention.base import Attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

MAX_WEIGHTS = 1 << 28
"""Limit on the weights of one layer on one window, 1 GiB in float32; larger maps are skipped."""
MAX_CELLS = 256
"""Cells per side to which a longer map is thinned, about the pixels available in a figure."""


@dataclass(kw_only=True, slots=True)
class AttentionMap:
    """One layer on some windows.

    Args:
        layer_name: name of the layer, such as `encoder 1.2`; see `ForecastModel.attention_layers`.
        lengths: number of queries and of keys.
        weights: on the CPU; see `thinned`.
    """

    layer_name: str
    lengths: tuple[int, int]
    weights: Float[Tensor, "w h rows columns"]


@torch.inference_mode()
def attention_maps(model: ForecastModel, batch: Batch) -> list[AttentionMap]:
    """Attention maps of every layer, in execution order; puts the model into eval mode.

    A layer that runs several times has the map of its last run, in which the decoder reads its own forecasts; a layer
    that runs with one query at a time has one row per run. Layers over `MAX_WEIGHTS` are skipped with a warning.
    """
    model.eval()
    inputs: dict[str, list[tuple[Tensor, ...]]] = {}
    layers = model.attention_layers()
    with ExitStack() as hooks:
        for place, layer in layers.items():
            hooks.callback(layer.attention.register_forward_pre_hook(partial(_note, inputs, place)).remove)
        model_output(model, batch)
    maps = (_map(place, layers[place].attention, layer_inputs) for place, layer_inputs in inputs.items())
    return [attention_map for attention_map in maps if attention_map is not None]


def attention_figures(model: ForecastModel, batch: Batch, names: Sequence[str]) -> Iterator[tuple[str, "Figure"]]:
    """A picture of the map of each layer, by its name; `names` are those of the windows."""
    from informer.base.plots import plot_attention

    for each in attention_maps(model, batch):
        of, lengths = each.layer_name, each.lengths
        yield of, plot_attention(each.weights.numpy(), lengths=lengths, rows=names, layer_name=of)


def _note(inputs: dict[str, list[tuple[Tensor, ...]]], place: str, _: Attention, operands: tuple[Tensor, ...]) -> None:
    before = inputs.setdefault(place, [])
    if operands[0].shape[2] > 1:
        before.clear()
    before.append(operands[:2])


def _map(place: str, attention: Attention, inputs: list[tuple[Tensor, ...]]) -> AttentionMap | None:
    """The map of one run, or of all runs with one query each; None if it is too large."""
    q, k = inputs[0]
    n_heads, lengths = q.shape[1], (len(inputs) * q.shape[2], k.shape[2])
    if n_heads * lengths[0] * lengths[1] > MAX_WEIGHTS:
        log.warning(f"{place}: {n_heads} maps of {lengths[0]} x {lengths[1]} do not fit into memory and are skipped")
        return None
    # window by window: the matrices of all windows may not fit into memory
    weights = [
        thinned(torch.cat([attention.weights(q[i : i + 1], k[i : i + 1]).float() for q, k in inputs], dim=2)).cpu()
        for i in range(len(q))
    ]
    return AttentionMap(layer_name=place, lengths=lengths, weights=torch.cat(weights))


def thinned(weights: Float[Tensor, "w h l s"]) -> Float[Tensor, "w h rows columns"]:
    """Max-pooled by magnitude to at most MAX_CELLS per side, so that single keys remain visible."""
    cells = min(weights.shape[2], MAX_CELLS), min(weights.shape[3], MAX_CELLS)
    highest, lowest = F.adaptive_max_pool2d(weights, cells), -F.adaptive_max_pool2d(-weights, cells)
    return torch.where(highest >= -lowest, highest, lowest)
