"""Output of the commands: lines, errors, the log."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from informer.base.errors import FileError, InputError, printable
from informer.base.files import refuse_link, writing
from informer.base.runtime import process_rank

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

EXIT_USER_ERROR = 2


def main_console() -> Console:
    """Standard output; silent in all processes of a run but the first."""
    return Console(quiet=process_rank() > 0)


class Refused(SystemExit):
    """Exit with status 2 because of a user's mistake.

    Args:
        lines: what is wrong.
        code: kind of the mistake, see `InputError`.
    """

    def __init__(self, lines: Sequence[str], code: str) -> None:
        super().__init__(EXIT_USER_ERROR)
        self.lines, self.kind = lines, code


def refuse(*lines: str, code: str = InputError.CODE) -> NoReturn:
    """Print the lines of a user's error to standard error, and exit with status 2."""
    speaker = f"process {process_rank()}: " if process_rank() > 0 else ""
    with suppress(OSError):  # standard error is closed
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        for line in lines:
            console.print(f"error: {speaker}{printable(line)}", markup=False)
    raise Refused(lines, code)


@contextmanager
def writable_output() -> Iterator[None]:
    """Allow any characters on standard output; if it cannot be written, the process ends with one line."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        refuse_os_error(error)


def refuse_os_error(error: OSError) -> NoReturn:
    """Exit because of an unexpected file or device error; without a file name it is standard output."""
    if error.filename is None:
        # so that Python does not try to flush it again at exit
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (as long as the process)
    refuse(f"{error.filename or 'standard output'}: {error.strerror or error}", code=FileError.CODE)


def say(console: Console, line: str) -> None:
    """Print a line, without rich's markup and line breaks; control characters are escaped."""
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def folding_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), title: str | None = None
) -> "Table":
    """A table of texts, which fold; cells of the columns `numbers` stay on one line."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, padding=0)
    for place, name in enumerate(head):
        is_number = place in numbers
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def step_bar(console: Console, *more: str, is_shown: bool = True) -> "Progress":
    """A progress bar with the steps done and the time left, in a terminal only; `more`: formats of further columns."""
    from rich import progress as parts

    texts = map(parts.TextColumn, ("{task.description}", "eta", *more))
    columns = (next(texts), parts.BarColumn(), parts.MofNCompleteColumn(), parts.TimeElapsedColumn(), next(texts))
    hides = not (console.is_terminal and is_shown)
    return parts.Progress(*columns, parts.TimeRemainingColumn(), *texts, console=console, disable=hides, transient=True)


class _ConsoleHandler(logging.Handler):
    """Prints above the progress bar, each line once: what a file says is found by every command that reads it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console, self.said = console, set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if (line := self.format(record)) not in self.said:
            self.said.add(line)
            say(self.console, line)


class _ProgramHandler(logging.Handler):
    """Passes lines on to the handlers of the program that uses the package."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.root.callHandlers(record)


class _FileHandler(logging.FileHandler):
    """A log that cannot be written ends the program with one line; logging's own handler would print a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        with writing(Path(self.baseFilename)):
            raise

    def close(self) -> None:
        with writing(Path(self.baseFilename)):
            super().close()


@contextmanager
def logging_to(console: Console, *, quiet: bool = False) -> Iterator[Callable[[Path], None]]:
    """Log to the console; calling the yielded function also logs to a file, with times and including earlier lines.

    Handlers of the program that uses the package get what they get without this, by its own levels.

    Args:
        quiet: log only warnings and errors.

    Yields:
        A function of the path of a log file; later calls are ignored.
    """
    early = MemoryHandler(capacity=10_000, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
    handlers: list[logging.Handler] = [_ConsoleHandler(console), early]
    logger = logging.getLogger("informer")
    level, propagates = logger.level, logger.propagate
    if propagates and logging.root.handlers:
        handlers.append(_ProgramHandler(logger.getEffectiveLevel()))
    logger.propagate = False
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)

    def keep_in(path: Path) -> None:
        if early not in handlers:
            return
        refuse_link(path)
        with writing(path):
            file = _FileHandler(path, encoding="utf-8", errors="surrogateescape")
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
        logger.propagate = propagates
        for handler in handlers:
            logger.removeHandler(handler)
        for handler in handlers:  # a log on a full disk cannot be closed
            handler.close()
