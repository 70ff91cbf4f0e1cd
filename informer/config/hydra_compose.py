"""Settings of `informer train`, composed by Hydra from `conf/`: of the command line, of a sweep, or from Python."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any, cast

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.config import compose as command_line
from informer.config import conversion
from informer.config.model import config_class, family_of
from informer.config.overrides import escaped, overrides_of, read_text, unquoted
from informer.config.training import TrainConfig, check

CONF = resource("conf").resolve()


@cache  # once per process: it takes a third of the time of a composition
def register() -> None:
    """Register the schema of `conf/train.yaml`, and its resolver.

    Its defaults are without types: those of `model` depend on its family, and a typed node would take a number for text
    (the float 1.10 of a yaml file becomes 1.1) before `check_values` sees it.
    """
    node = cast(dict[str, Any], OmegaConf.to_container(conversion.node(TrainConfig)))
    node |= {"model": {}, "label_len": "${half:${seq_len}}"}
    ConfigStore.instance().store(name="train_schema", node=OmegaConf.create(node))
    OmegaConf.register_new_resolver("half", lambda rows: int(rows) // 2, replace=True)


def to_typed(composed: Any) -> TrainConfig:
    """A composed DictConfig as dataclass, checked; keys added with `+key=` are refused."""
    plain = cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    classes = (TrainConfig, config_class(family_of(plain["model"])))
    conversion.check_values(plain, *classes)
    return check(cast(TrainConfig, conversion.filled(cast(dict[str, Any], escaped(plain)), *classes)))


def compose(settings: Mapping[str, Any]) -> TrainConfig:
    """The settings of a run from Python values.

    Args:
        settings: values by the keys of the command line. `{"trainer": {"max_epochs": 3}}` and
            `{"trainer.max_epochs": 3}` mean the same, and `{"model": "small"}` chooses an option of a config group.

    Raises:
        InputError: unknown key, or value out of range.
    """
    register()
    overrides = list(overrides_of(settings, conversion.text_keys(TrainConfig)))
    check_groups(overrides)
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return to_typed(hydra.compose("train", overrides=overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(explained(error)) from error


def run_train(words: Sequence[str], action: Callable[[TrainConfig], object]) -> None:
    """Call `action` with the settings that Hydra composes, once for each job of a `--multirun`, or do what Hydra's
    options say; exit on a user's mistake.

    `hydra.main` composes a single run twice and takes seconds to list config groups, so it is used only for sweeps and
    for Hydra's options.
    """
    register()
    acting = False

    def typed(composed: Any) -> None:
        nonlocal acting
        acting = True
        # errors are handled here: Hydra would add a line of its own to a failed job and still run the jobs after it
        with command_line.refusing(TrainConfig, _job):
            action(to_typed(composed))

    # scratch: where Hydra's sweeper writes its notes; runs have their own directories
    with command_line.refusing(TrainConfig), TemporaryDirectory() as scratch:
        OmegaConf.register_new_resolver("scratch", lambda: scratch, replace=True)
        try:
            options = command_line.parsed(words)
            flags = {option for option, value in vars(options).items() if value} - {"overrides"}
            overrides = for_hydra(words, is_sweep=options.multirun)
            if flags == {"help"}:
                print(command_line.help_of("train"))
            elif flags or any(re.match(r"[+~]*hydra\b", override) for override in overrides):
                os.environ["HYDRA_FULL_ERROR"] = "1"  # otherwise Hydra prints its own traceback and exits with 1
                sys.argv[1:] = overrides
                hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(typed)()
            else:
                with hydra.initialize_config_dir(str(CONF), job_name="train", version_base="1.3"):
                    composed = hydra.compose("train", overrides=overrides, return_hydra_config=True)
                state = HydraConfig.instance()
                state.set_config(composed)
                with open_dict(composed):
                    del composed["hydra"]
                try:
                    typed(composed)
                finally:
                    state.cfg = None
        except HydraException as error:
            raise InputError(explained(error)) from error
        except ValueError as error:  # raised by Hydra for options that exclude each other
            if acting:
                raise
            raise InputError(command_line.one_line(error)) from error


def explained(error: BaseException) -> str:
    """The message for an error of Hydra or OmegaConf."""
    if isinstance(error, OverrideParseException):
        if "=" not in error.override:
            return command_line.no_setting(error.override, conversion.known_keys(TrainConfig))
        return f"{command_line.one_line(error)} (expected key=value)"
    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        return f"{group}: expected one of {', '.join(error.options)}, found {option!r}"
    return command_line.explained(TrainConfig, error)


PARSED = re.compile(r"[A-Za-z0-9_./-]+")
"""Values that are valid in Hydra's grammar; parsing each to find out would take milliseconds."""


def for_hydra(words: Sequence[str], *, is_sweep: bool) -> list[str]:
    """The words of the command in Hydra's grammar: text as typed, other values as they are or, if Hydra cannot parse
    them, quoted, for a message that names the key."""
    check_groups(words)
    texts, read = conversion.text_keys(TrainConfig), list[str]()
    for word in words:
        key, sign, value = word.partition("=")
        if sign and re.fullmatch(r"[\w.@/+~]+", key) and (name := key.lstrip("+~")) in texts:
            word = f"{key}={read_text(value, texts[name], is_sweep=is_sweep)}"
        elif sign and re.fullmatch(r"[\w.@/+~]+", key) and not PARSED.fullmatch(value):
            try:
                OverridesParser.create().parse_override(word)
            except HydraException:
                word = "{}='{}'".format(key, value.replace("'", "\\'"))
        read.append(word)
    return read


def check_groups(overrides: Sequence[str]) -> None:
    """Raise InputError for `attn=null` and the like, if null is not an option of the group; Hydra's error does not
    name the group."""
    node: Any = OmegaConf.to_container(OmegaConf.load(CONF / "train.yaml"))
    defaults = {
        group: option for entry in node["defaults"] if isinstance(entry, dict) for group, option in entry.items()
    }
    for key, _, value in (override.partition("=") for override in overrides):
        if value == "null" and defaults.get(key) is not None:
            options = conversion.options_of(key.partition("@")[0])
            raise InputError(f"{key}: expected one of {', '.join(options)}, found null")


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
