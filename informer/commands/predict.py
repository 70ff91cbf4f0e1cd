"""`python -m informer.predict checkpoint=runs/latest input=FILE output=DIR`: forecast a file, or all files of a folder.

For one file, writes <name>.forecast.csv (one row per step: timestamps, then the targets in their own units) and
<name>.forecast.png. For a folder or a pattern such as 'in/*.csv', writes a forecast per file, and summary.csv with
the status of each. mode=rolling writes <name>.rolling.csv instead, with forecasts from origins throughout the file and
the actual values, and <name>.rolling.metrics.csv.
"""

import sys
from collections.abc import Sequence

from informer.base.console import main_console, refuse, say
from informer.checkpoint.paths import BEST, resolve_latest, unfinished_note
from informer.config.commands import PredictConfig
from informer.config.compose import run_command, split_positional
from informer.inference.transfer import local_copies
from informer.read.files import check_input

EXIT_SOME_FAILED = 1


def main() -> None:
    """The command `informer predict`."""
    sys.argv[1:] = with_keys(sys.argv[1:])
    # `from` is a keyword in Python, so the field has another name
    sys.argv[1:] = [f"from_date={word[5:]}" if word.startswith("from=") else word for word in sys.argv[1:]]
    run_command("predict", _act)


def with_keys(arguments: Sequence[str]) -> list[str]:
    """With `checkpoint=` before a run or .pt file given without a key, and `input=` before any other path."""
    paths, overrides = split_positional(arguments)
    runs = [path for path in paths if path.endswith(".pt") or (resolve_latest(path) / BEST).is_file()]
    files = [path for path in paths if path not in runs]
    if len(files) > 1 or len(runs) > 1:
        refuse(
            f"input: expected one file, folder or pattern, and one run, found {', '.join(paths[:3])}; put a pattern in "
            "quotes, so that the shell does not expand it"
        )
    return [*overrides, *(f"checkpoint={path}" for path in runs), *(f"input={path}" for path in files)]


def _act(settings: PredictConfig) -> None:
    with local_copies(settings) as local:
        check_input(local.input or "")
        if note := unfinished_note(local.checkpoint):
            say(main_console(), note)
        from informer.inference.job import predict  # imports torch; wrong paths are errors before that

        failed = predict(local, main_console())
    if failed:
        sys.exit(EXIT_SOME_FAILED)
