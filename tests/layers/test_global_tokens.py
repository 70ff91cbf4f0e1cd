"""Learned tokens that go from layer to layer: the encoder by hand."""

import torch
from test_shortening import DIMS
from torch import Tensor

from informer.checkpoint import attention_node, build_model
from informer.networks import InformerConfig


def attended(layer: torch.nn.Module, tokens: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """What attention adds to tokens and to rows, of radius 2."""
    n_heads, e, out = layer.n_heads, layer.attention.spec.d_head, []

    def heads(projection: torch.nn.Module, x: Tensor) -> Tensor:
        return projection(x).unflatten(-1, (n_heads, -1))  # [b l h e]

    for ask in (tokens, rows):
        scores, values = [], []
        for x in (tokens, rows):
            part = torch.einsum("bihe,bjhe->bhij", heads(layer.query, ask), heads(layer.key, x)) / e**0.5
            if ask is x is rows:
                distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
                part = part.masked_fill(distance.abs() > 2, -torch.inf)
            scores.append(part)
            values.append(heads(layer.value, x))
        weights = torch.cat(scores, dim=-1).softmax(dim=-1)
        out.append(layer.out(torch.einsum("bhij,bjhe->bihe", weights, torch.cat(values, dim=1)).flatten(2)))
    return out[0], out[1]


def test_tokens_persist_from_layer_to_layer() -> None:
    """The encoder by hand. Fails if the tokens are initialised again in a layer, are shortened, or the decoder cannot
    read them."""
    torch.manual_seed(0)
    config = InformerConfig(d_model=6, n_heads=3, d_ff=10, dropout=0.0, encoder_stacks=[2, 1], global_tokens=3)
    full, etc = attention_node("full"), attention_node("etc") | {"radius": 2, "n_global": 0}
    net = build_model(config, DIMS, attn=etc, decoder_attn=full, cross_attn=full).double().eval()
    x, memory = torch.randn(2, 26, 6, dtype=torch.float64), []
    for stack in net.network.encoder.stacks:
        tokens, rows = stack.tokens.expand(2, -1, -1), x[:, -stack.length :]
        for i, layer in enumerate(stack.layers):
            added = attended(layer.attention, tokens, rows)
            sides = [layer.norm1(one + more) for one, more in zip((tokens, rows), added, strict=True)]
            tokens, rows = (layer.norm2(one + layer.feed_forward(one)) for one in sides)
            if i < len(stack.distils):
                rows = stack.distils[i](rows)
        memory += [stack.norm(tokens), stack.norm(rows)]
    torch.testing.assert_close(net.network.encoder(x), torch.cat(memory, dim=1), rtol=1e-10, atol=1e-10)
    assert net.network.encoder.out_length == 3 + 13 + 3 + 13
