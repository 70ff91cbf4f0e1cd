"""Errors of Hydra and OmegaConf as one line: the key, what was expected, what was found."""

import re
from difflib import get_close_matches
from typing import Any

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError

from informer.config import conversion
from informer.config.model import InformerConfig, ModelConfig
from informer.config.overrides import to_hydra
from informer.config.schema import SLOTS
from informer.errors import InputError

OTHER_NAMES = {
    "learning_rate": ("optim.lr",),
    "rate": ("optim.lr",),
    "epochs": ("trainer.max_epochs",),
    "num_epochs": ("trainer.max_epochs",),
    "train_epochs": ("trainer.max_epochs",),
    "steps": ("trainer.max_steps",),
    "batch": ("trainer.batch_size",),
    "horizon": ("pred_len",),
    "pred_len": ("horizon",),
    "lookback": ("seq_len",),
    "input_len": ("seq_len",),
    "context_length": ("seq_len",),
    "prediction_length": ("pred_len", "horizon"),
    "freq": ("dataset.frequency",),
    "heads": ("model.n_heads",),
    "budget": ("trainer.time_budget_minutes",),
    "time_budget_minutes": ("budget",),
}
"""Names of keys in other programs, or in other commands -> the names here, of which a command has one."""

ARGUMENTS = ("input", "dataset.path", "forecasts", "checkpoint")
"""Keys that a path without a key is meant for."""

NOISE = ("full_key", "object_type", "reference_type", "See ", "Config search path", "provider=")
"""Prefixes of lines in messages of Hydra and OmegaConf that do not help a user."""


def explained(name: str, error: BaseException) -> str:
    """The message for an error of Hydra or OmegaConf in a command's configuration."""
    if isinstance(error, InputError):  # the message is already clear
        return one_line(error)
    if isinstance(error, OverrideParseException) and "=" not in error.override:
        key = next((key for key in ARGUMENTS if key in conversion.known_keys(name)), "KEY")
        return f"{error.override!r}: expected key=value, such as {key}={error.override}"
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        return f"{group}: expected one of {', '.join(error.options)}, found {option!r}"
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(error, cause, conversion.known_keys(name))
    if isinstance(cause, ValidationError) and cause.full_key:
        expected = conversion.expected_value(name, cause.full_key, _model_class(cause))
        return f"{cause.full_key}: expected {expected}, found {to_hydra(cause.value)}"
    return one_line(error)


def _model_class(error: OmegaConfBaseException) -> type[ModelConfig]:
    """The dataclass of the `model` node in which an error occurred."""
    node = error.parent_node
    while node is not None:
        kind = OmegaConf.get_type(node)
        if isinstance(kind, type) and issubclass(kind, ModelConfig):
            return kind
        node = node._get_parent()
    return InformerConfig


def one_line(error: BaseException) -> str:
    """The message of an error, and of the error that Hydra has wrapped, as a single line."""
    text = str(error)
    if isinstance(error, HydraException) and isinstance(error.__cause__, OmegaConfBaseException):
        text = f"{text} {error.__cause__}"
    lines = (" ".join(line.split()) for line in text.splitlines())
    relevant = [line for line in lines if line and not line.startswith(NOISE)]
    if isinstance(error, OverrideParseException):
        relevant.append("(expected key=value)")
    return " ".join(dict.fromkeys(relevant))


def _unknown_key(error: BaseException, cause: OmegaConfBaseException, keys: list[str]) -> str:
    """The message for an unknown key."""
    quoted = re.match(r"Could not .*'\+*([\w.@/]+)'", str(error))
    key = quoted[1] if quoted else str(cause.full_key)
    if key.rpartition(".")[0] in SLOTS:
        return f"unknown key {key!r}: {_parameters(cause.parent_node)}"
    if key.rpartition(".")[0] == "model" and cause.parent_node is not None:  # the family may not be the schema's
        keys = [*(name for name in keys if not name.startswith("model.")), *(f"model.{k}" for k in cause.parent_node)]
    groups = sorted({name.partition(".")[0] for name in keys})
    by_last: dict[str, list[str]] = {}  # to find optim.lr for lr
    for name in keys:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    last = key.rpartition(".")[2]
    for other in OTHER_NAMES.get(last, ()):
        if other in keys:
            return f"unknown key {key!r}: expected one such as {other} (list them with --cfg job)"
    alike = [name for ending in get_close_matches(last, by_last, n=2, cutoff=0.7) for name in by_last[ending]]
    close = [*by_last.get(last, []), *get_close_matches(key, [*groups, *keys], n=3), *alike][:4] or groups
    return f"unknown key {key!r}: expected one such as {', '.join(dict.fromkeys(close))} (list them with --cfg job)"


def _parameters(slot: Any) -> str:
    """Valid parameters of an attention slot."""
    if not slot:
        return "it follows attn; choose its own mechanism first, with attn@decoder_attn=NAME"
    names = ", ".join(str(name) for name in slot if name != "_target_")
    return f"expected a parameter of {slot['_target_'].rpartition('.')[2]}: {names or 'it has none'}"
