"""`informer COMMAND ...`: the console script, and the table of all commands; the commands import what is slow."""

import json
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import informer
from informer.base import start

if TYPE_CHECKING:
    from informer.commands.actions import Answer


COMMANDS: dict[str, tuple[str, list[str]]] = {
    "forecast": ("forecast a file or folder, with a report: start here", ["input"]),
    "inspect": ("what a file contains, its problems, and how to train on it", ["input"]),
    "train": ("fit a model and score it next to two baselines", ["dataset.path"]),
    "predict": ("forecast files with a trained model", ["input", "checkpoint"]),
    "explain": ("a forecast by source, what if a column changes, importance", ["input", "checkpoint"]),
    "eval": ("score a trained model again", ["checkpoint"]),
    "watch": ("monitor logged forecasts: compare them with the actual values since", []),
    "report": ("one HTML page about a run, an evaluation or forecasts", ["input"]),
    "compare": ("compare finished runs, sorted by skill", ["runs"]),
    "leaderboard": ("compare forecasters on the earlier rows of a file", ["input"]),
    "score": ("score any forecast file next to two baselines", []),
    "serve": ("forecasts over HTTP from a trained model", []),
    "mcp": ("inspect, forecast and score as tools of an assistant (Model Context Protocol)", []),
    "export": ("export a model to safetensors, ONNX or torch.export", []),
}
"""What the help says about each command, and the settings that a path without a key is meant for."""

HELP = """\
Forecast time series with the Informer and swappable attention.

Start with:
  informer forecast my.csv

Commands:
{commands}

Settings are written key=value: informer forecast my.csv target=sales horizon=48
With classes of your own file: --import=my_file, from the current folder.
For programs: --json prints the answer of a command as one JSON object.
Keys of a command: informer COMMAND --help
"""


def main(name: str | None = None) -> None:
    """Console script `informer`; with `name`, `python -m informer.NAME`."""
    start.begin()
    if name is None:
        name, *sys.argv[1:] = sys.argv[1:] or ["--help"]
        sys.argv[0] = f"informer {name}"
    if name in COMMANDS:
        start.run(lambda: run(name))
    elif name in ("--help", "-h", "help"):
        lines = (f"  {name:<11}  {what}" for name, (what, _) in COMMANDS.items())
        print(HELP.format(commands="\n".join(lines)), end="")
    elif name in ("--version", "-V", "version"):
        print(f"informer {informer.__version__}")
    else:
        from informer.base.console import refuse

        refuse(_meant(name))


AS_JSON = "--json"
"""Option of every command: its answer as one JSON object on standard output, everything else on standard error."""


def run(name: str) -> None:
    """Run a command with the words of the command line, and exit with its status unless that is 0."""
    answers: list[Answer] = []
    if AS_JSON in sys.argv:
        sys.argv.remove(AS_JSON)
        status = _in_json(name, answers)
    else:
        _run(name, answers)
        status = answers[-1].status if answers else 0
    if status:
        sys.exit(status)


def _run(name: str, answers: "list[Answer]") -> None:
    """Append the answers of the command, one for each job; `sys.argv` gets keys before paths, as a run records it."""
    from informer.base.extensions import import_words
    from informer.config.compose import groups, refusing, run_command, settings_words
    from informer.config.fields import keys_of

    with refusing():
        sys.argv[1:] = import_words(sys.argv[1:])
    schema, further = settings_class(name), [*groups(), "horizon"] if name == "train" else []
    sys.argv[1:] = with_keys(name, settings_words(sys.argv[1:], [*keys_of(schema), *further]))
    if name == "train":
        from informer.commands.actions import compared_at_the_end
        from informer.config.hydra_compose import run_train

        with compared_at_the_end():
            run_train(sys.argv[1:], lambda settings: answers.append(action_of(name)(settings)))
    else:
        run_command(schema, sys.argv[1:], lambda settings: answers.append(action_of(name)(settings)))


