"""`informer COMMAND ...`: console script for all commands; heavy imports are deferred to the command."""

import sys
from difflib import get_close_matches
from typing import NoReturn

import informer
from informer.base import start

COMMANDS = {
    "forecast": "forecast a file or folder, with a report: start here",
    "inspect": "what a file contains, its problems, and how to train on it",
    "train": "fit a model and score it next to two baselines",
    "predict": "forecast files with a trained model",
    "eval": "score a trained model again",
    "watch": "monitor a trained model: its forecasts since training compared with actual values",
    "update": "add later rows to a trained model, in seconds",
    "report": "one HTML page about a run, an evaluation or forecasts",
    "compare": "compare finished runs, sorted by skill",
    "score": "score any forecast file next to two baselines",
    "serve": "forecasts over HTTP from a trained model",
    "export": "export a model to safetensors, ONNX or torch.export",
}
"""Commands and their help; each is also a module, `python -m informer.COMMAND`."""

HELP = """\
Forecast time series with the Informer and swappable attention.

Start with:
  informer forecast my.csv

Commands:
{commands}

Settings are written key=value: informer forecast my.csv target=sales horizon=48
Keys of a command: informer COMMAND --help
"""


def main() -> None:
    """Console script `informer`."""
    start.begin()
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in COMMANDS:
        sys.argv = [f"informer {name}", *arguments]
        start.run_module(name)
    elif name in ("--help", "-h", "help"):
        print(_help(), end="")
    elif name in ("--version", "-V", "version"):
        print(f"informer {informer.__version__}")
    else:
        _refuse(_meant(name))


def _help() -> str:
    lines = (f"  {name:<10}  {what}" for name, what in COMMANDS.items())
    return HELP.format(commands="\n".join(lines))


def _meant(name: str) -> str:
    """The message for an unknown command."""
    close = get_close_matches(name, COMMANDS, n=1)
    if close:
        return f"unknown command {name!r}: expected {close[0]}? (all commands: informer --help)"
    if "." in name or "/" in name:
        return f"unknown command {name!r}: to forecast a file, informer forecast {name}"
    return f"unknown command {name!r}: expected one of {', '.join(COMMANDS)} (informer --help)"


def _refuse(line: str) -> NoReturn:
    from informer.base.console import refuse

    refuse(line)


if __name__ == "__main__":
    main()
