"""The authors' weights in our network: against arrays that their code made, and their modules' names and shapes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from informer.checkpoint.informer2020 import DEFAULTS, from_informer2020, our_name
from informer.networks.models.informer import Informer

PARITY = Path(__file__).parent / "parity"
CASES = ["informer_full_timef", "informer_stack_fixed"]
INPUTS = ("x_enc", "x_mark_enc", "x_dec", "x_mark_dec")
SMALL = {"enc_in": 3, "dec_in": 3, "c_out": 2, "seq_len": 12, "label_len": 5, "out_len": 4, "d_model": 8, "n_heads": 2}


def loaded(case: str) -> tuple[Informer, dict[str, torch.Tensor]]:
    stored = np.load(PARITY / f"{case}.npz")
    arrays = {name: torch.as_tensor(stored[name]) for name in stored.files if name != "config"}
    state = {name.removeprefix("state/"): value for name, value in arrays.items() if name.startswith("state/")}
    return from_informer2020(state, json.loads(str(stored["config"]))), arrays


def named_gradients(model: Informer, names: list[str]) -> dict[str, torch.Tensor]:
    """Gradients of our parameters under their names, in their shapes (their feed-forward weights end in a 1)."""
    parameters = dict(model.named_parameters())
    gradients = {}
    for name in names:
        gradient = parameters[our_name(name)].grad
        assert gradient is not None, name
        gradients[name] = gradient[..., None] if re.search(r"\.conv[12]\.weight$", name) else gradient
    return gradients


@pytest.mark.parametrize("case", CASES)
def test_outputs_loss_and_every_gradient_agree(case: str) -> None:
    """Red if a weight lands in the wrong place, running statistics are not taken over, or batch statistics, head
    merging or any path of the backward pass differ."""
    model, arrays = loaded(case)
    output = model.eval()(*(arrays[name] for name in INPUTS))
    torch.testing.assert_close(output, arrays["eval_output"], rtol=0, atol=1e-10)
    output = model.train()(*(arrays[name] for name in INPUTS))
    torch.testing.assert_close(output, arrays["train_output"], rtol=0, atol=1e-10)
    loss = (output - arrays["target"]).square().mean()
    torch.testing.assert_close(loss, arrays["train_loss"], rtol=0, atol=1e-10)
    loss.backward()
    names = [name.removeprefix("grad/") for name in arrays if name.startswith("grad/")]
    assert len(names) == len(dict(model.named_parameters()))
    for name, gradient in named_gradients(model, names).items():
        torch.testing.assert_close(gradient, arrays[f"grad/{name}"], rtol=0, atol=1e-10, msg=name)


def informer2020_state(config: dict) -> dict[str, torch.Tensor]:
    """Names and shapes that their constructors give, random values: written from their modules' definitions."""
    settings = DEFAULTS | config
    d_model, d_ff = settings["d_model"], settings["d_ff"] or 4 * settings["d_model"]
    inner = settings["n_heads"] * (d_model // settings["n_heads"])
    generator = torch.Generator().manual_seed(0)
    state: dict[str, torch.Tensor] = {}

    def add(name: str, *shape: int) -> None:
        state[name] = torch.randn(*shape, generator=generator, dtype=torch.float64)

    def linear(name: str, n_in: int, n_out: int, *kernel: int) -> None:
        add(f"{name}.weight", n_out, n_in, *kernel)
        add(f"{name}.bias", n_out)

    def norm(name: str) -> None:
        add(f"{name}.weight", d_model)
        add(f"{name}.bias", d_model)

    def attention(name: str) -> None:
        for part in ("query", "key", "value"):
            linear(f"{name}.{part}_projection", d_model, inner)
        linear(f"{name}.out_projection", inner, d_model)

    def feed_forward(name: str) -> None:
        linear(f"{name}.conv1", d_model, d_ff, 1)
        linear(f"{name}.conv2", d_ff, d_model, 1)

    for side in ("enc", "dec"):
        linear(f"{side}_embedding.value_embedding.tokenConv", settings[f"{side}_in"], d_model, 3)
        add(f"{side}_embedding.position_embedding.pe", 1, 5000, d_model)
        calendar = f"{side}_embedding.temporal_embedding"
        if settings["embed"] == "timeF":
            n_features = {"h": 4, "t": 5, "s": 6, "m": 1, "a": 1, "w": 2, "d": 3, "b": 3}[settings["freq"]]
            linear(f"{calendar}.embed", n_features, d_model)
        else:
            tables = {"hour": 24, "weekday": 7, "day": 32, "month": 13}
            tables |= {"minute": 4} if settings["freq"] == "t" else {}
            for field, size in tables.items():
                inside = "emb.weight" if settings["embed"] == "fixed" else "weight"
                add(f"{calendar}.{field}_embed.{inside}", size, d_model)

    is_stack = config.get("class") == "InformerStack"
    e_layers = settings["e_layers"] if is_stack else [settings["e_layers"]]
    for i, n_layers in enumerate(e_layers):
        encoder = f"encoder.encoders.{i}" if is_stack else "encoder"
        for j in range(n_layers):
            layer = f"{encoder}.attn_layers.{j}"
            attention(f"{layer}.attention")
            feed_forward(layer)
            norm(f"{layer}.norm1")
            norm(f"{layer}.norm2")
        for j in range(n_layers - 1 if settings["distil"] else 0):
            conv = f"{encoder}.conv_layers.{j}"
            linear(f"{conv}.downConv", d_model, d_model, 3)
            norm(f"{conv}.norm")
            add(f"{conv}.norm.running_mean", d_model)
            state[f"{conv}.norm.running_var"] = torch.rand(d_model, generator=generator, dtype=torch.float64) + 0.5
            state[f"{conv}.norm.num_batches_tracked"] = torch.tensor(3)
        norm(f"{encoder}.norm")
    for j in range(settings["d_layers"]):
        layer = f"decoder.layers.{j}"
        attention(f"{layer}.self_attention")
        attention(f"{layer}.cross_attention")
        feed_forward(layer)
        for k in (1, 2, 3):
            norm(f"{layer}.norm{k}")
    norm("decoder.norm")
    linear("projection", d_model, settings["c_out"])
    return state


@pytest.mark.parametrize(
    "extra",
    [
        {"attn": "prob", "embed": "learned", "freq": "t", "e_layers": 2, "activation": "relu"},
        {"attn": "full", "embed": "learned", "freq": "d", "e_layers": 3, "d_layers": 3, "mix": False},
        {"attn": "full", "embed": "fixed", "freq": "b", "distil": False, "e_layers": 2, "d_ff": None},
        {"attn": "prob", "embed": "timeF", "freq": "w", "class": "InformerStack", "e_layers": [2, 1]},
        {"attn": "full", "embed": "timeF", "freq": "m", "d_model": 10, "n_heads": 4, "e_layers": 2},
    ],
    ids=str,
)
def test_every_argument_combination_loads_whole(extra: dict) -> None:
    """Red if a name is not mapped, a shape differs, or a parameter of ours gets no value of theirs."""
    config = SMALL | extra
    state = informer2020_state(config)
    model = from_informer2020(state, config).eval()
    ours = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, value in state.items():
        mine = ours[our_name(name)]
        expected = value.squeeze(-1) if ".conv" in name and value.ndim == 3 and value.shape[-1] == 1 else value
        expected = expected[0, : len(mine)] if name.endswith(".pe") else expected
        torch.testing.assert_close(mine.detach(), expected, rtol=0, atol=0, msg=name)
    mapped = {our_name(name) for name in state}
    assert {name for name, _ in model.named_parameters()} <= mapped
