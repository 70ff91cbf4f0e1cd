"""Informer2020 (github.com/zhouhaoyi/Informer2020): its state dicts and constructor arguments -> our Informer.

The returned module is called like theirs, `m(x_enc, x_mark_enc, x_dec, x_mark_dec)`, with their marks: for `timeF` real
numbers in [-0.5, 0.5] (hour of day, day of week, day of month, day of year for freq h); for `fixed` and `learned` month
1-12, day 1-31, weekday 0-6, hour 0-23 and, for freq t, minute // 15.
"""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from informer.base.errors import FileError, InputError, one_of
from informer.checkpoint.network import attention_node, build_model
from informer.checkpoint.restore import check_layout
from informer.members.network import ForecastModel
from informer.networks.models.base import ModelDims
from informer.networks.models.config import InformerConfig

FAITHFUL_PROB = {
    "sampling": "per_query",
    "mean": "zero_fill",
    "context": "cumsum",
    "causal_selection": False,
    "row_dropout": False,
}
"""Parameters of `prob` that reproduce their ProbAttention, except that theirs also samples in eval mode."""

DEFAULTS: dict[str, Any] = {
    "factor": 5,
    "d_model": 512,
    "n_heads": 8,
    "d_layers": 2,
    "d_ff": 512,
    "dropout": 0.0,
    "attn": "prob",
    "embed": "fixed",
    "freq": "h",
    "activation": "gelu",
    "output_attention": False,
    "distil": True,
    "mix": True,
}
"""Default values of their constructors' arguments; `e_layers` is 3 for Informer and [3, 2, 1] for InformerStack."""
REQUIRED = ("enc_in", "dec_in", "c_out", "seq_len", "label_len", "out_len")

TIME_FEATURES = {"h": 4, "t": 5, "s": 6, "m": 1, "a": 1, "w": 2, "d": 3, "b": 3}
"""Real-valued marks of each of their frequencies."""
CALENDAR_FIELDS = {"month": 13, "day": 32, "weekday": 7, "hour": 24, "minute": 4}
"""Integer marks in column order, with the sizes of their embedding tables; minute only for freq t."""

RENAMES = [
    (r"^module\.", ""),
    (r"\.value_embedding\.tokenConv\.", ".value."),
    (r"\.position_embedding\.pe$", ".position"),
    (r"\.temporal_embedding\.embed\.", ".calendar.project."),
    (r"\.(query|key|value|out)_projection\.", r".\1."),
    (r"\.conv1\.", ".feed_forward.expand."),
    (r"\.conv2\.", ".feed_forward.contract."),
    (r"^encoder\.encoders\.", "encoder.stacks."),
    (r"^encoder\.(?!stacks\.)", "encoder.stacks.0."),
    (r"\.attn_layers\.", ".layers."),
    (r"\.conv_layers\.", ".distils."),
    (r"\.downConv\.", ".conv."),
    (r"^projection\.", "head."),
]
"""Their names -> ours, applied in this order (without calendar tables)."""


TABLES = re.compile(r"\.position$|\.calendar\.table_\d+$")
"""Our names of buffers that are computed at construction."""


def our_name(name: str) -> str:
    """The name in our state dict of one of their parameters or buffers."""
    table = re.search(r"\.temporal_embedding\.(\w+)_embed\.(emb\.)?weight$", name)
    if table:
        column = list(CALENDAR_FIELDS).index(table[1])
        ours = f"table_{column}" if table[2] else f"tables.{column}.weight"
        name = f"{name[: table.start()]}.calendar.{ours}"
    for pattern, replacement in RENAMES:
        name = re.sub(pattern, replacement, name)
    return f"network.{name}"


