"""Composition by Hydra: from the command line or from Python values to a checked configuration."""

import logging
import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from informer.config import conversion
from informer.config.addresses import PATHS
from informer.config.messages import explained, one_line
from informer.config.overrides import TextKey, overrides_of, read_text, to_hydra, unquoted
from informer.config.plain import escaped
from informer.console import refuse, refuse_os_error, writable_output
from informer.errors import InputError, ReportError, is_out_of_memory
from informer.runtime import resource
from informer.start import EXIT_INTERRUPTED, end_quietly, interrupt

log = logging.getLogger(__name__)

PARSED = re.compile(r"[A-Za-z0-9_./-]+")
"""Values that are valid in Hydra's grammar; parsing each to find out would take milliseconds."""


def run_command(name: str, action: Callable[[Any], object]) -> None:
    """Compose `conf/<name>.yaml` with the command line and call `action` with the result; exit on a user's mistake."""
    signal.signal(signal.SIGINT, interrupt)
    # otherwise Hydra prints its own traceback and exits with 1
    os.environ["HYDRA_FULL_ERROR"] = "1"
    conversion.register()
    acting = False

    def typed(composed: Any) -> None:
        nonlocal acting
        acting = True
        # handled here: Hydra would add a line of its own to a failed job and still run the jobs after it
        try:
            action(conversion.to_typed(name, composed))
        except ReportError as error:
            refuse(*(_job() + line for line in error.lines))
        except (InputError, OmegaConfBaseException) as error:
            refuse(_job() + explained(name, error))
        except OSError as error:
            refuse_os_error(error)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            reason = one_line(error)[:200] or "no details"
            refuse(f"{_job()}out of memory ({reason}); use a smaller batch_size, model or horizon, or fewer rows")

    # scratch: where Hydra's sweeper writes its notes; runs have their own directories
    with writable_output(), TemporaryDirectory() as scratch:
        OmegaConf.register_new_resolver("scratch", lambda: scratch, replace=True)
        try:
            options = _options()
            sys.argv[1:] = for_hydra(name, sys.argv[1:], is_sweep=bool(options.multirun))
            _compose_and_act(name, options, typed)
        except InputError as error:
            refuse(str(error))
        except (HydraException, OmegaConfBaseException) as error:
            refuse(explained(name, error))
        except ValueError as error:  # raised by Hydra for options that exclude each other
            if acting:
                raise
            refuse(one_line(error))
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted")
            signal.signal(signal.SIGINT, end_quietly)
            sys.exit(EXIT_INTERRUPTED)


def for_hydra(name: str, arguments: Sequence[str], *, is_sweep: bool) -> list[str]:
    """The arguments of a command in Hydra's grammar, text as typed."""
    check_groups(name, arguments)
    texts = conversion.text_keys(name)
    return [_for_hydra(argument, texts, is_sweep=is_sweep) for argument in arguments]


