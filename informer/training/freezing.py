"""Freeze parts of the network."""

from collections.abc import Sequence

from torch import nn

from informer.errors import InputError, one_of


def freeze(model: nn.Module, names: Sequence[str]) -> None:
    """Exclude these top-level modules from training: no gradients here, eval mode in `set_training_mode`.

    Raises:
        InputError: no such module, or no module is left to train.
    """
    parts = [name for name, _ in model.named_children()]
    for name in names:
        if name not in parts:
            raise one_of("module in trainer.freeze", name, parts)
        model.get_submodule(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"trainer.freeze: expected a module left to train, found all of them: {', '.join(names)}")


def set_training_mode(model: nn.Module, frozen: Sequence[str]) -> None:
    """Set training mode, except for frozen parts, which have no dropout and fixed statistics."""
    model.train()
    for name in frozen:
        model.get_submodule(name).eval()
