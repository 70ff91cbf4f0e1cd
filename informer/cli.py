"""What the entry points share: Hydra's composition, and every mistake of a user told in one line with exit status 2."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from informer import config
from informer.errors import InputError
from informer.runtime import resource

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130


def run(name: str, act: Callable[[Any], None]) -> None:
    """Compose `conf/<name>.yaml` with the command line, and `act` on the typed result; ends the process on a mistake."""
    # Hydra prints a traceback of its own and exits with 1 unless it is told to raise
    os.environ["HYDRA_FULL_ERROR"] = "1"
    config.register()

    def typed(composed: DictConfig) -> None:
        act(config.to_typed(composed))

    main = hydra.main(version_base="1.3", config_path=str(resource("conf").resolve()), config_name=name)(typed)
    try:
        main()
    except (InputError, HydraException, OmegaConfBaseException) as error:
        _refuse(one_line(error))
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        sys.exit(EXIT_INTERRUPTED)


def one_line(error: BaseException) -> str:
    """The message of an error, and of the error behind it where Hydra wraps one, as a single line."""
    text = str(error)
    if isinstance(error, HydraException) and isinstance(error.__cause__, OmegaConfBaseException):
        text = f"{text} {error.__cause__}"
    kept = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("full_key")]
    return " ".join(dict.fromkeys(kept))


def _refuse(message: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"error: {message}", markup=False)
    sys.exit(EXIT_USER_ERROR)


def job_dir() -> Path | None:
    """The folder that Hydra gives to one job of a `--multirun`; None in a single run."""
    if HydraConfig.initialized() and HydraConfig.get().mode is RunMode.MULTIRUN:
        return Path(HydraConfig.get().runtime.output_dir)
    return None


def choice(group: str) -> str:
    """The option that was chosen for a config group (`attn`, `model`, ...)."""
    return str(HydraConfig.get().runtime.choices.get(group))


class _ConsoleHandler(logging.Handler):
    """Prints above the progress bar instead of through it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(self.format(record), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def logging_to(console: Console, path: Path | None = None) -> Iterator[None]:
    """The package's log on the console and, with times, in a file."""
    handlers: list[logging.Handler] = [_ConsoleHandler(console)]
    if path is not None:
        file = logging.FileHandler(path, encoding="utf-8")
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        handlers.append(file)
    logger = logging.getLogger("informer")
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
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


def point_latest(run_dir: Path) -> None:
    """`latest` beside the run directory leads to it; replaced in one step, so that it always leads somewhere."""
    link, fresh = run_dir.parent / "latest", run_dir.parent / f".latest-{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(run_dir.name, target_is_directory=True)
    fresh.replace(link)
