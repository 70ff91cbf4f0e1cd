"""Write the page about a run, an evaluation or forecasts, from the checked configuration to the file.

Compare runs, from the checked configuration to the table and the page.
"""

from pathlib import Path

from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError, with_addresses
from informer.base.files import expanded, write_atomic
from informer.checkpoint.paths import CONFIG, PAGE, check_output, resolve_latest, resume_advice
from informer.config.commands import CompareConfig, ReportConfig
from informer.config.overrides import shell_command
from informer.read.files import SUFFIXES
from informer.report.content import Content
from informer.report.forecasts import contains_forecasts, forecast_content
from informer.report.page import to_html
from informer.report.run import run_content
from informer.report.runs import Comparison, compare_runs


def compare(settings: CompareConfig, console: Console) -> Comparison:
    """Print the tables, and write the page to `output` if given.

    Raises:
        InputError: no run has scores.
    """
    if settings.output:
        check_output(Path(settings.output), [Path(settings.output)], overwrite=settings.overwrite)
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


def report(settings: ReportConfig, console: Console) -> Path:
    """Write the page; returns its path.

    Raises:
        InputError: no run, evaluation or forecasts, or they cannot be read.
    """
    path = resolve_latest(settings.input)
    output = Path(settings.output) if settings.output else (path if path.is_dir() else path.parent) / PAGE
    inputs = [path for path in path.iterdir() if path.suffix != ".html"] if path.is_dir() else [path]
    inputs += [expanded(name) for name in (settings.history, settings.actuals) if name]
    check_output(output, [output], inputs=inputs, overwrite=settings.overwrite or not settings.output)
    with logging_to(console, quiet=True):
        page = to_html(_content(path, settings))
    write_atomic(output, with_addresses(page))
    say(console, f"report: {output} ({len(page) / 1e6:.1f} MB)")
    return output


def _content(path: Path, settings: ReportConfig) -> Content:
    is_run = path.is_dir() and (path / checkpoint.BEST).exists()  # a run directory may also contain forecasts
    if contains_forecasts(path) and not is_run:
        return forecast_content(path, history=settings.history, actuals=settings.actuals, input_format=settings.dataset)
    if path.is_file() and path.name.lower().endswith(SUFFIXES):
        raise InputError(
            f"input={path}: expected a run, an evaluation or forecasts, found another table; "
            f"{shell_command('forecast', str(path))} forecasts a file and writes a report"
        )
    folder = path if path.is_dir() else path.parent
    if not any((place / checkpoint.BEST).exists() for place in (folder, folder.parent)) and path.is_dir():
        if (path / CONFIG).exists():
            raise InputError(f"input={path}: interrupted before its first epoch ended; {resume_advice(path)}")
        raise InputError(
            f"input={path}: expected a run directory, the folder of an evaluation, or forecasts "
            f"(*.forecast.csv, *.rolling.csv, forecasts.csv), found none of them"
        )
    return run_content(path)
