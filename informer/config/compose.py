"""Composition by Hydra: from the command line or from Python values to a checked configuration.

Arguments of the command line that are paths without a key.

Errors of Hydra and OmegaConf as one line: the key, what was expected, what was found.
"""

import logging
import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError
from rich.console import Console

from informer.base.console import refuse, refuse_os_error, writable_output
from informer.base.errors import InputError, ReportError, is_out_of_memory
from informer.base.runtime import resource
from informer.base.start import EXIT_INTERRUPTED, end_quietly, interrupt
from informer.config import conversion
from informer.config.data import PATHS, is_address
from informer.config.model import InformerConfig, ModelConfig
from informer.config.overrides import TextKey, overrides_of, read_text, to_hydra, unquoted
from informer.config.plain import escaped
from informer.config.training import SLOTS

log = logging.getLogger(__name__)


FLAGS = (
    *("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m"),
    *("--shell-completion", "-sc"),
)
"""Hydra's options without a value; a word after one of them may be a path."""


def split_positional(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate paths and addresses from all other arguments: `key=value` (unless a file has this name), options and
    their values."""
    paths: list[str] = []
    remaining: list[str] = []
    for position, argument in enumerate(arguments):
        is_key = "=" in argument and not is_address(argument) and not os.path.exists(argument)
        previous = arguments[position - 1] if position else ""
        takes_value = previous.startswith("-") and "=" not in previous and previous not in FLAGS
        is_option = argument.startswith("-") or takes_value
        (remaining if is_key or is_option else paths).append(argument)
    return paths, remaining


def as_input(paths: Sequence[str]) -> list[str]:
    """`input=PATH` for a path given without a key; ends the program if there are several."""
    if len(paths) > 1:
        refuse(
            f"input: expected one file, folder or pattern, found {len(paths)} files from {paths[0]} to {paths[-1]}; "
            "put a pattern in quotes, so that the shell does not expand it"
        )
    return [f"input={path}" for path in paths]


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
    overrides = for_hydra(name, sys.argv[1:], is_sweep=bool(options.multirun))
    if flags == {"help"}:
        print(help_of(name))
    elif flags or any(re.match(r"[+~]*hydra\b", override) for override in overrides):
        sys.argv[1:] = overrides
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