def _in_json(name: str, answers: "list[Answer]") -> int:
    """Print the answer of a command, or its errors, as JSON; returns the exit status."""
    from contextlib import redirect_stdout

    from informer.base.console import EXIT_USER_ERROR, Refused

    status, errors, kind = 0, list[str](), None
    with redirect_stdout(sys.stderr):
        try:
            _run(name, answers)
        except Refused as refused:
            status, errors, kind = EXIT_USER_ERROR, list(refused.lines), refused.kind
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    facts = answers[-1].facts if answers else {}
    status = status or (answers[-1].status if answers else 0)
    print(json.dumps({"command": name, "exit_status": status, "errors": errors, "code": kind, **facts}))
    return status


def settings_class(name: str) -> Any:
    """The settings class of a command."""
    from informer.config import commands, training

    return getattr(training if name == "train" else commands, f"{name.title()}Config")


def action_of(name: str) -> Any:
    """The function of a command, which is called with its checked settings; it answers plain values, and addresses in
    place of local copies."""
    from informer.base.errors import with_addresses
    from informer.commands import actions
    from informer.config.conversion import without_nan
    from informer.read.remote import copies

    action = getattr(actions, "evaluate" if name == "eval" else name)  # eval is a function of Python

    @copies()
    def answer(settings: Any) -> "Answer":
        given = action(settings)
        facts = json.loads(with_addresses(json.dumps(without_nan(given.facts), default=str)))
        return given._replace(facts=facts)

    return answer


MEANT = {"input": "file, folder or pattern", "dataset.path": "file or folder", "checkpoint": "run or model file"}
"""What a path without a key is, by the setting that it is meant for."""


def with_keys(name: str, words: Sequence[str]) -> list[str]:
    """The words of a command with `key=` before paths that have none; exits if there are several for one key."""
    from informer.base.console import refuse
    from informer.checkpoint.paths import BEST, resolve_latest
    from informer.config.compose import split_positional
    from informer.config.fields import is_address
    from informer.config.overrides import to_hydra
    from informer.read.files import SUFFIXES

    paths, keys = split_positional(words)[0], COMMANDS[name][1]
    if name == "train":  # other words are misspelt settings, or values of Hydra's options
        from informer.config.hydra_compose import VALUED

        paths = split_positional(words, VALUED)[0]
        paths = [path for path in paths if os.path.exists(path) or is_address(path) or path.lower().endswith(SUFFIXES)]
    absent = [path for path in paths if not os.path.exists(path) and not is_address(path)]
    if name == "forecast" and len(paths) > 1 and len(absent) == 1:
        refuse(f"{absent[0]!r}: no such file; settings are written key=value, such as target=sales", code="file")
    if not paths or not keys:
        return list(words)
    settings = [word for word in words if word not in paths]
    if name == "compare":
        return [*settings, f"runs={to_hydra(paths)}"]
    given: dict[str, list[str]] = {}
    for path in paths:
        is_run = len(keys) > 1 and (path.endswith(".safetensors") or (resolve_latest(path) / BEST).is_file())
        given.setdefault(keys[is_run], []).append(path)
    for key, several in given.items():
        if len(several) > 1:
            refuse(
                f"{key}: expected one {MEANT[key]}, found {len(several)}: {', '.join(several[:3])}; put a pattern in "
                "quotes, so that the shell does not expand it"
            )
    settings += ["dataset=csv"] if name == "train" else []
    return [*settings, *(f"{key}={path}" for key, (path,) in given.items())]


def _meant(name: str) -> str:
    """The message for an unknown command."""
    close = get_close_matches(name, COMMANDS, n=1)
    if close:
        return f"unknown command {name!r}: expected {close[0]}? (all commands: informer --help)"
    if "." in name or "/" in name:
        return f"unknown command {name!r}: to forecast a file, informer forecast {name}"
    return f"unknown command {name!r}: expected one of {', '.join(COMMANDS)} (informer --help)"


if __name__ == "__main__":
    main()
