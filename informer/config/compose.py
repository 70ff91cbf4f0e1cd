"""From the words of a command to its checked settings, and errors of users as one line.

`informer train` is composed by Hydra (`hydra_compose`); the other commands read `key=value` into their dataclass.
"""

import os
import re
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, cast

from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError
from rich.console import Console

from informer.base.console import refuse, refuse_os_error, writable_output
from informer.base.errors import InputError, ReportError, is_out_of_memory
from informer.base.runtime import resource
from informer.base.start import EXIT_INTERRUPTED, end_quietly, interrupt
from informer.config import conversion
from informer.config.fields import Checked, is_address
from informer.config.model import InformerConfig, ModelConfig
from informer.config.overrides import escaped, literal, text_value, to_hydra
from informer.config.training import SLOTS, check

Settings = TypeVar("Settings", bound=Checked)

FLAGS: tuple[tuple[str, ...], ...] = (
    *(("--help", "-h"), ("--hydra-help",), ("--version",), ("--resolve",), ("--run", "-r"), ("--multirun", "-m")),
    ("--shell-completion", "-sc"),
)
"""Hydra's options without a value; a word after one of them may be a path."""
VALUED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--cfg", "-c"), {"choices": ("job", "hydra", "all")}),
    *((names, {}) for names in (("--package", "-p"), ("--config-path", "-cp"), ("--config-name", "-cn"))),
    *((names, {}) for names in (("--config-dir", "-cd"), ("--experimental-rerun",))),
    (("--info", "-i"), {"nargs": "?", "const": "all"}),
)
"""Hydra's options with a value."""
NO_VALUE = [name for names in FLAGS for name in names]