def compose(name: str, settings: Mapping[str, Any]) -> Any:
    """The typed configuration of a command from Python values.

    Args:
        name: name of the command: train, eval, predict, ...
        settings: values by the keys of the command line. `{"trainer": {"max_epochs": 3}}` and
            `{"trainer.max_epochs": 3}` mean the same, and `{"model": "small"}` chooses an option of a config group.

    Raises:
        InputError: unknown key, or value out of range.
    """
    conversion.register()
    overrides = list(overrides_of(settings, conversion.text_keys(name)))
    check_groups(name, overrides)
    try:
        with hydra.initialize_config_dir(str(resource("conf").resolve()), version_base="1.3"):
            return conversion.to_typed(name, hydra.compose(name, overrides=overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(explained(name, error)) from error


def _for_hydra(argument: str, texts: Mapping[str, TextKey], *, is_sweep: bool) -> str:
    """`key=value` in Hydra's grammar: text literally, other values as they are or, if Hydra cannot parse them, quoted,
    for a message that names the key. A path that exists is literal even in quotes or, in a sweep, with a comma."""
    key, sign, value = argument.partition("=")
    if not sign or not re.fullmatch(r"[\w.@/+~]+", key):
        return argument
    name = key.lstrip("+~")
    if name in texts:
        is_path = name in PATHS and value and os.path.lexists(os.path.expanduser(value))
        return f"{key}={to_hydra(escaped(value)) if is_path else read_text(value, texts[name], is_sweep=is_sweep)}"
    if PARSED.fullmatch(value):
        return argument
    try:
        OverridesParser.create().parse_override(argument)
        return argument
    except HydraException:
        return "{}='{}'".format(key, value.replace("'", "\\'"))


def _compose_and_act(name: str, options: Namespace, typed: Callable[[Any], None]) -> None:
    """Print the help, or call `typed` with the composed configuration, once for each job of a `--multirun`.

    `hydra.main` composes a single run twice and takes seconds to list config groups, so it is used only for sweeps and
    for Hydra's own options.
    """
    flags = {option for option, value in vars(options).items() if value} - {"overrides"}
    overrides = sys.argv[1:]
    if flags == {"help"}:
        print(help_of(name))
    elif flags or any(re.match(r"[+~]*hydra\b", override) for override in overrides):
        hydra.main(version_base="1.3", config_path=str(resource("conf").resolve()), config_name=name)(typed)()
    else:
        with hydra.initialize_config_dir(str(resource("conf").resolve()), job_name=name, version_base="1.3"):
            loader = GlobalHydra.instance().config_loader()
            composed = loader.load_configuration(config_name=name, overrides=overrides, run_mode=RunMode.RUN)
        state = HydraConfig.instance()
        state.set_config(composed)
        with open_dict(composed):
            del composed["hydra"]
        try:
            typed(composed)
        finally:
            state.cfg = None


def help_of(name: str) -> str:
    """Help text of a command, from its yaml file, with the options of every config group."""
    folders = sorted(path for path in resource("conf").iterdir() if path.is_dir() and path.name != "hydra")
    groups = "".join(f"{folder.name}: {', '.join(conversion.options_of(folder.name))}\n" for folder in folders)
    template = conversion.read_yaml(resource("conf") / f"{name}.yaml")["hydra"]["help"]["template"]
    return Template(template).substitute(APP_CONFIG_GROUPS=groups)


def _options() -> Namespace:
    """Hydra's options; an invalid one is refused in one line instead of Hydra's usage text."""
    parser = get_args_parser()
    _refuse_dashes(sys.argv[1:], known=[*parser._option_string_actions])
    parser.error = _refuse_options  # type: ignore[method-assign]
    return parser.parse_args()


def check_groups(name: str, overrides: Sequence[str]) -> None:
    """Raise InputError for `attn=null` and the like, if null is not an option of the group; Hydra's error does not
    name the group."""
    node: Any = OmegaConf.to_container(OmegaConf.load(resource("conf") / f"{name}.yaml"))
    defaults = {
        group: option for entry in node["defaults"] if isinstance(entry, dict) for group, option in entry.items()
    }
    for key, _, value in (override.partition("=") for override in overrides):
        if value == "null" and defaults.get(key) is not None:
            options = conversion.options_of(key.partition("@")[0])
            raise InputError(f"{key}: expected one of {', '.join(options)}, found null")


def _refuse_dashes(arguments: Sequence[str], *, known: Sequence[str]) -> None:
    """Raise an InputError for `--horizon 8` and `--horizon=8`, with the form that the commands read.

    Args:
        arguments: the command line.
        known: options that exist.
    """
    for position, word in enumerate(arguments):
        key, has_value, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and re.fullmatch(r"[A-Za-z][\w.-]*", key) and f"--{key}" not in known:
            following = next(iter(arguments[position + 1 :]), "=")
            proposed = value if has_value else "VALUE" if "=" in following else following
            raise InputError(
                f"{word}: settings are written without dashes, such as {key.replace('-', '_')}={proposed}; Hydra's "
                "options: --hydra-help"
            )


def _refuse_options(message: str) -> NoReturn:
    refuse(f"{message}; options (see --hydra-help) go before the first key=value")


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
