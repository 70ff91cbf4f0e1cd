"""Start a run from the weights of another one, also with other columns or other attention mechanisms."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from informer.build import complete_node
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import dims_in
from informer.checkpoint.weights import check_numbers, differing_shape
from informer.data.categories import NUMBERS_ONLY, Trained
from informer.errors import InputError, counted
from informer.models.base import SLOT_OF, ForecastModel


class Transfer(NamedTuple):
    """Names of the tensors copied, of those left at their new values, and of checkpoint tensors not used."""

    copied: list[str]
    new: list[str]
    left_out: list[str]
    swapped: list[str]
    """Slots whose mechanism or its parameters differ."""

    def __str__(self) -> str:
        lists = {"other attention": self.swapped, "fresh": self.new, "left out": self.left_out}
        details = "".join(f"; {reason}: {', '.join(names)}" for reason, names in lists.items() if names)
        return f"{counted(len(self.copied), 'tensor')} kept, {len(self.new)} fresh{details}"


def warm_start(
    model: ForecastModel,
    checkpoint: Checkpoint,
    *,
    inputs: Sequence[str],
    targets: Sequence[str],
    mark_sizes: Sequence[int],
    same_calendar: bool = True,
    slots: Mapping[str, Mapping[str, Any]],
    trained: Trained = NUMBERS_ONLY,
) -> Transfer:
    """Copy the weights of a checkpoint into `model`, except those of other columns or other mechanisms.

    Args:
        model: network with new weights; updated in place.
        checkpoint: checkpoint of a network with the same sizes.
        inputs, targets: columns of the new data. Value embeddings are not copied if the inputs differ from the
            checkpoint's, nor is the head if targets or quantiles differ.
        mark_sizes, same_calendar: vocabulary sizes of the calendar marks, and whether the calendar fields are those of
            the checkpoint; if any differ, calendar embeddings are not copied.
        slots: `_target_` and parameters of the model's three attention mechanisms. Where these differ, only learned
            tensors with the same name and shape are copied, no buffers.
        trained: series, categories and columns with gaps of the new data. Value embeddings are not copied if categories
            or gaps differ, nor are the vectors of series if the series differ.

    Raises:
        InputError: any other tensor is missing, unexpected or of another shape.
    """
    same_calendar = same_calendar and tuple(mark_sizes) == dims_in(checkpoint).mark_sizes
    columns = _of_other_columns(model, checkpoint, trained, inputs=inputs, targets=targets, same_calendar=same_calendar)
    current = {name: value for name, value in model.state_dict().items() if not name.startswith(columns)}
    saved = {name: value for name, value in checkpoint.weights.items() if not name.startswith(columns)}
    swapped = _swapped_slots(checkpoint.config, slots)
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
    return Transfer([*current], fresh, left_out, [*swapped])


def _of_other_columns(
    model: ForecastModel,
    checkpoint: Checkpoint,
    trained: Trained,
    *,
    inputs: Sequence[str],
    targets: Sequence[str],
    same_calendar: bool,
) -> tuple[str, ...]:
    """Name prefixes of tensors that depend on columns, calendar or head, where these differ from the checkpoint's."""
    labels = {name: list(categories) for name, categories in trained.categories.items()}
    same_masks = (trained.masked or ()) == (dims_in(checkpoint).masked or ())
    differ = {
        "columns": (
            list(inputs) != checkpoint.inputs or labels != checkpoint.categories or not same_masks, model.INPUT_PARTS
        ),
        "series": (
            bool(model.SERIES_PARTS) and list(trained.series) != checkpoint.series, model.SERIES_PARTS
        ),
        "calendar": (not same_calendar, model.CALENDAR_PARTS),
        "targets or quantiles": (
            list(targets) != checkpoint.targets or checkpoint.quantiles != [*model.quantiles], model.HEAD_PARTS
        ),
    }  # fmt: skip
    for aspect, (is_other, prefixes) in differ.items():
        if is_other and not prefixes:
            raise InputError(
                f"init_from: expected the {aspect} of the checkpoint, found others; {type(model).__name__} does not "
                "say which of its weights belong to them"
            )
    return tuple(prefix for is_other, prefixes in differ.values() if is_other for prefix in prefixes)


def _swapped_slots(config: Mapping[str, Any], slots: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """Slots whose mechanism or parameters differ from `config`; the value says whether the class is the same."""
    pairs = {slot: (complete_node(node), complete_node(config[slot])) for slot, node in slots.items()}
    return {slot: new["_target_"] == old["_target_"] for slot, (new, old) in pairs.items() if new != old}


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
