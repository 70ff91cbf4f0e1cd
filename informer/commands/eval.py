"""`python -m informer.eval checkpoint=runs/latest`: score a trained model and two baselines on its test part.

Writes metrics.json, metrics.csv and error_by_step.png; with plots=attention also attention_<layer>.png, the attention
maps of every head on a few test windows, which TensorBoard also shows from the same folder.
"""

import sys

from informer.base.console import main_console, refuse, say
from informer.checkpoint.paths import unfinished_note
from informer.config.commands import EvalConfig
from informer.config.compose import run_command, split_positional


def main() -> None:
    """The command `informer eval`."""
    paths, overrides = split_positional(sys.argv[1:])
    if len(paths) > 1:
        refuse(f"checkpoint: expected one run or .pt file, found {', '.join(paths[:3])}")
    sys.argv[1:] = [*overrides, *(f"checkpoint={path}" for path in paths)]
    run_command("eval", _act)


def _act(settings: EvalConfig) -> None:
    if note := unfinished_note(settings.checkpoint):
        say(main_console(), note)
    from informer.inference.rescore import rescore  # imports torch; wrong paths are refused earlier

    rescore(settings, main_console())
