"""Attention replaced in a trained network: every mechanism in every slot; the parts that both have are kept."""

from pathlib import Path
from typing import Any

import pytest
import torch
from entry_points import SMALL, Trained, done
from torch import Tensor

from informer.base.errors import InputError
from informer.build import attention_class, attention_names, attention_node, build_model
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import Transfer, warm_start
from informer.config.conversion import to_plain
from informer.config.model import InformerConfig
from informer.config.training import SLOTS, TrainConfig
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.base import ModelDims

DIMS = {"enc_in": 2, "c_out": 2, "mark_sizes": (1,), "seq_len": 12, "label_len": 5, "pred_len": 4}
CONFIG = InformerConfig(d_model=8, n_heads=2, d_ff=10, encoder_stacks=[2], decoder_layers=2)
INNER = {
    "attn": [f"network.encoder.stacks.0.layers.{i}.attention.attention." for i in (0, 1)],
    "decoder_attn": [f"network.decoder.layers.{i}.self_attention.attention." for i in (0, 1)],
    "cross_attn": [f"network.decoder.layers.{i}.cross_attention.attention." for i in (0, 1)],
}
"""How the names of the tensors begin that belong to a slot's mechanism."""


def can_serve(name: str, slot: str) -> bool:
    cls = attention_class(attention_node(name)["_target_"])
    return {"attn": True, "decoder_attn": cls.CAUSAL, "cross_attn": cls.CROSS}[slot]


PLACES = [(slot, name) for slot in SLOTS for name in attention_names() if can_serve(name, slot)]


def nodes(**chosen: Any) -> dict[str, Any]:
    """The three slots, full attention where nothing else is chosen by name or node."""
    given = {slot: chosen.get(slot, "full") for slot in SLOTS}
    return {slot: attention_node(node) if isinstance(node, str) else node for slot, node in given.items()}


def network(slots: dict[str, Any], seed: int) -> ForecastModel:
    torch.manual_seed(seed)
    return build_model(CONFIG, ModelDims(**DIMS), **slots)


def saved(slots: dict[str, Any], seed: int = 0) -> Checkpoint:
    """A network whose every tensor differs from that of a fresh one."""
    weights = {name: value + 1 for name, value in network(slots, seed).state_dict().items()}
    return Checkpoint(
        config=to_plain(TrainConfig(model=CONFIG, **slots)), dims=DIMS, inputs=["a", "b"], targets=["a", "b"],
        future_covariates=[], frequency="h", scaler={}, data={}, weights=weights, epoch=1, step=1, val_loss=0.0,
    )  # fmt: skip


def swapped(older: Checkpoint, slots: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor], Transfer]:
    """Tensors of a network before and after its warm start, and what was transferred."""
    model = network(slots, seed=5)
    fresh = {name: value.clone() for name, value in model.state_dict().items()}
    given = {"inputs": older.inputs, "targets": older.targets, "mark_sizes": DIMS["mark_sizes"]}
    transfer = warm_start(model, older, **given, slots=slots)
    return fresh, model.state_dict(), transfer


def check(older: Checkpoint, slots: dict[str, Any], kept_inside: set[str]) -> Transfer:
    """Outside the replaced mechanisms all tensors are the checkpoint's; inside, only the named ones, and the rest is
    new."""
    fresh, weights, transfer = swapped(older, slots)
    inner = tuple(prefix for slot in SLOTS if slots[slot] != older.config[slot] for prefix in INNER[slot])
    for name, value in weights.items():
        is_kept = not name.startswith(inner) or name in kept_inside
        expected: Tensor = older.weights[name] if is_kept else fresh[name]
        assert torch.equal(value, expected), name
        assert (name in transfer.copied, name in transfer.new) == (is_kept, not is_kept), name
    assert set(transfer.left_out) == set(older.weights) - set(weights)
    assert transfer.swapped == [slot for slot in SLOTS if slots[slot] != older.config[slot]]
    return transfer


