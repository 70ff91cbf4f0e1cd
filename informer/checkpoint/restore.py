"""Restore the network from the content of a checkpoint, which may come from an untrusted source; or start a run from
the weights of another one, also with other columns or other attention mechanisms.

The network is first built on the meta device, without memory; its shapes are compared with the weights in the file, and
only then is it built with memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from informer.base.errors import FileError, InputError, counted, reason_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.network import attention_class, build_model, complete_node
from informer.config.training import DISTRIBUTIONS, SLOTS
from informer.data.calendar import mark_fields
from informer.data.dataset import Data
from informer.members.network import ForecastModel
from informer.networks.models.base import SLOT_OF, ModelDims, network_class
from informer.networks.models.config import ModelConfig
from informer.read.frequency import Frequency

REAL = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Dtypes in which weights may be saved."""


def differing_shape(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> tuple[str, str, str] | None:
    """Name and both shapes of the first tensor that differs in shape or exists on one side only; None if all agree."""
    for name in {**first, **second}:
        shapes = [_shape(weights[name]) if name in weights else "nothing" for weights in (first, second)]
        if shapes[0] != shapes[1]:
            return name, shapes[0], shapes[1]
    return None


def _shape(weight: object) -> str:
    """The shape as text; in a damaged file a weight may not be an array."""
    return str(tuple(weight.shape)) if isinstance(weight, Tensor) else type(weight).__name__


def check_numbers(expected: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Check dtypes of saved weights and that they are finite.

    Args:
        expected: weights of the network; meta tensors are enough.
        saved: weights with at least the same names.

    Raises:
        InputError: a tensor has a dtype that would be cast silently, or contains nan or infinity.
    """
    for name, tensor in expected.items():
        kinds = REAL if tensor.dtype in REAL else (tensor.dtype,)
        if saved[name].dtype not in kinds:
            raise FileError(
                f"checkpoint: weights do not fit the network: {name}: expected {tensor.dtype}, "
                f"found {saved[name].dtype}"
            )
        if (
            tensor.dtype in REAL
            and saved[name].numel()
            and not all(bound.isfinite() for bound in saved[name].aminmax())
        ):
            raise FileError(f"checkpoint: {name} holds numbers that are not finite; use another checkpoint")


MAX_LENGTH = 1 << 20
"""Longest window, in rows, for which a network is built."""
MAX_TABLE_BYTES = 1 << 30
"""Largest size of buffers that are computed rather than saved, such as position tables."""
DO_NOT_FIT = "checkpoint: its parts do not fit"


def restore_model(checkpoint: Checkpoint) -> ForecastModel:
    """The trained network of a checkpoint, in eval mode on the CPU.

    Raises:
        InputError: columns, lengths, configuration and weights do not match each other or this program.
    """
    if problems := [*_problems(checkpoint)]:
        raise FileError(f"{DO_NOT_FIT}: {'; '.join(problems)}")
    settings, dims = checkpoint.settings, checkpoint.dims
    slots = {slot: getattr(settings, slot) for slot in SLOTS}
    forecasts: dict[str, Any] = {"quantiles": settings.loss.quantiles, "loss": settings.loss.kind}
    check_layout(settings.model, dims, slots, checkpoint.weights, **forecasts)
    model = build_model(settings.model, dims, **slots, **forecasts)
    model.load_state_dict(checkpoint.weights)
    model.non_negative = tuple(map(checkpoint.targets.index, checkpoint.data.non_negative))
    return model.eval()


def check_layout(
    config: ModelConfig,
    dims: ModelDims,
    slots: Mapping[str, Any],
    weights: Mapping[str, torch.Tensor],
    **forecasts: Any,
) -> None:
    """Check weights against the network they are for before the network is built.

    Args:
        config, dims, slots, forecasts: arguments of `build_model`.
        weights: all tensors of the network's state_dict, by name.

    Raises:
        InputError: the network is too large, or names, shapes or dtypes of the weights differ from its own.
    """
    problems = []
    if max(dims.seq_len, dims.dec_len) > MAX_LENGTH:
        problems.append(f"a window of {max(dims.seq_len, dims.dec_len)} rows: expected at most {MAX_LENGTH}")
    if config.n_layers > len(weights):
        problems.append(f"{config.n_layers} layers, but only {len(weights)} weights")
    if problems:
        raise FileError(f"{DO_NOT_FIT}: {'; '.join(problems)}")
    try:
        # import the classes before entering the meta device, which would affect tensors created at import
        network_class(config)
        for slot in slots.values():
            attention_class(slot.get("_target_", ""))
        with torch.device("meta"), _OnlyShapes():
            skeleton = build_model(config, dims, **slots, **forecasts)
    except InputError:
        raise
    except Exception as error:  # values that no range forbids can fail anywhere
        reason = f"{type(error).__name__}: {reason_of(error)}"
        raise FileError(f"checkpoint: no network fits its configuration: {reason}") from error
    expected = skeleton.state_dict()
    if differ := differing_shape(expected, weights):
        name, shape, actual = differ
        raise FileError(f"checkpoint: weights do not fit the network: {name}: expected {shape}, found {actual}")
    check_numbers(expected, weights)
    computed = [buffer for name, buffer in skeleton.named_buffers() if name not in expected]
    if (n_bytes := sum(buffer.untyped_storage().nbytes() for buffer in computed)) > MAX_TABLE_BYTES:
        raise FileError(
            f"checkpoint: its network needs {n_bytes >> 20} MiB of tables in addition to its weights; refused"
        )


class _OnlyShapes(TorchFunctionMode):
    """Skips random initialisation of meta tensors, for which torch would import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.normal_, torch.Tensor.uniform_) and args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))


