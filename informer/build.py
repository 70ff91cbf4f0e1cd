"""Create data, models and attention mechanisms from configuration; no other module does."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from informer.base.errors import InputError, one_of, reason_of
from informer.base.runtime import resource
from informer.config.conversion import read_saved_yaml
from informer.config.model import LinearSkip, ModelConfig, WindowSizes
from informer.config.training import LossKind, TrainConfig
from informer.data.calendar import mark_sizes
from informer.data.columns import Roles, Trained
from informer.data.dataset import Data, Provenance, Source, lay_out, read_source
from informer.data.scaler import PanelScaler
from informer.networks.attention.auto import AutoAttention
from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.forecast_model import ForecastModel
from informer.networks.layers.distribution_head import DistributionHead
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.layers.transform import WindowTransform
from informer.networks.models.base import AttentionFactory, Attentions, ModelDims, network_class
from informer.networks.models.linear import LinearMaps, LinearModelConfig, LinearSkipLayer
from informer.read.table import Table

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
    """The class named by a `_target_`; only this package's own mechanisms are accepted."""
    module, _, name = str(target).rpartition(".")
    if not module.startswith(ATTENTION_PACKAGE):
        raise InputError(f"attention _target_: expected a class below {ATTENTION_PACKAGE[:-1]}, found {target!r}")
    try:
        mechanism = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"attention _target_: {target!r} does not exist ({error})") from error
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
        return cls(spec, **node)
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


def read_dataset(
    config: TrainConfig,
    sizes: WindowSizes,
    *,
    table: Table | None = None,
    provenance: Provenance | None = None,
) -> Source:
    """Read the configured dataset.

    Args:
        sizes: sizes of the shortest windows that will be used.
        table, provenance: see `read_source`.
    """
    roles = Roles(
        features=config.used_features,
        target=config.target,
        targets=config.targets,
        past_covariates=config.past_covariates,
        future_covariates=config.future_covariates,
        static_covariates=config.dataset.static_covariates,
    )
    return read_source(
        config.dataset, sizes=sizes, roles=roles, data_dir=Path(config.data_dir), table=table, provenance=provenance
    )  # fmt: skip


def build_data(
    config: TrainConfig,
    device: torch.device,
    scaler: PanelScaler | None = None,
    source: Source | None = None,
    trained: Trained | None = None,
) -> Data:
    """Split and scale the configured dataset.

    Args:
        device: device of the data.
        scaler: scaler of a trained model; None: fitted on the training rows.
        source: the data, if already read.
        trained: series names and categories of a trained model.
    """
    return lay_out(
        source or read_dataset(config, config.sizes),
        config.dataset,
        sizes=config.sizes,
        scaler=scaler or config.scaler,
        calendar=config.dataset.marked(config.model.embed),
        device=device,
        calibration=config.trainer.calibration,
        trained=trained,
    )


def dims_of(data: Data) -> ModelDims:
    """The model dimensions determined by the data."""
    masked, n = data.masked or (), len(data.inputs)
    positions = data.columns.positions
    known_positions = positions(data.columns.known)
    return ModelDims(
        enc_in=n + len(masked),
        c_out=len(data.targets),
        mark_sizes=mark_sizes(data.frequency, data.calendar),
        seq_len=data.sizes.seq_len,
        label_len=data.sizes.label_len,
        pred_len=data.sizes.pred_len,
        targets=tuple(positions(data.targets)),
        known=(*known_positions, *(n + i for i, place in enumerate(masked) if place in known_positions)),
        n_series=max(len(data.trained_series), 1),
        categories=(*(len(data.categories.get(name, ())) for name in data.inputs), *(0 for _ in masked))
        if data.categories
        else (),
        masked=data.masked,
        regressors=tuple(data.regressors),
        holidays=tuple(data.holidays),
        known_codes=tuple(data.known_codes),
    )


def build_model(
    config: ModelConfig,
    dims: ModelDims,
    *,
    attn: Mapping[str, Any],
    decoder_attn: Mapping[str, Any],
    cross_attn: Mapping[str, Any],
    quantiles: Sequence[float] = (),
    loss: LossKind = LossKind.quantile,
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
                f"loss={loss.value}: expected loss=mse with model.family={config.family}, which only has intervals"
            )
        return ForecastModel(config, dims, maps=LinearMaps(config, dims))
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
    if loss.is_distribution:
        head = getattr(network, "head", None)
        if not isinstance(head, QuantileHead):
            expected = f"expected a model.family with it, such as informer, found {config.family}"
            raise InputError(f"loss={loss.value}: {expected}")
        sizes = head.linear.in_features, head.linear.out_features // head.n_levels
        network.head = DistributionHead(loss.value, head.levels, *sizes)
        network.quantiles, network.point_at = (), 0  # the first parameter, which a decoder may read as its forecast
    skip = None
    if config.skip is LinearSkip.ridge:
        skip = LinearSkipLayer(dims.seq_len, dims.pred_len)
        for parameter in network.head.parameters():  # the network learns what ridge does not forecast
            torch.nn.init.zeros_(parameter)
    return ForecastModel(config, dims, network=(transform, network), skip=skip)


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
