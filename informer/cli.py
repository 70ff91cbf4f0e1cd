"""What the entry points share: Hydra's composition, and a user's mistakes told in a line each with exit status 2."""

import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from logging.handlers import MemoryHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.main import get_args_parser
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError
from rich.console import Console

from informer import conversion
from informer.build import SLOTS
from informer.errors import InputError, ReportError
from informer.files import writing
from informer.runtime import process_rank, resource

NOISE = ("full_key", "object_type", "reference_type", "See ", "Config search path", "provider=")
"""How lines of Hydra's and OmegaConf's messages begin that tell a user nothing."""

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130


def run(name: str, act: Callable[[Any], object]) -> None:
    """Compose `conf/<name>.yaml` with the command line, `act` on the typed result; ends the process on a mistake."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hydra prints a traceback of its own and exits with 1 unless it is told to raise
    os.environ["HYDRA_FULL_ERROR"] = "1"
    conversion.register()
    acting = False

    def typed(composed: Any) -> None:
        nonlocal acting
        acting = True
        # Left to Hydra, a failed job adds a line of its own, and the jobs after it still run
        try:
            act(conversion.to_typed(composed))
        except ReportError as error:
            refuse(*(_job() + line for line in error.lines))
        except (InputError, OmegaConfBaseException) as error:
            refuse(_job() + explained(name, error))

    main = hydra.main(version_base="1.3", config_path=str(resource("conf").resolve()), config_name=name)(typed)
    # the place where Hydra's sweeper keeps its notes; runs keep their own
    with TemporaryDirectory() as scratch:
        OmegaConf.register_new_resolver("scratch", lambda: scratch, replace=True)
        try:
            _check_options()
            check_groups(name, sys.argv[1:])
            sys.argv = [sys.argv[0], *map(_quoted, sys.argv[1:])]
            main()
        except InputError as error:
            refuse(str(error))
        except (HydraException, OmegaConfBaseException) as error:
            refuse(explained(name, error))
        except ValueError as error:  # Hydra's own, for options that exclude each other
            if acting:
                raise
            refuse(one_line(error))
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted")
            sys.exit(EXIT_INTERRUPTED)


def compose(name: str, settings: Mapping[str, Any]) -> Any:
    """The typed configuration of an entry point from Python values.

    Args:
        name: train, eval or predict.
        settings: by the keys of the command line; `{"trainer": {"max_epochs": 3}}` and `{"trainer.max_epochs": 3}` are
            one, and `{"model": "small"}` chooses from a group.

    Raises:
        InputError: an unknown key, or a value out of range.
    """
    conversion.register()
    overrides = list(_overrides(settings))
    check_groups(name, overrides)
    try:
        with hydra.initialize_config_dir(str(resource("conf").resolve()), version_base="1.3"):
            return conversion.to_typed(hydra.compose(name, overrides=overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(explained(name, error)) from error


def _overrides(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _overrides(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={_written(value)}"


def _written(value: Any) -> str:
    """A Python value in Hydra's grammar."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    # a backslash escapes only where a quote, or the end, follows
    text = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), str(value))
    return f"'{text}'"


def explained(name: str, error: BaseException) -> str:
    """What to tell of an error of Hydra's or OmegaConf's about an entry point's configuration."""
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        return f"{group}: expected one of {', '.join(error.options)}, found {option!r}"
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(error, cause, conversion.known_keys(name))
    if isinstance(cause, ValidationError) and cause.full_key:
        expected = conversion.expected_value(name, cause.full_key)
        return f"{cause.full_key}: expected {expected}, found {_written(cause.value)}"
    return one_line(error)


def one_line(error: BaseException) -> str:
    """The message of an error, and of the error behind it where Hydra wraps one, as a single line."""
    text = str(error)
    if isinstance(error, HydraException) and isinstance(error.__cause__, OmegaConfBaseException):
        text = f"{text} {error.__cause__}"
    lines = (" ".join(line.split()) for line in text.splitlines())
    kept = [line for line in lines if line and not line.startswith(NOISE)]
    if isinstance(error, OverrideParseException):
        kept.append("(expected key=value)")
    return " ".join(dict.fromkeys(kept))


def _unknown_key(error: BaseException, cause: OmegaConfBaseException, known: list[str]) -> str:
    """The line for a key that the configuration does not have."""
    asked = re.match(r"Could not .*'\+*([\w.@/]+)'", str(error))
    key = asked[1] if asked else str(cause.full_key)
    if key.rpartition(".")[0] in SLOTS:
        return f"unknown key {key!r}: {_parameters(cause.parent_node)}"
    groups = sorted({name.partition(".")[0] for name in known})
    by_last: dict[str, list[str]] = {}  # lr of optim.lr, as one remembers it
    for name in known:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    last = key.rpartition(".")[2]
    alike = [name for one in get_close_matches(last, by_last, n=2, cutoff=0.7) for name in by_last[one]]
    close = [*by_last.get(last, []), *get_close_matches(key, [*groups, *known], n=3), *alike][:4] or groups
    return f"unknown key {key!r}: expected one such as {', '.join(dict.fromkeys(close))} (all of them: --cfg job)"


