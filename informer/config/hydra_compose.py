"""Settings of `informer train`, composed by Hydra from `conf/`: of the command line, of a sweep, or from Python.

The schema, all keys with their defaults, is made from the classes and registered in Hydra's ConfigStore; the files
contain what differs. The composed result is checked by the classes.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, cast

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from informer.base.errors import InputError
from informer.base.extensions import GROUPS, import_named, installed
from informer.base.runtime import resource
from informer.config.compose import groups, help_of, no_setting, options_of, refusing
from informer.config.conversion import node_of, to_plain
from informer.config.fields import check, keys_of, unknown
from informer.config.model import settings_of
from informer.config.overrides import escaped, for_hydra, overrides_of, unquoted
from informer.config.training import SLOTS, TrainConfig
from informer.networks.models.config import InformerConfig, ModelConfig

CONF = resource("conf").resolve()

VALUED = (
    *("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn"),
    *("--config-dir", "-cd", "--experimental-rerun", "--info", "-i"),
)
"""Hydra's options with a value."""
FLAGS = ("--help", "--hydra-help", "--version", "--resolve", "--run", "--multirun", "--shell-completion")
"""Hydra's long options without a value."""
NOISE = ("full_key", "object_type", "reference_type", "See ", "Config search path", "provider=")
"""Beginnings of lines in messages of Hydra and OmegaConf that do not help a user."""


