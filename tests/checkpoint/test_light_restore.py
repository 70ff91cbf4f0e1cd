"""Restoring a network imports nothing of torch's compiler, which takes longer than the rest."""

import json
import os
import subprocess
import sys

import pytest
from entry_points import ROOT

PROGRAM = """
import json
import sys

import torch

from informer.build import attention_names, attention_node, build_model, resolve_decoder
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import restore_model
from informer.config.conversion import to_plain
from informer.config.model import InformerConfig
from informer.config.training import TrainConfig
from informer.networks.models.base import ModelDims
from informer.networks.models.lstma import LstmaConfig

LENGTHS = {"seq_len": 40, "label_len": 9, "pred_len": 14}
DIMS = {"enc_in": 2, "c_out": 1, "mark_sizes": (1, 1, 1), **LENGTHS}
SCALER = {"kind": "none", "center": [0.0, 0.0], "scale": [1.0, 1.0]}
imported = {}


def restore(what, config, slots):
    before = set(sys.modules)
    weights = build_model(config, ModelDims(**DIMS), **slots).state_dict()
    restored = restore_model(Checkpoint(
        config=to_plain(TrainConfig(model=config, **slots, **LENGTHS)), dims=DIMS, inputs=["a", "b"], targets=["a"],
        future_covariates=[], frequency="D", scaler={"kind": "none", "shared": SCALER, "own": {}}, data={},
        weights=weights, epoch=1, step=1, val_loss=0.0,
    )).state_dict()
    assert all(torch.equal(weights[name], restored[name]) for name in weights), what
    found = {module for module in set(sys.modules) - before if module in ("torch._dynamo", "torch._inductor")}
    imported[what] = sorted(found)


for name in attention_names():
    attn = attention_node(name)
    slots = {"attn": attn, "decoder_attn": resolve_decoder(attn, {})[0], "cross_attn": attention_node("full")}
    restore(name, InformerConfig(d_model=8, n_heads=2, d_ff=12), slots)
additive = attention_node("additive")
restore("lstma", LstmaConfig(d_model=8), {"attn": additive, "decoder_attn": additive, "cross_attn": additive})
print(json.dumps(imported))
"""


@pytest.mark.slow
def test_no_mechanism_imports_the_compiler() -> None:
    """Red if a constructor draws or computes on arrays that have no memory, or a module imports it at the top.

    A mechanism is named if it is the first that does.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.PIPE
    )
    imported = json.loads(done.stdout)
    assert len(imported) > 27
    assert {name: modules for name, modules in imported.items() if modules} == {}
