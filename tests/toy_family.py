"""A family of networks from outside the package, as a user writes one: a file for the tests of the protocol."""

MODULE = '''
"""One linear map from history to forecast, the same for all columns."""

import torch
from torch import nn

from informer.config.fields import setting, settings
from informer.config.model import ModelConfig
from informer.networks.models.base import Network


@settings
class ToyConfig(ModelConfig):
    family: str = "toy"
    hidden: int = setting(4, "Width of the network.", ge=1)


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