def from_informer2020(state_dict: Mapping[str, Tensor], config: Mapping[str, Any]) -> ForecastModel:
    """Convert their trained network.

    Args:
        state_dict: state dict of their `Informer` or `InformerStack` (a DataParallel prefix is removed).
        config: their constructor's arguments; `class` is "Informer" (default) or "InformerStack".

    Raises:
        InputError: a missing or unknown argument, or a state that does not fit the arguments.
    """
    arguments = complete(config)
    sizes, slots = (model_config(arguments), dims(arguments)), attention_nodes(arguments)
    ours = {our_name(name): _fit(name, value) for name, value in state_dict.items()}
    tables = {name: ours.pop(name) for name in [*ours] if TABLES.search(name)}
    check_layout(*sizes, slots, ours)
    model = build_model(*sizes, **slots)
    model.to(next(iter(ours.values())).dtype)
    model.load_state_dict(ours)
    buffers = dict(model.named_buffers())
    for name, table in tables.items():
        if name not in buffers:
            raise FileError(f"{name}: expected no such table for these arguments, found one")
        rows = table.squeeze(0)[: len(buffers[name])] if name.endswith(".position") else table
        if rows.shape != buffers[name].shape:
            raise FileError(f"{name}: expected shape {tuple(buffers[name].shape)}, found {tuple(rows.shape)}")
        buffers[name].copy_(rows)
    return model


def _fit(name: str, value: Tensor) -> Tensor:
    if name.endswith(".num_batches_tracked"):  # a count; casting the whole state makes it a float
        return value.long()
    return value.squeeze(-1) if re.search(r"\.conv[12]\.weight$", name) else value


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """Their constructor's arguments with its defaults filled in, checked."""
    classes = {"Informer": 3, "InformerStack": [3, 2, 1]}
    name = config.get("class", "Informer")
    if name not in classes:
        raise one_of("Informer2020 class", name, list(classes))
    valid_keys = {*REQUIRED, *DEFAULTS, "e_layers", "class", "device"}
    for key in config:
        if key not in valid_keys:
            raise one_of("Informer2020 argument", key, sorted(valid_keys))
    missing = [key for key in REQUIRED if key not in config]
    if missing:
        raise InputError(f"Informer2020 arguments missing: {', '.join(missing)}")
    for key, allowed in [("attn", ["prob", "full"]), ("embed", ["timeF", "fixed", "learned"])]:
        if key in config and config[key] not in allowed:
            raise one_of(f"Informer2020 {key}", config[key], allowed)
    if config.get("output_attention"):
        raise InputError("output_attention: expected false, found true; use the mechanisms' weights() instead")
    return DEFAULTS | {"e_layers": classes[name]} | dict(config)


def model_config(arguments: Mapping[str, Any]) -> InformerConfig:
    """Our sizes for their (complete) arguments."""
    e_layers = arguments["e_layers"]
    return InformerConfig(
        d_model=arguments["d_model"],
        n_heads=arguments["n_heads"],
        d_ff=arguments["d_ff"] or 4 * arguments["d_model"],
        encoder_stacks=[e_layers] if isinstance(e_layers, int) else list(e_layers),
        decoder_layers=arguments["d_layers"],
        dropout=arguments["dropout"],
        activation="relu" if arguments["activation"] == "relu" else "gelu",
        embed=arguments["embed"],
        distil="conv" if arguments["distil"] else "none",
        mix=arguments["mix"],
    )


def dims(arguments: Mapping[str, Any]) -> ModelDims:
    """Lengths, columns and marks given by their (complete) arguments."""
    freq = arguments["freq"]
    if freq not in TIME_FEATURES:
        raise one_of("Informer2020 freq", freq, list(TIME_FEATURES))
    if arguments["embed"] == "timeF":
        mark_sizes = (1,) * TIME_FEATURES[freq]
    else:
        mark_sizes = tuple(CALENDAR_FIELDS.values())[: 5 if freq == "t" else 4]
    if arguments["dec_in"] != arguments["enc_in"]:
        raise InputError(f"dec_in: expected enc_in={arguments['enc_in']}, found {arguments['dec_in']}")
    return ModelDims(
        enc_in=arguments["enc_in"],
        c_out=arguments["c_out"],
        mark_sizes=mark_sizes,
        seq_len=arguments["seq_len"],
        label_len=arguments["label_len"],
        pred_len=arguments["out_len"],
    )


def attention_nodes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`_target_` and parameters of the three slots."""
    full = attention_node("full")
    chosen = attention_node("prob") | FAITHFUL_PROB | {"factor": arguments["factor"]}
    self_attention = chosen if arguments["attn"] == "prob" else full
    return {"attn": self_attention, "decoder_attn": self_attention, "cross_attn": full}
