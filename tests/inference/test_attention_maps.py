"""Maps are the matrices that the layers realise: held against products of the projections, written out here."""

import math

import numpy as np
import pytest
import torch

from informer.checkpoint import build_model
from informer.data.windows import Batch, DataUnits
from informer.members.attention_maps import attention_maps
from informer.members.network import ForecastModel
from informer.networks import InformerConfig, ModelDims
from informer.networks.layers.attention_layer import AttentionLayer

FULL = {"_target_": "informer.networks.attention.full.FullAttention"}
DIMS = ModelDims(enc_in=3, c_out=2, mark_sizes=(1, 1), seq_len=14, label_len=5, pred_len=4)


@pytest.fixture
def model() -> ForecastModel:
    torch.manual_seed(0)
    config = InformerConfig(d_model=6, n_heads=3, d_ff=8, encoder_stacks=[2, 1])
    return build_model(config, DIMS, attn=FULL, decoder_attn=FULL, cross_attn=FULL)


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    shapes = [(14, 3), (14, 2), (9, 3), (9, 2), (4, 2)]
    read = (torch.rand(2, *shape, generator=generator) for shape in shapes)
    units = DataUnits(torch.zeros(2, 2).double(), torch.ones(2, 2).double())
    return Batch(*read, units=units, series=torch.zeros(2).long())


def softmax_rows(
    layer: AttentionLayer, x: torch.Tensor, memory: torch.Tensor, head: int, *, causal: bool
) -> np.ndarray:
    """softmax(q k^T / sqrt(e)) of one item, row by row."""
    q, k = (project(rows)[:, 2 * head : 2 * head + 2] for project, rows in ((layer.query, x), (layer.key, memory)))
    scores = q @ k.T / math.sqrt(2)
    seen = torch.ones_like(scores).tril().bool() if causal else torch.ones_like(scores).bool()
    return scores.masked_fill(~seen, -math.inf).softmax(dim=-1).detach().numpy()


def test_first_layers_against_their_projections(model: ForecastModel, batch: Batch) -> None:
    """Red if a map is of another layer, head or window, or of training mode."""
    maps = {each.layer_name: each for each in attention_maps(model.train(), batch)}
    sizes = {"encoder 1.1": (14, 14), "encoder 1.2": (7, 7), "encoder 2.1": (7, 7), "decoder 1": (4, 9)}
    sizes["cross 1"] = (4, 14)
    assert {place: each.lengths for place, each in maps.items()} == sizes
    assert {place: tuple(each.weights.shape) for place, each in maps.items()} == {
        place: (2, 3, *lengths) for place, lengths in sizes.items()
    }
    layers = model.attention_layers()
    encoded, decoded = (
        embed(values, marks)
        for embed, values, marks in [
            (model.network.enc_embedding, batch.enc_x, batch.enc_mark),
            (model.network.dec_embedding, batch.dec_x, batch.dec_mark),
        ]
    )
    for place, inputs, causal in [
        ("encoder 1.1", encoded, False),
        ("encoder 2.1", encoded[:, -7:], False),
        ("decoder 1", decoded, True),
    ]:
        for window, head in np.ndindex(2, 3):
            expected = softmax_rows(layers[place], inputs[window], inputs[window], head, causal=causal)
            expected = expected[-sizes[place][0] :]  # the last decoder layer asks from the rows of the forecast
            np.testing.assert_allclose(maps[place].weights[window, head], expected, atol=1e-6)
