"""A family of networks and an attention mechanism as users write them, outside the package."""

MODULE = '''
"""One linear map from history to forecast, the same for all columns."""

from dataclasses import dataclass

import torch
from torch import nn

from informer.networks.models.base import Network
from informer.networks.models.config import ModelConfig, size


@dataclass(kw_only=True)
class ToyConfig(ModelConfig):
    family: str = "toy"
    hidden: int = size(4, "Width of the network.", ge=1)


class Toy(Network):
    CONFIG = ToyConfig

    def __init__(self, config, dims, attentions, quantiles=()):
        super().__init__(config, dims, attentions, quantiles)
        self.inner = nn.Linear(dims.seq_len, config.hidden)
        self.outer = nn.Linear(config.hidden, dims.pred_len * max(1, len(quantiles)))
        self.positions = list(dims.target_positions)

    def forward(self, enc_x, enc_mark, dec_x, dec_mark):
        history = enc_x[:, :, self.positions].transpose(1, 2)
        out = self.outer(torch.tanh(self.inner(history)))
        if self.quantiles:
            return out.unflatten(2, (-1, len(self.quantiles))).transpose(1, 2)
        return out.transpose(1, 2)
'''

YAML = """
family: toy
embed: timeF
skip: none
hidden: 8
"""

ATTENTION = '''
"""Attention to the mean of all keys, less by a share."""

from informer.networks.attention.base import Attention


class Mean(Attention):
    """The mean of the values, times `share`."""

    CAUSAL = False
    COST = "O(L) time and memory"
    unread = ("query", "key")

    def __init__(self, spec, *, share=1.0):
        super().__init__(spec)
        self.share = share

    def forward(self, q, k, v):
        return self.share * v.mean(dim=2, keepdim=True).expand(-1, -1, q.shape[2], -1)
'''

ENTRY_POINTS = """
[informer.attention]
mean = means:Mean
missing = means:Median

[informer.models]
packed = toys:Toy
"""
