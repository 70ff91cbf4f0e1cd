"""`python -m informer.compare runs/*`: finished runs sorted by skill, with the differences in their configuration."""

from informer import start

if __name__ == "__main__":  # before the imports that take time
    start.begin()

import sys

from informer.config.arguments import split_positional
from informer.config.compose import run_command
from informer.config.overrides import to_hydra
from informer.config.reports import CompareConfig
from informer.console import main_console


def main() -> None:
    """The command `informer compare`."""
    paths, overrides = split_positional(sys.argv[1:])
    sys.argv[1:] = [*overrides, *([f"runs={to_hydra(paths)}"] if paths else [])]
    run_command("compare", _act)


def _act(settings: CompareConfig) -> None:
    from informer.reporting.comparison import compare  # not needed for the help

    compare(settings, main_console())


if __name__ == "__main__":
    start.run(main)
