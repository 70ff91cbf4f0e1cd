"""Vectors of categories inside the networks, compared with the same networks fed with vectors made by hand."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from informer.checkpoint import build_model
from informer.members.network import ForecastModel
from informer.members.transform import CategoryColumns
from informer.networks import InformerConfig, ModelConfig, ModelDims
from informer.networks.models.lstma import LstmaConfig

SIZES = (0, 4, 0, 2, 0)
"""Numbers, four categories, numbers, two categories (known ahead), numbers."""
DIMS = ModelDims(
    enc_in=5, c_out=2, mark_sizes=(1,), seq_len=24, label_len=8, pred_len=4, targets=(2, 4), known=(3,),
    categories=SIZES,
)  # fmt: skip
FULL = {"_target_": "informer.networks.attention.full.FullAttention"}


def windows() -> tuple[Tensor, ...]:
    """Two windows whose decoder sees only column 3 over the horizon."""
    draw = torch.Generator().manual_seed(3)
    rows = torch.rand(2, 28, 5, generator=draw)
    for place, size in enumerate(SIZES):
        if size:
            rows[:, :, place] = torch.randint(0, size + 1, (2, 28), generator=draw).float()
    ahead = rows[:, 24:] * torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0])
    marks = torch.rand(2, 28, 1, generator=draw)
    return rows[:, :24], marks[:, :24], torch.cat([rows[:, 16:24], ahead], dim=1), marks[:, 16:]


def by_hand(columns: CategoryColumns, x: Tensor) -> Tensor:
    """Numbers, then vectors, row by row."""
    made = []
    for window in x:
        for row in window:
            parts = [row[[0, 2, 4]]]
            for table, place in zip(columns.tables, (1, 3), strict=True):
                code, weight = int(row[place]), table.weight.detach()
                mean = sum(weight) / len(weight)
                parts.append(weight[code - 1] - mean if code else torch.zeros_like(mean))
            made.append(torch.cat(parts))
    return torch.stack(made).reshape(*x.shape[:2], -1)


def network(config: ModelConfig, dims: ModelDims) -> ForecastModel:
    torch.manual_seed(0)
    return build_model(config, dims, attn=FULL, decoder_attn=FULL, cross_attn=FULL).eval()


SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 8}


@pytest.mark.parametrize(
    "config",
    [
        InformerConfig(**SMALL),
        InformerConfig(**SMALL, patch_len=4, channel_independent=True),
        InformerConfig(**SMALL, instance_norm=True, skip="ridge"),
        LstmaConfig(d_model=8),
    ],
    ids=["informer", "patches", "normalised", "lstma"],
)
def test_a_network_equals_one_that_is_fed_with_vectors(config: ModelConfig) -> None:
    """Red if vectors are at other places, are normalised, differ between encoder and decoder, or targets are missed."""
    net = network(config, DIMS)
    if isinstance(config, InformerConfig) and config.skip != "none":
        torch.nn.init.normal_(net.network.head.weight)  # which starts at zero
    # columns: three of numbers, two of the first category, one of the second
    known = (3, 4, 5) if isinstance(config, InformerConfig) else (5,)
    plain = network(config, replace(DIMS, enc_in=6, targets=(1, 2), known=known, categories=()))
    weights = {name: part for name, part in net.state_dict().items() if "categories." not in name}
    plain.load_state_dict(weights)
    enc_x, enc_mark, dec_x, dec_mark = windows()
    columns = net.transform.categories
    expected = plain(by_hand(columns, enc_x), enc_mark, by_hand(columns, dec_x), dec_mark)
    torch.testing.assert_close(net(enc_x, enc_mark, dec_x, dec_mark), expected)


def test_an_unseen_category_is_the_mean_of_the_others() -> None:
    columns = CategoryColumns((3,))
    seen = columns(torch.tensor([[[1.0], [2.0], [3.0]]]))
    torch.testing.assert_close(columns(torch.zeros(1, 1, 1))[0, 0], seen[0].mean(dim=0))
    assert not torch.allclose(seen[0, 0], seen[0, 1])