def _problems(checkpoint: Checkpoint) -> Iterator[str]:
    """Columns that are used otherwise than they can be, and a scaler of others."""
    inputs, targets, data = checkpoint.inputs, checkpoint.targets, checkpoint.data
    used = [*targets, *checkpoint.future_covariates, *data.static_covariates, *data.categories]
    yield from (f"column {name!r} is used but not read" for name in used if name not in inputs)
    coded = {*data.static_covariates, *data.categories}
    yield from (f"column {name!r} is forecast, but constant or of categories" for name in targets if name in coded)
    unknown = [name for name in data.non_negative if name not in targets]
    yield from (f"column {name!r} cannot be negative, but is not forecast" for name in unknown)
    roles = {"columns": inputs, "columns forecast": targets, "columns known ahead": checkpoint.columns.known}
    for what, names in {**roles, "series": data.names, "gaps": checkpoint.masked or (), **data.categories}.items():
        if len(set(names)) < len(names):
            yield f"{what}: expected different ones"
    if beyond := [place for place in checkpoint.masked or () if place >= len(inputs)]:
        yield f"positions of columns with gaps: expected some below {len(inputs)}, found {beyond}"
    for size in {array.size for each in checkpoint.scaler.all for array in (each.center, each.scale)} - {len(inputs)}:
        yield f"columns of a scaler: expected {len(inputs)}, found {size}"
    codes = [place for place, name in enumerate(inputs) if name in data.categories]
    if sorted(checkpoint.scaler.codes) != codes:
        yield f"columns that the scaler leaves as they are: expected {codes}, found {sorted(checkpoint.scaler.codes)}"


