"""A new run that begins with the weights of another: on the same columns with all, on others with all that fit."""

from collections.abc import Sequence
from typing import NamedTuple

from informer.checkpoint import Checkpoint, differing_shape
from informer.errors import InputError, counted
from informer.model import Informer

INPUT_PARTS = ("enc_embedding.value.", "dec_embedding.value.")
CALENDAR_PARTS = ("enc_embedding.calendar.", "dec_embedding.calendar.")
HEAD = ("head.",)


class Transfer(NamedTuple):
    """Names of the tensors that were taken over, and of those that stay fresh."""

    kept: list[str]
    fresh: list[str]

    def __str__(self) -> str:
        stay = f"; fresh: {', '.join(self.fresh)}" if self.fresh else ""
        return f"{counted(len(self.kept), 'tensor')} kept, {len(self.fresh)} fresh{stay}"


def warm_start(
    model: Informer, checkpoint: Checkpoint, *, inputs: Sequence[str], targets: Sequence[str], mark_sizes: Sequence[int]
) -> Transfer:
    """Give `model` the checkpoint's weights, but for what belongs to other columns.

    Args:
        model: with fresh weights; updated in place.
        checkpoint: of a network with the same sizes and mechanisms.
        inputs, targets: columns of the new data. Other inputs than the checkpoint's leave the value embeddings fresh,
            other targets the head, and so do other quantiles.
        mark_sizes: of the new data's calendar; others than the checkpoint's leave the calendar embeddings fresh.

    Raises:
        InputError: another tensor is missing, left over or of another shape.
    """
    fresh_parts = (
        *(INPUT_PARTS if list(inputs) != checkpoint.inputs else ()),
        *(HEAD if list(targets) != checkpoint.targets or checkpoint.quantiles != [*model.quantiles] else ()),
        *(CALENDAR_PARTS if list(mark_sizes) != list(checkpoint.dims["mark_sizes"]) else ()),
    )
    own = model.state_dict()
    fresh = [name for name in own if name.startswith(fresh_parts)]  # by no part at all: none
    kept = [name for name in own if name not in fresh]
    saved = {name: value for name, value in checkpoint.weights.items() if not name.startswith(fresh_parts)}
    if differ := differing_shape({name: own[name] for name in kept}, saved):
        name, here, there = differ
        raise InputError(
            f"init_from: expected the network of the checkpoint, but {name} is {here} here and {there} there; give the "
            "checkpoint's model and attn settings"
        )
    model.load_state_dict(saved, strict=False)
    return Transfer(kept, fresh)