def split_positional(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate paths and addresses from all other arguments: `key=value` (unless a file has this name), options and
    their values."""
    paths: list[str] = []
    remaining: list[str] = []
    for position, argument in enumerate(arguments):
        is_key = "=" in argument and not is_address(argument) and not os.path.exists(argument)
        previous = arguments[position - 1] if position else ""
        takes_value = previous.startswith("-") and "=" not in previous and previous not in NO_VALUE
        is_option = argument.startswith("-") or takes_value
        (remaining if is_key or is_option else paths).append(argument)
    return paths, remaining


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
}
"""Names of keys in other programs, or in other commands -> the names here, of which a command has one."""

ARGUMENTS = ("input", "dataset.path", "forecasts", "checkpoint")
"""Keys that a path without a key is meant for."""

NOISE = ("full_key", "object_type", "reference_type", "See ", "Config search path", "provider=")
"""Prefixes of lines in messages of Hydra and OmegaConf that do not help a user."""


def run_command(name: str, schema: type[Settings], words: Sequence[str], action: Callable[[Settings], object]) -> None:
    """Print the help or the settings of a command, or call `action` with its settings; exit on a user's mistake."""
    with refusing(schema):
        options = parsed(words)
        if options.help:
            print(help_of(name))
            return
        other = [option for option, value in vars(options).items() if value and option not in ("overrides", "cfg")]
        if other or options.cfg not in (None, "job"):
            raise InputError(f"{name}: expected --help, --cfg job or key=value; only informer train has other options")
        if options.cfg:
            print(OmegaConf.to_yaml(typed_node(schema, options.overrides)), end="")
        else:
            action(settings_of(schema, options.overrides))


def settings_of(schema: type[Settings], words: Sequence[str]) -> Settings:
    """The checked settings of a command other than train; text as typed, see `informer.config.overrides`.

    Raises:
        InputError: unknown key, or value of another type or out of range.
    """
    try:
        return check(cast(Settings, OmegaConf.to_object(typed_node(schema, words))))
    except OmegaConfBaseException as error:
        raise InputError(explained(schema, error)) from error


def typed_node(schema: type[Checked], words: Sequence[str]) -> Any:
    """The node of OmegaConf with the values of the words, whose types are checked."""
    node, texts, keys = deepcopy(conversion.node(schema)), conversion.text_keys(schema), conversion.known_keys(schema)
    for entry in fields(cast(Any, schema)):
        if (given := os.environ.get(entry.metadata.get("environment", ""))) is not None:
            node[entry.name] = escaped(given)
    for word in words:
        key, sign, typed = word.partition("=")
        if not sign:
            raise InputError(no_setting(word, keys))
        if key not in keys:
            raise InputError(_unknown(key, keys))
        value = text_value(typed, texts[key]) if key in texts else literal(typed)
        OmegaConf.update(node, key, escaped(value), merge=False)
    return node


@contextmanager
def refusing(schema: type, job: Callable[[], str] = str) -> Iterator[None]:
    """Exit with one line for a user's mistake or a full memory, and on Ctrl-C; `job` is a prefix of the line."""
    signal.signal(signal.SIGINT, interrupt)
    with writable_output():
        try:
            yield
        except ReportError as error:
            refuse(*(job() + line for line in error.lines))
        except (InputError, OmegaConfBaseException) as error:
            refuse(job() + explained(schema, error))
        except OSError as error:
            refuse_os_error(error)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            reason = one_line(error)[:200] or "no details"
            refuse(f"{job()}out of memory ({reason}); use a smaller batch_size, model or horizon, or fewer rows")
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted")
            signal.signal(signal.SIGINT, end_quietly)
            sys.exit(EXIT_INTERRUPTED)


def explained(schema: type, error: BaseException) -> str:
    """The message for an error of OmegaConf in the settings of a command, also if Hydra has wrapped it."""
    cause = error if isinstance(error, InputError | OmegaConfBaseException) else error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(error, cause, conversion.known_keys(schema))
    if isinstance(cause, ValidationError) and cause.full_key:
        expected = conversion.expected_value(schema, cause.full_key, _model_class(cause))
        return f"{cause.full_key}: expected {expected}, found {to_hydra(cause.value)}"
    return one_line(error)


def no_setting(word: str, keys: Sequence[str]) -> str:
    """The message for a word without `=`."""
    key = next((key for key in ARGUMENTS if key in keys), "KEY")
    return f"{word!r}: expected key=value, such as {key}={word}"


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
    """The message of an error, and of an error of OmegaConf that it wraps, as a single line."""
    text = str(error)
    if isinstance(error.__cause__, OmegaConfBaseException) and not isinstance(error, InputError):
        text = f"{text} {error.__cause__}"
    lines = (" ".join(line.split()) for line in text.splitlines())
    return " ".join(dict.fromkeys(line for line in lines if line and not line.startswith(NOISE)))


def _unknown_key(error: BaseException, cause: OmegaConfBaseException, keys: list[str]) -> str:
    quoted = re.match(r"Could not .*'\+*([\w.@/]+)'", str(error))
    key = quoted[1] if quoted else str(cause.full_key)
    if key.rpartition(".")[0] in SLOTS and not (slot := cause.parent_node):
        return f"unknown key {key!r}: it follows attn; choose its own mechanism first, with attn@decoder_attn=NAME"
    if key.rpartition(".")[0] in SLOTS:
        names = ", ".join(str(name) for name in slot if name != "_target_")
        kind = slot["_target_"].rpartition(".")[2]
        return f"unknown key {key!r}: expected a parameter of {kind}: {names or 'it has none'}"
    if key.rpartition(".")[0] == "model" and cause.parent_node is not None:  # the family may not be the schema's
        keys = [*(name for name in keys if not name.startswith("model.")), *(f"model.{k}" for k in cause.parent_node)]
    return _unknown(key, keys)


def _unknown(key: str, keys: Sequence[str]) -> str:
    """The message for an unknown key, with similar keys of the command."""
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


def help_of(name: str) -> str:
    """Help text of a command, with the options of every config group."""
    folders = sorted(path for path in resource("conf").iterdir() if path.is_dir() and path.name not in ("hydra", HELP))
    groups = "".join(f"{folder.name}: {', '.join(conversion.options_of(folder.name))}\n" for folder in folders)
    return (resource("conf") / HELP / f"{name}.txt").read_text(encoding="utf-8").replace("$APP_CONFIG_GROUPS\n", groups)


HELP = "help"
"""Folder of the help texts in `conf`."""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; options (see --hydra-help) go before the first key=value")


def parsed(words: Sequence[str]) -> Namespace:
    """Options and `overrides`, which are all other words.

    Raises:
        InputError: another option; also `--horizon 8` and `--horizon=8`, with the form that the commands read.
    """
    known = [*NO_VALUE, *(name for names, _ in VALUED for name in names)]
    for position, word in enumerate(words):
        key, has_value, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and re.fullmatch(r"[A-Za-z][\w.-]*", key) and f"--{key}" not in known:
            following = next(iter(words[position + 1 :]), "=")
            proposed = value if has_value else "VALUE" if "=" in following else following
            raise InputError(
                f"{word}: settings are written without dashes, such as {key.replace('-', '_')}={proposed}; options: "
                "--help, --cfg job, and for training --hydra-help"
            )
    parser = _Parser(add_help=False)
    parser.add_argument("overrides", nargs="*")
    for names in FLAGS:
        parser.add_argument(*names, action="store_true")
    for names, what in VALUED:
        parser.add_argument(*names, **what)
    return parser.parse_args(words)