def warm_start(model: ForecastModel, checkpoint: Checkpoint, data: Data, slots: Mapping[str, Mapping[str, Any]]) -> str:
    """Copy the weights of a checkpoint into `model`, except those of other columns or other mechanisms.

    Value embeddings are not copied if inputs, categories or columns with gaps differ, calendar embeddings if the
    calendar marks do, the head if targets or quantiles do, the vectors of series if the series do. Where a mechanism or
    its parameters differ, only learned tensors with the same name and shape are copied, no buffers.

    Args:
        model: network with new weights for `data`; updated in place.
        checkpoint: checkpoint of a network with the same sizes.
        slots: `_target_` and parameters of the model's three attention mechanisms.

    Returns:
        How many tensors were copied, and which were not.

    Raises:
        InputError: any other tensor is missing, unexpected or of another shape.
    """
    columns = _of_other_columns(model, checkpoint, data)
    current = {name: value for name, value in model.state_dict().items() if not name.startswith(columns)}
    saved = {name: value for name, value in checkpoint.weights.items() if not name.startswith(columns)}
    # slots whose mechanism or parameters differ, and whether its class is the same
    pairs = {
        slot: (complete_node(node), complete_node(getattr(checkpoint.settings, slot))) for slot, node in slots.items()
    }
    swapped = {slot: new["_target_"] == old["_target_"] for slot, (new, old) in pairs.items() if new != old}
    for prefix, may_stay in _swapped_parts(model, swapped).items():
        for name in [name for name in {**current, **saved} if name.startswith(prefix)]:
            matches = name in current and name in saved and current[name].shape == saved[name].shape
            if not (matches and name in may_stay):
                current.pop(name, None)
                saved.pop(name, None)
    if shapes := differing_shape(current, saved):
        name, current_shape, saved_shape = shapes
        raise InputError(
            f"init_from: expected the network of the checkpoint, but {name} is {current_shape} here and {saved_shape} "
            "there; give the checkpoint's model settings"
        )
    fresh = [name for name in model.state_dict() if name not in current]
    check_numbers(current, saved)
    model.load_state_dict(saved, strict=False)
    left_out = [name for name in checkpoint.weights if name not in current and name not in fresh]
    lists = {"other attention": swapped, "fresh": fresh, "left out": left_out}
    details = "".join(f"; {reason}: {', '.join(names)}" for reason, names in lists.items() if names)
    return f"{counted(len(current), 'tensor')} kept, {len(fresh)} fresh{details}"


def _of_other_columns(model: ForecastModel, checkpoint: Checkpoint, data: Data) -> tuple[str, ...]:
    """Name prefixes of tensors that depend on columns, calendar or head, where these differ from the checkpoint's."""
    network, dims = model.network, data.dims
    own = [()] * 3 if network is None else [network.INPUT_PARTS, network.CALENDAR_PARTS, network.HEAD_PARTS]
    of_inputs, of_calendar, of_head = ([f"network.{part}" for part in parts] for parts in own)
    labels = {name: list(categories) for name, categories in data.categories.items()}
    head, loss = model.distribution, checkpoint.settings.loss
    same_head = (loss.kind if loss.kind in DISTRIBUTIONS else None) == (None if head is None else head.kind)
    same_masks = (dims.masked or ()) == (checkpoint.dims.masked or ())
    marks = mark_fields(data.frequency, data.calendar), dims.mark_sizes
    older_marks = mark_fields(Frequency.parse(checkpoint.frequency), checkpoint.calendar), checkpoint.dims.mark_sizes
    differ = {
        "columns": (
            list(data.inputs) != checkpoint.inputs or labels != checkpoint.data.categories or not same_masks, of_inputs
        ),
        "calendar": (marks != older_marks, of_calendar),
        "targets or quantiles": (
            list(data.targets) != checkpoint.targets or loss.quantiles != [*model.quantiles] or not same_head,
            of_head,
        ),
    }  # fmt: skip
    for aspect, (is_other, parts) in differ.items():
        if is_other and not parts:
            raise InputError(
                f"init_from: expected the {aspect} of the checkpoint, found others; model.family={model.family} does "
                "not say which of its weights belong to them"
            )
    prefixes = [prefix for is_other, parts in differ.values() if is_other for prefix in parts]
    if differ["columns"][0]:
        prefixes.append("transform.categories.")
    if list(data.trained_series) != checkpoint.data.names:
        prefixes.append("transform.series.")
    return tuple(prefixes)


def _swapped_parts(model: ForecastModel, swapped: Mapping[str, bool]) -> dict[str, set[str]]:
    """By name prefix of each swapped mechanism: the tensors of it that may be copied."""
    names = {layer: name for name, layer in model.named_modules()}
    copyable = {}
    for place, layer in model.attention_layers().items():
        slot = SLOT_OF[place.partition(" ")[0]]
        if slot in swapped:
            learnt = [name for name, _ in layer.attention.named_parameters(remove_duplicate=False)]
            moved = layer.attention.MOVED if swapped[slot] else ()
            prefix = f"{names[layer]}.attention."
            copyable[prefix] = {f"{prefix}{name}" for name in (*learnt, *moved)}
    return copyable
