"""The only place that turns configuration into objects."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import OmegaConf

from informer.attention.auto import AutoAttention
from informer.attention.base import Attention, AttentionSpec
from informer.data.pipeline import Data, Source, lay_out, read_source
from informer.data.scaler import PanelScaler
from informer.data.time_features import CalendarKind
from informer.data.windows import WindowSizes
from informer.errors import InputError, one_of
from informer.model import AttentionFactory, Attentions, Informer, ModelConfig, ModelDims
from informer.runtime import resource

if TYPE_CHECKING:
    from informer.config import TrainConfig

ATTENTION_PACKAGE = "informer.attention."
SLOTS = ("attn", "decoder_attn", "cross_attn")
"""Nodes of the configuration that hold a mechanism, `_target_` and parameters."""


def attention_names() -> list[str]:
    """Every name that `attn=` takes: the yaml files of `conf/attn`."""
    return sorted(path.stem for path in resource("conf/attn").glob("*.yaml"))


def attention_node(name: str) -> dict[str, Any]:
    """The parameters of `conf/attn/<name>.yaml`, `_target_` included."""
    if name not in attention_names():
        raise one_of("attention", name, attention_names())
    node = OmegaConf.to_container(OmegaConf.load(resource("conf/attn") / f"{name}.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def attention_class(target: str) -> type[Attention]:
    """The class that a `_target_` names; only this package's own mechanisms are taken."""
    module, _, name = str(target).rpartition(".")
    if not module.startswith(ATTENTION_PACKAGE):
        raise InputError(f"attention _target_: expected a class below {ATTENTION_PACKAGE[:-1]}, found {target!r}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"attention _target_: {target!r} does not exist ({error})") from error
    if not (inspect.isclass(found) and issubclass(found, Attention)):
        raise InputError(f"attention _target_: {target!r} is not an Attention")
    return found


def build_attention(attention: str | Mapping[str, Any], spec: AttentionSpec, **params: Any) -> Attention:
    """Make a mechanism.

    Args:
        attention: a name of `conf/attn`, or such a file's content (a mapping with `_target_`).
        spec: facts of the layer.
        params: hyper-parameters that replace the file's.

    Raises:
        InputError (a ValueError): unknown name or parameter, value out of range, or a spec the mechanism cannot serve.
    """
    node = attention_node(attention) if isinstance(attention, str) else dict(attention)
    cls = attention_class(node.pop("_target_", ""))
    node |= params
    accepted = [name for name in inspect.signature(cls).parameters if name != "spec"]
    for name in node:
        if name not in accepted:
            raise InputError(f"{cls.__name__} has no parameter {name!r}: expected {', '.join(accepted) or 'none'}")
    try:
        return cls(spec, **node)
    except (ValueError, TypeError) as error:
        message = str(error).removeprefix(f"{cls.__name__} ")
        raise InputError(f"{cls.__name__} {message}") from error


def resolve_decoder(attn: Mapping[str, Any], decoder_attn: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The mechanism of the decoder's self-attention, and why it is not the one asked for (None if it is).

    Args:
        attn: the encoder's mechanism, which the decoder follows where it can.
        decoder_attn: set for that slot alone; empty if it is not.

    Raises:
        InputError: `decoder_attn` cannot be causal.
    """
    if decoder_attn:
        chosen = attention_class(decoder_attn.get("_target_", ""))
        if not chosen.CAUSAL:
            able = [name for name in attention_names() if attention_class(attention_node(name)["_target_"]).CAUSAL]
            raise InputError(
                f"attn@decoder_attn: {chosen.__name__} has no causal form; expected one of {', '.join(able)}"
            )
        return dict(decoder_attn), None
    chosen = attention_class(attn.get("_target_", ""))
    if chosen.CAUSAL:
        return dict(attn), None
    return attention_node("full"), f"{chosen.__name__} has no causal form: the decoder's self-attention is full"


def read_dataset(config: "TrainConfig", sizes: WindowSizes) -> Source:
    """The configured dataset as its files have it; `sizes` are the shortest windows that it will be cut into."""
    return read_source(config.dataset, sizes=sizes, roles=config.roles, data_dir=Path(config.data_dir))


def build_data(
    config: "TrainConfig", device: torch.device, scaler: PanelScaler | None = None, source: Source | None = None
) -> Data:
    """Split and scale the configured dataset; a trained model brings its own scaler.

    `source`: what was read before; else it is read now.
    """
    return lay_out(
        source or read_dataset(config, config.sizes),
        config.dataset,
        sizes=config.sizes,
        scaler=scaler or config.scaler,
        calendar=CalendarKind(config.model.embed.value),
        device=device,
        calibration=config.trainer.calibration,
    )


def dims_of(data: Data) -> ModelDims:
    """What the data decides of the network."""
    return ModelDims(
        enc_in=len(data.inputs),
        dec_in=len(data.inputs),
        c_out=len(data.targets),
        mark_sizes=tuple(data.mark_sizes),
        seq_len=data.sizes.seq_len,
        label_len=data.sizes.label_len,
        pred_len=data.sizes.pred_len,
        targets=tuple(data.columns.positions(data.targets)),
        known=tuple(data.columns.positions(data.columns.future_covariates)),
    )


def build_model(
    config: ModelConfig,
    dims: ModelDims,
    *,
    attn: Mapping[str, Any],
    decoder_attn: Mapping[str, Any],
    cross_attn: Mapping[str, Any],
    quantiles: Sequence[float] = (),
) -> Informer:
    """The network, with fresh weights from torch's generator.

    Args:
        config: sizes the user chose.
        dims: sizes the data decides.
        attn, decoder_attn, cross_attn: `_target_` and parameters of the three slots (see `resolve_decoder`).
        quantiles: levels that the network forecasts; none: one value for each column.

    Raises:
        InputError: a mechanism cannot serve its slot, or a parameter of it is wrong; the line names the slot.
    """
    return Informer(
        config,
        dims,
        Attentions(_factory("attn", attn), _factory("decoder_attn", decoder_attn), _factory("cross_attn", cross_attn)),
        quantiles,
    )


def _factory(slot: str, node: Mapping[str, Any]) -> AttentionFactory:
    def make(spec: AttentionSpec) -> Attention:
        try:
            return build_attention(node, spec)
        except InputError as error:
            raise InputError(f"{slot}: {error}") from error

    return make


def check_attention(config: "TrainConfig") -> None:
    """Refuse what `build_model` would, before there are data: a network for one column is built and dropped."""
    dims = ModelDims(
        enc_in=1,
        dec_in=1,
        c_out=1,
        mark_sizes=(1,),
        seq_len=config.seq_len,
        label_len=config.label_len,
        pred_len=config.pred_len,
    )
    build_model(config.model, dims, attn=config.attn, decoder_attn=config.decoder_attn, cross_attn=config.cross_attn)


def picked_by_length(model: Informer) -> list[str]:
    """What `auto` chose, a phrase a layer; none where another mechanism serves."""
    phrases = []
    for place, layer in model.attention_layers().items():
        attention = layer.attention
        if isinstance(attention, AutoAttention):
            rows = " x ".join(map(str, dict.fromkeys((attention.spec.len_q, attention.spec.len_k))))
            phrases.append(f"{place} ({rows} rows) {attention.picked}")
    return phrases
