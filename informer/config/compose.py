"""From the words of a command to its checked settings, its help, and errors of users as one line.

`informer train` is composed by Hydra (`hydra_compose`); the other commands read `key=value` into their class.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from textwrap import wrap
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from rich.console import Console

from informer.base.console import refuse, refuse_os_error, writable_output
from informer.base.errors import InputError, ReportError, is_out_of_memory
from informer.base.extensions import installed
from informer.base.runtime import resource
from informer.base.start import EXIT_INTERRUPTED, end_quietly, interrupt
from informer.config.conversion import node_of, read_saved_yaml, to_plain
from informer.config.fields import (
    Checked,
    S,
    check,
    default_of,
    facts_of,
    is_address,
    keys_of,
    unknown,
)
from informer.config.overrides import to_display, value_of

OPTION = re.compile(r"--([A-Za-z][\w.@-]*)(?:=(.*))?", re.DOTALL)


def settings_words(words: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The words with `--key=value` and `--key value` as `key=value`; dashes in a key are underscores.

    Args:
        keys: the settings of the command and, for training, its groups; other options are left as they are.
    """
    found, remaining = list[str](), iter(words)
    for word in remaining:
        option = OPTION.fullmatch(word)
        if option is None or (key := option[1].replace("-", "_")) not in keys:
            found.append(word)
        else:
            value = option[2] if option[2] is not None else next(remaining, "")
            found.append(f"{key}={value}")
    return found


def split_positional(words: Sequence[str], valued: Sequence[str] = ("--cfg", "-c")) -> tuple[list[str], list[str]]:
    """Separate paths and addresses from all other words: `key=value` (unless a file has this name), options and the
    values of those that are `valued`."""
    paths: list[str] = []
    others: list[str] = []
    for position, word in enumerate(words):
        is_key = "=" in word and not is_address(word) and not os.path.exists(word)
        is_option = word.startswith("-") or (position > 0 and words[position - 1] in valued)
        (others if is_key or is_option else paths).append(word)
    return paths, others


ARGUMENTS = ("input", "dataset.path", "forecasts", "checkpoint")
"""Keys that a path without a key is meant for."""


def run_command(schema: type[S], words: Sequence[str], action: Callable[[S], object]) -> None:
    """Print the help or the settings of a command, or call `action` with its settings; exit on a user's mistake."""
    with refusing():
        if {"--help", "-h"} & {*words}:
            print(help_of(schema), end="")
        elif {"--cfg", "--cfg=job", "-c"} & {*words}:
            shown = [word for word in words if word not in ("--cfg", "--cfg=job", "-c", "job")]
            import yaml

            print(yaml.safe_dump(to_plain(read_words(schema, shown)), sort_keys=False, allow_unicode=True), end="")
        elif options := [word for word in words if word.startswith("-")]:
            raise InputError(
                f"{options[0]}: expected --help, --cfg job or key=value; only informer train has other options"
            )
        else:
            action(settings_of(schema, words))


def settings_of(schema: type[S], words: Sequence[str]) -> S:
    """The checked settings of a command other than train; text as typed, see `informer.config.overrides`.

    Raises:
        InputError: unknown key, or value of another type or out of range.
    """
    return check(read_words(schema, words))


def read_words(schema: type[S], words: Sequence[str]) -> S:
    """The settings of the words, whose types and ranges are checked, but not that all that are needed are there."""
    keys, plain = keys_of(schema), dict[str, Any]()
    variables = {key: facts_of(field).get("environment", "") for key, field in keys.items()}
    given = {key: os.environ[name] for key, name in variables.items() if name in os.environ}
    for word in words:
        key, sign, typed = word.partition("=")
        if not sign:
            raise InputError(no_setting(word, [*keys]))
        if key not in keys:
            raise InputError(unknown(key, [*keys]))
        given[key] = typed
    for key, typed in given.items():
        *nodes, last = key.split(".")
        node = plain
        for each in nodes:
            node = node.setdefault(each, {})
        node[last] = value_of(typed, keys[key])
    return node_of(schema, plain)


@contextmanager
def refusing(prefix: Callable[[], str] = str) -> Iterator[None]:
    """Exit with one line for a user's mistake or a full memory, and on Ctrl-C; `prefix` of the line."""
    signal.signal(signal.SIGINT, interrupt)
    with writable_output():
        try:
            yield
        except ReportError as error:
            refuse(*(prefix() + line for line in error.lines), code=error.code)
        except InputError as error:
            refuse(prefix() + str(error), code=error.code)
        except OSError as error:
            refuse_os_error(error)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            reason = " ".join(str(error).split())[:200] or "no details"
            line = f"out of memory ({reason}); use a smaller batch_size, model or horizon, or fewer rows"
            refuse(prefix() + line, code="memory")
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted")
            signal.signal(signal.SIGINT, end_quietly)
            sys.exit(EXIT_INTERRUPTED)