def _parameters(slot: Any) -> str:
    """What to set in a slot of attention."""
    if not slot:
        return "it follows attn; choose a mechanism of its own first, with attn@decoder_attn=NAME"
    names = ", ".join(str(name) for name in slot if name != "_target_")
    return f"expected a parameter of {slot['_target_'].rpartition('.')[2]}: {names or 'it has none'}"


def _quoted(argument: str) -> str:
    """`key=value` as it is where Hydra reads all of it, else with the value in quotes: file names, separators."""
    key, sign, value = argument.partition("=")
    if not sign or not re.fullmatch(r"[\w.@/+]+", key):
        return argument
    try:
        OverridesParser.create().parse_override(argument)
        if value == value.strip():
            return argument
    except HydraException:
        pass
    return "{}='{}'".format(key, value.replace("'", "\\'"))


def _check_options() -> None:
    """Hydra's own options, refused in one line; its parser would print its usage."""
    parser = get_args_parser()
    parser.error = _refuse_options  # type: ignore[method-assign]
    parser.parse_args()


def check_groups(name: str, overrides: list[str]) -> None:
    """Refuse `attn=null` where a group has no null among its options; Hydra would say nothing of the group."""
    written: Any = OmegaConf.to_container(OmegaConf.load(resource("conf") / f"{name}.yaml"))
    chosen = {
        group: option for entry in written["defaults"] if isinstance(entry, dict) for group, option in entry.items()
    }
    for key, _, value in (override.partition("=") for override in overrides):
        if value == "null" and chosen.get(key) is not None:
            folder = resource("conf") / key.partition("@")[0]
            options = sorted(path.stem for path in folder.glob("*.yaml"))
            raise InputError(f"{key}: expected one of {', '.join(options)}, found null")


def _refuse_options(message: str) -> NoReturn:
    refuse(f"{message}; options (see --hydra-help) go before the first key=value")


def main_console() -> Console:
    """Standard output; in a run of several processes only the first one speaks."""
    return Console(quiet=process_rank() > 0)


def refuse(*lines: str) -> NoReturn:
    """Tell a user's mistake, a line each, and end the process."""
    speaker = f"process {process_rank()}: " if process_rank() > 0 else ""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(f"error: {speaker}{line}", markup=False)
    sys.exit(EXIT_USER_ERROR)


def _job() -> str:
    """Which job of a `--multirun` speaks; nothing in a single run."""
    number = job_number()
    return "" if number is None else f"job {number} ({' '.join(HydraConfig.get().overrides.task)}): "


def job_number() -> int | None:
    """Number of the job in a `--multirun`, from 0; None in a single run."""
    if HydraConfig.initialized() and HydraConfig.get().mode is RunMode.MULTIRUN:
        return int(HydraConfig.get().job.num)
    return None


def given_keys() -> list[str]:
    """The keys that the command line sets."""
    return [argument.partition("=")[0].lstrip("+~") for argument in HydraConfig.get().overrides.task]


def choice(group: str) -> str | None:
    """The option that was chosen for a config group (`attn`, `model`, ...); None where no option was."""
    return HydraConfig.get().runtime.choices.get(group)


def say(console: Console, line: str) -> None:
    """A line as it is, whatever signs are in it, without breaks of rich's."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


class _ConsoleHandler(logging.Handler):
    """Prints above the progress bar instead of through it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        say(self.console, self.format(record))


class _FileHandler(logging.FileHandler):
    """A log that cannot be written ends the program with one line; logging's own handler goes on with a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:
        with writing(Path(self.baseFilename)):
            raise

    def close(self) -> None:
        with writing(Path(self.baseFilename)):
            super().close()


@contextmanager
def logging_to(console: Console, *, quiet: bool = False) -> Iterator[Callable[[Path], None]]:
    """The package's log on the console; what is yielded keeps it in a file too, with times, from the first line on;
    the first file that it is given.

    `quiet`: warnings alone.
    """
    early = MemoryHandler(capacity=10_000, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
    handlers: list[logging.Handler] = [_ConsoleHandler(console), early]
    logger = logging.getLogger("informer")
    level = logger.level
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)

    def keep_in(path: Path) -> None:
        if early not in handlers:
            return
        with writing(path):
            file = _FileHandler(path, encoding="utf-8")
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        early.setTarget(file)
        early.flush()
        logger.removeHandler(early)
        logger.addHandler(file)
        handlers[handlers.index(early)] = file

    try:
        yield keep_in
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def make_folder(path: Path) -> None:
    """Make a folder and those above it; a place that cannot be is the user's to change."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: the folder cannot be made ({error.strerror}); choose another") from error
