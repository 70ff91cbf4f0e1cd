"""Compare runs, from the checked configuration to the table and the page."""

from pathlib import Path

from rich.console import Console

from informer.checkpoint.paths import check_no_run_overwritten, resolve_latest
from informer.config.reports import CompareConfig
from informer.console import say
from informer.files import write_atomic
from informer.reporting.page import to_html
from informer.reporting.runs import Comparison, compare_runs


def compare(settings: CompareConfig, console: Console) -> Comparison:
    """Print the tables, and write the page to `output` if given.

    Raises:
        InputError: no run has scores.
    """
    if settings.output:
        check_no_run_overwritten([Path(settings.output)], "output")
    comparison = compare_runs(resolve_latest(run) for run in settings.runs)
    console.print(comparison.table())
    for line in comparison.notes:
        say(console, line)
    if comparison.differences:
        console.print(comparison.differences_table())
    if settings.output:
        write_atomic(Path(settings.output), to_html(comparison.content()))
        say(console, f"page: {settings.output}")
    return comparison
