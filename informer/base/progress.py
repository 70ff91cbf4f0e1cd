"""What a long command is doing, shown in a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console

from informer.base.errors import printable

_show: ContextVar[Callable[[str], None] | None] = ContextVar("show", default=None)


def report(doing: str) -> None:
    """Show the current activity, such as `training, step 120 of 400`, if there is a terminal that shows it."""
    if (show := _show.get()) is not None:
        show(doing)


@contextmanager
def shown(console: Console) -> Iterator[None]:
    """Within the context, a terminal shows every report next to a spinner."""
    if not console.is_terminal or console.is_jupyter:
        yield
        return
    with console.status("reading") as status:
        token = _show.set(lambda doing: status.update(printable(doing)))
        try:
            yield
        finally:
            _show.reset(token)
