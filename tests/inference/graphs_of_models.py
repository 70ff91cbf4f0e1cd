"""Export a network of every mechanism and print, as JSON, how far its numbers are off (run by test_export.py); without
arguments the rows of the table in docs/attention.md.

A program of its own, because the import hook of the tests decorates every function with shape checks, and those cannot
be traced. Numbers are compared here again, with other windows and numbers of windows than the export itself looks at.
"""

import gc
import io
import json
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from onnx_registry import registry_once
from torch import Tensor

from informer import InputError
from informer.checkpoint import Checkpoint, attention_names, attention_node, build_model, restore_model
from informer.checkpoint.format import DataFacts
from informer.checkpoint.network import resolve_decoder
from informer.config.commands import ExportFormat
from informer.config.conversion import to_plain
from informer.config.training import LossConfig, LossKind, TrainConfig
from informer.data.scaler import PanelScaler
from informer.inference.export import INPUTS, example, exported
from informer.networks import InformerConfig, ModelDims
from informer.networks.models.config import CalendarEmbed

DIMS = {"enc_in": 2, "c_out": 1, "mark_sizes": (1, 1, 1), "seq_len": 40, "label_len": 9, "pred_len": 14}

VARIANTS = ["by_steps", "eliminate", "global_tokens", "no_calendar", "quantiles", "student_t"]
"""Networks with something about them beyond a mechanism."""


def checkpoint(
    attn: dict[str, Any],
    quantiles: Sequence[float] = (),
    embed: CalendarEmbed = "timeF",
    kind: LossKind = "quantile",
    **sizes: Any,
) -> Checkpoint:
    """One layer of encoder and decoder with the mechanism `attn`, fresh weights."""
    torch.manual_seed(0)
    config = InformerConfig(d_model=8, n_heads=2, d_ff=12, **({"encoder_stacks": [1]} | sizes), embed=embed)
    dims = DIMS | ({"mark_sizes": ()} if embed == "none" else {})
    slots = {"attn": attn, "decoder_attn": resolve_decoder(attn, {})[0], "cross_attn": attention_node("full")}
    lengths = {key: DIMS[key] for key in ("seq_len", "label_len", "pred_len")}
    loss = LossConfig(kind=kind if quantiles else "mse", quantiles=[*quantiles])
    scaler = {"kind": "none", "center": [0.0, 0.0], "scale": [1.0, 1.0], "constant": []}
    network = build_model(config, ModelDims(**dims), **slots, quantiles=quantiles, loss=kind)
    return Checkpoint.model_construct(
        config=to_plain(TrainConfig(model=config, loss=loss, **slots, **lengths)),
        inputs=["a", "b"], targets=["a"], frequency="D", data=DataFacts.model_construct(),
        scaler=PanelScaler.model_validate({"kind": "none", "shared": scaler, "by_series": {}}),
        weights=network.state_dict(),
    )  # fmt: skip


def reader(content: bytes, form: ExportFormat) -> Callable[[tuple[Tensor, ...]], Tensor]:
    """The code of a user of the file."""
    if form == "torch_export":
        module = torch.export.load(io.BytesIO(content)).module()
        return lambda windows: module(*windows)
    import onnxruntime

    session = onnxruntime.InferenceSession(content)
    return lambda windows: torch.from_numpy(
        np.asarray(session.run(None, {name: x.numpy() for name, x in zip(INPUTS, windows, strict=True)})[0])
    )


def network(name: str) -> Checkpoint:
    """A fresh network with the mechanism of this name, or a variant; reformer with two rounds, the least that overlap,
    because each takes seconds to trace."""
    full, etc = attention_node("full"), attention_node("etc") | {"radius": 3, "n_global": 0}
    own = {"global_tokens": 2, "encoder_stacks": [2]}
    variants = {
        "by_steps": lambda: checkpoint(full, decoding="step", embed_padding="causal"),
        "quantiles": lambda: checkpoint(full, quantiles=(0.1, 0.5, 0.9, 0.99)),
        "student_t": lambda: checkpoint(full, quantiles=(0.1, 0.5, 0.99), kind="student_t"),
        "no_calendar": lambda: checkpoint(full, embed="none"),
        "global_tokens": lambda: checkpoint(etc, **own),
        "eliminate": lambda: checkpoint(full, distil="eliminate", encoder_stacks=[2]),
    }
    rounds = {"n_hashes": 2} if name == "reformer" else {}
    return variants[name]() if name in variants else checkpoint(attention_node(name) | rounds)


def difference(saved: Checkpoint, form: ExportFormat) -> float | str:
    """Largest difference for 1, 5 and 64 windows, or the error message."""
    try:
        run = reader(exported(saved, form)[0], form)
    except InputError as error:
        return str(error)
    model = restore_model(saved)
    with torch.no_grad():
        return max(float((run(x) - model(*x)).abs().max()) for x in (example(saved, n) for n in (1, 5, 64)))


def outcome(found: float | str) -> str:
    """What the table in docs/attention.md says of it."""
    if isinstance(found, float):
        return "same numbers" if found < 1e-5 else f"differs by {found:.0e}"
    return "refused"


def read_once() -> None:
    """Let the export's own look at its file and that of `reader` share one reading of the same bytes."""
    load = torch.export.load
    module_of = lru_cache(maxsize=1)(lambda content: load(io.BytesIO(content)))
    torch.export.load = lambda file: module_of(file.getvalue())


def differences(name: str, forms: list[ExportFormat]) -> dict[str, float | str]:
    """That of each format; all are made from one program, which takes longer than most conversions."""
    trace, saved, programs = torch.export.export, network(name), []

    def traced_once(*arguments: Any, **options: Any) -> torch.export.ExportedProgram:
        if not programs:
            programs.append(trace(*arguments, **options))
        return programs[0]

    torch.export.export = traced_once
    try:
        return {f"{form}:{name}": difference(saved, form) for form in forms}
    finally:
        torch.export.export = trace


if __name__ == "__main__":
    gc.set_threshold(100_000, 20, 20)  # as in conftest.py
    read_once()
    registry_once()
    forms: dict[str, list[ExportFormat]] = {}
    for argument in sys.argv[1:]:
        form, name = argument.split(":")
        forms.setdefault(name, []).append(form)
    if forms:
        print(json.dumps({key: found for name in forms for key, found in differences(name, forms[name]).items()}))
    else:
        for name in (*attention_names(), *VARIANTS):
            found = differences(name, ["torch_export", "onnx"]).values()
            print(f"| `{name}` | {' | '.join(outcome(each) for each in found)} |", flush=True)