def no_setting(word: str, keys: Sequence[str]) -> str:
    """The message for a word without `=`."""
    key = next((key for key in ARGUMENTS if key in keys), "KEY")
    return f"{word!r}: expected key=value, such as {key}={word}"


def options_of(group: str) -> list[str]:
    """Options of a config group: the names of the yaml files in `conf/<group>`, and those of installed packages."""
    return sorted({*(path.stem for path in (resource("conf") / group).glob("*.yaml")), *installed(group)})


def groups() -> list[str]:
    """The config groups of `informer train`."""
    return sorted(path.name for path in resource("conf").iterdir() if path.is_dir() and path.name != "hydra")


WIDTH, INDENT = 120, 36
"""Columns of the help, and of its keys."""
MOST_SET = ("target", "seq_len", "pred_len", "seed", "device", "run_dir", "trainer.max_epochs", "trainer.batch_size",
            "trainer.patience", "optim.lr")  # fmt: skip
"""Keys of `informer train` that its help has first."""


def help_of(schema: type[Checked], *, with_groups: bool = False) -> str:
    """Help text of a command, from its declarations: every key with its values, what it means, and its default."""
    lines = [*cleandoc(schema.__doc__ or "").splitlines(), ""]
    by_class = [vars(parent).get("__annotations__", {}) for parent in schema.__mro__]
    place = {name: number for number, names in reversed([*enumerate(by_class)]) for name in names}
    keys = keys_of(schema)  # the command's own first, then those of its parents, then those of nodes
    ordered = sorted(keys, key=lambda key: (("." in key), place.get(key, 0) if "." not in key else 0))
    if with_groups:
        lines += [
            "Keys, as key=value; those that are set most often:",
            *(row for key in MOST_SET for row in _rows_of(key, keys[key])),
        ]
        lines.append("")
        lines.append("Groups, as group=option (attn@decoder_attn and attn@cross_attn take the same options as attn):")
        for group in groups():
            text = f"{group}: {', '.join(options_of(group))}"
            lines += wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines += ["", "All other keys:"]
        ordered = [key for key in ordered if key not in MOST_SET]
    else:
        lines.append("Keys, as key=value:")
    node = ""
    for key in ordered:
        if (own := key.rpartition(".")[0]) != node:
            node = own
            lines.append("")
        lines += _rows_of(key, keys[key])
    if with_groups:
        lines += ["", "Parameters of mechanisms, such as attn.factor=3:", *_parameters("attn", keys)]
        lines += ["", "Parameters of other models, such as model.layers=2:", *_parameters("model", keys)]
    lines += ["", "All keys with their values: --cfg job"]
    return "\n".join(lines) + "\n"


def _parameters(group: str, keys: Container[str]) -> Iterator[str]:
    """The lines of the options of a group that have parameters that are not among the keys."""
    for path in sorted(resource(f"conf/{group}").glob("*.yaml")):
        values = read_saved_yaml(path)
        values = values.get("model", {}) if group == "model" else values
        own = {key: value for key, value in values.items() if f"{group}.{key}" not in keys and key != "_target_"}
        words = [f"{key}={to_display(value)}" for key, value in own.items()]
        if words:
            text = f"{path.stem}: {' '.join(words)}"
            yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _rows_of(key: str, field: FieldInfo) -> list[str]:
    """The lines of a key."""
    choices, default = choices_of(field.annotation), default_of(field)
    word = f"{key}={'|'.join(choices)}" if 0 < len("|".join(choices)) < INDENT else key
    said = (field.description or "") + ("" if default is None else f" ({to_display(default)})")
    rows = wrap(said, WIDTH - INDENT - 2, break_long_words=False, break_on_hyphens=False)
    if len(word) < INDENT:
        word, rows = f"{word:<{INDENT}}{rows[0]}", rows[1:]
    return [f"  {word}", *(f"  {'':<{INDENT}}{row}" for row in rows)]


def choices_of(hint: Any) -> list[str]:
    """The words of a setting that is one of a few, or a flag."""
    if get_origin(hint) in (Union, UnionType, list):
        return [word for option in get_args(hint) for word in choices_of(option)]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return ["true", "false"] if hint is bool else []
