"""`informer compare runs/*`: finished runs sorted by skill, with the differences in their configuration."""

import sys

from informer.base.console import main_console
from informer.config.commands import CompareConfig
from informer.config.compose import run_command, split_positional
from informer.config.overrides import to_hydra


def main() -> None:
    """The command `informer compare`."""
    paths, overrides = split_positional(sys.argv[1:])
    sys.argv[1:] = [*overrides, *([f"runs={to_hydra(paths)}"] if paths else [])]
    run_command("compare", _act)


def _act(settings: CompareConfig) -> None:
    from informer.report.command import compare  # not needed for the help

    compare(settings, main_console())
