"""LSTMa against its formula in loops of float64, its teacher forcing, and every command."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from informer.checkpoint import build_model
from informer.members.network import ForecastModel
from informer.networks import ModelDims
from informer.networks.models.lstma import LstmaConfig

DIMS = ModelDims(
    enc_in=4, c_out=2, mark_sizes=(1, 1), seq_len=9, label_len=3, pred_len=5, targets=(2, 0), known=(1,)
)  # fmt: skip
ADDITIVE = {"_target_": "informer.networks.attention.additive.AdditiveAttention"}


def network(attn: dict = ADDITIVE, quantiles: tuple[float, ...] = (), **config: object) -> ForecastModel:
    torch.manual_seed(0)
    small = LstmaConfig(**({"d_model": 6, "dropout": 0.0} | config))
    net = build_model(small, DIMS, attn=attn, decoder_attn=attn, cross_attn=attn, quantiles=quantiles)
    return net.double().eval()


def windows(batch: int = 3) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    shapes = [(9, 4), (9, 2), (8, 4), (8, 2)]
    return [torch.randn(batch, *shape, generator=draw, dtype=torch.float64) for shape in shapes]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def cell(x: np.ndarray, h: np.ndarray, c: np.ndarray, w: Callable[[str], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One LSTM cell (Hochreiter & Schmidhuber 1997, Gers et al. 2000); gates: input, forget, candidate, output."""
    i, f, g, o = np.split(w("weight_ih") @ x + w("bias_ih") + w("weight_hh") @ h + w("bias_hh"), 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def by_the_formula(net: ForecastModel, inputs: list[Tensor], actual: Tensor | None = None) -> np.ndarray:
    """Every row of every window, with the teacher's value wherever there is one."""
    state = {name: part.numpy() for name, part in net.network.state_dict().items()}
    heads, layers = net.network.attention.n_heads, net.network.encoder.num_layers

    def affine(name: str, x: np.ndarray) -> np.ndarray:
        return state[f"{name}.weight"] @ x + state[f"{name}.bias"]

    def stack(name: str, x: np.ndarray, carried: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        for layer in range(layers):
            carried[layer] = cell(x, *carried[layer], lambda key, at=layer: state[f"{name}.{key}_l{at}"])
            x = carried[layer][0]
        return x

    forecasts = []
    for window in range(len(inputs[0])):
        enc_x, enc_mark, dec_x, dec_mark = (part[window].numpy() for part in inputs)
        carried = [(np.zeros(6), np.zeros(6)) for _ in range(layers)]
        h = []
        for x, mark in zip(enc_x, enc_mark, strict=True):
            embedded = affine("enc_value", x) + affine("enc_calendar.project", mark)
            h.append(stack("encoder", embedded, carried))
        y, rows = enc_x[-1, [2, 0]], []
        for j in range(5):
            read = np.concatenate([y, dec_x[3 + j, [1]]])
            embedded = affine("dec_value", read) + affine("dec_calendar.project", dec_mark[3 + j])
            query, context = affine("attention.query", carried[-1][0]), []
            for head in np.split(np.arange(6), heads):
                scores = np.array(
                    [
                        state["attention.attention.weight"].ravel()[head]
                        @ np.tanh((query + affine("attention.key", one))[head])
                        for one in h
                    ]
                )
                weights = np.exp(scores) / np.exp(scores).sum()
                context.append(sum(weight * one[head] for weight, one in zip(weights, h, strict=True)))
            s = stack("decoder", np.concatenate([embedded, *context]), carried)
            y = affine("head", np.concatenate([s, *context, embedded]))
            rows.append(y)
            if actual is not None:
                y = actual[window, j].numpy()
        forecasts.append(rows)
    return np.array(forecasts)


@pytest.mark.parametrize("config", [{}, {"layers": 2}, {"n_heads": 3}], ids=str)
@torch.no_grad()
def test_it_equals_the_formula(config: dict) -> None:
    """Red if a state, a weight of the attention or what is fed back is another, or the context of a row is not an input
    of the cell whose state is read by the next row's."""
    net, inputs = network(**config), windows()
    np.testing.assert_allclose(net(*inputs).numpy(), by_the_formula(net, inputs), rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_teacher_gives_the_actual_values() -> None:
    """Always at a share of 1, never at 0; red if the teacher shows the row that is to be forecast."""
    net, inputs = network(), windows()
    actual = torch.randn(3, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    net.network.begin_step(0.0)
    output = net(*inputs, actual=actual)
    np.testing.assert_allclose(output.numpy(), by_the_formula(net, inputs, actual), rtol=0, atol=1e-12)
    net.network.begin_step(1.0)
    assert torch.equal(net(*inputs, actual=actual), net(*inputs))


@torch.no_grad()
def test_a_teacher_speaks_less_and_less() -> None:
    """Linear in the steps that are done, drawn for each window: a row is forecast from one or the other."""
    net, inputs = network(teacher_forcing=0.8, teacher_forcing_end=0.2), windows(1)
    many = [part.expand(4000, *part.shape[1:]) for part in inputs]
    actual = torch.full((4000, 5, 2), 7.0, dtype=torch.float64)
    alone, taught = net(*inputs)[:, 1], None
    for past, share in ((0.0, 0.8), (0.5, 0.5), (1.0, 0.2)):
        net.network.begin_step(past)
        second = net(*many, actual=actual)[:, 1]
        is_alone = torch.isclose(second, alone).all(dim=1)
        assert abs(float((~is_alone).double().mean()) - share) < 0.03
        taught = second[~is_alone][0] if taught is None else taught
        assert torch.allclose(second[~is_alone], taught)


@torch.no_grad()
def test_the_median_of_quantiles_is_fed_back() -> None:
    """Red if another quantile is: forecasts would differ from those of a head with only the median."""
    net, inputs = network(quantiles=(0.1, 0.5, 0.9)), windows()
    output = net(*inputs)
    assert output.shape == (3, 5, 2, 3)
    assert (output.diff(dim=-1) > 0).all()
    alone = network()
    shared = {name: part for name, part in net.state_dict().items() if not name.startswith("network.head")}
    rows = net.network.head.linear
    alone.load_state_dict(shared | {"network.head.weight": rows.weight[1::3], "network.head.bias": rows.bias[1::3]})
    torch.testing.assert_close(output[..., 1], alone(*inputs), rtol=0, atol=1e-12)
