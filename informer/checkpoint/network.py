"""Networks and attention mechanisms from their settings; no other module creates them."""

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from informer.base.errors import InputError, one_of, reason_of
from informer.base.extensions import OPTION, loaded
from informer.base.runtime import resource
from informer.config.conversion import read_saved_yaml
from informer.config.model import LinearModelConfig
from informer.config.training import DISTRIBUTIONS, LossKind, TrainConfig
from informer.members.maps import LinearMaps
from informer.members.network import ForecastModel
from informer.members.transform import WindowTransform
from informer.networks.attention.auto import AutoAttention
from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.layers.distribution_head import DistributionHead
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.models.base import AttentionFactory, Attentions, ModelDims, network_class
from informer.networks.models.config import ModelConfig

ATTENTION_PACKAGE = "informer.networks.attention."


def attention_names() -> list[str]:
    """All names for `attn=`: the yaml files of `conf/attn`."""
    return sorted(path.stem for path in resource("conf/attn").glob("*.yaml"))


def attention_node(name: str) -> dict[str, Any]:
    """The parameters of `conf/attn/<name>.yaml`, `_target_` included."""
    if name not in attention_names():
        raise one_of("attention", name, attention_names())
    return read_saved_yaml(resource("conf/attn") / f"{name}.yaml")


def attention_class(target: str) -> type[Attention]:
    """The class named by a `_target_`: of this package, or of a module that is already imported."""
    module, _, name = str(target).rpartition(".")
    if module.startswith(ATTENTION_PACKAGE):
        with suppress(ImportError):
            importlib.import_module(module)
    elif module not in sys.modules:
        raise InputError(
            f"attention _target_: expected a class below {ATTENTION_PACKAGE[:-1]}, found {target!r}; if you trust it, "
            f"import its module: {OPTION}{module}"
        )
    if (mechanism := loaded(module, name)) is None:
        raise InputError(f"attention _target_: {target!r} does not exist")
    if not (inspect.isclass(mechanism) and issubclass(mechanism, Attention)):
        raise InputError(f"attention _target_: {target!r} is not an Attention")
    return mechanism


def complete_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism's `_target_` and all its parameters, with defaults for those not given."""
    parameters = inspect.signature(attention_class(node.get("_target_", ""))).parameters
    return {name: parameter.default for name, parameter in parameters.items() if name != "spec"} | dict(node)


def build_attention(attention: str | Mapping[str, Any], spec: AttentionSpec, **params: Any) -> Attention:
    """Create a mechanism.

    Args:
        attention: a name of `conf/attn`, or such a file's content (a mapping with `_target_`).
        spec: layer sizes and options.
        params: hyper-parameters that override the file's.

    Raises:
        InputError (a ValueError): unknown name or parameter, value out of range, or an unsupported spec.
    """
    node = attention_node(attention) if isinstance(attention, str) else dict(attention)
    cls = attention_class(node.pop("_target_", ""))
    node |= params
    accepted = [name for name in inspect.signature(cls).parameters if name != "spec"]
    for name in node:
        if name not in accepted:
            raise InputError(f"{cls.__name__} has no parameter {name!r}: expected {', '.join(accepted) or 'none'}")
    try:
        return cls(spec=spec, **node)
    except (ValueError, TypeError) as error:
        message = reason_of(error).removeprefix(f"{cls.__name__} ")
        raise InputError(f"{cls.__name__} {message}") from error


def resolve_decoder(attn: Mapping[str, Any], decoder_attn: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The mechanism of the decoder's self-attention, and why it differs from the requested one (None if it does not).

    Args:
        attn: the encoder's mechanism, also used by the decoder if possible.
        decoder_attn: mechanism set only for this slot; empty if not set.

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
    return attention_node("full"), f"{chosen.__name__} has no causal form: decoder self-attention uses full attention"


def build_model(
    config: ModelConfig,
    dims: ModelDims,
    *,
    attn: Mapping[str, Any],
    decoder_attn: Mapping[str, Any],
    cross_attn: Mapping[str, Any],
    quantiles: Sequence[float] = (),
    loss: LossKind = "quantile",
) -> ForecastModel:
    """The model: its network with random weights from torch's generator, its linear part with zeros.

    Args:
        config: sizes chosen by the user.
        dims: sizes determined by the data.
        attn, decoder_attn, cross_attn: `_target_` and parameters of the three slots (see `resolve_decoder`).
        quantiles: levels that the model forecasts; empty: point forecasts.
        loss: with a distribution, the network forecasts its parameters.

    Raises:
        InputError: a mechanism does not support its slot or has an invalid parameter (the message names the slot), or
            quantiles of a model without a network.
    """
    if isinstance(config, LinearModelConfig):
        if quantiles:
            raise InputError(
                f"loss={loss}: expected loss=mse with model.family={config.family}, which only has intervals"
            )
        return ForecastModel(config, dims, maps=LinearMaps(dims))
    attentions = Attentions(
        _factory("attn", attn), _factory("decoder_attn", decoder_attn), _factory("cross_attn", cross_attn)
    )
    transform = WindowTransform(
        dims, instance_norm=config.instance_norm, channel_independent=config.channel_independent,
        patch_len=config.patch_len, series_embedding=config.series_embedding,
    )  # fmt: skip
    family = network_class(config)
    assert family is not None, "only linear maps have no network"
    try:
        network = family(config, transform.inside, attentions, quantiles)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(reason_of(error)) from error
    if loss in DISTRIBUTIONS:
        head = getattr(network, "head", None)
        if not isinstance(head, QuantileHead):
            expected = f"expected a model.family with it, such as informer, found {config.family}"
            raise InputError(f"loss={loss}: {expected}")
        sizes = head.linear.in_features, head.linear.out_features // head.n_levels
        network.head = DistributionHead(loss, head.levels, *sizes)
        network.quantiles, network.point_at = (), 0  # the first parameter, which a decoder may read as its forecast
    maps = None
    if config.skip == "ridge":
        maps = LinearMaps(dims, is_start=True)
        for parameter in network.head.parameters():  # the network learns what ridge does not forecast
            torch.nn.init.zeros_(parameter)
    return ForecastModel(config, dims, network=(transform, network), maps=maps)


def _factory(slot: str, node: Mapping[str, Any]) -> AttentionFactory:
    def make(spec: AttentionSpec) -> Attention:
        try:
            return build_attention(node, spec)
        except InputError as error:
            raise InputError(f"{slot}: {error}") from error

    return make


def check_attention(config: TrainConfig) -> None:
    """Raise errors of `build_model` before data is read, by building a network for one column."""
    dims = ModelDims(
        enc_in=1,
        c_out=1,
        mark_sizes=(1,),
        seq_len=config.seq_len,
        label_len=config.label_len,
        pred_len=config.pred_len,
    )
    build_model(config.model, dims, attn=config.attn, decoder_attn=config.decoder_attn, cross_attn=config.cross_attn)


def picked_by_length(model: ForecastModel) -> list[str]:
    """What `auto` chose, one phrase per layer; empty without `auto`."""
    phrases = []
    for place, layer in model.attention_layers().items():
        attention = layer.attention
        if isinstance(attention, AutoAttention):
            rows = " x ".join(map(str, dict.fromkeys((attention.spec.len_q, attention.spec.len_k))))
            phrases.append(f"{place} ({rows} rows) {attention.picked}")
    return phrases