@cache
def register() -> None:
    """Register the schema of `conf/train.yaml` and of the files in `conf/model`, and their resolver."""
    store, schema = ConfigStore.instance(), escaped(to_plain(TrainConfig()))
    store.store(name="train_schema", node=schema | {"model": {}, "label_len": "${half:${seq_len}}"})
    for name, family in (("any_schema", ModelConfig), ("informer_schema", InformerConfig)):
        store.store(group="model", name=name, node=escaped(to_plain(settings_of(family)())))
    OmegaConf.register_new_resolver("half", lambda rows: int(rows) // 2, replace=True)


def add_installed(words: Sequence[str]) -> None:
    """Register the settings of classes of other packages that the words choose, such as attn=NAME.

    Raises:
        InputError: an entry point names no class of its kind.
    """
    for key, _, value in (word.partition("=") for word in words):
        group = key.partition("@")[0]
        if group not in GROUPS or all((CONF / group / f"{name}.yaml").exists() for name in value.split(",")):
            continue
        for name, point in installed(group).items():
            if name not in value.split(","):
                continue
            try:
                chosen = point.load()
                parameters = inspect.signature(chosen).parameters
                own = {"_target_": f"{chosen.__module__}.{chosen.__qualname__}"} | {
                    key: parameter.default for key, parameter in parameters.items() if key != "spec"
                }
                node = own if group == "attn" else escaped(to_plain(settings_of(chosen.CONFIG)()))
            except (ImportError, AttributeError, TypeError) as error:
                raise InputError(f"{group}={name}: expected a class at {point.value} ({error})") from error
            ConfigStore.instance().store(group=group, name=name, node=node)


def to_typed(composed: Any) -> TrainConfig:
    """The checked settings of a composed configuration; keys added with `+key=` are refused."""
    plain = cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    for node in (plain["model"], *(plain[slot] for slot in SLOTS)):  # named by the command, so they may be imported
        if (module := str((node or {}).get("_target_", "")).rpartition(".")[0]) and not module.startswith("informer."):
            import_named(module)
    plain["model"].pop("_target_", None)  # its family names it
    return check(node_of(TrainConfig, plain))


def compose(settings: Mapping[str, Any]) -> TrainConfig:
    """The settings of a run from Python values.

    Args:
        settings: values by the keys of the command line. `{"trainer": {"max_epochs": 3}}` and
            `{"trainer.max_epochs": 3}` mean the same, `{"model": "small"}` chooses an option of a config group, and
            `horizon` is `pred_len`.

    Raises:
        InputError: unknown key, value out of range, or horizon and pred_len together.
    """
    _check_horizon([*settings])
    settings = {"pred_len" if key == "horizon" else key: value for key, value in settings.items()}
    for group in groups():
        if isinstance(value := settings.get(group), int | float | list | tuple):  # which Hydra does not look up
            raise InputError(f"{group}: expected one of {', '.join(options_of(group))}, or a dict, found {value!r}")
    return composed(list(overrides_of(settings, keys_of(TrainConfig))))


def composed(overrides: Sequence[str]) -> TrainConfig:
    """The settings of a run from words in Hydra's grammar, see `train_words`. Errors as in `compose`."""
    register()
    add_installed(overrides)
    check_groups(overrides)
    try:
        return to_typed(_composed(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(explained(error)) from error


def _composed(overrides: Sequence[str]) -> Any:
    """What Hydra composes; `HydraConfig` then says what was chosen, as within `hydra.main`."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        found = hydra.compose("train", overrides=list(overrides), return_hydra_config=True)
    HydraConfig.instance().set_config(found)
    return OmegaConf.masked_copy(found, [str(key) for key in found if key != "hydra"])


def run_train(words: Sequence[str], action: Callable[[TrainConfig], object]) -> None:
    """Call `action` with the checked settings, once for each job of a `--multirun`; exits on a user's mistake.

    Words with options or settings of Hydra go to `hydra.main`, which composes them twice.
    """
    register()

    acting = False

    def job(composed: Any) -> None:
        nonlocal acting
        acting = True
        sys.argv[1:] = words  # a run records the words as typed
        # errors are handled here: Hydra would add a line of its own to a failed job and still run the jobs after it
        with refusing(_job):
            try:
                settings = to_typed(composed)
            except OmegaConfBaseException as error:
                raise InputError(explained(error)) from error
            action(settings)

    # scratch: where Hydra's sweeper writes its notes; runs have their own directories
    with refusing(), TemporaryDirectory() as scratch:
        OmegaConf.register_new_resolver("scratch", lambda: scratch, replace=True)
        os.environ["HYDRA_FULL_ERROR"] = "1"  # otherwise Hydra prints a traceback of its own
        given = train_words(words)
        if {"--help", "-h"} & {*given}:
            print(help_of(TrainConfig, with_groups=True), end="")
            return
        sys.argv[1:] = given
        try:
            if any(word.lstrip("+~").startswith(("-", "hydra")) for word in given):
                hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(job)()
            else:
                job(_composed(given))
        except (HydraException, OmegaConfBaseException) as error:
            raise InputError(explained(error)) from error
        except ValueError as error:  # of Hydra, for options that exclude each other
            if acting:
                raise
            raise InputError(_one_line(error)) from error


def _check_horizon(names: Sequence[str]) -> None:
    if {"horizon", "pred_len"} <= {*names}:
        raise InputError("pred_len: expected none with horizon, which says the same; leave one out")


def train_words(words: Sequence[str]) -> list[str]:
    """The words of the command in Hydra's grammar; `horizon` is `pred_len`.

    Raises:
        InputError: horizon and pred_len together, an unknown option, or `attn=null` and the like.
    """
    keys, options, remaining = keys_of(TrainConfig), list[str](), iter(words)
    words = []
    for word in remaining:  # Hydra reads its options before all keys only
        if word.startswith("--") and (option := word.partition("=")[0]) not in (*VALUED, *FLAGS):
            raise InputError(
                f"{option}: {unknown(option.strip('-').replace('-', '_'), [*keys])}; --hydra-help: options"
            )
        (options if word.startswith("-") else words).append(word)
        options += [next(remaining, "")] if word in VALUED else []
    names = [word.partition("=")[0] for word in words]
    _check_horizon(names)
    words = [f"pred_len={word.partition('=')[2]}" if word.startswith("horizon=") else word for word in words]
    add_installed(words)
    check_groups(words)
    is_sweep = bool({"-m", "--multirun"} & {*options})
    if is_sweep and "hydra/launcher=submitit_slurm" in words and which("srun") is None:
        raise InputError(
            "hydra/launcher=submitit_slurm: expected a machine of a slurm cluster, found no srun; use "
            "hydra/launcher=submitit_local or joblib"
        )
    return [*options, *(for_hydra(word, keys, is_sweep=is_sweep) for word in words)]


def explained(error: BaseException) -> str:
    """The message for an error of Hydra or OmegaConf."""
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(error, OverrideParseException):
        if "=" not in error.override:
            return no_setting(error.override, [*keys_of(TrainConfig)])
        return f"{error.override}: {_one_line(error)} (expected key=value)"
    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        options = [name for name in error.options if not name.endswith("_schema")]
        return f"{group}: expected one of {', '.join(options)}, found {option!r}"
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        quoted = re.match(r"Could not .*'\+*([\w.@/]+)'", str(error))  # the whole key, of which the first step failed
        return _unknown_key(quoted[1] if quoted else str(cause.full_key), cause.parent_node)
    return _one_line(error)


def _unknown_key(key: str, node: Any) -> str:
    """The message for a key that a composed node does not have."""
    slot = key.rpartition(".")[0]
    if slot in SLOTS and not node:
        return f"unknown key {key!r}: it follows attn; choose its own mechanism first, with attn@decoder_attn=NAME"
    if slot in SLOTS:
        names = ", ".join(str(each) for each in node if each != "_target_")
        kind = node["_target_"].rpartition(".")[2]
        return f"unknown key {key!r}: expected a parameter of {kind}: {names or 'it has none'}"
    keys = [*keys_of(TrainConfig), "horizon"]
    if slot == "model" and node is not None:  # the family may have other keys than the schema's
        keys = [*(each for each in keys if not each.startswith("model.")), *(f"model.{each}" for each in node)]
    return unknown(key, keys)


def _one_line(error: BaseException) -> str:
    """The message of an error, and of an error of OmegaConf that it wraps, as a single line."""
    causes = [error, error.__cause__] if isinstance(error.__cause__, OmegaConfBaseException) else [error]
    lines = [" ".join(line.split()) for each in causes for line in str(each).splitlines()]
    return " ".join(dict.fromkeys(line for line in lines if line and not line.startswith(NOISE)))


def check_groups(overrides: Sequence[str]) -> None:
    """Raise InputError for `attn=null` and the like; Hydra's error does not name the group."""
    names = groups()
    for key, _, value in (override.partition("=") for override in overrides):
        if value == "null" and (group := key.partition("@")[0]) in names:
            raise InputError(f"{key}: expected one of {', '.join(options_of(group))}, found null")


def _job() -> str:
    """Prefix of messages that names the job of a `--multirun`; empty in a single run."""
    number = job_number()
    return "" if number is None else f"job {number} ({' '.join(job_overrides())}): "


def job_number() -> int | None:
    """Number of the job in a `--multirun`, counted from 0; None in a single run."""
    if HydraConfig.initialized() and HydraConfig.get().mode is RunMode.MULTIRUN:
        return int(HydraConfig.get().job.num)
    return None


def job_overrides() -> list[str]:
    """Overrides of this job as typed, `key=value` each."""
    return [unquoted(word) for word in HydraConfig.get().overrides.task]


def overridden_keys() -> list[str]:
    """Keys set on the command line."""
    return [argument.partition("=")[0].lstrip("+~") for argument in job_overrides()]


def choice(group: str) -> str | None:
    """The chosen option of a config group (`attn`, `model`, ...); None if there is none."""
    return HydraConfig.get().runtime.choices.get(group)