@pytest.mark.parametrize(("slot", "name"), PLACES)
def test_every_mechanism_takes_the_place_of_full(slot: str, name: str) -> None:
    """Red if a mechanism with parameters is an error, or the weights of another slot are not loaded."""
    slots = nodes(**{slot: name})
    full = saved(nodes())
    transfer = check(full, slots, set())
    assert all(name.startswith(tuple(INNER[slot])) for name in transfer.new)
    learnt = {name for name, _ in network(slots, 0).named_parameters(remove_duplicate=False)}
    assert (learnt & set(transfer.new)) == learnt - set(full.weights)
    assert not transfer.left_out


@pytest.mark.parametrize(("slot", "name"), PLACES)
def test_full_takes_the_place_of_every_mechanism(slot: str, name: str) -> None:
    transfer = check(saved(nodes(**{slot: name})), nodes(), set())
    assert not transfer.new


@pytest.mark.parametrize(("slot", "name"), PLACES)
def test_the_same_mechanism_keeps_everything(slot: str, name: str) -> None:
    """Buffers too. Fails if a configuration from before a parameter existed counts as another mechanism."""
    slots = nodes(**{slot: name})
    older = saved(slots)
    older.config[slot] = {"_target_": older.config[slot]["_target_"]} if name not in TWINS else older.config[slot]
    *_, transfer = swapped(older, slots)
    assert (transfer.new, transfer.left_out, transfer.swapped) == ([], [], [])


TWINS = ("dot", "performer_trig", "sparse_strided", "synthesizer_dense", "sparse_fixed")
"""Mechanisms whose yaml differs from their class's defaults."""


def inside(slot: str, *names: str) -> set[str]:
    return {prefix + name for prefix in INNER[slot] for name in names}


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("etc", "bigbird_etc", ()),  # 4 summaries a head, and 2
        ("etc", attention_node("bigbird_etc") | {"n_global": 4}, ("summary.g",)),
        ("bigbird", attention_node("bigbird") | {"seed": 1}, ()),
        ("linformer", attention_node("linformer") | {"proj_len": 5}, ()),
        ("vq", attention_node("vq") | {"momentum": 0.5}, ("codes", "counts")),
        ("vq", attention_node("vq") | {"n_codes": 3}, ()),
        ("em", attention_node("em") | {"n_steps": 1}, ("bases",)),
        ("performer", "performer_trig", ()),
        ("additive", "bilinear", ()),
        ("synthesizer", "synthesizer_dense", ()),
    ],
)
def test_what_two_mechanisms_learn_alike_is_kept(old: str, new: Any, kept: tuple[str, ...]) -> None:
    """Red if a shared parameter is lost, a buffer of the old one is kept, or a learned buffer is drawn again."""
    check(saved(nodes(attn=old)), nodes(attn=new), inside("attn", *kept))


def test_another_size_is_refused_next_to_other_attention() -> None:
    """Red if a swapped mechanism hides a tensor of another shape elsewhere."""
    older = saved(nodes())
    older.weights["network.encoder.stacks.0.layers.0.attention.query.weight"] = torch.zeros(4, 8)
    with pytest.raises(InputError, match=r"attention.query.weight is \(8, 8\) here and \(4, 8\) there"):
        swapped(older, nodes(attn="linformer"))


def test_the_log_names_what_is_fresh(folder: Path, trained: Trained) -> None:
    """From the command line, where the decoder's self-attention stays what it was."""
    arguments = ["dataset=sample", *SMALL, "trainer.max_steps=1", "run_dir=run", "attn=linformer"]
    outcome = done("train", *arguments, "attn@decoder_attn=prob", f"init_from={trained.run_dir}")
    line = next(line for line in outcome.out.splitlines() if line.startswith("init_from="))
    assert "; other attention: attn; fresh: " in line
    assert "encoder.stacks.0.layers.1.attention.attention.proj_v" in line
    assert "decoder" not in line
