"""From the content of a checkpoint, which may come from anyone, to the network: checked first, then built.

The network is laid out without memory (every array is only a shape), its arrays are compared with the weights that the
file really holds, and only then is it built.
"""

from collections.abc import Mapping
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import nn

from informer.build import SLOTS, attention_class, build_model
from informer.checkpoint import Checkpoint, differing_shape
from informer.data.frequency import Frequency
from informer.data.scaler import PanelScaler
from informer.errors import InputError
from informer.model import Informer, ModelConfig, ModelDims

MAX_LENGTH = 1 << 20
"""Rows of a window that a network is built for."""
MAX_TABLE_BYTES = 1 << 30
"""Of the arrays that are computed rather than saved: positions, fixed samples."""


def restore_model(checkpoint: Checkpoint) -> Informer:
    """The trained network of a checkpoint, in eval mode on the CPU.

    Raises:
        InputError: columns, lengths, configuration and weights do not fit one another or this program.
    """
    try:
        model_config, dims = _sizes(checkpoint)
        slots = {slot: checkpoint.config[slot] for slot in SLOTS}
        # imported before anything is laid out, lest constants of a module lose their values
        for slot in slots.values():
            attention_class(slot["_target_"])
        with torch.device("meta"):
            skeleton = build_model(model_config, dims, **slots, quantiles=checkpoint.quantiles)
    except InputError:
        raise
    except OmegaConfBaseException as error:
        raise InputError(f"checkpoint: saved configuration: {str(error).splitlines()[0]}") from error
    except Exception as error:  # values of types that no training run saves can fail anywhere
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"checkpoint: no network fits its configuration: {reason}") from error
    _compare(skeleton, checkpoint.weights)
    model = build_model(model_config, dims, **slots, quantiles=checkpoint.quantiles)
    model.load_state_dict(checkpoint.weights)
    return model.eval()


def _sizes(checkpoint: Checkpoint) -> tuple[ModelConfig, ModelDims]:
    """The two size records, where they agree with each other and with the columns."""
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), checkpoint.config["model"]))
    assert isinstance(config, ModelConfig)
    sizes: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in checkpoint.dims.items()}
    dims = ModelDims(**sizes)
    found = [*config.problems(), *_column_problems(checkpoint, dims), *_length_problems(checkpoint.config, dims)]
    found += config.length_problems(dims.seq_len, dims.label_len, dims.pred_len)
    n_layers = sum(config.encoder_stacks) + config.decoder_layers
    if n_layers > len(checkpoint.weights):
        found.append(f"{n_layers} layers, but only {len(checkpoint.weights)} weights")
    if found:
        raise InputError(f"checkpoint: its parts do not fit: {'; '.join(found)}")
    return config, dims


def _column_problems(checkpoint: Checkpoint, dims: ModelDims) -> list[str]:
    Frequency.parse(checkpoint.frequency)
    scaler = PanelScaler.from_state(checkpoint.scaler)
    scalers = [*scaler.own.values(), *([scaler.shared] if scaler.shared else [])]
    pairs = [
        ("columns read", len(checkpoint.inputs), dims.enc_in),
        ("columns that the decoder reads", len(checkpoint.inputs), dims.dec_in),
        ("columns forecast", len(checkpoint.targets), dims.c_out),
        *(("columns of a scaler", part.size, dims.enc_in) for one in scalers for part in (one.center, one.scale)),
    ]
    found = [f"{what}: expected {expected}, found {number}" for what, number, expected in pairs if number != expected]
    used = [*checkpoint.targets, *checkpoint.future_covariates]
    return found + [f"column {name!r} is used but not read" for name in used if name not in checkpoint.inputs]


def _length_problems(config: Mapping[str, Any], dims: ModelDims) -> list[str]:
    names = ("seq_len", "label_len", "pred_len")
    found = [
        f"{name}: expected {config[name]} as configured, found {getattr(dims, name)}"
        for name in names
        if config[name] != getattr(dims, name)
    ]
    if max(dims.seq_len, dims.dec_len) > MAX_LENGTH:
        found.append(f"a window of {max(dims.seq_len, dims.dec_len)} rows: expected at most {MAX_LENGTH}")
    return found


def _compare(skeleton: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights of other names or shapes than the network's, and a network that is large beside its weights."""
    expected = skeleton.state_dict()
    if differ := differing_shape(expected, weights):
        name, needed, found = differ
        raise InputError(f"checkpoint: weights do not fit the network: {name}: expected {needed}, found {found}")
    computed = sum(
        buffer.untyped_storage().nbytes() for name, buffer in skeleton.named_buffers() if name not in expected
    )
    if computed > MAX_TABLE_BYTES:
        raise InputError(f"checkpoint: its network needs {computed >> 20} MiB of tables beside its weights; refused")
