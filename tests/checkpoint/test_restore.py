"""The content of a checkpoint is checked before anything is built from it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from entry_points import Trained, call
from forgery import content_of, write_forged

from informer import checkpoint
from informer.base.errors import InputError
from informer.build import attention_names, attention_node, build_model, resolve_decoder
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import restore_model
from informer.config.conversion import to_plain
from informer.config.model import CalendarEmbed, InformerConfig
from informer.config.training import TrainConfig
from informer.networks.models.base import ModelDims

DIMS = {"enc_in": 2, "c_out": 1, "mark_sizes": (1, 1), "seq_len": 24, "label_len": 7, "pred_len": 5}
DATA = {"path": "own.csv", "sha256": "0" * 64, "time_col": "date"}
SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_stacks": [2, 1], "dropout": 0.0}


def scaler_of(n_columns: int) -> dict[str, Any]:
    one = {"kind": "standard", "center": [0.0] * n_columns, "scale": [2.0] * n_columns}
    return {"kind": "standard", "shared": None, "own": {"first": one}}


def saved(attn: dict[str, Any], **model: Any) -> tuple[torch.nn.Module, Checkpoint]:
    """A network with fresh weights, and a checkpoint of it."""
    torch.manual_seed(0)
    chosen = InformerConfig(**(SMALL | model))
    slots = {"attn": attn, "decoder_attn": resolve_decoder(attn, {})[0], "cross_attn": attention_node("full")}
    network = build_model(chosen, ModelDims(**DIMS), **slots)
    lengths = {name: DIMS[name] for name in ("seq_len", "label_len", "pred_len")}
    content = Checkpoint(
        config=to_plain(TrainConfig(model=chosen, **slots, **lengths)), dims=dict(DIMS), inputs=["a", "b"],
        targets=["a"], future_covariates=[], frequency="h", scaler=scaler_of(2),
        weights=network.state_dict(), data=dict(DATA), epoch=1, step=1, val_loss=0.5,
    )  # fmt: skip
    return network.eval(), content


def batch(size: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(24, 2), (24, 2), (12, 2), (12, 2)]
    return [torch.rand(size, *shape, generator=generator) for shape in shapes]


def refused(content: Checkpoint, part: str) -> None:
    with pytest.raises(InputError, match=part) as caught:
        restore_model(content)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", attention_names())
def test_every_mechanism_comes_back(name: str, tmp_path: Path) -> None:
    """Red if a mechanism needs values to lay its arrays out, or saves what a reader refuses."""
    network, content = saved(attention_node(name))
    checkpoint.save(tmp_path / "best.pt", content)
    assert torch.equal(restore_model(checkpoint.load(tmp_path / "best.pt"))(*batch()), network(*batch()))


def test_laying_out_leaves_no_trace() -> None:
    """Red if a module's constants, imported meanwhile, lose their values."""
    network, content = saved(attention_node("bigbird_etc"))
    for _ in range(2):
        assert torch.equal(restore_model(content)(*batch()), network(*batch()))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"seq_len": 10**9}, "at most 1048576"),
        ({"pred_len": 10**18}, "at most 1048576"),
        ({"enc_in": 10**12}, "columns read: expected 1000000000000, found 2"),
        ({"c_out": 10**12}, "columns forecast"),
        ({"targets": (1,)}, r"positions of columns targets: expected \[0\], found \[1\]"),
        ({"targets": (0, 1)}, r"positions of columns targets: expected \[0\], found \[0, 1\]"),
        ({"known": (1,)}, r"positions of columns known over the horizon: expected \[\], found \[1\]"),
        ({"mark_sizes": [10**14]}, "weights do not fit|tables in addition to its weights"),
        ({"mark_sizes": "many"}, "expected|no network fits"),
        ({"surplus": 1}, "no network fits its configuration"),
        ({"seq_len": 23}, "seq_len: expected 24 as configured, found 23"),
    ],
)
def test_sizes_of_the_data(change: dict[str, Any], part: str) -> None:
    """Fails if a size is used before it was compared with columns, configuration and weights."""
    _, content = saved(attention_node("prob"))
    content.dims |= change
    for name in content.config.keys() & change.keys():
        content.config[name] = content.config[name] if change[name] == 23 else change[name]
    refused(content, part)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"d_model": 10**9}, "Storage size calculation overflowed"),
        ({"d_model": 10**6}, "enc_embedding.value.weight: expected .1000000, 2, 3"),
        ({"d_ff": 10**12}, "weights do not fit"),
        ({"encoder_stacks": [10**9]}, "layers, but only"),
        ({"decoder_layers": 10**9}, "layers, but only"),
        ({"embed": "learned"}, "weights do not fit"),
        ({"embed": "no such"}, "saved configuration"),
        ({"d_model": "wide"}, "saved configuration"),
        ({"n_heads": 3}, "expected a multiple of model.n_heads=3"),
        ({"surplus": 1}, "saved configuration"),
    ],
)
def test_sizes_of_the_network(change: dict[str, Any], part: str) -> None:
    """Red if the network is built before its arrays were compared with the weights."""
    _, content = saved(attention_node("prob"))
    content.config["model"] |= change
    refused(content, part)


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("performer", {"n_features": 10**12}, "weights do not fit"),
        ("prob", {"surplus": 5}, "no parameter 'surplus'"),
        ("full", {"_target_": "informer.networks.attention.base.AttentionSpec"}, "is not an Attention"),
        ("full", {"_target_": "informer.networks.attention.base.torch.nn.Linear"}, "does not exist"),
    ],
)
def test_parameters_of_the_mechanism(name: str, change: dict[str, Any], part: str) -> None:
    _, content = saved(attention_node(name))
    content.config["attn"] |= change
    refused(content, part)


def test_tables_that_no_weight_pays_for() -> None:
    """Red if arrays that are computed at start are not counted: 8 numbers a row, but a million rows."""
    _, content = saved(attention_node("full"), embed=CalendarEmbed.fixed)
    content.dims["mark_sizes"] = [10**9, 1]
    refused(content, "MiB of tables in addition to its weights")


@pytest.mark.parametrize(
    ("entry", "value", "part"),
    [
        ("inputs", ["a"], "columns read: expected 2, found 1"),
        ("targets", ["c"], "column 'c' is used but not read"),
        ("future_covariates", ["d"], "column 'd' is used but not read"),
        ("frequency", "never", "frequency 'never'"),
        ("scaler", scaler_of(1), "columns of a scaler: expected 2, found 1"),
        ("scaler", {}, "scaler: expected kind, shared and own"),
    ],
)
def test_columns(entry: str, value: Any, part: str) -> None:
    """Fails if a list of columns that does not fit the network is accepted."""
    _, content = saved(attention_node("full"))
    setattr(content, entry, value)
    refused(content, part)


def forged(trained: Trained, path: Path, **entries: Any) -> Path:
    write_forged(path, content_of(trained.run_dir / "best.pt") | entries)
    return path


def config_of(trained: Trained) -> dict[str, Any]:
    return torch.load(trained.run_dir / "best.pt", weights_only=True)["config"]


@pytest.mark.parametrize("slot", ["attn", "decoder_attn", "cross_attn", "optim", "dataset"])
@pytest.mark.parametrize("target", ["os.system", "informer.networks.attention.full.os.system", "torch.nn.Linear", 3])
def test_a_configuration_that_names_code(
    slot: str, target: object, folder: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if a `_target_` outside the mechanisms gets as far as an import."""
    config = config_of(trained)
    config[slot] = config[slot] | {"_target_": target, "command": "touch exploded"}
    path = forged(trained, folder / "forged.pt", config=config)
    with pytest.raises(InputError, match=r"expected a _target_ below informer\.networks\.attention, found"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    "asks", [{"target": "${oc.env:SECRET}"}, {"targets": ["${oc.env:SECRET}"]}, {"dataset": {"${oc.env:SECRET}": 1}}]
)
def test_a_configuration_that_asks_for_a_secret(
    asks: dict[str, Any], folder: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if OmegaConf resolves references in a file, as a value, in a list or as a key."""
    monkeypatch.setenv("SECRET", "xyzzy")
    config = config_of(trained) | asks
    outcome = call("eval", f"checkpoint={forged(trained, folder / 'forged.pt', config=config)}")
    assert outcome.status == 2
    assert "contains a reference: '${oc.env:SECRET}'" in outcome.err
    assert "xyzzy" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ({"format": 99}, "another format than"),
        ({"format": None}, "another format than"),
        ({"inputs": "abc"}, "expected inputs to be a list, found str"),
        ({"inputs": [1]}, "expected inputs to be a list"),
        ({"weights": {"a": 1.0}}, "expected weights to be a dict"),
        ({"weights": {1: torch.ones(1)}}, "expected weights to be a dict"),
        ({"epoch": "3"}, "expected epoch to be a int, found str"),
        ({"frequency": 3}, "expected frequency to be a str, found int"),
        ({"surplus": 3}, "expected the entries of this version, surplus missing or unknown"),
    ],
)
def test_entries_of_the_wrong_kind(entries: dict[str, Any], part: str, folder: Path, trained: Trained) -> None:
    """Red if an entry is used before its type was looked at."""
    with pytest.raises(InputError, match=part):
        checkpoint.load(forged(trained, folder / "forged.pt", **entries))
